"""Making and ending worktrees, killed at any step or with a call that fails: `repair` leads to before or after."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.faults.server import Runner, command_line
from tests.support.faults.worktree_cases import (
    CASES,
    ID,
    WorktreeCase,
    assert_sound,
    differing,
    new_repository,
    prepare,
    sample_steps,
    snapshot,
)
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE

_BUDGET = 3
_ERRORS = ("ENOSPC", "EACCES", "EIO")


@pytest.fixture
def field(request: pytest.FixtureRequest, runner: Runner, tmp_path: Path) -> WorktreeCase:
    repo = new_repository(tmp_path)
    return prepare(runner, repo, *CASES[request.param](runner, repo))


every = pytest.mark.parametrize("field", CASES, indirect=True)


def _intents(repo: Repo) -> list[Path]:
    return list((repo.path / ".git/agentos/worktrees").glob("*.json"))


def _before_or_after(field: WorktreeCase, what: str) -> bool:
    """Whether it is after; anything but before or after fails."""
    found = snapshot(field.repo)
    before, after = differing(field.before, found), differing(field.after, found)
    assert not before or not after, "\n  ".join([what, "from before:", *before[:20], "from after:", *after[:20]])
    return not after


def _repairs(runner: Runner, field: WorktreeCase, what: str) -> bool:
    interrupted = _intents(field.repo)
    if interrupted:
        again = runner.run(field.place / "repo", *field.argv)
        assert again.code == 1, f"{what}: {again}"
        assert f"git agentos worktree repair {ID}" in again.err, f"{what}: {again}"
    repaired = runner.run(field.place / "repo", "worktree", "repair")
    assert repaired.code == 0, f"{what}: {repaired}"
    after = _before_or_after(field, f"{what}; repaired: {repaired.out}")
    assert_sound(field.repo, what)
    return after


def _kept(field: WorktreeCase, what: str) -> None:
    """Every commit that was there is still reached by something."""
    repo = field.repo
    for state in field.before.worktrees.values():
        if state.head.oid is not None:
            found = repo.text("for-each-ref", "--contains", state.head.oid)
            assert found, f"{what}: nothing reaches {state.head.oid}"


@pytest.mark.sampled(one_in=12)
@pytest.mark.slow
@every
def test_killed(runner: Runner, field: WorktreeCase) -> None:
    outcomes = set()
    for count, step in enumerate(sample_steps(field, _BUDGET, beyond=12)):
        field.fresh()
        done = runner.run(field.place / "repo", *field.argv, step=step, mode="kill-group" if count % 2 else "kill")
        if done.code == 0 and len(done.steps) < step:
            continue
        assert done.code == -9, str(done)
        what = f"'{command_line(field.argv)}' killed before step {step}: {done.steps[-1]}"
        after = _repairs(runner, field, what)
        outcomes.add(after)
        _kept(field, what)
        if after and field.argv[1] in ("remove", "archive") and count % 3 == 0:
            runner.run_ok(field.place / "repo", "worktree", "create", ID, "--revive")
            # A branch that was deleted has lost its configuration, as it does with git.
            wanted = dataclasses.replace(field.before, branches=())
            lines = differing(wanted, dataclasses.replace(snapshot(field.repo), branches=()))
            assert not lines, "\n  ".join([f"{what}; then revived", *lines[:20]])
    ends = field.argv[1] in ("remove", "archive")
    assert outcomes >= ({False, True} if ends else {False}), "both sides of the point of no return were meant"


@pytest.mark.sampled(one_in=12)
@pytest.mark.slow
@every
def test_fails(runner: Runner, field: WorktreeCase) -> None:
    """A call that fails: an error that can be understood, and everything as it was, or all done."""
    for count, step in enumerate(sample_steps(field, _BUDGET)):
        field.fresh()
        error = _ERRORS[count % len(_ERRORS)]
        done = runner.run(field.place / "repo", *field.argv, step=step, mode=error)
        struck = done.steps[step - 1] if step <= len(done.steps) else "(not reached)"
        what = f"'{command_line(field.argv)}' with {error} at step {step}: {struck}"
        assert done.code in (0, 1), f"{what}: {done}"
        assert "Traceback" not in done.err, f"{what}: {done}"
        assert "bug in git-agentos" not in done.err, f"{what}: {done}"
        if done.code == 0:
            runner.run(field.place / "repo", "worktree", "repair")  # what could not be deleted
            # A reflog that cannot be written is done without.
            found = dataclasses.replace(snapshot(field.repo), branches=field.after.branches)
            lines = differing(field.after, found)
            assert not lines, "\n  ".join([f"{what}: reported success: {done}", *lines[:20]])
        elif "worktree repair" not in done.err and "was created, but its status" not in done.err:
            lines = differing(field.before, snapshot(field.repo))
            assert not lines, "\n  ".join([f"{what}: {done}", *lines[:20]])
        runner.run(field.place / "repo", "worktree", "repair")
        if done.code == 1:
            _before_or_after(field, what)
        assert_sound(field.repo, what)


@pytest.mark.sampled(one_in=12)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["create-ready", "remove", "remove-with-branch", "archive", "revive"])
def test_repair_killed(runner: Runner, tmp_path: Path, name: str) -> None:
    """A repair that is killed can be repaired."""
    repo = new_repository(tmp_path)
    first = prepare(runner, repo, *CASES[name](runner, repo))
    total = len(first.steps)
    moved = [n for n, step in enumerate(first.steps, 1) if "agentos-trash" in step or "agentos/trash/" in step]
    for step in sorted({total * 2 // 3, *(moved[2:5] if EXHAUSTIVE else moved[3:4]), total - 2}):
        first.fresh()
        if runner.run(first.place / "repo", *first.argv, step=step, mode="kill-group").code != -9:
            continue
        second = prepare(runner, first.repo, "worktree", "repair", template="second.template")
        for inner in sample_steps(second, _BUDGET if EXHAUSTIVE else 2):
            second.fresh()
            done = runner.run(second.place / "repo", "worktree", "repair", step=inner, mode="kill-group")
            if done.code != -9:
                continue
            what = f"{name} killed before step {step}; repair killed before step {inner}: {done.steps[-1]}"
            runner.run_ok(second.place / "repo", "worktree", "repair")
            _before_or_after(first, what)
            assert_sound(second.repo, what)
