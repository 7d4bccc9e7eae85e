"""What `git agentos tdd` says to a person: in words, as a page, while it goes, and when it asks."""

from __future__ import annotations

import io
import os
import pty
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from git_agentos.cli import progress
from git_agentos.cli.commands import tdd as tdd_command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.output import Output
from git_agentos.cli.progress import WorkflowProgress
from git_agentos.cli.render.html import workflow as html_tdd
from git_agentos.cli.render.text import tdd as text_tdd
from git_agentos.cli.text import Style, Text
from git_agentos.errors import PolicyError
from git_agentos.tdd.state import N0, N1, N2, N3, N4, N5, N6, Record, Review, Workflow

A, B, C = "a" * 40, "b" * 40, "c" * 40
NOW = datetime.fromisoformat("2026-11-22T10:20:00Z").timestamp()
PLAIN, TERMINAL = Style(now=NOW), Style(colour=True, terminal=True, now=NOW)
HOSTILE = 'bad\x1b[31m<script>alert("x")</script>\udcff\u202e'
SEEN = "bad\\033[31m"


def record(n: int, node: str, after: str, summary: str, **fields: Any) -> Record:
    made = Record(
        n=n,
        node=node,
        began_at=f"2026-11-22T10:1{n}:00Z",
        ended_at=f"2026-11-22T10:1{n}:05Z",
        seconds=5.3,
        summary=summary,
        exit_code=None,
        next=after,
        vetoes=[],
        changed=[],
        files={},
        red=[],
        output=None,
        checkpoint_before=B,
        checkpoint_after=C,
        tokens_in=None,
        tokens_out=None,
    )
    made.update(fields)  # type: ignore[typeddict-item]  # names of a Record's keys
    return made


HISTORY = [
    record(1, N0, N1, "1 document read"),
    record(2, N1, N2, "the agent has ended", changed=["tests/test_price.py"], tokens_in=1204, tokens_out=345),
    record(3, N2, N3, "2 new tests fail", exit_code=1, red=["tests/test_price.py::test_sum"], files={"a.py": "0" * 64}),
    record(4, N4, N3, "the tests pass", exit_code=0, vetoes=["'tests/test_price.py' was changed"]),
    record(5, N5, N6, "nothing found"),
]
WORKFLOW = Workflow(
    id="87-3fa9c1",
    issue_id="87",
    state="waiting",
    node=N6,
    retry_count=1,
    scaffold_retry_count=0,
    branch="feat/issue-87",
    worktree_path="/home/ada/app.worktrees/run-87-3fa9c1",
    reason="the work is green",
    words=["approve", "abort", "retry"],
    agent="mock",
    into="main",
    base_sha=A,
    run_id="87-3fa9c1",
    lld_path="docs/lld.md",
    context_paths=["shop/price.py"],
    changed_files=["shop/price.py", "tests/test_price.py"],
    test_exit_code=0,
    tests_passed=True,
    vetoes=[],
    findings=[],
    conflicts=[],
    human_decision=None,
    merge_commit=None,
    final_checkpoint=None,
    created_at="2026-11-22T10:10:00Z",
    updated_at="2026-11-22T10:18:05Z",
    evidence="/home/ada/app/.agentos/runs/87-3fa9c1",
    here=True,
    machine="ada",
    interrupted_by=None,
    history=HISTORY,
)
PATCH = b"diff --git a/p.py b/p.py\n--- a/p.py\n+++ b/p.py\n@@ -1 +1 @@\n-a + b\n+a * b\n"
REVIEW = Review(WORKFLOW, PATCH, "1 passed\n")
GONE = replace(WORKFLOW, worktree_path=None, node=None, final_checkpoint=C, words=[])
RED = replace(WORKFLOW, words=["abort", "retry"], tests_passed=False, test_exit_code=1, reason="N4 pass gate: 1 failed")
CONFLICT = replace(
    WORKFLOW, conflicts=[{"a": "main", "b": "run-87-3fa9c1", "files": ["p.py", "\udcff"], "messages": []}]
)


def lines(said: Text) -> list[str]:
    assert isinstance(said.result, str)
    return said.result.splitlines()


@pytest.mark.parametrize(
    ("node", "then", "grade"),
    [
        ("N1_scaffold_tests", N6, "bad"),
        (N2, N6, "bad"),
        ("N3_implement", N6, "bad"),
        (N4, N6, "bad"),
        (N5, N6, "good"),
        (N2, N3, "good"),
        (N4, N3, "back"),
        ("N7_merge", N6, "back"),
        ("N8_clean_up", "__end__", "good"),
    ],
)
def test_outcome_of_a_node(node: str, then: str, grade: str) -> None:
    """What fails and goes on to a person is not shown as what went well."""
    assert text_tdd.grade(record(1, node, then, "said", exit_code=1)) == grade


