"""`worktree merge`, killed at any step or failing there: the state before or after, by `repair` at the latest."""

from __future__ import annotations

import dataclasses

import pytest

from git_agentos import open_workspace
from git_agentos.worktree import journal
from tests.support.agents import agent_commit
from tests.support.dirty import make_dirty
from tests.support.faults.server import (
    FaultCase,
    Runner,
    assert_sound,
    command_line,
    differing,
    prepare,
    sample_steps,
    snapshot,
)
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE

_BUDGET = 8
_ERRORS = ("ENOSPC", "EIO")


@pytest.fixture
def case(runner: Runner, repo: Repo) -> FaultCase:
    """A merge of two agents into a worktree with local changes: files that come, change, go and trade places."""
    repo.write("kept/inner.txt", "kept\n")
    repo.write("swap", "a file\n")
    repo.commit("more to merge")
    lines = "".join(f"line {n}\n" for n in range(30))
    agent_commit(
        repo, "dev-001", {"src/lib/util.py": lines.replace("line 3\n", "three\n"), "a/b/new.txt": "new\n", "swap": None}
    )
    two = agent_commit(repo, "dev-002", {"src/lib/util.py": lines.replace("line 20\n", "twenty\n"), "kept": None})
    two.write("kept", "a file now\n")
    two.write("hidden.log", "tracked there, ignored here\n")
    two.git("add", "-A")
    two.git("add", "-f", "hidden.log")
    two.git("commit", "-qm", "more")
    make_dirty(repo)
    repo.write(".git/info/exclude", "*.log\n")
    repo.write("later/untracked.txt", "untracked\n")
    repo.git("checkout", "-q", "--", "src/lib/util.py")
    return prepare(runner, repo, "worktree", "merge", "dev-001", "dev-002")


def _recover(runner: Runner, case: FaultCase, what: str) -> None:
    for command in (["worktree", "repair"], ["recover"]):
        done = runner.run(case.place, *command)
        assert done.code == 0, f"{what}: {done}"


def _before_or_after(case: FaultCase, what: str) -> bool:
    """Whether it is the state after; the merge commits are others in each run."""
    found = snapshot(case.repo)
    # The folder of the workflow database hides itself with the last step of its making.
    shown = b"\0".join(row for row in found.status.split(b"\0") if b".agentos/" not in row)
    found = dataclasses.replace(found, status=shown)
    before = differing(case.before, found)
    if not before:
        return False
    same_refs = {**found.refs, "refs/heads/main": case.after.refs["refs/heads/main"]}
    after = differing(case.after, dataclasses.replace(found, head=case.after.head, refs=same_refs))
    assert not after, "\n  ".join([what, "from before:", *before[:20], "from after:", *after[:20]])
    parents = case.repo.text("log", "-1", "--format=%P").split()
    assert parents[1] == case.repo.oid("agent/dev-002"), what
    return True


def _check(runner: Runner, case: FaultCase, what: str) -> None:
    ours = case.repo.git("for-each-ref", "refs/heads/agent")
    _recover(runner, case, what)
    merged = _before_or_after(case, what)
    assert_sound(case.repo, what)
    assert journal.find_all(open_workspace(case.place).context.location) == [], what
    assert case.repo.git("for-each-ref", "refs/heads/agent") == ours
    if not merged:
        runner.run_ok(case.place, *case.argv)
        assert _before_or_after(case, f"{what}; merged again")


@pytest.mark.slow
def test_killed(runner: Runner, case: FaultCase) -> None:
    outcomes = set()
    for step in sample_steps(case, _BUDGET):
        case.fresh()
        mode = "kill-group" if step % 2 else "kill"
        done = runner.run(case.place, *case.argv, step=step, mode=mode)
        if done.code == 0 and len(done.steps) < step:
            continue
        assert done.code == -9, str(done)
        what = f"'{command_line(case.argv)}' killed before step {step} of {len(case.steps)}: {done.steps[-1]}"
        outcomes.add(bool(journal.interrupted(open_workspace(case.place).context.location)))
        _check(runner, case, what)
    assert outcomes == {False, True}


@pytest.mark.slow
def test_failing(runner: Runner, case: FaultCase) -> None:
    """A call that fails: told, and the state before; or, where it is done already, the state after."""
    for count, step in enumerate(sample_steps(case, _BUDGET)):
        for error in _ERRORS if EXHAUSTIVE else (_ERRORS[count % 2],):
            case.fresh()
            done = runner.run(case.place, *case.argv, step=step, mode=error)
            what = f"'{command_line(case.argv)}' with {error} at step {step} of {len(case.steps)}: {done}"
            assert done.code in (0, 1), what
            assert "Traceback" not in done.err, what
            _before_or_after(case, what)
            _check(runner, case, what)


@pytest.mark.slow
def test_half_written_files(runner: Runner, case: FaultCase) -> None:
    """What a git that was killed in the middle of the files leaves is gone back from."""
    begun = next(n for n, step in enumerate(case.steps, 1) if "main.json" in step and step.startswith("os.rename"))
    tried = 0
    for step in range(begun - 12, begun + 13):  # the number of steps before varies a little
        case.fresh()
        runner.run(case.place, *case.argv, step=step, mode="kill-group")
        context = open_workspace(case.place).context
        if not journal.interrupted(context.location) or case.repo.oid("main") != case.before.head.oid:
            continue
        tried += 1
        case.repo.write("src/lib/util.py", "line 0\nline 1\nli")
        case.repo.write("a/b/new.txt", "n")
        case.repo.remove("swap")
        case.repo.write("hidden.log", "tracked th")
        _recover(runner, case, f"killed before step {step}")
        assert differing(case.before, snapshot(case.repo)) == []
        assert_sound(case.repo, f"killed before step {step}")
        if tried == 3:
            break
    assert tried
