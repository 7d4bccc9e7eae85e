"""A chat model, by LangChain's `init_chat_model`: it is asked, its answer is read and applied, and it is told precisely
what was wrong with one that could not be.

The one call goes to the provider that the name says, and nothing goes anywhere else: tracing is off, and the address is
given, so that no variable of LangChain's or LangSmith's can change it. Keys are read from the environment and stand in
nothing that is kept. Whoever waits for an answer can be interrupted.
"""

from __future__ import annotations

import importlib.util
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from git_agentos.errors import AgentosError, TddError, UsageError
from git_agentos.redact import redact
from git_agentos.tdd.models import answer, failures, file_changes, transcript, work_so_far
from git_agentos.tdd.models.answer import Unusable
from git_agentos.tdd.models.failures import Trouble
from git_agentos.tdd.models.model import MODEL, Request, Work

EXCHANGES = 3  # the first answer, and those after a correction
TIMEOUT = 600.0  # seconds for one answer
_TICK = 0.1
_CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")
_LONGEST_ANSWER = 32_000  # tokens
_NO_KEY = "none"  # of a compatible server that wants none; the libraries want something
_ROLE = (
    "You write code for a workflow in which real tests decide: you are asked for tests that fail first, and then for"
    " the code that makes them pass. What you say about results is not read; only files count."
)


@dataclass(frozen=True)
class Provider:
    """Who runs a model: `library` is the one that LangChain takes for it, from the extra of the provider's name;
    `key` and `urls` are variables, `url` is where its own service is."""

    name: str
    title: str
    library: str
    key: str | None
    urls: tuple[str, ...]
    url: str


PROVIDERS = {
    each.name: each
    for each in (
        Provider(
            "anthropic",
            "Anthropic",
            "langchain_anthropic",
            "ANTHROPIC_API_KEY",
            ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"),
            "https://api.anthropic.com",
        ),
        Provider("ollama", "Ollama", "langchain_ollama", None, ("OLLAMA_HOST",), "http://127.0.0.1:11434"),
        Provider(
            "openai",
            "OpenAI",
            "langchain_openai",
            "OPENAI_API_KEY",
            ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            "https://api.openai.com/v1",
        ),
    )
}


def of_name(name: str, environment: Mapping[str, str], limit: float | None = None) -> Chat:
    """The chat model called `PROVIDER:MODEL`: UsageError where that is none, TddError where it cannot be used here."""
    provider, _, model = name.partition(":")
    known = ", ".join(f"{MODEL}:{each}:NAME" for each in PROVIDERS)
    if provider not in PROVIDERS or not model.strip():
        raise UsageError(f"'{MODEL}:{name}' is not a chat model", f"--agent takes {known}; or command:'SHELL TEXT'")
    found = PROVIDERS[provider]
    if any(importlib.util.find_spec(each) is None for each in ("langchain", found.library)):
        raise TddError(
            f"the library for models of '{provider}' is not installed ({found.library})",
            f"install it with: pip install 'git-agentos[{provider}]'",
        )
    if found.key is not None and not environment.get(found.key) and _address(found, environment) == found.url:
        raise TddError(f"'{found.key}' is not set", f"set it in the environment to a key of {found.title}'s")
    return Chat(found, model.strip(), environment, limit)


class _Interrupted(Exception):
    """Whoever asked wants no answer any more."""


class _GivenUp(Exception):
    """There is no answer to be had now; says why."""


class _Reply(NamedTuple):
    text: str
    is_cut_off: bool
    tokens_in: int | None
    tokens_out: int | None