def test_workflow_with_forged_state() -> None:
    found = replace(WORKFLOW, state="tampered", node=None, words=["abort"], reason="a row has no code", history=[])
    said = text_tdd.finished(found, PLAIN)
    assert lines(said)[0] == "Workflow 87-3fa9c1 cannot be trusted: a row has no code."
    assert said.hints == (
        "'git agentos tdd abort 87-3fa9c1' saves everything, then removes the worktree and the branch",
    )
    assert "State:      tampered: a row has no code" in lines(text_tdd.status(found, PLAIN))


# -- after a command ---------------------------------------------------------------------------------------------------


def test_waiting_green_workflow() -> None:
    said = text_tdd.finished(WORKFLOW, PLAIN)
    assert lines(said) == [
        "Workflow 87-3fa9c1 waits for a decision: the work is green.",
        "Tests passed: pytest exited with 0, no veto.",
        "Its work (2 changed paths, on branch 'feat/issue-87') is in /home/ada/app.worktrees/run-87-3fa9c1",
    ]
    assert said.quiet == "87-3fa9c1\n"
    assert said.hints == (
        "'git agentos tdd show 87-3fa9c1' shows its history and its changes",
        "'git agentos tdd approve 87-3fa9c1' merges it into 'main'",
        "'git agentos tdd abort 87-3fa9c1' saves everything, then removes the worktree and the branch",
        "'git agentos tdd resume --retry 87-3fa9c1' starts another round",
    )


def test_waiting_workflow_that_is_not_green_cannot_be_approved() -> None:
    said = text_tdd.finished(replace(RED, vetoes=["'a.py' was changed"], findings=["a.py:3: os._exit"]), PLAIN)
    assert lines(said)[:4] == [
        "Workflow 87-3fa9c1 waits for a decision: N4 pass gate: 1 failed.",
        "Tests not passed: pytest exited with 1.",
        "    veto: 'a.py' was changed",
        "    found: a.py:3: os._exit",
    ]
    assert not any("approve" in hint for hint in said.hints)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, "not passed: there is no valid test run"),
        (0, "not passed: pytest exited with 0, which alone is not enough"),
        (-1, "not passed: they took too long, and were ended"),
        (137, "not passed: pytest exited with 137"),
    ],
)
def test_text_for_tests_that_have_not_passed(code: int | None, told: str) -> None:
    assert text_tdd.tests(replace(RED, test_exit_code=code), PLAIN) == told


def test_conflicts_are_named() -> None:
    assert lines(text_tdd.finished(CONFLICT, PLAIN))[2:5] == [
        "It conflicts with 'main' in 2 paths:",
        "  p.py",
        '  "\\377"',
    ]


def test_the_end() -> None:
    merged = text_tdd.finished(replace(GONE, state="merged", merge_commit=B), PLAIN)
    assert lines(merged) == [
        "Workflow 87-3fa9c1 is merged into 'main', as bbbbbbbb.",
        "Its worktree and the branch 'feat/issue-87' were removed; everything is saved as cccccccc.",
    ]
    aborted = text_tdd.finished(replace(GONE, state="aborted", reason=None), PLAIN)
    assert lines(aborted)[0] == "Workflow 87-3fa9c1 is aborted."
    for said in (merged, aborted):
        assert said.hints[-1] == "'git agentos worktree create run-87-3fa9c1 --revive' restores its worktree"


def test_interrupted() -> None:
    said = text_tdd.finished(replace(WORKFLOW, state="interrupted", node=N3, reason=None), PLAIN)
    assert lines(said)[0] == "Workflow 87-3fa9c1 was interrupted at N3 implement."
    assert said.hints == ("'git agentos tdd resume 87-3fa9c1' continues with that node",)


@pytest.mark.parametrize(
    ("change", "wanted", "code"),
    [
        ({"state": "merged"}, None, 0),
        ({"state": "aborted"}, "abort", 0),
        ({}, None, 3),
        ({}, "approve", 1),
        ({"conflicts": [{}]}, None, 4),
        ({"conflicts": [{}]}, "approve", 4),
        ({"state": "interrupted"}, None, 1),
        ({"state": "interrupted", "interrupted_by": "SIGINT"}, None, 130),
        ({"interrupted_by": "SIGTERM"}, None, 130),
        ({"state": "merged", "interrupted_by": "SIGINT"}, None, 0),
    ],
)
def test_exit_codes(change: dict[str, Any], wanted: str | None, code: int) -> None:
    assert tdd_command._exit_code(replace(WORKFLOW, **change), wanted) == code


