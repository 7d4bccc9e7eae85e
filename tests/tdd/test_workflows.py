"""Workflows by the mock: every route of the table, what becomes of the work, and that the user's checkout is left
alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import AgentosError, ContextError, PolicyError, TddError, UsageError
from git_agentos.git import worktrees
from git_agentos.run import evidence_store
from git_agentos.tdd import query, workflows
from git_agentos.tdd.state import Workflow
from git_agentos.tdd.workflows import WorkflowSpec
from git_agentos.worktree import creation, journal
from tests.support.repo import Repo
from tests.support.state import assert_same
from tests.support.tdd_project import (
    CODE,
    GOOD_CODE,
    GOOD_SCAFFOLD,
    LLD,
    STUB,
    TESTS,
    WRONG,
    Person,
    context_of,
    decide,
    environment,
    interpreter,
    nodes_of,
    project,
    resume,
    script,
    start,
    users_state,
)

RED = ["N0", "N1", "N2"]
GREEN = [*RED, "N3", "N4", "N5"]


everywhere = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def code(repo: Repo) -> Repo:
    return project(repo)


def branches(repo: Repo) -> list[str]:
    return repo.text("for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n")


# -- from the beginning to the end ------------------------------------------------------------------------------------


@everywhere
def test_to_green_approved_and_merged(code: Repo, tmp_path: Path) -> None:
    """The work is merged, and what the user has not committed is as it was."""
    before = users_state(code)
    base = code.oid()
    person = Person()
    waiting = start(code, script(tmp_path), person)
    assert (waiting.state, waiting.node, waiting.words) == ("waiting", "N6_human_review", ["approve", "abort", "retry"])
    assert nodes_of(waiting) == GREEN
    assert waiting.tests_passed
    assert waiting.changed_files == ["calc/more.py", "tests/test_more.py"]
    assert (waiting.branch, waiting.into, waiting.base_sha) == ("feat/issue-87", "main", base)
    red = waiting.history[2]
    assert (red["exit_code"], red["vetoes"]) == (1, [])
    assert red["red"] == ["tests/test_more.py::test_double", "tests/test_more.py::test_double_nothing"]
    assert "tests/test_more.py" in red["files"]
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    # The review has what would be merged.
    (review,) = person.reviews
    assert b"+    return 2 * number" in review.patch
    assert "2 passed" in review.test_output or "3 passed" in review.test_output

    done = decide(code, waiting.id, "approve")
    assert (done.state, done.node, done.worktree_path, done.words) == ("merged", None, None, [])
    assert nodes_of(done) == [*GREEN, "N6", "N7", "N8"]
    assert [each["node"][:2] for each in done.history if each["began_at"] > each["ended_at"]] == []
    assert done.history[0]["began_at"] < done.history[0]["ended_at"]
    assert done.merge_commit == code.oid("main")
    assert code.text("rev-parse", "main^1") == base
    assert code.text("diff", "--name-only", base, "main").split() == ["calc/more.py", "tests/test_more.py"]
    assert code.git("show", "main:calc/more.py").decode() == CODE
    assert branches(code) == ["main", "other"]
    assert waiting.worktree_path is not None
    assert not Path(waiting.worktree_path).exists()
    # The user's edits, staged and not, and untracked files are still there, on top of the merge.
    assert code.read("calc/base.py").decode().endswith("# staged by the user\n# and not staged\n")
    assert code.text("diff", "--cached", "--name-only") == "calc/base.py"
    assert code.text("ls-files", "--others", "--exclude-standard") == "mine.txt"
    assert code.read("calc/more.py").decode() == CODE
    assert code.text("status", "--porcelain").split("\n") == ["MM calc/base.py", "?? mine.txt"]
    # It is over.
    with pytest.raises(TddError, match="has ended: it was merged"):
        decide(code, done.id, "approve")
    with pytest.raises(TddError, match="has ended: it was merged"):
        resume(code, done.id)
    assert [each.state for each in query.list_workflows(context_of(code), environment())] == ["merged"]


@pytest.mark.sampled(one_in=2)
@everywhere
def test_abort_takes_everything_away_and_nothing_is_lost(code: Repo, tmp_path: Path) -> None:
    before = users_state(code)
    waiting = start(code, script(tmp_path))
    done = decide(code, waiting.id, "abort")
    assert (done.state, done.human_decision, done.merge_commit) == ("aborted", "abort", None)
    assert nodes_of(done) == [*GREEN, "N6", "N8"]
    assert branches(code) == ["main", "other"]
    assert waiting.worktree_path is not None
    assert not Path(waiting.worktree_path).exists()
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    # It can be had back, on its branch.
    made = creation.create(context_of(code), f"run-{waiting.id}", revive=True)
    assert made.branch == "feat/issue-87"
    assert (Path(str(made.path)) / "calc/more.py").read_text() == CODE
    assert (Path(str(made.path)) / "tests/test_more.py").read_text() == TESTS


def test_terminal_is_asked_until_the_answer_is_valid(code: Repo, tmp_path: Path) -> None:
    person = Person(["yes", "Approve", "approve ", "", "approve"])
    done = start(code, script(tmp_path), person)
    assert done.state == "merged"
    assert len(person.reviews) == 5
    assert [each for each in person.heard if each.startswith("begins")] == [f"begins N{n}" for n in range(1, 6)]


# -- the routes -------------------------------------------------------------------------------------------------------

PASSING = {
    "write": {"tests/test_more.py": "from calc.base import add\n\n\ndef test_new():\n    assert add(1, 1) == 2\n"}
}
BROKEN = {
    "write": {"tests/test_more.py": "from calc.nowhere import gone\n\n\ndef test_new():\n    assert gone() == 1\n"}
}
NOTHING = {"write": {"calc/more.py": STUB}}
UNUSABLE = {"unusable": "it would not say"}


def exits(number: int) -> dict[str, Any]:
    return {"write": {"tests/test_more.py": f"import os\n\nos._exit({number})\n"}}


@pytest.mark.parametrize(
    ("first", "code_", "said"),
    [
        (PASSING, 0, "prematurely"),
        (BROKEN, 2, "while collecting"),
        (exits(4), 4, "exit code 4"),
        (exits(5), 5, "exit code 5"),
        (exits(1), 1, "exit code 1"),
    ],
)
def test_a_faulty_scaffold_is_written_again(code: Repo, tmp_path: Path, first: Any, code_: int, said: str) -> None:
    waiting = start(code, script(tmp_path, scaffold=[first, GOOD_SCAFFOLD]))
    assert nodes_of(waiting) == ["N0", "N1", "N2", "N1", "N2", "N3", "N4", "N5"]
    assert (waiting.scaffold_retry_count, waiting.retry_count, waiting.tests_passed) == (1, 0, True)
    assert waiting.history[2]["exit_code"] == code_
    assert said in waiting.history[2]["summary"]


@pytest.mark.parametrize("number", [3, 6, 137])
def test_red_gate_that_cannot_judge_is_for_a_person(code: Repo, tmp_path: Path, number: int) -> None:
    waiting = start(code, script(tmp_path, scaffold=[exits(number)]))
    assert nodes_of(waiting) == RED
    assert (waiting.state, waiting.test_exit_code, waiting.words) == ("waiting", number, ["abort", "retry"])
    with pytest.raises(TddError, match="not green"):
        decide(code, waiting.id, "approve")
    assert decide(code, waiting.id, "abort").state == "aborted"


def test_tests_that_hang(code: Repo, tmp_path: Path) -> None:
    hangs = (
        "import time\n\nfrom calc.more import double\n\n\ndef test_new():\n    time.sleep(999)\n    assert double(1)\n"
    )
    scaffold = {"write": {"tests/test_more.py": hangs, "calc/more.py": STUB}}
    waiting = start(code, script(tmp_path, scaffold=[scaffold]), test_timeout=2.0)
    assert (nodes_of(waiting), waiting.test_exit_code, waiting.state) == (RED, -1, "waiting")


def test_three_retries_of_the_scaffold_and_no_more(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path, scaffold=[PASSING]))
    assert nodes_of(waiting) == ["N0", *["N1", "N2"] * 4]
    assert (waiting.scaffold_retry_count, waiting.state, waiting.words) == (3, "waiting", ["abort", "retry"])
    # Another round has three more.
    again = resume(code, waiting.id, retry=True)
    assert nodes_of(again) == [*nodes_of(waiting), "N6", *["N1", "N2"] * 4]
    assert again.scaffold_retry_count == 3


def test_three_retries_of_the_code_and_no_more(code: Repo, tmp_path: Path) -> None:
    wrong = {"write": {"calc/more.py": WRONG}}
    waiting = start(code, script(tmp_path, implement=[wrong]))
    assert nodes_of(waiting) == [*RED, *["N3", "N4"] * 4]
    assert (waiting.retry_count, waiting.test_exit_code, waiting.tests_passed) == (3, 1, False)
    assert waiting.words == ["abort", "retry"]
    with pytest.raises(TddError, match="not green"):
        decide(code, waiting.id, "approve")
    assert code.oid("main") == waiting.base_sha


def test_code_that_fails_is_written_again(code: Repo, tmp_path: Path) -> None:
    broken = {"write": {"calc/more.py": "from calc.nowhere import gone\n"}}
    answers = [broken, {"write": {"calc/more.py": WRONG}}, GOOD_CODE]
    waiting = start(code, script(tmp_path, implement=answers))
    assert nodes_of(waiting) == [*RED, "N3", "N4", "N3", "N4", "N3", "N4", "N5"]
    assert [each["exit_code"] for each in waiting.history if each["node"][:2] == "N4"] == [2, 1, 0]
    assert (waiting.retry_count, waiting.tests_passed) == (2, True)


def test_another_round_after_failing_code(code: Repo, tmp_path: Path) -> None:
    wrong = {"write": {"calc/more.py": WRONG}}
    waiting = start(code, script(tmp_path, implement=[wrong, wrong, wrong, wrong, GOOD_CODE]))
    assert not waiting.tests_passed
    again = resume(code, waiting.id, retry=True)
    assert (again.tests_passed, again.retry_count, again.state) == (True, 0, "waiting")
    assert decide(code, again.id, "approve").state == "merged"


@pytest.mark.parametrize("number", [3, 4, 5, 137])
def test_a_green_gate_that_cannot_judge_is_for_a_person(code: Repo, tmp_path: Path, number: int) -> None:
    dies = {"write": {"calc/more.py": f"import os\n\n\ndef double(number):\n    os._exit({number})\n"}}
    waiting = start(code, script(tmp_path, implement=[dies]))
    assert (nodes_of(waiting), waiting.test_exit_code, waiting.tests_passed) == ([*RED, "N3", "N4"], number, False)


def test_a_model_that_says_nothing_of_use(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path, scaffold=[UNUSABLE]))
    assert (nodes_of(waiting), waiting.state) == (["N0", "N1"], "waiting")
    assert waiting.reason is not None
    assert "it would not say" in waiting.reason
    again = resume(code, waiting.id, retry=True)
    assert nodes_of(again) == ["N0", "N1", "N6", "N1"]


def test_the_audit_sends_it_back(code: Repo, tmp_path: Path) -> None:
    cheat = {"write": {"calc/more.py": "import atexit\nimport os\n\natexit.register(os._exit, 0)\n\n\n" + CODE}}
    waiting = start(code, script(tmp_path, implement=[cheat, GOOD_CODE]))
    assert waiting.tests_passed
    nodes = nodes_of(waiting)
    # By the canary, or at the latest by the audit.
    assert nodes in ([*RED, "N3", "N4", "N3", "N4", "N5"], [*GREEN, "N3", "N4", "N5"])
    assert waiting.changed_files == ["calc/more.py", "tests/test_more.py"]


@pytest.mark.sampled(one_in=2)
@everywhere
def test_a_test_that_is_touched_is_put_back(code: Repo, tmp_path: Path) -> None:
    weak = {"write": {"calc/more.py": WRONG, "tests/test_more.py": "def test_double():\n    pass\n"}}
    waiting = start(code, script(tmp_path, implement=[weak, GOOD_CODE]))
    assert nodes_of(waiting) == [*RED, "N3", "N4", "N3", "N4", "N5"]
    gate = waiting.history[4]
    assert gate["exit_code"] is None
    assert any("tests/test_more.py" in each for each in gate["vetoes"])
    assert waiting.worktree_path is not None
    assert (Path(waiting.worktree_path) / "tests/test_more.py").read_text() == TESTS
    assert waiting.tests_passed


# -- merging ----------------------------------------------------------------------------------------------------------


def test_a_target_that_moved_on_is_merged_with(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    code.git("stash", "--quiet", "--include-untracked")
    code.write("other.txt", "somebody else's\n")
    code.git("add", "other.txt")
    code.git("commit", "--quiet", "--message", "meanwhile")
    theirs = code.oid()
    done = decide(code, waiting.id, "approve")
    assert done.state == "merged"
    assert code.text("rev-parse", "main^1") == theirs
    assert code.read("other.txt") == b"somebody else's\n"
    assert code.read("calc/more.py").decode() == CODE


@everywhere
def test_a_conflict_goes_back_to_the_person(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    code.git("stash", "--quiet", "--include-untracked")
    code.write("calc/more.py", "theirs = 1\n")
    code.git("add", "calc/more.py")
    code.git("commit", "--quiet", "--message", "meanwhile")
    before = users_state(code)
    back = decide(code, waiting.id, "approve")
    assert (back.state, back.node, back.merge_commit) == ("waiting", "N6_human_review", None)
    assert [each["files"] for each in back.conflicts] == [["calc/more.py"]]
    assert back.reason is not None
    assert "calc/more.py" in back.reason
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    # Settled on the branch, it can be approved as it is.
    code.git("revert", "--no-edit", "HEAD")
    assert decide(code, waiting.id, "approve").state == "merged"
    assert code.read("calc/more.py").decode() == CODE


def test_change_by_a_person_is_tested_again(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    assert waiting.worktree_path is not None
    better = "def double(number):\n    return number + number\n"
    Repo(Path(waiting.worktree_path)).write("calc/more.py", better)
    again = resume(code, waiting.id, retry=True)
    assert (nodes_of(again), again.tests_passed) == ([*GREEN, "N6", "N4", "N5"], True)
    assert decide(code, waiting.id, "approve").state == "merged"
    assert code.read("calc/more.py").decode() == better


def test_in_a_worktree_of_a_bare_repository(code: Repo, tmp_path: Path) -> None:
    """The bare repository's own HEAD is the branch too: no worktree is in the way of the merge."""
    code.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    here = Repo(tmp_path / "first")
    code.git("-C", str(tmp_path / "bare.git"), "worktree", "add", "-q", str(here.path), "main")
    here.config("agentos.tdd.python", str(interpreter()))
    waiting = start(here, script(tmp_path))
    merged = decide(here, waiting.id, "approve")
    assert (merged.state, merged.reason) == ("merged", None)
    assert here.read("calc/more.py").decode() == CODE
    assert here.text("status", "--porcelain") == ""


