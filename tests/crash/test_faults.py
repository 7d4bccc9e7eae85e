"""A call that fails at any step: an error that can be understood, and the state before; or the state after.

Where the state is neither, the message names `git agentos recover`, which then leads to either.
"""

from __future__ import annotations

import re

import pytest

from tests.support.faults.restore_cases import every_change, every_checkpoint
from tests.support.faults.server import (
    Ended,
    FaultCase,
    Runner,
    assert_like,
    assert_sound,
    assert_works,
    command_line,
    differing,
    has_journal,
    sample_steps,
    snapshot,
)
from tests.support.state import assert_unchanged

_BYTES = re.compile(r"(?<!\w)b['\"]")
_ERRORS = ("ENOSPC", "EACCES", "EIO")
_BUDGET = 4
_WORKS_EVERY = 6


def _fail(runner: Runner, case: FaultCase, step: int, error: str) -> tuple[Ended, str]:
    """Run the case's command with a step that fails; how it ended, and what was done."""
    done = runner.run(case.place, *case.argv, step=step, mode=error)
    struck = done.steps[step - 1] if step <= len(done.steps) else "(not reached)"
    what = f"'{command_line(case.argv)}' with {error} at step {step}: {struck}"
    _assert_told(done, what)
    return done, what


def _assert_told(done: Ended, what: str) -> None:
    """Success, or an error for people; never a traceback."""
    assert done.code in (0, 1), f"{what}: {done}"
    assert "Traceback" not in done.out + done.err, f"{what}: {done}"
    assert "bug in git-agentos" not in done.err, f"{what}: {done}"
    if done.code == 1:
        assert done.err.strip(), f"{what}: {done}"
        assert not _BYTES.search(done.err), f"{what}: bytes are shown as Python writes them: {done}"


def _assert_settled(runner: Runner, case: FaultCase, done: Ended, what: str, *, abort: bool) -> None:
    """The state is what the command said: after, before, or one that `recover` is needed for."""
    found = snapshot(case.repo)
    if done.code == 0:
        assert_like(case.after, found, f"{what}: reported success")
        assert not has_journal(case.repo), f"{what}: reported success"
    elif has_journal(case.repo):
        assert "git agentos recover" in done.err, f"{what}: a journal is left, and not a word about it: {done}"
        assert "nothing was changed" not in done.err, f"{what}: {done}"
        recovered = runner.run(case.place, "recover", *(["--abort"] if abort else []))
        assert recovered.code == 0, f"{what}: {recovered}"
        assert_like(
            case.before if abort else case.after, snapshot(case.repo), f"{what}, and {command_line(recovered.argv)}"
        )
    elif "nothing was changed" in done.err or differing(case.after, found):
        assert_like(case.before, found, f"{what}: {done}")
    # What it could not clean up itself goes with the next recover.
    recovered = runner.run(case.place, "recover")
    assert recovered.code == 0, f"{what}: {recovered}"
    assert_sound(case.repo, what)


@pytest.mark.slow
@every_checkpoint
def test_checkpoint(runner: Runner, case: FaultCase) -> None:
    case.fresh()
    before = snapshot(case.repo, strict=True)
    for count, step in enumerate(sample_steps(case, _BUDGET)):
        case.fresh()
        done, what = _fail(runner, case, step, _ERRORS[count % len(_ERRORS)])
        taken = runner.run_ok(case.place, "checkpoint", "list", "--json").out
        if done.code == 1:
            assert "killed" not in taken, f"{what}: reported a failure, and is there"
        assert_unchanged(before, snapshot(case.repo, strict=True), what)
        runner.run_ok(case.place, "recover")
        assert_sound(case.repo, what)
        if count % _WORKS_EVERY == 0:
            assert_works(runner, case.repo, what)


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@every_change
def test_change(runner: Runner, case: FaultCase) -> None:
    for count, step in enumerate(sample_steps(case, _BUDGET)):
        case.fresh()
        done, what = _fail(runner, case, step, _ERRORS[count % len(_ERRORS)])
        _assert_settled(runner, case, done, what, abort=count % 2 == 1)
        if count % _WORKS_EVERY == 0:
            assert_works(runner, case.repo, what)