# -- looking -----------------------------------------------------------------------------------------------------------


def test_the_list() -> None:
    elsewhere = replace(WORKFLOW, id="9-000000", here=False)
    said = text_tdd.listing([WORKFLOW, elsewhere], PLAIN)
    assert lines(said) == [
        "ID         STATE               ISSUE  NODE  BRANCH         INTO  STARTED",
        "87-3fa9c1  waiting             87     N6    feat/issue-87  main  10 minutes ago",
        "9-000000   waiting, elsewhere  87     N6    feat/issue-87  main  10 minutes ago",
    ]
    assert said.quiet == "87-3fa9c1\n9-000000\n"
    assert text_tdd.listing([], PLAIN).notes == ("no workflows",)


def test_show_prints_every_field() -> None:
    evidence = text_tdd.NodeOutputs(outputs={3: b"FAILED\x1b[31m\n"}, patches={2: PATCH})
    told = "\n".join(lines(text_tdd.details(REVIEW, evidence, PLAIN)))
    for wanted in (
        "Workflow:   87-3fa9c1",
        "State:      waiting: the work is green",
        "Branch:     feat/issue-87, from main at aaaaaaaa",
        "Retries:    0 of the tests, 1 of the code",
        "== 3. N2 fail gate, ",
        "   2 new tests fail (exit 1)",
        "   red          tests/test_price.py::test_sum",
        f"   frozen       {'0' * 64}  a.py",
        "   checkpoints  bbbbbbbb before, cccccccc after",
        "   tokens       1204 in, 345 out",
        "   | FAILED\\033[31m",
        "   +a * b",
        "    veto: 'tests/test_price.py' was changed",
        "Changes since aaaaaaaa\ndiff --git a/p.py b/p.py",
    ):
        assert wanted in told, wanted


def test_workflow_of_another_clone_offers_no_action() -> None:
    said = text_tdd.status(replace(WORKFLOW, here=False, evidence=None, base_sha=None), PLAIN)
    assert said.hints == ()
    assert "Elsewhere:" in "\n".join(lines(said))
    assert text_tdd.status(WORKFLOW, PLAIN).hints[0].startswith("'git agentos tdd approve 87-3fa9c1'")


def test_control_characters_never_reach_the_terminal() -> None:
    changed = dict.fromkeys("issue_id branch into agent lld_path worktree_path reason evidence".split(), HOSTILE)
    hostile = record(
        1, N1, N2, HOSTILE, vetoes=[HOSTILE], changed=[HOSTILE], red=[HOSTILE], files={HOSTILE: HOSTILE}, output=HOSTILE
    )
    workflow = replace(
        WORKFLOW,
        **changed,  # type: ignore[arg-type]
        context_paths=[HOSTILE],
        changed_files=[HOSTILE],
        vetoes=[HOSTILE],
        findings=[HOSTILE],
        conflicts=[{"files": [HOSTILE]}],
        human_decision=HOSTILE,
        history=[hostile],
    )
    found = Review(workflow, b"+\x1b[31m\xff\n", HOSTILE)
    evidence = text_tdd.NodeOutputs(outputs={1: b"\x1b[31m\xff"}, patches={1: b"\x1b[31m"})
    said = [
        text_tdd.header(workflow),
        text_tdd.node_ended(hostile, PLAIN),
        *text_tdd.review(found, Style(terminal=True, now=NOW)),
        text_tdd.invalid_answer(workflow, HOSTILE),
        *text_tdd.policy([HOSTILE]),
    ]
    for each in (
        text_tdd.finished(workflow, PLAIN),
        text_tdd.finished(replace(workflow, state="merged", merge_commit=B), PLAIN),
        text_tdd.listing([workflow], PLAIN),
        text_tdd.status(workflow, PLAIN),
        text_tdd.details(found, evidence, PLAIN),
    ):
        said += [str(each.result), *each.hints]
    for text in said:
        assert all(char == "\n" or char.isprintable() for char in text), text
    assert SEEN in said[0]


