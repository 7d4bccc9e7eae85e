"""Killed at any step, a command leaves the state before, the state after, or a journal that leads to either."""

from __future__ import annotations

import json

import pytest

from tests.support.faults.restore_cases import CHANGES, every_change, every_checkpoint
from tests.support.faults.server import (
    FaultCase,
    Runner,
    assert_like,
    assert_sound,
    assert_works,
    command_line,
    differing,
    has_journal,
    prepare,
    sample_steps,
    snapshot,
)
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE
from tests.support.state import assert_unchanged

_BUDGET = 5
_WORKS_EVERY = 6


def _mode(step: int) -> str:
    return "kill-group" if step % 2 else "kill"


def _kill(runner: Runner, case: FaultCase, step: int, mode: str) -> str | None:
    """Run the case's command and kill it; what was done, or None where it came to its end before that.

    The number of steps varies a little: an object may need its folder made, or not.
    """
    done = runner.run(case.place, *case.argv, step=step, mode=mode)
    if done.code == 0 and len(done.steps) < step:
        return None
    assert done.code == -9, str(done)
    return f"'{command_line(case.argv)}' killed before step {step}: {done.steps[-1]}"


@pytest.mark.slow
@every_checkpoint
def test_checkpoint(runner: Runner, case: FaultCase) -> None:
    """Nothing at all has changed, and the next one works."""
    case.fresh()
    before = snapshot(case.repo, strict=True)
    for step in sample_steps(case, _BUDGET):
        case.fresh()
        what = _kill(runner, case, step, _mode(step))
        if what is None:
            continue
        runner.run_ok(case.place, "checkpoint", "-m", "the next")
        assert runner.run_ok(case.place, "recover").code == 0
        assert_unchanged(before, snapshot(case.repo, strict=True), what)
        assert_sound(case.repo, what)
        if step % _WORKS_EVERY == 0:
            assert_works(runner, case.repo, what)


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@every_change
def test_change(runner: Runner, case: FaultCase) -> None:
    """`recover` leads to the state after, `recover --abort` to the state before."""
    for count, step in enumerate(sample_steps(case, _BUDGET)):
        for abort in (False, True) if EXHAUSTIVE else (count % 2 == 1,):
            case.fresh()
            what = _kill(runner, case, step, _mode(step + abort))
            if what is None or not _recovers(runner, case, abort, what):
                break
        if what is not None and count % _WORKS_EVERY == 0:
            assert_works(runner, case.repo, what)


def _recovers(runner: Runner, case: FaultCase, abort: bool, what: str) -> bool:
    """Recover from wherever the case's repository is now; whether there was anything to recover."""
    journal = has_journal(case.repo)
    again = ["recover", "--abort"] if abort else ["recover"]
    if journal:
        refused = runner.run(case.place, "restore", "latest")
        assert refused.code == 1, f"{what}: {refused}"
        assert "git agentos recover" in refused.err, f"{what}: {refused}"
    else:
        _before_or_after(case, f"{what}; no journal")
    recovered = runner.run(case.place, *again)
    assert recovered.code == 0, f"{what}: {recovered}"
    if journal:
        assert_like(case.before if abort else case.after, snapshot(case.repo), f"{what}; {command_line(again)}")
    else:
        _before_or_after(case, f"{what}; no journal, and recover")
    assert_sound(case.repo, what)
    return journal


def _before_or_after(case: FaultCase, what: str) -> None:
    found = snapshot(case.repo)
    before, after = differing(case.before, found), differing(case.after, found)
    assert not before or not after, "\n  ".join([what, "from before:", *before[:20], "from after:", *after[:20]])


_KILLED_IN = ("restore", "restore-into-merge", "restore-swapped-types", "restore-nested", "undo")


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True], ids=["finish", "abort"])
@pytest.mark.parametrize("name", _KILLED_IN)
def test_recover(runner: Runner, repo: Repo, name: str, abort: bool) -> None:
    """A recovery that is killed can be recovered, in either direction."""
    first = prepare(runner, repo, *CHANGES[name](runner, repo))
    inside = _with_journal(first)
    # In the middle of the files, and between the index and HEAD.
    for step in (inside[len(inside) // 2], inside[-3]):
        first.fresh()
        runner.run(first.place, *first.argv, step=step, mode="kill-group")
        case = prepare(runner, first.repo, *(["recover", "--abort"] if abort else ["recover"]))
        assert_like(first.before if abort else first.after, case.after, f"recovered from step {step}")
        for second in sample_steps(case, _BUDGET // 2):
            case.fresh()
            killed = _kill(runner, case, second, _mode(second))
            if killed is None:
                continue
            what = f"{name} killed before step {step}; {killed}"
            recovered_abort = abort if second % 3 else not abort
            if has_journal(case.repo):
                again = ["recover", "--abort"] if recovered_abort else ["recover"]
                recovered = runner.run(case.place, *again)
                assert recovered.code == 0, f"{what}: {recovered}"
                wanted = first.before if recovered_abort else first.after
                assert_like(wanted, snapshot(case.repo), f"{what}; {command_line(again)}")
            else:
                assert_like(case.after, snapshot(case.repo), f"{what}; no journal")
                assert runner.run_ok(case.place, "recover").code == 0
                assert_like(case.after, snapshot(case.repo), f"{what}; no journal, and recover")
            assert_sound(case.repo, what)
            if second % _WORKS_EVERY == 0:
                assert_works(runner, case.repo, what)


def _with_journal(case: FaultCase) -> range:
    """The steps before which there is a journal: from its rename to its removal."""
    path = str(case.place / ".git/agentos/journal.json")
    written = next(
        n for n, step in enumerate(case.steps, 1) if step.startswith("os.rename ") and step.endswith(f" {path}")
    )
    return range(written + 1, case.steps.index(f"os.remove {path}") + 2)


@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True], ids=["finish", "abort"])
def test_a_call_with_a_key(runner: Runner, repo: Repo, abort: bool) -> None:
    """Killed at any step and recovered, the same call leads to the state after, and is done only once."""
    words = CHANGES["restore"](runner, repo)
    planned = json.loads(runner.run_ok(repo.path, "--json", *words, "--dry-run").out)
    call = ["--json", *words, "--expected", planned["state"], "--idempotency-key", "k"]
    case = prepare(runner, repo, *call)
    inside = _with_journal(case)
    last = range(inside[-1] - 3, len(case.steps) + 1)  # from before the result is recorded
    for step in sorted({*sample_steps(case, _BUDGET), *last}):
        case.fresh()
        what = _kill(runner, case, step, _mode(step))
        if what is None:
            continue
        assert runner.run(case.place, "recover", *(["--abort"] if abort else [])).code == 0, what
        first = json.loads(runner.run_ok(case.place, *call).out)
        assert_like(case.after, snapshot(case.repo), what)
        assert json.loads(runner.run_ok(case.place, *call).out) == first, what
        assert_like(case.after, snapshot(case.repo), f"{what}; called again")
        made = repo.git("for-each-ref", "--format=%(refname)", "refs/heads/restore/").split()
        assert len(made) == 1, what
        assert_sound(case.repo, what)
