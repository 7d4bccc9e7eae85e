"""A rollback killed at any step: the next one, or `recover`, finishes it or goes back, and nothing is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import at_rest, run_notes
from tests.support.faults import worktree_cases
from tests.support.faults.server import Runner
from tests.support.rollbacks import RolledBackWorktree, Snapshot, assert_like, prepare, snapshot, work
from tests.support.sampling import EXHAUSTIVE

_BUDGET = 8
_ARGV = ("rollback", "r1")
_WEIGHTY = re.compile(r"journal|last-restore|/index\b|/HEAD|heads/agentos|config.worktree|events.jsonl")


@pytest.fixture
def ground(tmp_path: Path) -> RolledBackWorktree:
    """Everything in a folder of its own, which is copied for every attempt."""
    found = prepare(worktree_cases.new_repository(tmp_path))
    work(found.there)
    found.there.chmod("notes.txt", 0o600)
    found.there.link("build/link", "nowhere")
    return found


def _chosen(steps: list[str], place: Path) -> Iterator[int]:
    if EXHAUSTIVE:
        yield from range(1, len(steps) + 1)
        return
    weighty = [n for n, step in enumerate(steps, 1) if _WEIGHTY.search(step.replace(str(place), ""))]
    picked = set(weighty[:: max(1, len(weighty) // (_BUDGET * 2 // 3))])
    others = [n for n in range(1, len(steps) + 1) if n not in picked]
    yield from sorted(picked | set(others[:: max(1, len(others) // (_BUDGET // 3))]))


class _Attempts:
    """Attempts at the same rollback, each from a copy of the same field."""

    def __init__(self, runner: Runner, ground: RolledBackWorktree) -> None:
        self.runner = runner
        self.ground = ground
        self.place = ground.repo.path.parent
        self.template = self.place.with_name("field.template")
        at_rest.copy(self.place, self.template)
        self.put_notes_back = run_notes.remember()
        self.before = ground.look()
        self.fresh()
        done = runner.run_ok(ground.repo.path, *_ARGV)
        self.steps = done.steps
        ground.assert_fresh("not killed")
        self.after = ground.look()

    def fresh(self) -> None:
        at_rest.copy(self.template, self.place)
        self.put_notes_back()
        time.sleep(0.03)

    def state(self, what: str) -> Snapshot:
        """Where it is: before or after, or it fails."""
        found = snapshot(self.ground.path)
        lines, others = self.before.unlike(found), self.after.unlike(found)
        assert not lines or not others, "\n  ".join([what, "from before:", *lines[:9], "from after:", *others[:9]])
        return self.after if not others else self.before


@pytest.mark.slow
def test_killed(runner: Runner, ground: RolledBackWorktree) -> None:
    attempts = _Attempts(runner, ground)
    there, repo = ground.path, ground.repo
    ends = set()
    for count, step in enumerate(_chosen(attempts.steps, attempts.place)):
        attempts.fresh()
        done = runner.run(repo.path, *_ARGV, step=step, mode="kill-group" if count % 2 else "kill")
        if done.code == 0:
            continue
        assert done.code == -9, str(done)
        what = f"killed before step {step} of {len(attempts.steps)}: {done.steps[-1]}"
        way = count % 3
        if way == 0:
            runner.run_ok(repo.path, *_ARGV)
        else:
            runner.run_ok(there, "recover", *(["--abort"] if way == 2 else []))
        reached = attempts.state(f"{what}; way {way}")
        ends.add((way, reached is attempts.after))
        assert way != 0 or reached is attempts.after, what
        if reached is attempts.before:
            runner.run_ok(repo.path, *_ARGV)
            assert_like(attempts.after, snapshot(there), f"{what}; then again")
        runner.run_ok(there, "undo")
        assert_like(attempts.before, snapshot(there), f"{what}; then undone")
        worktree_cases.assert_sound(repo, what)
    assert {(0, True), (1, True), (2, False)} <= ends, ends


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_fails(runner: Runner, ground: RolledBackWorktree, error: str) -> None:
    """A call that fails: an error that can be understood, and everything as it was, or all done."""
    attempts = _Attempts(runner, ground)
    for step in list(_chosen(attempts.steps, attempts.place))[:: 1 if EXHAUSTIVE else 3]:
        attempts.fresh()
        done = runner.run(ground.repo.path, *_ARGV, step=step, mode=error)
        what = f"{error} at step {step}: {attempts.steps[step - 1]}: {done}"
        assert done.code in (0, 1), what
        assert "Traceback" not in done.err and "bug in git-agentos" not in done.err, what
        if "recover" in done.err:
            runner.run_ok(ground.path, "recover", "--abort")
        reached = attempts.state(what)
        assert done.code == 1 or reached is attempts.after, what
        runner.run_ok(ground.repo.path, *_ARGV)
        ground.assert_fresh(what)