# -- the page ----------------------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_what_the_terminal_shows() -> None:
    evidence = text_tdd.NodeOutputs(outputs={3: b"1 failed\n"}, patches={2: PATCH})
    page = _Page(html_tdd.workflow(REVIEW, evidence))
    assert page.open == []
    for wanted in ("Issue 87", "Waits for a decision", "2 new tests fail", "0" * 64, "a * b", "1 failed", "1 passed",
                   "git agentos tdd approve 87-3fa9c1", "'tests/test_price.py' was changed", "1204 in"):  # fmt: skip
        assert wanted in page.text, wanted
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {(attributes.get("href") or "")[1:] for tag, attributes in page.tags if tag == "a"} == set(ids)


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    done = record(1, N1, N2, HOSTILE, vetoes=[HOSTILE], red=[HOSTILE], files={HOSTILE: HOSTILE})
    hostile = replace(WORKFLOW, issue_id=HOSTILE, reason=HOSTILE, findings=[HOSTILE], changed_files=[HOSTILE])
    hostile = replace(hostile, history=[done])
    data = HOSTILE.encode("utf-8", "surrogateescape")
    text = html_tdd.workflow(
        Review(hostile, b"+" + data, HOSTILE), text_tdd.NodeOutputs(outputs={1: data}, patches={1: b"-" + data})
    )
    page = _Page(text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "link", "iframe", "form", "object", "base"})
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "src"]
    assert "default-src 'none'" in text
    assert "http:" not in text
    assert all(char == "\n" or char.isprintable() for char in text)


def test_a_page_of_much_output_stays_small() -> None:
    evidence = text_tdd.NodeOutputs(outputs={3: b"begin\n" + b"x" * (3 << 20) + b"\nend\n"})
    page = html_tdd.workflow(REVIEW, evidence)
    assert len(page) < 400_000
    assert "begin" in page
    assert "\nend\n" in page
    assert "bytes are left out here" in page


def test_page_of_a_workflow_without_nodes() -> None:
    page = _Page(
        html_tdd.workflow(Review(replace(WORKFLOW, history=[], changed_files=[]), b"", ""), text_tdd.NodeOutputs())
    )
    assert "No node has been done yet." in page.text


# -- while it goes -----------------------------------------------------------------------------------------------------


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def invocation(kind: type[io.TextIOWrapper] = io.TextIOWrapper) -> tuple[Invocation, io.BytesIO]:
    err = io.BytesIO()
    return Invocation(Output(None, kind(err, encoding="utf-8"))), err


def go(run: Invocation) -> None:
    with WorkflowProgress(run) as watcher:
        watcher.began(WORKFLOW)
        for each in HISTORY:
            watcher.node_begins(WORKFLOW, each["node"])
            watcher.output(b"much\n")
            watcher.node_ended(WORKFLOW, each)


def test_progress_prints_one_line_for_each_node() -> None:
    run, err = invocation()
    go(run)
    first, *rest = err.getvalue().decode().splitlines()
    assert first == (
        "workflow 87-3fa9c1, issue 87: on branch 'feat/issue-87' from main (aaaaaaaa), in"
        " /home/ada/app.worktrees/run-87-3fa9c1; agent mock"
    )
    assert rest == [
        "[1] N0 load context: 1 document read, 0:05; next: N1 scaffold tests",
        "[2] N1 scaffold tests: the agent has ended, 0:05, 1 path changed; next: N2 fail gate",
        "[3] N2 fail gate: 2 new tests fail (exit 1), 0:05; next: N3 implement",
        "[4] N4 pass gate: the tests pass (exit 0), 0:05; next: N3 implement",
        "    veto: 'tests/test_price.py' was changed",
        "[5] N5 audit: nothing found, 0:05; next: N6 human review",
    ]


def test_on_a_terminal_the_node_at_hand_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    run, err = invocation(_Terminal)
    with WorkflowProgress(run) as watcher:
        watcher.node_begins(replace(WORKFLOW, history=HISTORY[:2]), N2)
        assert err.getvalue() == b"[3] N2 fail gate  0:00"


# -- the questions -----------------------------------------------------------------------------------------------------


