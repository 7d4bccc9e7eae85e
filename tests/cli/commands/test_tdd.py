"""`git agentos tdd` on real repositories: documents, exit codes, what is said and asked, who may what."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Answer, Cli
from tests.support.confirming import set_up, set_up_key
from tests.support.env import PROJECT_ROOT
from tests.support.json_reference import check_document
from tests.support.lean_python import minimal_venv
from tests.support.repo import Repo
from tests.support.signals import with_default_handlers
from tests.support.state import assert_same
from tests.support.tdd_project import CODE, LLD, STUB, TESTS, project, script, users_state
from tests.support.tool import run

DOCUMENT = (PROJECT_ROOT / "docs" / "tdd.md").read_text()
PATIENCE = 60.0  # seconds, on a busy machine
RUN = ("run", "--issue", "87", "--lld", LLD, "--yes-data-policy")

Ask = Callable[..., Any]
Say = Callable[..., Answer]
At = Callable[..., "Terminal"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return minimal_venv(tmp_path_factory.mktemp("lean") / "venv")


@pytest.fixture
def here(repo: Repo, python: Path) -> Repo:
    """A project, whose tests are run by a Python that starts quickly."""
    project(repo)
    repo.config("agentos.tdd.python", str(python))
    return repo


@pytest.fixture
def ask(cli: Cli, here: Repo) -> Ask:
    """`ask("list")` is the document of `git agentos tdd list`, which follows the reference."""

    def call(*argv: str, code: int = 0, kind: str | None = None) -> Any:
        answer = cli("-C", str(here.path), "--json", "tdd", *argv)
        assert answer.code == code, answer
        found = check_document(answer.json)
        assert found == (kind or {"list": "tdd-list", "graph": "tdd-graph", "gate": "tdd-gate"}.get(argv[0], "tdd"))
        return answer.json

    return call


@pytest.fixture
def say(cli: Cli, here: Repo) -> Say:
    """The same in words."""
    return lambda *argv: cli("-C", str(here.path), "tdd", *argv)


@pytest.fixture
def key(here: Repo, tmp_path: Path) -> None:
    """The orchestrator's key is in place."""
    set_up_key(here, tmp_path)


@pytest.fixture
def mock(tmp_path: Path) -> str:
    return script(tmp_path)


@pytest.fixture
def useless(tmp_path: Path) -> str:
    """A mock that gives nothing, so that a person is asked at once."""
    return script(tmp_path, scaffold=[{"unusable": "it was not in the mood"}])


# -- the whole way -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("key")
def test_from_run_to_merge(ask: Ask, say: Say, here: Repo, mock: str, cli: Cli) -> None:
    before = users_state(here)
    waiting = ask(*RUN, "--agent", mock, "--context", "calc/base.py", "--test-timeout", "4m", code=3)
    assert (waiting["state"], waiting["tests_passed"], waiting["words"]) == (
        "waiting",
        True,
        ["approve", "abort", "retry"],
    )
    assert re.fullmatch(r"87-[0-9a-f]{6}", waiting["id"])
    assert (waiting["branch"], waiting["into"], waiting["context_paths"]) == ("feat/issue-87", "main", ["calc/base.py"])
    assert [each["node"][:2] for each in waiting["history"]] == ["N0", "N1", "N2", "N3", "N4", "N5"]
    assert_same(before, users_state(here), "the user's checkout", strict=True)

    assert ask("status") == ask("status", "87") == ask("show", waiting["id"][:6]) == waiting
    assert [each["id"] for each in ask("list")["workflows"]] == [waiting["id"]]
    assert say("list", "-q").text == f"{waiting['id']}\n"
    assert say("status", "-q").text == "waiting\n"
    status = cli("-C", str(here.path), "--json", "status").json
    assert (check_document(status), status["open_workflows"]) == ("status", [waiting["id"]])
    assert f"git agentos tdd status {waiting['id']}" in cli("-C", str(here.path), "status").talk

    shown = say("show", "87").text
    for wanted in ("== 3. N2 fail gate, ", "tests/test_more.py::test_double", "raise NotImplementedError", "2 failed"):
        assert wanted in shown, wanted
    written = say("show", "87", "--html", "../page.html")
    assert (written.code, "page.html" in written.text) == (0, True)
    page = (here.path.parent / "page.html").read_text()
    assert "What it changes" not in page
    assert "tests/test_more.py::test_double_nothing" in page

    refused = ask(*RUN, "--agent", mock, code=1, kind="error")["error"]
    assert (refused["kind"], waiting["id"] in refused["message"]) == ("tdd", True)

    merged = ask("approve", "87")
    assert (merged["state"], merged["merge_commit"], merged["node"]) == ("merged", here.oid("main"), None)
    assert here.read("calc/more.py").decode() == CODE
    for words in (("approve",), ("abort",), ("resume",), ("resume", "--retry")):
        assert ask(*words, "87", code=1, kind="error")["error"]["kind"] == "tdd", words
    assert ask("status")["state"] == "merged"


