"""A chat model, by LangChain's `init_chat_model`: it is asked, its answer is parsed and applied, and the problems of an
answer that cannot be applied are sent back.

The call goes to the provider in the name, and nothing goes anywhere else: tracing is off, and the address is given, so
that no variable of LangChain's or LangSmith's can change it. Keys are read from the environment and recorded nowhere. A
call can be interrupted.
"""

from __future__ import annotations

import importlib.util
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.errors import AgentosError, TddError, UsageError
from git_agentos.redact import redact
from git_agentos.tdd.context import prompts
from git_agentos.tdd.models import answer, failures, file_changes, transcript
from git_agentos.tdd.models.answer import InvalidAnswer
from git_agentos.tdd.models.failures import Failure
from git_agentos.tdd.models.model import MODEL, ModelResult, Request
from git_agentos.tdd.models.transcript import Transcript
from git_agentos.util.named_tuple import NamedTuple

MAX_ANSWERS = 3  # the first one, and those after a correction
TIMEOUT = 600.0  # seconds for one answer
_POLL_SECONDS = 0.1
_CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")
_MAX_ANSWER_TOKENS = 32_000
_NO_KEY = "none"  # for a compatible server that needs none; the libraries require one
_ROLE = (
    "You write code for a workflow in which real tests decide: you are asked for tests that fail first, and then for"
    " the code that makes them pass. What you say about results is ignored; only files count."
)


@dataclass(frozen=True)
class Provider:
    """A provider of models: `library` is what LangChain uses for it, from the extra of the provider's name; `key` and
    `urls` are variables, `url` is the address of its own service."""

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


def choose_chat(name: str, environment: Mapping[str, str], limit: float | None = None) -> Chat:
    """The chat model `PROVIDER:MODEL`: UsageError if there is no such model, TddError if it cannot be used here."""
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
    """The caller does not wait for the answer any more."""


class _NoAnswer(Exception):
    """There is no answer now, for this reason."""


class _Reply(NamedTuple):
    text: str
    is_cut_off: bool
    tokens_in: int | None
    tokens_out: int | None


class Waiting(NamedTuple):
    """How long one answer may take, in seconds, and how to wait before another try: `chance` spreads the waits."""

    timeout: float = TIMEOUT
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


_WAITING = Waiting()