class Typist:
    """Somebody at a terminal, which is stdin; what they type comes once it is asked for, and what was typed before that
    is flushed (`termios.tcflush`: from there on answers count)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._answers: list[bytes] = []
        self.asked: Callable[[], None] = lambda: None

    def type(self, keys: bytes) -> None:
        assert os.write(self._descriptor, keys) == len(keys)

    def answering(self, *answers: bytes) -> tuple[Invocation, io.BytesIO]:
        """An invocation whose questions are answered by one of `answers` after the other."""
        self._answers = list(answers)
        return invocation(_Terminal)

    def answer(self) -> None:
        if self._answers:
            self.type(self._answers.pop(0))
        self.asked()


@pytest.fixture
def typist(monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    ours, theirs = pty.openpty()
    somebody = Typist(ours)
    flush = termios.tcflush

    def flushed(descriptor: int, queue: int) -> None:
        flush(descriptor, queue)
        somebody.answer()

    monkeypatch.setattr(termios, "tcflush", flushed)
    gives_up = threading.Timer(30, os.write, [ours, b"\x04\x04"])  # who waits in vain fails, and does not wait for ever
    gives_up.start()
    with os.fdopen(theirs, "rb") as file, io.TextIOWrapper(file) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield somebody
    gives_up.cancel()
    os.close(ours)


def test_the_data_policy_wants_exactly_yes(typist: Typist) -> None:
    run, err = typist.answering(b"yes\n")
    tdd_command._consent(run, WorkflowProgress(run), accepted=False)(["  40 bytes  \x1b[31m"])
    assert b"  40 bytes  \\033[31m\n" in err.getvalue()
    for answer in (b"y\n", b"\n", b"Yes\n", b"\x04"):
        run, _ = typist.answering(answer)
        with pytest.raises(PolicyError, match="did not accept the data policy"):
            tdd_command._consent(run, WorkflowProgress(run), accepted=False)([])


def test_question_is_repeated_until_the_answer_is_valid(typist: Typist) -> None:
    run, err = typist.answering(b"yes\n", b"Approve\n", b"approve \n", b"\n", b"approve\n")
    assert WorkflowProgress(run).choose(WORKFLOW) == "approve"
    told = err.getvalue().decode()
    assert told.count("approve, abort or retry: ") == 5
    assert "'approve ' is not an answer: type exactly approve, abort or retry" in told
    run, _ = typist.answering(b"approve\n", b"abort\n")
    assert WorkflowProgress(run).choose(RED) == "abort"
    run, _ = typist.answering(b"\x04")
    assert WorkflowProgress(run).choose(WORKFLOW) is None


def test_input_typed_before_the_question_is_discarded(typist: Typist) -> None:
    typist.type(b"approve\n")
    run, _ = typist.answering(b"abort\n")
    assert WorkflowProgress(run).choose(WORKFLOW) == "abort"


def test_signal_ends_the_question_and_reaches_its_handler(typist: Typist) -> None:
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: heard.append(got)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        for number in before:
            run, err = typist.answering()
            typist.asked = threading.Timer(0.02, os.kill, [os.getpid(), number]).start
            walk = WorkflowProgress(run)
            assert progress.interruptible(lambda: walk.choose(WORKFLOW)) is None  # noqa: B023 (called at once)
            assert heard.pop() == number
            assert err.getvalue().endswith(b": \n")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("mode", ["json", "quiet"])
@pytest.mark.parametrize("kind", [io.TextIOWrapper, _Terminal])
def test_quiet_prints_and_asks_nothing(kind: type[io.TextIOWrapper], mode: str, typist: Typist) -> None:
    run, err = invocation(kind)
    setattr(run.output, mode, True)
    typist.asked = lambda: pytest.fail("nobody is to be asked")
    go(run)
    assert WorkflowProgress(run).ask(REVIEW) is None
    with pytest.raises(PolicyError, match="nothing was created or sent"):
        tdd_command._consent(run, WorkflowProgress(run), accepted=False)(["policy"])
    assert err.getvalue() == b""


def test_summary_before_the_decision() -> None:
    told = text_tdd.review(replace(REVIEW, patch=PATCH + b"+x\n" * 500, test_output="PASSED\n" * 100), PLAIN)
    assert len(told) < 280
    for wanted in (
        "Review of workflow 87-3fa9c1, issue 87",
        "diff --git a/p.py b/p.py",
        "… 306 more lines; 'git agentos tdd show 87-3fa9c1' shows all of it",
        "passed: pytest exited with 0, no veto",
        "  … 60 lines before; 'git agentos tdd show 87-3fa9c1' shows all of it",
        "no findings",
        "  approve  merges it into 'main'",
    ):
        assert wanted in told, wanted
    told = text_tdd.review(replace(REVIEW, workflow=RED), PLAIN)
    assert told[-1] == "It cannot be approved: its tests have not passed."
    assert "It conflicts with 'main' in 2 paths:" in text_tdd.review(replace(REVIEW, workflow=CONFLICT), PLAIN)
