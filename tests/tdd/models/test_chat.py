"""A chat model, met by a server on loopback: answers, corrections, refusals, and all that a network can do."""

from __future__ import annotations

import email.utils
import importlib.util
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tracers.langchain import wait_for_all_tracers

from git_agentos.errors import TddError, UsageError
from git_agentos.tdd import workflows
from git_agentos.tdd.models import failures
from git_agentos.tdd.models.chat import PROVIDERS, Chat, Waiting, choose_chat
from git_agentos.tdd.models.model import IMPLEMENT, ModelResult
from git_agentos.tdd.workflows import WorkflowSpec
from tests.support import model_requests, tdd_project
from tests.support.env import PROJECT_ROOT
from tests.support.model_requests import PROMPT, ModelWorktree
from tests.support.model_server import Reply, Server, serving
from tests.support.repo import Repo

KEY = f"of-no-known-form-{uuid.uuid4().hex}"
LIMITED = Reply(status=429, text="slow down")


@pytest.fixture
def site(empty_repo: Repo) -> ModelWorktree:
    return model_requests.plain_worktree(empty_repo)


def answering(blocks: str) -> Callable[[str], str]:
    """An answer with the mark that the question has told; `@` stands for it."""

    def answer(asked: str) -> str:
        found = re.search(r"\[([0-9a-f]{6})\] ", asked) or re.search(r"\[([0-9a-f]{6})\]", asked)
        assert found is not None
        return blocks.replace("@", f"[{found[1]}]")

    return answer


GOOD = Reply(text=answering("Here it is.\n@ file new.py\nx = 1\n@ end\n"))
BAD = Reply(text="I have written the tests, and all of them pass.")