class Chat:
    """A chat model. `limit` is for all answers of a node, in seconds."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        environment: Mapping[str, str],
        limit: float | None = None,
        waiting: Waiting = _WAITING,
    ) -> None:
        self.name = f"{MODEL}:{provider.name}:{model}"
        self._provider = provider
        self._model = model
        self.environment = environment
        self.limit = limit
        self._timeout, self._sleep, self._chance = waiting
        self._address = _address(provider, environment)
        self.recipient = f"{provider.title} at {redact(self._address)[0]} (model {model})"

    def work(self, request: Request) -> ModelResult:
        with Transcript(request.folder, request.show, self.environment) as log:
            return _Exchange(self, request, log).work()

    # -- one call ------------------------------------------------------------------------------------------------------

    def invoke(self, turns: Sequence[tuple[str, str]], timeout: float) -> _Reply:
        """Make one call; errors of the provider's library are raised."""
        from langchain.chat_models import init_chat_model
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
        from langsmith import tracing_context

        kinds = {"system": SystemMessage, "human": HumanMessage, "ai": AIMessage}
        messages = [kinds[role](text) for role, text in turns]
        with tracing_context(enabled=False):
            client = init_chat_model(self._model, model_provider=self._provider.name, **self._options(turns, timeout))
            if self._provider.name == "anthropic" and not (client.profile or {}).get("max_output_tokens"):
                client.max_tokens = _MAX_ANSWER_TOKENS  # the library's default for an unknown model is too small
            try:
                return _reply(client.invoke(messages))
            finally:
                if self._provider.name == "ollama":  # the others share their connections
                    client._client.close()

    def _options(self, turns: Sequence[tuple[str, str]], timeout: float) -> dict[str, Any]:
        """The options of the provider's class: address, key, timeout; calls are repeated by `answer`."""
        if self._provider.name == "ollama":
            # Its server silently cuts off what does not fit into the context.
            size = sum(len(text.encode("utf-8", "replace")) for _, text in turns)
            context = -(-(size // 3 + 16384) // 4096) * 4096
            return {"base_url": self._address, "client_kwargs": {"timeout": timeout}, "num_ctx": context}
        key = self.environment.get(self._provider.key or "") or _NO_KEY
        return {"base_url": self._address, "api_key": key, "timeout": timeout, "max_retries": 0}

    def answer(self, turns: Sequence[tuple[str, str]], request: Request, log: Transcript, until: float) -> _Reply:
        """Call until there is an answer: _NoAnswer if there is none now, TddError if there never will be."""
        tries = 0
        while True:
            tries += 1
            try:
                return self._call(turns, request, until)
            except (_Interrupted, _NoAnswer, AgentosError):
                raise
            except Exception as error:  # noqa: BLE001 (each library has a tree of its own; `failures` knows)
                failure = failures.classify(error)
            failure = failure._replace(text=transcript.without_secrets(failure.text, self.environment))
            if failure.permanent:
                raise self._refusal(failure)
            if tries >= failure.tries:
                raise _NoAnswer(f"{self._provider.title} gave no answer after {tries} tries: {failure.text}")
            self._wait(failure, tries, request, log, until)

    def _call(self, turns: Sequence[tuple[str, str]], request: Request, until: float) -> _Reply:
        """One call, in a thread that is abandoned if nobody waits for it any more."""
        timeout = min(self._timeout, until - time.monotonic())
        if timeout <= 0:
            raise _NoAnswer(self._too_long())
        box: list[_Reply | BaseException] = []
        done = threading.Event()

        def call() -> None:
            try:
                box.append(self.invoke(turns, timeout))
            except BaseException as error:  # noqa: BLE001 (it is raised again in the thread that waits)
                box.append(error)
            finally:
                done.set()

        threading.Thread(target=call, name="agentos-tdd-model", daemon=True).start()
        end = time.monotonic() + timeout + 2 * _POLL_SECONDS  # the library's own timeout comes first
        while not done.wait(_POLL_SECONDS):
            if request.stop():
                raise _Interrupted
            if time.monotonic() > end:
                raise TimeoutError(f"no answer in {timeout:g} s")
        if isinstance(box[0], BaseException):
            raise box[0]
        return box[0]

    def _wait(self, failure: Failure, tries: int, request: Request, log: Transcript, until: float) -> None:
        seconds = failures.delay(failure, tries, self._chance())
        if seconds > failures.MAX_WAIT:
            raise _NoAnswer(f"{self._provider.title} asks to wait for {seconds:.0f} s: {failure.text}")
        if time.monotonic() + seconds > until:
            raise _NoAnswer(self._too_long())
        status = f" ({failure.status})" if failure.status is not None else ""
        log.write(f"{self._provider.title} has no answer{status}: again in {seconds:.1f} s: {failure.text}")
        while seconds > 0:
            if request.stop():
                raise _Interrupted
            self._sleep(min(seconds, _POLL_SECONDS))
            seconds -= _POLL_SECONDS

    def _too_long(self) -> str:
        return f"{self.name} took longer than {self.limit or self._timeout:g} s"

    def _refusal(self, failure: Failure) -> TddError:
        hint = None
        if failure.status in (401, 403):
            hint = f"set '{self._provider.key}' to a key that may use the model" if self._provider.key else None
        elif failure.status == 404:
            hint = f"check that {self._provider.title} has a model '{self._model}'"
        return TddError(f"{self._provider.title} refuses the request ({failure.status}): {failure.text}", hint)


class _Exchange:
    """The exchange of one node with a model."""

    def __init__(self, chat: Chat, request: Request, log: Transcript) -> None:
        self._chat = chat
        self._request = request
        self._log = log
        self._until = time.monotonic() + chat.limit if chat.limit is not None else float("inf")
        texts, refused = prompts.read_changed_files(request.worktree.location.root, request.changed)
        self._mark = answer.mark_for("\n".join((request.prompt, *texts.values())))
        changed = prompts.changed_files(texts, refused, self._mark)
        parts = (request.prompt, changed, answer.instructions(self._mark))
        question = "\n\n".join(part.rstrip() for part in parts if part) + "\n"
        self._turns = [("system", _ROLE), ("human", question)]
        self._tokens: list[tuple[int | None, int | None]] = []
        transcript.write_file(request.folder, transcript.PROMPT, question, chat.environment)

    def work(self) -> ModelResult:
        problems: Sequence[str] = ()
        try:
            for number in range(1, MAX_ANSWERS + 1):
                reply = self._ask(number)
                try:
                    self._apply(reply)
                except InvalidAnswer as error:
                    problems = error.problems
                    for problem in problems:
                        self._log.write(f"answer {number} cannot be used: {problem}")
                    correction = answer.correction(self._mark, problems)
                    self._turns += [("ai", reply.text or "(nothing)"), ("human", correction)]
                else:
                    return self._result(None)
        except _Interrupted:
            return self._result(None, interrupted=True)
        except _NoAnswer as error:
            return self._result(str(error))
        return self._result(f"no usable answer in {MAX_ANSWERS} tries: {'; '.join(problems)}")

    def _ask(self, number: int) -> _Reply:
        self._log.write(f"asks {self._chat.name} ({number} of at most {MAX_ANSWERS})")
        reply = self._chat.answer(self._turns, self._request, self._log, self._until)
        self._tokens.append((reply.tokens_in, reply.tokens_out))
        transcript.write_file(self._request.folder, f"answer-{number}.txt", reply.text, self._chat.environment)
        return reply

    def _apply(self, reply: _Reply) -> None:
        if reply.is_cut_off:
            raise InvalidAnswer(["the answer was cut off at its maximum length: use edit blocks, and less talk"])
        paths = file_changes.apply(answer.parse(reply.text, self._mark), self._request.worktree)
        self._log.write(f"wrote {', '.join(paths)}")

    def _result(self, error: str | None, *, interrupted: bool = False) -> ModelResult:
        counted_in = [first for first, _ in self._tokens if first is not None]
        counted_out = [second for _, second in self._tokens if second is not None]
        return ModelResult(
            error=transcript.without_secrets(error, self._chat.environment) if error is not None else None,
            tokens_in=sum(counted_in) if counted_in else None,
            tokens_out=sum(counted_out) if counted_out else None,
            interrupted=interrupted,
        )


def _address(provider: Provider, environment: Mapping[str, str]) -> str:
    return next((environment[name] for name in provider.urls if environment.get(name)), provider.url)


def _reply(message: Any) -> _Reply:
    """The answer in a message of LangChain's, without the model's reasoning."""
    used = message.usage_metadata or {}
    metadata = message.response_metadata or {}
    reasons = [metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason")]
    incomplete = metadata.get("incomplete_details") or {}
    reasons.append(incomplete.get("reason") if isinstance(incomplete, dict) else None)
    cut_off = any(reason in _CUT_OFF or reason == "max_output_tokens" for reason in reasons)
    return _Reply(str(message.text), cut_off, used.get("input_tokens"), used.get("output_tokens"))