@pytest.mark.slow
@pytest.mark.usefixtures("key")
def test_a_conflict_is_4_and_it_waits_again(ask: Ask, say: Say, here: Repo, mock: str, cli: Cli) -> None:
    ask(*RUN, "--agent", mock, code=3)
    here.git("stash", "--quiet", "--include-untracked")
    here.write("calc/more.py", "another = 1\n")
    here.commit("another")
    before = here.oid()
    conflict = ask("approve", "87", code=4)
    assert (conflict["state"], conflict["conflicts"][0]["files"]) == ("waiting", ["calc/more.py"])
    assert here.oid() == before
    told = say("approve", "87")
    assert (told.code, "conflicts with 'main' in 1 path:\n  calc/more.py" in told.text) == (4, True)

    aborted = say("abort", "87")
    assert aborted.code == 0
    assert aborted.text.startswith(f"Workflow {conflict['id']} is aborted.\n")
    assert not os.path.exists(conflict["worktree_path"])
    back = cli("-C", str(here.path), "worktree", "create", f"run-{conflict['id']}", "--revive")
    assert back.code == 0, back
    assert (Path(conflict["worktree_path"]) / "calc/more.py").read_text() == CODE


# -- who may what ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("key")
def test_work_that_is_not_green_cannot_be_approved(ask: Ask, say: Say, useless: str) -> None:
    waiting = ask(*RUN, "--agent", useless, code=3)
    assert (waiting["words"], waiting["tests_passed"]) == (["abort", "retry"], False)
    assert ask("approve", "87", code=1, kind="error")["error"]["kind"] == "tdd"
    again = ask("resume", "87", "--retry", code=3)
    assert [each["node"][:2] for each in again["history"]] == ["N0", "N1", "N6", "N1"]
    told = say("status", "87")
    assert "not in the mood" in told.text
    assert "approve" not in told.talk
    assert ask("abort", "87")["state"] == "aborted"