class Slept:
    """The clock's sleep, which takes no time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, seconds: float) -> None:
        self.seconds += seconds


def model(
    server: Server, provider: str = "openai", slept: Slept | None = None, limit: float | None = None, **options: Any
) -> Chat:
    path = "/v1" if provider == "openai" else ""
    environment = {PROVIDERS[provider].urls[0]: server.url + path, "OPENAI_API_KEY": KEY}
    waiting = Waiting(sleep=slept or Slept(), chance=lambda: 0, **options)
    return Chat(PROVIDERS[provider], "some-model", environment, limit, waiting)


def everything_kept(site: ModelWorktree, work: ModelResult) -> str:
    kept = "".join(path.read_text() for path in site.folder.iterdir())
    return kept + (work.error or "") + b"\n".join(site.shown).decode()


# -- it answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_answer_by_each_protocol(site: ModelWorktree, provider: str) -> None:
    if importlib.util.find_spec(PROVIDERS[provider].library) is None:
        pytest.skip(f"{PROVIDERS[provider].library} is not installed")
    with serving(GOOD) as server:
        work = model(server, provider).work(site.asked(IMPLEMENT))
    assert (work.error, len(server.bodies), work.tokens_in, work.tokens_out) == (None, 1, 100, 10)
    assert (work.exit_code, work.interrupted) == (None, False)
    assert (site.root / "new.py").read_text() == "x = 1\n"
    assert [body["model"] for body in server.bodies] == ["some-model"]
    assert PROMPT.strip() in server.messages()[-1][1]
    if provider == "ollama":
        assert server.bodies[0]["options"]["num_ctx"] >= 16384
    if provider == "anthropic":
        assert server.bodies[0]["max_tokens"] == 32000


def test_prompt_is_sent_and_recorded(site: ModelWorktree) -> None:
    with serving(GOOD) as server:
        work = model(server).work(site.asked())
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert [role for role, _ in server.messages()] == ["system", "user"]
    assert site.kept("prompt.txt") == server.messages()[1][1]
    assert "The work so far" not in server.messages()[1][1]
    assert "Here it is." in site.kept("answer-1.txt")
    assert site.said() == "asks model:openai:some-model (1 of at most 3)\nwrote new.py\n"
    assert KEY not in everything_kept(site, work)


def test_precise_errors_are_fed_back_and_tokens_are_summed(site: ModelWorktree) -> None:
    (site.root / "old.py").write_text("a = 1\nb = 2\n")
    wrong = Reply(
        text=answering("@ file new.py\nx = 1\n@ end\n@ edit old.py\n@ search\na = 2\n@ replace\na = 3\n@ end\n"),
        tokens=(7, 5),
    )
    right = Reply(text=answering("@ edit old.py\n@ search\na = 1\n@ replace\na = 3\n@ end\n"), tokens=(11, 3))
    with serving(BAD, wrong, right) as server:
        work = model(server).work(site.asked())
    assert (work.error, len(server.bodies), work.tokens_in, work.tokens_out) == (None, 3, 118, 18)
    assert (site.root / "old.py").read_text() == "a = 3\nb = 2\n"
    assert not (site.root / "new.py").exists()
    assert [role for role, _ in server.messages()] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "the answer has no block" in server.messages()[3][1]
    assert (
        "'old.py': its search block matches nothing in the file; the nearest lines are\n      1  a = 1"
        in (server.messages()[5][1])
    )
    assert server.messages()[2][1] == BAD.text


def test_third_unusable_answer_is_an_error(site: ModelWorktree) -> None:
    before = site.files()
    with serving(BAD) as server:
        work = model(server).work(site.asked())
    assert len(server.bodies) == 3
    assert work.error is not None
    assert work.error.startswith("no usable answer in 3 tries: the answer has no block")
    assert site.files() == before


def test_an_answer_that_was_cut_off_is_not_taken(site: ModelWorktree) -> None:
    cut = Reply(text=GOOD.text, finish="length")
    with serving(cut, GOOD) as server:
        work = model(server).work(site.asked())
    assert work.error is None
    assert "cut off" in server.messages()[3][1]


def test_an_empty_answer(site: ModelWorktree) -> None:
    with serving(Reply(text=""), GOOD) as server:
        assert model(server).work(site.asked()).error is None
    assert server.messages()[2] == ("assistant", "(nothing)")


def test_a_secret_in_an_answer_is_not_kept(site: ModelWorktree) -> None:
    with serving(Reply(text=answering(f"the key is {KEY}\n@ file new.py\nkey = '{KEY}'\n@ end\n"))) as server:
        work = model(server).work(site.asked(prompt=f"{PROMPT} by {KEY}"))
    assert KEY in (site.root / "new.py").read_text()
    assert KEY not in everything_kept(site, work)


def test_changed_files_are_in_the_prompt(site: ModelWorktree) -> None:
    work = {
        "pkg/code.py": "def stub():\n    raise NotImplementedError\n",
        "tests/test_a.py": "frozen = 1\n",
        "notes.txt": "END notes\n",
        "server.key": "the secret key\n",
        "data.bin": "\0",
        "ignored.txt": "ignored = 1\n",
        ".gitignore": "ignored.txt\n",
    }
    for path, text in work.items():
        (site.root / path).parent.mkdir(exist_ok=True)
        (site.root / path).write_text(text)
    (site.root / "link.py").symlink_to("pkg/code.py")
    with serving(GOOD) as server:
        model(server).work(site.asked(IMPLEMENT, frozen=("tests/test_a.py",)))
    said = server.messages()[1][1]
    mark = re.search(r"BEGIN ([0-9a-f]{6}) file pkg/code.py", said)
    assert mark is not None
    assert f"BEGIN {mark[1]} file pkg/code.py\n{work['pkg/code.py']}END {mark[1]}\n" in said
    assert f"BEGIN {mark[1]} file notes.txt\n{work['notes.txt']}END {mark[1]}\n" in said
    assert f"[{mark[1]}] file path/to/new.py" in said
    assert "- server.key: 'server.key' may hold secrets" in said
    assert "- data.bin: 'data.bin' is binary" in said
    assert not any(each in said for each in ("the secret key", "frozen = 1", "ignored = 1", "link.py"))


def test_the_work_so_far_is_bounded(site: ModelWorktree) -> None:
    for n in range(4):
        (site.root / f"large{n}.py").write_text("x = 1\n" * 15000)
    with serving(GOOD) as server:
        model(server).work(site.asked())
    said = server.messages()[1][1]
    assert "file large1.py" in said
    assert "- large2.py: there is no room left for it\n- large3.py: there is no room left for it\n" in said


def test_a_whole_workflow(repo: Repo) -> None:
    tdd_project.project(repo)
    scaffold = f"@ file calc/more.py\n{tdd_project.STUB}@ end\n@ file tests/test_more.py\n{tdd_project.TESTS}@ end\n"
    edit = "@ edit calc/more.py\n@ search\n    {}\n@ replace\n    {}\n@ end\n"
    wrong = edit.format("raise NotImplementedError", "return number")
    right = edit.format("return number", "return 2 * number")
    policy: list[Sequence[str]] = []
    with serving(*(Reply(text=answering(each)) for each in (scaffold, wrong, right))) as server:
        environment = {**tdd_project.environment(), "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        order = WorkflowSpec(issue_id="87", lld=tdd_project.LLD, agent="model:openai:some-model")
        workflow = workflows.start(
            tdd_project.context_of(repo), order, environment, tdd_project.Person(), consent=policy.append
        )
    assert tdd_project.nodes_of(workflow) == ["N0", "N1", "N2", "N3", "N4", "N3", "N4", "N5"]
    assert (workflow.state, workflow.tests_passed, workflow.words[0]) == ("waiting", True, "approve")
    assert [
        (each["tokens_in"], each["tokens_out"]) for each in workflow.history if each["node"][:2] in ("N1", "N3")
    ] == ([(100, 10)] * 3)
    assert server.url in policy[0][0]
    assert all(each in server.messages(2)[1][1] for each in ("assert 2 == 4", "file calc/more.py", "return number"))
    assert workflow.evidence is not None
    kept = [path for path in Path(workflow.evidence).rglob("*") if path.is_file()]
    assert any(path.name == "answer-1.txt" for path in kept)
    assert not any(KEY.encode() in path.read_bytes() for path in kept)


def test_a_secret_in_what_is_wrong_is_not_kept(site: ModelWorktree) -> None:
    with serving(Reply(text=answering(f"@ delete {KEY}.py"))) as server:
        work = model(server).work(site.asked())
    assert work.error is not None
    assert "'[redacted].py' does not exist" in work.error
    assert f"'{KEY}.py' does not exist" in server.messages()[3][1]
    assert KEY not in everything_kept(site, work)


# -- the network -------------------------------------------------------------------------------------------------------


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(site: ModelWorktree) -> None:
    slept = Slept()
    limited = Reply(status=429, text="slow down", headers={"Retry-After": "17"})
    with serving(limited, limited, GOOD) as server:
        work = model(server, slept=slept).work(site.asked())
    assert (work.error, len(server.bodies)) == (None, 3)
    assert slept.seconds == pytest.approx(34)
    assert b"OpenAI has no answer (429): again in 17.0 s" in b"\n".join(site.shown)


def test_wait_doubles_without_retry_after(site: ModelWorktree) -> None:
    slept = Slept()
    with serving(LIMITED) as server:
        work = model(server, slept=slept).work(site.asked())
    assert len(server.bodies) == 6
    assert slept.seconds == pytest.approx(1 + 2 + 4 + 8 + 16)
    assert work.error is not None
    assert "no answer after 6 tries" in work.error


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
def test_temporary_errors_are_tried_again(site: ModelWorktree, status: int) -> None:
    with serving(Reply(status=status, text="later"), GOOD) as server:
        work = model(server).work(site.asked())
    assert (work.error, len(server.bodies)) == (None, 2)


def test_wait_that_is_too_long_is_reported(site: ModelWorktree) -> None:
    slept = Slept()
    with serving(Reply(status=429, text="tomorrow", headers={"Retry-After": "86400"})) as server:
        work = model(server, slept=slept).work(site.asked())
    assert (len(server.bodies), slept.seconds) == (1, 0)
    assert work.error is not None
    assert "asks to wait for 86400 s" in work.error


@pytest.mark.parametrize(
    ("status", "body", "hint"),
    [
        (401, "Incorrect API key provided", "OPENAI_API_KEY"),
        (403, "no", "OPENAI_API_KEY"),
        (404, "The model does not exist", "some-model"),
        (400, "maximum context length is 8192 tokens", ""),
        (429, "insufficient_quota: check your plan", ""),
    ],
)
def test_permanent_errors_are_not_tried_again(site: ModelWorktree, status: int, body: str, hint: str) -> None:
    with serving(Reply(status=status, text=f"{body} {KEY}")) as server, pytest.raises(TddError) as error:
        model(server).work(site.asked())
    assert len(server.bodies) == 1
    assert str(error.value).startswith(f"OpenAI refuses the request ({status}): ")
    assert body in str(error.value)
    assert hint in (error.value.hint or "")
    assert KEY not in str(error.value) + (error.value.hint or "")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b"<html>not json"),
        Reply(raw=b'{"choices": null}'),
        Reply(raw=b"{}"),
        Reply(raw=b"[]"),
        Reply(raw=b"", headers={"Content-Type": "text/plain"}),
        Reply(drops=True),
    ],
)
def test_malformed_answer_is_tried_again(site: ModelWorktree, reply: Reply) -> None:
    with serving(reply, GOOD) as server:
        work = model(server).work(site.asked())
    assert (work.error, len(server.bodies)) == (None, 2)


def test_a_server_that_never_sends_an_answer_that_can_be_read(site: ModelWorktree) -> None:
    with serving(Reply(raw=b"<html>")) as server:
        work = model(server).work(site.asked())
    assert len(server.bodies) == 3
    assert work.error is not None
    assert "an answer that cannot be read" in work.error


def test_server_that_hangs_once(site: ModelWorktree) -> None:
    with serving(Reply(hangs=True), GOOD) as server:
        work = model(server, timeout=2.0).work(site.asked())
    assert (work.error, len(server.bodies)) == (None, 2)


def test_server_that_always_hangs(site: ModelWorktree) -> None:
    with serving(Reply(hangs=True)) as server:
        work = model(server, timeout=0.3).work(site.asked())
    assert len(server.bodies) == 2
    assert work.error is not None
    assert "no answer after 2 tries" in work.error


def test_the_limit_of_an_agent_is_for_all_of_it(site: ModelWorktree) -> None:
    with serving(Reply(hangs=True)) as server:
        work = model(server, limit=0.5).work(site.asked())
        assert server.waited_out == 0
    assert work.error == "model:openai:some-model took longer than 0.5 s"


def test_wait_beyond_the_limit_is_refused(site: ModelWorktree) -> None:
    slept = Slept()
    with serving(Reply(status=429, text="later", headers={"Retry-After": "110"})) as server:
        work = model(server, slept=slept, limit=100.0).work(site.asked())
    assert (work.error, slept.seconds) == ("model:openai:some-model took longer than 100 s", 0)


def test_unreachable_server(site: ModelWorktree) -> None:
    with serving(GOOD) as server:
        pass
    slept = Slept()
    work = model(server, slept=slept).work(site.asked())
    assert work.error is not None
    assert "no answer after 6 tries" in work.error


@pytest.mark.parametrize("reply", [Reply(hangs=True), Reply(status=429, headers={"Retry-After": "100"})])
def test_call_can_be_interrupted(site: ModelWorktree, reply: Reply) -> None:
    with serving(reply) as server:
        work = model(server).work(site.asked(stop=lambda: server.bodies != []))
        assert (work.error, work.interrupted, server.waited_out) == (None, True, 0)


# -- nothing leaves but the call ---------------------------------------------------------------------------------------


def test_tracing_is_off_and_no_variable_leads_elsewhere(site: ModelWorktree, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(GOOD) as server, serving(GOOD) as spy:
        variables = {
            "LANGSMITH_TRACING": "true", "LANGCHAIN_TRACING_V2": "true", "LANGSMITH_API_KEY": "lsv2_x",
            "LANGCHAIN_API_KEY": "lsv2_x", "LANGSMITH_ENDPOINT": spy.url, "LANGCHAIN_ENDPOINT": spy.url,
            "LANGSMITH_GATEWAY": "true", "LANGSMITH_GATEWAY_URL": spy.url, "LANGSMITH_GATEWAY_API_KEY": "lsv2_x",
            "OPENAI_API_BASE": spy.url,
        }  # fmt: skip
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert model(server).work(site.asked()).error is None
        wait_for_all_tracers()  # they have threads of their own
    assert len(server.bodies) == 1
    assert spy.paths == []


def test_recipient_names_provider_and_address() -> None:
    def recipient(name: str, **environment: str) -> str:
        return choose_chat(name, environment).recipient

    assert recipient("openai:m", OPENAI_API_KEY="k") == "OpenAI at https://api.openai.com/v1 (model m)"
    assert recipient("openai:m", OPENAI_BASE_URL="http://u:secret-pw@h:1/v1") == (
        "OpenAI at http://u:[redacted]@h:1/v1 (model m)"
    )
    if importlib.util.find_spec("langchain_ollama") is not None:
        assert recipient("ollama:m:8b", OLLAMA_HOST="box:1") == "Ollama at box:1 (model m:8b)"


@pytest.mark.parametrize("name", ["", "openai", "openai:", "openai: ", "gpt-4o", "google:gemini"])
def test_a_name_of_no_chat_model(name: str) -> None:
    with pytest.raises(UsageError) as error:
        choose_chat(name, {"OPENAI_API_KEY": "k"})
    assert "model:openai:NAME" in (error.value.hint or "")


def test_missing_key() -> None:
    with pytest.raises(TddError) as error:
        choose_chat("openai:m", {})
    assert str(error.value) == "'OPENAI_API_KEY' is not set"
    assert choose_chat("openai:m", {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}).name == "model:openai:m"


@pytest.mark.parametrize("missing", ["langchain", "langchain_openai"])
def test_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(TddError) as error:
        choose_chat("openai:m", {"OPENAI_API_KEY": "k"})
    assert error.value.hint == "install it with: pip install 'git-agentos[openai]'"


def test_no_library_is_loaded_before_it_is_needed() -> None:
    text = """
import sys
from git_agentos.config import settings
from git_agentos.tdd import MockLLM
from git_agentos.tdd.models.selection import choose
for name in ("mock", "command:true", "model:openai:m"):
    choose(name, settings({}, {}), {"OPENAI_API_KEY": "k"})
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"langchain", "langchain_core", "langgraph", "langsmith"}))
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=PROJECT_ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# -- what an error means -----------------------------------------------------------------------------------------------


class Failed(Exception):
    """As the providers' libraries have it."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__("failed")
        self.status_code = status
        self.response = type("Response", (), {"headers": headers, "status_code": status})()


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "2500", "retry-after": "9"}, 2.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read(headers: Mapping[str, str], wait: float | None) -> None:
    assert failures.classify(Failed(429, headers)).wait == wait


def test_a_date_to_wait_for() -> None:
    date = email.utils.formatdate(time.time() + 3600, usegmt=True)
    wait = failures.classify(Failed(503, {"retry-after": date})).wait
    assert wait is not None
    assert 3000 < wait <= 3601


def test_an_error_behind_another_is_seen() -> None:
    outer = ValueError("outer")
    outer.__cause__ = Failed(401, {})
    assert failures.classify(outer).permanent
    assert not failures.classify(ConnectionRefusedError("no")).permanent