def test_submodule_with_tests_is_not_a_change(code: Repo, tmp_path: Path) -> None:
    code.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(code.path), "sub")
    code.git("commit", "--quiet", "--message", "a submodule", "--", "sub", ".gitmodules")
    waiting = start(code, script(tmp_path))
    assert (nodes_of(waiting), waiting.tests_passed) == (GREEN, True)


def test_a_removal_that_was_killed_is_done_again(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    location = context_of(code).location
    with worktrees.lock(location):
        journal.release(journal.start(location, f"run-{waiting.id}", "remove"))
    done = decide(code, waiting.id, "abort")
    assert done.state == "aborted"
    assert branches(code) == ["main", "other"]


def test_edits_in_the_way_of_the_merge(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    code.write("calc/more.py", "the user's own, untracked\n")
    before = users_state(code)
    back = decide(code, waiting.id, "approve")
    assert (back.state, back.merge_commit, back.conflicts) == ("waiting", None, [])
    assert back.reason is not None
    assert "calc/more.py" in back.reason
    assert "\n" not in back.reason
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    code.remove("calc/more.py")
    assert decide(code, waiting.id, "approve").state == "merged"


def test_a_worktree_that_is_not_as_it_was_tested_is_not_merged(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    assert waiting.worktree_path is not None
    Repo(Path(waiting.worktree_path)).write("calc/more.py", "evil = 1\n")
    back = decide(code, waiting.id, "approve")
    assert (back.state, back.merge_commit) == ("waiting", None)
    assert code.oid("main") == waiting.base_sha
    assert Repo(Path(waiting.worktree_path)).read("calc/more.py") == b"evil = 1\n"


# -- what is refused --------------------------------------------------------------------------------------------------


def test_refused_context_creates_nothing(code: Repo, tmp_path: Path) -> None:
    code.write("secret.pem", "x\n")
    before = users_state(code)
    order = WorkflowSpec("87", LLD, context=("secret.pem",), agent=script(tmp_path))
    with pytest.raises(ContextError):
        workflows.start(context_of(code), order, environment(), Person(), consent=lambda _: None)
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    assert not (code.path / ".agentos").exists()
    assert branches(code) == ["main", "other"]


def test_run_without_consent_makes_nothing(code: Repo, tmp_path: Path) -> None:
    told: list[str] = []

    def refuse(lines: Any) -> None:
        told.extend(lines)
        raise PolicyError("no")

    with pytest.raises(PolicyError):
        workflows.start(
            context_of(code), WorkflowSpec("87", LLD, agent=script(tmp_path)), environment(), Person(), consent=refuse
        )
    assert any(LLD in line for line in told)
    assert not (code.path / ".agentos").exists()
    assert branches(code) == ["main", "other"]


@pytest.mark.sampled(one_in=2)
@everywhere
def test_issue_has_one_workflow(code: Repo, tmp_path: Path) -> None:
    waiting = start(code, script(tmp_path))
    with pytest.raises(TddError, match=f"unfinished workflow, '{waiting.id}'"):
        start(code, script(tmp_path))
    decide(code, waiting.id, "abort")
    again = start(code, script(tmp_path))
    assert again.id != waiting.id
    assert again.state == "waiting"
    # The issue's id stands for the unfinished one.
    assert query.show(context_of(code), "87", environment()).id == again.id
    assert query.show(context_of(code), waiting.id[:-1], environment()).id == waiting.id


def test_concurrent_workflows_for_an_issue_are_refused(code: Repo, tmp_path: Path) -> None:
    """The other one is begun when the first has seen that there is none."""
    others: list[Workflow] = []
    order = WorkflowSpec(issue_id="87", lld=LLD, agent=script(tmp_path))
    with pytest.raises(TddError, match="issue '87' has an unfinished workflow"):
        workflows.start(
            context_of(code), order, environment(), Person(),
            consent=lambda _: others.append(start(code, script(tmp_path))),
        )  # fmt: skip
    (found,) = query.list_workflows(context_of(code), environment())
    assert [found.id] == [each.id for each in others]
    assert branches(code) == ["feat/issue-87", "main", "other"]
    assert decide(code, found.id, "approve").state == "merged"


def test_invalid_ids(code: Repo, tmp_path: Path) -> None:
    with pytest.raises(TddError, match="no workflow"):
        resume(code, "88-aaaaaa")
    with pytest.raises(TddError, match="no workflow"):
        decide(code, "88", "approve")
    with pytest.raises(TddError, match="no workflow"):
        query.show(context_of(code), "87", environment())
    for bad in ("", "../x", "a b", "x.lock", "-x", "a" * 50):
        with pytest.raises(UsageError):
            workflows.start(
                context_of(code), WorkflowSpec(bad, LLD, agent="mock"), environment(), Person(), consent=lambda _: None
            )
    assert not (code.path / ".agentos").exists()


def test_a_branch_in_the_way_leaves_nothing(code: Repo, tmp_path: Path) -> None:
    code.git("branch", "feat/issue-87")
    with pytest.raises(Exception, match="feat/issue-87"):
        start(code, script(tmp_path))
    assert query.list_workflows(context_of(code), environment()) == []
    assert code.text("worktree", "list").count("\n") == 0


@pytest.mark.sampled(one_in=2)
@everywhere
def test_found_from_every_worktree(code: Repo, tmp_path: Path) -> None:
    """A workflow that was begun in the main checkout is approved from another one."""
    code.git("worktree", "add", "--quiet", str(tmp_path / "other"), "-b", "elsewhere")
    waiting = start(code, script(tmp_path))
    other = Repo(tmp_path / "other")
    assert query.show(context_of(other), waiting.id, environment()).state == "waiting"
    assert decide(other, waiting.id, "approve").state == "merged"


def test_workflow_is_kept_as_a_run(code: Repo, tmp_path: Path) -> None:
    """What it did is kept as the evidence of a run, which can be verified."""
    from git_agentos.run import query as run_query

    waiting = start(code, script(tmp_path))
    run = run_query.show(context_of(code), waiting.id)
    assert [(each.kind, each.exit_code, each.outcome) for each in run.steps] == [
        ("agent", None, "ok"),
        ("validate", 1, "ok"),
        ("agent", None, "ok"),
        ("validate", 0, "ok"),
    ]
    steps = Path(str(waiting.evidence)) / "steps"
    wrote = ["diff.patch", "prompt.txt", "snapshot.json", "stderr", "stdout"]
    tested = ["diff.patch", "exit_code", "snapshot.json", "stdout"]
    assert {each.name: sorted(os.listdir(each)) for each in steps.iterdir()} == {
        "001-agent": wrote, "002-validate": tested, "003-agent": wrote, "004-validate": tested,
    }  # fmt: skip
    assert (steps / "002-validate" / "exit_code").read_text() == "1\n"
    assert b"+    return 2 * number" in (steps / "003-agent" / "diff.patch").read_bytes()
    done = decide(code, waiting.id, "approve")
    found = evidence_store.verify(context_of(code), done.run_id)
    assert (found.ok, found.problems) == (True, [])
    assert run_query.show(context_of(code), done.id).state == "accepted"


@pytest.mark.parametrize("wreck", ['cd / && rm -rf "$OLDPWD"', "rm .git"])
def test_an_agent_that_wrecks_its_worktree(code: Repo, tmp_path: Path, wreck: str) -> None:
    """It is made again, and goes on; or it is ended, and nothing of the user's has changed."""
    before = users_state(code)
    agent = script(tmp_path, implement=[{"run": wreck}, GOOD_CODE])
    with pytest.raises(AgentosError):
        start(code, agent)
    (found,) = query.list_workflows(context_of(code), environment())
    assert (found.state, found.node) == ("interrupted", "N3_implement")
    assert decide(code, found.id, "abort").state == "aborted"
    assert_same(before, users_state(code), "the user's checkout", strict=True)
    assert branches(code) == ["main", "other"]


def test_file_too_large_to_be_merged_is_not_green(code: Repo, tmp_path: Path) -> None:
    code.config("agentos.maxFileSize", "1k")
    large = {"write": {"calc/more.py": CODE, "calc/data.bin": "x" * 2000}}
    waiting = start(code, script(tmp_path, implement=[large]))
    assert not waiting.tests_passed
    assert waiting.words == ["abort", "retry"]
    assert any("calc/data.bin" in each for each in waiting.findings)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_fleet_shares_its_workflows(
    code: Repo, make_repo: Callable[[str], Repo], tmp_path: Path, database: str
) -> None:
    """Two clones with one database: each sees all, and works on its own alone."""
    other = project(make_repo("other-clone"))
    mine, theirs = start(code, script(tmp_path)), start(other, script(tmp_path))
    assert [each.id for each in query.list_workflows(context_of(code), environment())] == [mine.id]
    known = query.list_workflows(context_of(code), environment(), everywhere=True)
    assert {each.id: each.here for each in known} == {mine.id: True, theirs.id: False}
    assert query.show(context_of(code), theirs.id, environment()).history == theirs.history
    with pytest.raises(TddError, match="another clone"):
        decide(code, theirs.id, "approve")
    with pytest.raises(TddError, match="another clone"):
        resume(code, theirs.id)
    assert decide(other, "87", "approve").state == "merged"
    assert decide(code, "87", "abort").state == "aborted"
    # The URL, which may have a password, is in nobody's evidence.
    for repo in (code, other):
        for path in (repo.path / ".agentos").rglob("*"):
            assert not path.is_file() or database.encode() not in path.read_bytes()


def test_import_costs_nothing() -> None:
    names = "ImplementationState route_n2_fail_gate validate_context_path run_pytest_subprocess MockLLM".split()
    heavy = ("langgraph", "langchain", "langchain_core", "langsmith", "psycopg", "detect_secrets", "bpe_openai")
    program = (
        f"import sys, git_agentos.tdd as tdd\nfor name in {names}: getattr(tdd, name)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"