def test_approve_needs_terminal_or_key_and_is_refused_to_agents(
    ask: Ask, here: Repo, useless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = ask(*RUN, "--agent", useless, code=3)
    decisions = (("approve", "87"), ("abort", "87"), ("resume", "87", "--retry"))
    refused = run(here.path, "--json", "tdd", "approve", "87")
    assert (refused.code, refused.json["error"]["kind"]) == (3, "policy")
    assert "agentos.approvalKey" in refused.json["error"]["hint"]
    (tmp_path / "key").write_text("any text")
    set_up(here, "agentos.approvalKey", str(tmp_path / "key"))
    for name, folder in (("AGENTOS_AGENT_ID", here.path), ("PWD", Path(waiting["worktree_path"]))):
        with monkeypatch.context() as agent:
            agent.setenv(name, "dev-001")
            agent.chdir(folder)
            for words in decisions:
                assert ask(*words, code=3, kind="error")["error"]["kind"] == "policy", (name, words)
    assert ask("status", "87") == waiting
    here.git("config", "--unset", "agentos.approvalKey")
    assert run(here.path, "tdd", "resume", "87", "--retry").code == 3
    assert run(here.path, "tdd", "abort", "87").code == 0


def test_run_without_consent_makes_nothing(ask: Ask, here: Repo, mock: str) -> None:
    before = users_state(here)
    refused = run(here.path, "tdd", "run", "--issue", "87", "--lld", LLD, "--agent", mock)
    assert refused.code == 3
    assert refused.err.decode().startswith("data policy: what is sent to nobody")
    assert LLD in refused.err.decode()
    assert "--yes-data-policy" in refused.err.decode()
    assert_same(before, users_state(here), "the user's checkout", strict=True)
    assert ask("list")["workflows"] == []
    assert here.git("branch", "--list", "feat/*") == b""


@pytest.mark.parametrize(
    ("words", "code", "kind", "mentions"),
    [
        (("--lld", LLD), 2, "usage", "--issue"),
        (("--issue", "87"), 2, "usage", "--lld"),
        (("--issue", "87", "--lld", LLD, "--test-timeout", "soon"), 2, "usage", "soon"),
        (("--issue", "87", "--lld", LLD, "--agent", "nobody"), 2, "usage", "nobody"),
        (("--issue", "87", "--lld", LLD, "--agent", "mock", "--into", "nowhere"), 2, "usage", "nowhere"),
        (("--issue", "87", "--lld", "../outside.md", "--agent", "mock"), 1, "context", "../outside.md"),
        (("--issue", "87", "--lld", LLD, "--context", ".env", "--agent", "mock"), 1, "context", ".env"),
    ],
)
def test_errors_are_reported_and_nothing_is_created(
    ask: Ask, here: Repo, words: tuple[str, ...], code: int, kind: str, mentions: str
) -> None:
    here.write(".env", "x=1\n")
    (here.path.parent / "outside.md").write_text("outside\n")
    error = ask("run", *words, "--yes-data-policy", code=code, kind="error")["error"]
    assert (error["kind"], mentions in error["message"]) == (kind, True), error
    assert ask("list")["workflows"] == []


def test_paths_are_meant_from_where_one_stands(here: Repo, cli: Cli, useless: str) -> None:
    name = os.path.basename(useless.removeprefix("mock:"))
    where = str(here.path / "calc")
    answer = cli(
        "-C", where, "--json", "tdd", "run", "--issue", "87", "--lld", f"../{LLD}", "--context", "base.py",
        "--agent", f"mock:{os.path.relpath(useless.removeprefix('mock:'), where)}", "--yes-data-policy",
    )  # fmt: skip
    assert answer.code == 3, answer
    assert (answer.json["lld_path"], answer.json["context_paths"]) == (LLD, ["calc/base.py"])
    assert answer.json["agent"].endswith(name)


def test_unknown_workflow_is_an_error(ask: Ask) -> None:
    for words in ("status", "show", "resume"):
        error = ask(words, "nobody", code=1, kind="error")["error"]
        assert (error["kind"], "nobody" in error["message"]) == ("tdd", True), words
    assert ask("status", code=1, kind="error")["error"]["kind"] == "tdd"
    assert ask("list")["workflows"] == []


# -- the graph, the gates ----------------------------------------------------------------------------------------------


def test_the_drawn_graph_is_that_of_the_code(ask: Ask, say: Say) -> None:
    drawn = re.search(r"^```mermaid\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert drawn is not None
    assert say("graph").text.strip() == drawn[1].strip()
    assert ask("graph")["mermaid"].strip() == drawn[1].strip()


@pytest.mark.slow
def test_the_gates_alone(ask: Ask, here: Repo) -> None:
    here.write("calc/more.py", STUB)
    here.write("tests/test_more.py", TESTS)
    red = ask("gate", "red", "--", "tests/test_more.py")
    assert (red["holds"], red["exit_code"], len(red["red"])) == (True, 1, 2)
    assert ask("gate", "green", code=1)["holds"] is False
    here.write("calc/more.py", CODE)
    green = ask("gate", "green")
    assert (green["holds"], green["exit_code"], green["vetoes"]) == (True, 0, [])
    here.write("tests/test_more.py", "def test_double():\n    pass\n")
    cheated = ask("gate", "green", code=1)
    assert (cheated["holds"], cheated["vetoes"] != []) == (False, True)


# -- at a terminal -----------------------------------------------------------------------------------------------------


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, repo: Repo, *words: str, **variables: str) -> None:
        self._descriptor, theirs = pty.openpty()
        self.seen = ""
        self._at = 0
        with with_default_handlers(signal.SIGINT):
            self.process = subprocess.Popen(
                [sys.executable, "-m", "git_agentos", "tdd", *words],
                cwd=repo.path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **variables},
            )  # fmt: skip
        os.close(theirs)

    def wait_for(self, text: str) -> None:
        """Until `text` is seen after what was waited for before."""
        end = time.monotonic() + PATIENCE
        while (found := self.seen.find(text, self._at)) < 0:
            assert time.monotonic() < end, self.seen
            assert self._read(), self.seen
        self._at = found + len(text)

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._descriptor)
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], PATIENCE)
        try:
            data = os.read(self._descriptor, 4096) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def answer(self, question: str, text: str) -> None:
        """Type an answer once it is asked for: what is typed before that is thrown away."""
        self.wait_for(question)
        os.write(self._descriptor, text.encode())

    def close(self) -> None:
        """What a test that failed has left."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def terminal(here: Repo) -> Iterator[At]:
    """`terminal("list")` is `git agentos tdd list` at a terminal."""
    opened: list[Terminal] = []

    def start(*words: str, **variables: str) -> Terminal:
        opened.append(Terminal(here, *words, **variables))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.slow
def test_at_a_terminal(here: Repo, terminal: At, mock: str, ask: Ask) -> None:
    at = terminal("run", "--issue", "87", "--lld", LLD, "--agent", mock)
    at.answer("anything else to stop: ", "yes\n")
    at.wait_for("Review of workflow 87-")
    at.answer("approve, abort or retry: ", "Approve\n")
    at.wait_for("'Approve' is not an answer")
    at.answer("approve, abort or retry: ", "approve\n")
    assert (at.end(), "is merged into 'main', as " in at.seen) == (0, True), at.seen
    for wanted in ("[3] N2 fail gate: ", "+def double(number):", "Audit\n", "[7] N6 human review: "):
        assert wanted in at.seen, wanted
    assert here.read("calc/more.py").decode() == CODE
    assert ask("status")["human_decision"] == "approve"


def test_ctrl_c_at_the_question_leaves_it_waiting(terminal: At, useless: str, ask: Ask) -> None:
    at = terminal(*RUN, "--agent", useless)
    at.wait_for("abort or retry: ")
    at.process.send_signal(signal.SIGINT)
    assert (at.end(), "waits for a decision" in at.seen) == (130, True), at.seen
    at = terminal("resume", "87")
    at.answer("abort or retry: ", "\x04")
    assert at.end() == 3
    assert ask("status")["state"] == "waiting"


def test_agent_at_a_terminal_is_not_asked(terminal: At, useless: str, ask: Ask) -> None:
    at = terminal(*RUN, "--agent", useless, AGENTOS_AGENT_ID="dev-001")
    assert (at.end(), "no prompt: deciding about a workflow is not for agents" in at.seen) == (3, True), at.seen
    assert ask("status")["human_decision"] is None


def test_the_document_is_whole(terminal: At, useless: str) -> None:
    """Under --json nothing else is printed, at a terminal too."""
    at = terminal(*RUN, "--agent", useless, "--json")
    assert at.end() == 3
    assert check_document(json.loads(at.seen)) == "tdd"