class Chat:
    """A chat model. `limit` is in seconds for all that is done in a node, `timeout` for one answer."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        environment: Mapping[str, str],
        limit: float | None = None,
        *,
        timeout: float = TIMEOUT,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"{MODEL}:{provider.name}:{model}"
        self._provider = provider
        self._model = model
        self._environment = environment
        self._limit = limit
        self._timeout = timeout
        self._sleep = sleep
        self._chance = chance
        self._address = _address(provider, environment)
        self.recipient = f"{provider.title} at {redact(self._address)[0]} (model {model})"

    def work(self, request: Request) -> Work:
        with transcript.Said(request.folder, request.show, self._environment) as said:
            return _Exchange(self, request, said).work()

    # -- one call ------------------------------------------------------------------------------------------------------

    def invoke(self, turns: Sequence[tuple[str, str]], timeout: float) -> _Reply:
        """Ask once; whatever the provider's library raises comes out."""
        from langchain.chat_models import init_chat_model
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
        from langsmith import tracing_context

        kinds = {"system": SystemMessage, "human": HumanMessage, "ai": AIMessage}
        messages = [kinds[role](text) for role, text in turns]
        with tracing_context(enabled=False):
            client = init_chat_model(self._model, model_provider=self._provider.name, **self._options(turns, timeout))
            if self._provider.name == "anthropic" and not (client.profile or {}).get("max_output_tokens"):
                client.max_tokens = (
                    _LONGEST_ANSWER  # of a model that the library has not heard of, it expects too little
                )
            try:
                return _reply(client.invoke(messages))
            finally:
                if self._provider.name == "ollama":  # the others share their connections
                    client._client.close()

    def _options(self, turns: Sequence[tuple[str, str]], timeout: float) -> dict[str, Any]:
        """What the provider's class is made with: where, by what key, how long; retries are ours."""
        if self._provider.name == "ollama":
            # Its server cuts off what does not fit into the context, without a word.
            size = sum(len(text.encode("utf-8", "replace")) for _, text in turns)
            context = -(-(size // 3 + 16384) // 4096) * 4096
            return {"base_url": self._address, "client_kwargs": {"timeout": timeout}, "num_ctx": context}
        key = self._environment.get(self._provider.key or "") or _NO_KEY
        return {"base_url": self._address, "api_key": key, "timeout": timeout, "max_retries": 0}

    def answer(self, turns: Sequence[tuple[str, str]], request: Request, said: transcript.Said, until: float) -> _Reply:
        """Ask until there is an answer: _GivenUp where there will be none, TddError where there never will."""
        tries = 0
        while True:
            tries += 1
            try:
                return self._within(turns, request, until)
            except (_Interrupted, _GivenUp):
                raise
            except AgentosError:
                raise
            except Exception as error:  # noqa: BLE001 (every library has a tree of its own; `trouble` tells)
                met = failures.of(error)
            met = met._replace(said=transcript.clean(met.said, self._environment))
            if met.refused:
                raise self._refusal(met)
            if tries >= met.tries:
                raise _GivenUp(f"{self._provider.title} gave no answer after {tries} tries: {met.said}")
            self._wait(met, tries, request, said, until)

    def _within(self, turns: Sequence[tuple[str, str]], request: Request, until: float) -> _Reply:
        """One call, in a thread that is left alone where nobody waits for it any more."""
        timeout = min(self._timeout, until - time.monotonic())
        if timeout <= 0:
            raise _GivenUp(self._too_long())
        box: list[_Reply | BaseException] = []
        done = threading.Event()

        def call() -> None:
            try:
                box.append(self.invoke(turns, timeout))
            except BaseException as error:  # noqa: BLE001 (it is raised again in the thread that asked)
                box.append(error)
            finally:
                done.set()

        threading.Thread(target=call, name="agentos-tdd-model", daemon=True).start()
        end = time.monotonic() + timeout + 2 * _TICK  # the library has the first word
        while not done.wait(_TICK):
            if request.stop():
                raise _Interrupted
            if time.monotonic() > end:
                raise TimeoutError(f"no answer in {timeout:g} s")
        if isinstance(box[0], BaseException):
            raise box[0]
        return box[0]

    def _wait(self, met: Trouble, tries: int, request: Request, said: transcript.Said, until: float) -> None:
        seconds = failures.delay(met, tries, self._chance())
        if seconds > failures.LONGEST_WAIT:
            raise _GivenUp(f"{self._provider.title} asks to wait for {seconds:.0f} s: {met.said}")
        if time.monotonic() + seconds > until:
            raise _GivenUp(self._too_long())
        status = f" ({met.status})" if met.status is not None else ""
        said.say(f"{self._provider.title} has no answer{status}: again in {seconds:.1f} s: {met.said}")
        while seconds > 0:
            if request.stop():
                raise _Interrupted
            self._sleep(min(seconds, _TICK))
            seconds -= _TICK

    def _too_long(self) -> str:
        return f"{self.name} took longer than {self._limit or self._timeout:g} s"

    def _refusal(self, met: Trouble) -> TddError:
        hint = None
        if met.status in (401, 403):
            hint = f"set '{self._provider.key}' to a key that may use the model" if self._provider.key else None
        elif met.status == 404:
            hint = f"see whether {self._provider.title} has a model '{self._model}'"
        return TddError(f"{self._provider.title} refuses the request ({met.status}): {met.said}", hint)


class _Exchange:
    """One node's talk with a model."""

    def __init__(self, chat: Chat, request: Request, said: transcript.Said) -> None:
        self._chat = chat
        self._request = request
        self._said = said
        self._began = time.monotonic()
        self._until = self._began + chat._limit if chat._limit is not None else float("inf")
        files, others = work_so_far.look(request)
        self._mark = answer.mark_for("\n".join((request.prompt, *files.values())))
        parts = (request.prompt, work_so_far.told(files, others, self._mark), answer.instructions(self._mark))
        asked = "\n\n".join(part.rstrip() for part in parts if part) + "\n"
        self._turns = [("system", _ROLE), ("human", asked)]
        self._requests = 0
        self._tokens: list[tuple[int | None, int | None]] = []
        transcript.write(request.folder, transcript.PROMPT, asked, chat._environment)

    def work(self) -> Work:
        problems: Sequence[str] = ()
        try:
            for number in range(1, EXCHANGES + 1):
                reply = self._ask(number)
                try:
                    self._take_over(reply)
                except Unusable as error:
                    problems = error.problems
                    for problem in problems:
                        self._said.say(f"answer {number} cannot be used: {problem}")
                    self._turns += [
                        ("ai", reply.text or "(nothing)"),
                        ("human", answer.correction(self._mark, problems)),
                    ]
                else:
                    return self._work(None)
        except _Interrupted:
            return self._work(None, interrupted=True)
        except _GivenUp as error:
            return self._work(str(error))
        return self._work(f"no usable answer in {EXCHANGES} tries: {'; '.join(problems)}")

    def _ask(self, number: int) -> _Reply:
        self._requests += 1
        self._said.say(f"asks {self._chat.name} ({number} of at most {EXCHANGES})")
        reply = self._chat.answer(self._turns, self._request, self._said, self._until)
        self._tokens.append((reply.tokens_in, reply.tokens_out))
        transcript.write(self._request.folder, f"answer-{number}.txt", reply.text, self._chat._environment)
        return reply

    def _take_over(self, reply: _Reply) -> None:
        if reply.is_cut_off:
            raise Unusable(
                ["the answer was cut off at the greatest length it may have: use edit blocks, and less talk"]
            )
        changes = answer.parse(reply.text, self._mark)
        paths = file_changes.apply(changes, self._request.here)
        self._said.say(f"wrote {', '.join(paths)}")

    def _work(self, error: str | None, *, interrupted: bool = False) -> Work:
        counted_in = [first for first, _ in self._tokens if first is not None]
        counted_out = [second for _, second in self._tokens if second is not None]
        return Work(
            error=transcript.clean(error, self._chat._environment) if error is not None else None,
            said=self._said.last(),
            seconds=round(time.monotonic() - self._began, 3),
            requests=self._requests,
            tokens_in=sum(counted_in) if counted_in else None,
            tokens_out=sum(counted_out) if counted_out else None,
            interrupted=interrupted,
        )


def _address(provider: Provider, environment: Mapping[str, str]) -> str:
    return next((environment[name] for name in provider.urls if environment.get(name)), provider.url)


def _reply(message: Any) -> _Reply:
    """The answer in a message of LangChain's: without what the model only thought."""
    used = message.usage_metadata or {}
    metadata = message.response_metadata or {}
    reasons = [metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason")]
    incomplete = metadata.get("incomplete_details") or {}
    reasons.append(incomplete.get("reason") if isinstance(incomplete, dict) else None)
    cut_off = any(reason in _CUT_OFF or reason == "max_output_tokens" for reason in reasons)
    return _Reply(str(message.text), cut_off, used.get("input_tokens"), used.get("output_tokens"))
