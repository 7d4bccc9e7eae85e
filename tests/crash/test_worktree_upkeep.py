"""`worktree sync` and `worktree cleanup`, killed at any step or failing there: before or after, by `repair` at last."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.worktree import journal
from tests.support.dirty import make_dirty
from tests.support.faults.server import Runner, command_line
from tests.support.faults.worktree_cases import (
    ID,
    Snapshot,
    WorktreeCase,
    assert_sound,
    differing,
    make,
    new_repository,
    prepare,
    sample_steps,
    snapshot,
)
from tests.support.repo import Repo

_BUDGET = 8
_ERRORS = ("ENOSPC", "EIO")
_BRANCH = f"refs/heads/agent/{ID}"


def _sync(runner: Runner, repo: Repo, method: str) -> list[str]:
    repo.write("kept/inner.txt", "kept\n")
    repo.write("swap", "a file\n")
    repo.commit("more")
    there = make(runner, repo)
    there.write("work.txt", "work\n")
    there.commit("work of the agent")
    there.write("src/lib/util.py", "".join(f"line {n}\n" for n in range(30)).replace("line 20\n", "twenty\n"))
    there.commit("more work")
    make_dirty(there)
    there.git("checkout", "-q", "--", "src/lib/util.py")
    repo.write(".git/info/exclude", "*.log\n")
    there.write("later/untracked.txt", "untracked\n")
    repo.write("src/lib/util.py", "".join(f"line {n}\n" for n in range(30)).replace("line 3\n", "three\n"))
    repo.remove("kept", "swap")
    repo.write("kept", "a file now\n")
    repo.write("a/b/new.txt", "new\n")
    repo.git("add", "-A")
    repo.write("hidden.log", "tracked there, ignored here\n")
    repo.git("add", "-f", "hidden.log")
    repo.git("commit", "-q", "-m", "the base moves on")
    return ["worktree", "sync", ID, method]


def _cleanup(runner: Runner, repo: Repo) -> list[str]:
    there = make(runner, repo)
    there.write("work.txt", "work\n")
    there.commit("work of the agent")
    repo.git("merge", "-q", "--no-ff", "--no-edit", f"agent/{ID}")
    repo.write(".git/info/exclude", "*.log\n")
    there.write("ignored.log", "ignored\n")
    return ["worktree", "cleanup"]


CASES: dict[str, Callable[[Runner, Repo], list[str]]] = {
    "sync": lambda runner, repo: _sync(runner, repo, "--merge"),
    "sync-rebase": lambda runner, repo: _sync(runner, repo, "--rebase"),
    "cleanup": _cleanup,
}
every = pytest.mark.parametrize("field", CASES, indirect=True)


@pytest.fixture
def field(request: pytest.FixtureRequest, runner: Runner, tmp_path: Path) -> WorktreeCase:
    repo = new_repository(tmp_path)
    return prepare(runner, repo, *CASES[request.param](runner, repo))


def _comparable(repo: Repo, found: Snapshot) -> Snapshot:
    """A snapshot in which the tip of the agent's branch is its tree, its parents' number and its subject: commits are
    others in each run."""
    oid = found.refs.get(_BRANCH)
    if oid is None:
        return found
    name = repo.text("log", "-1", "--format=%T %s", oid) + str(len(repo.text("log", "-1", "--format=%P", oid).split()))
    worktrees = {
        each: dataclasses.replace(state, head=dataclasses.replace(state.head, oid=name), status=b"", refs={})
        for each, state in found.worktrees.items()
    }
    return dataclasses.replace(
        found,
        worktrees=worktrees,
        refs={**found.refs, _BRANCH: name},
        listed=found.listed.replace(oid, name),
        main=dataclasses.replace(found.main, refs={}),
    )


def _before_or_after(field: WorktreeCase, before: Snapshot, after: Snapshot, what: str) -> bool:
    """Whether it is after; anything but before or after fails."""
    found = _comparable(field.repo, snapshot(field.repo))
    from_before, from_after = differing(before, found), differing(after, found)
    assert not from_before or not from_after, "\n  ".join(
        [what, "from before:", *from_before[:20], "from after:", *from_after[:20]]
    )
    return not from_after


def _both(field: WorktreeCase) -> tuple[Snapshot, Snapshot]:
    """What the field is before and after; to be called while its objects are there."""
    after = _comparable(field.repo, field.after)
    field.fresh()
    return _comparable(field.repo, field.before), after


def _check(runner: Runner, field: WorktreeCase, before: Snapshot, after: Snapshot, what: str) -> bool:
    """Repair; then it is before or after, sound, and can be undone or done again."""
    for command in (["worktree", "repair"], ["recover"]):
        repaired = runner.run(field.place / "repo", *command)
        assert repaired.code == 0, f"{what}: {repaired}"
    done = _before_or_after(field, before, after, what)
    assert_sound(field.repo, what)
    if not done:
        runner.run_ok(field.place / "repo", *field.argv)
        assert _before_or_after(field, before, after, f"{what}; once more")
    if field.argv[1] == "sync":
        runner.run_ok(field.place / "repo.worktrees" / ID, "undo")
        found = _comparable(field.repo, snapshot(field.repo))
        assert found.refs == before.refs, what
        assert not differing(before, dataclasses.replace(found, records=before.records)), f"{what}: undone"
    else:
        runner.run_ok(field.place / "repo", "worktree", "create", ID, "--revive")
        found = _comparable(field.repo, snapshot(field.repo))
        wanted = dataclasses.replace(before, branches=(), records={})
        assert not differing(wanted, dataclasses.replace(found, branches=(), records={})), f"{what}: revived"
    return done


@pytest.mark.slow
@every
def test_killed(runner: Runner, field: WorktreeCase) -> None:
    before, after = _both(field)
    outcomes = set()
    for count, step in enumerate(sample_steps(field, _BUDGET, beyond=8)):
        field.fresh()
        done = runner.run(field.place / "repo", *field.argv, step=step, mode="kill-group" if count % 2 else "kill")
        if done.code == 0 and len(done.steps) < step:
            continue
        assert done.code == -9, str(done)
        what = f"'{command_line(field.argv)}' killed before step {step} of {len(field.steps)}: {done.steps[-1]}"
        outcomes.add(_check(runner, field, before, after, what))
    assert outcomes == {False, True}


@pytest.mark.slow
@every
def test_failing(runner: Runner, field: WorktreeCase) -> None:
    """A call that fails: the state before, and the reason; or all done."""
    before, after = _both(field)
    for count, step in enumerate(sample_steps(field, _BUDGET)):
        field.fresh()
        error = _ERRORS[count % 2]
        done = runner.run(field.place / "repo", *field.argv, step=step, mode=error)
        what = f"'{command_line(field.argv)}' with {error} at step {step} of {len(field.steps)}: {done}"
        assert done.code in (0, 1), what
        assert "Traceback" not in done.err, what
        # Where it was done, `repair` finishes it: it deletes what was removed, or records what was synced.
        if done.code == 1 and not journal.interrupted(open_workspace(field.place / "repo").context.location):
            _before_or_after(field, before, after, what)
        _check(runner, field, before, after, what)
