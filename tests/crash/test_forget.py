"""`forget`, killed at any step or with a call that fails: the state before or after; the next one deletes the rest."""

from __future__ import annotations

import pytest

from git_agentos.checkpoint import log_sync
from git_agentos.workspace import open_workspace
from tests.support.faults.server import FaultCase, Runner, assert_sound, prepare, sample_steps
from tests.support.forgotten import objects, take, timeline, unreachable
from tests.support.repo import Repo
from tests.support.tool import run_ok

_BUDGET = 12
_ERRORS = ("ENOSPC", "EACCES", "EIO")


def _made(repo: Repo) -> list[str]:
    """Checkpoints, some loose and some packed, with entries of the log."""
    repo.write("stashed.txt", "only in the stash\n")
    repo.git("stash", "push", "-q", "--include-untracked")
    repo.git("stash", "drop", "-q")
    run_ok(repo.path, "log", "add", "decision", "decided")
    ids = take(repo, 3)
    repo.git("repack", "-q", "-d")
    run_ok(repo.path, "log", "add", "decision", "decided again")
    return ids + take(repo, 4, first=3)


def _log(repo: Repo) -> list[str]:
    context = open_workspace(repo.path).context
    parts = log_sync.parts_of(context.repository, "main")
    return sorted(entry.id for part in parts for entry in part.entries)


@pytest.mark.sampled(one_in=2)
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "kill-group", "error"])
def test_struck(runner: Runner, repo: Repo, mode: str) -> None:
    ids = _made(repo)
    theirs, entries = unreachable(repo), _log(repo)
    case = prepare(runner, repo, "forget", "--keep-last", "1")
    outcomes = set()
    for count, step in enumerate(sample_steps(case, _BUDGET)):
        case.fresh()
        how = _ERRORS[count % len(_ERRORS)] if mode == "error" else mode
        done = runner.run(case.place, *case.argv, step=step, mode=how)
        what = f"{how} at step {step}: {done}"
        if mode == "error":
            assert done.code in (0, 1), what
            assert "Traceback" not in done.err, what
            assert "bug in git-agentos" not in done.err, what
        elif done.code == 0 and len(done.steps) < step:
            continue
        assert timeline(case.repo) in (ids, ids[-2:]), what
        outcomes.add(len(timeline(case.repo)))
        assert _log(case.repo) == entries, what
        case.repo.git("fsck", "--strict", "--no-dangling")
        assert theirs <= objects(case.repo), what
        _finish(runner, case, what)
        assert timeline(case.repo) == ids[-2:], what
        assert unreachable(case.repo) == theirs, what
        assert not set(ids[:-2]) & objects(case.repo), what
        assert _log(case.repo) == entries, what
        runner.run_ok(case.place, "recover")
        assert_sound(case.repo, what)
        runner.run_ok(case.place, "restore", ids[-2], "--no-branch")
        runner.run_ok(case.place, "undo")
    assert outcomes == {len(ids), 2}, "both sides of the move were meant"


def _finish(runner: Runner, case: FaultCase, what: str) -> None:
    again = runner.run(case.place, *case.argv)
    assert again.code == 0, f"{what}; then: {again}"
