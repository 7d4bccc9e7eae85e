"""A real file system that is full, with a little more room each time: no write at all, some, nearly all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.disk import fill_disk
from tests.support.faults.restore_cases import CHANGES, CHECKPOINTS
from tests.support.faults.server import (
    Runner,
    assert_like,
    assert_sound,
    assert_works,
    differing,
    has_journal,
    prepare,
    snapshot,
)
from tests.support.repo import filled
from tests.support.sampling import EXHAUSTIVE

_PAGE = 4096
_TOLD = re.compile("no space left|out of diskspace", re.IGNORECASE)  # in our words or in git's
_ROOM = 96  # pages: more than any of the commands takes


def _rooms() -> range:
    return range(0, _ROOM, 1 if EXHAUSTIVE else 14)


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["restore", "restore-into-merge", "restore-swapped-types", "restore-nested", "undo"])
def test_change(runner: Runner, small_disk: Path, name: str) -> None:
    repo = filled(small_disk / "repo")
    case = prepare(runner, repo, *CHANGES[name](runner, repo))
    codes = set()
    for pages in _rooms():
        case.fresh()
        filler = fill_disk(small_disk, pages * _PAGE)
        done = runner.run(case.place, *case.argv)
        filler.unlink()
        codes.add(done.code)
        what = f"{name} with {pages} pages: {done}"
        assert done.code in (0, 1), what
        assert "Traceback" not in done.err, what
        if done.code == 0:
            assert_like(case.after, snapshot(case.repo), what)
        elif has_journal(case.repo):
            assert "git agentos recover" in done.err, what
            abort = pages % 2 == 0
            runner.run_ok(case.place, "recover", *(["--abort"] if abort else []))
            assert_like(case.before if abort else case.after, snapshot(case.repo), what)
        else:
            assert _TOLD.search(done.err), what
            assert_like(case.before, snapshot(case.repo), what)
        runner.run_ok(case.place, "recover")
        assert_sound(case.repo, what)
    assert codes == {0, 1}, "the room is meant to be too small at first, and large enough in the end"
    assert_works(runner, case.repo, name)


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint(runner: Runner, small_disk: Path, name: str) -> None:
    repo = filled(small_disk / "repo")
    case = prepare(runner, repo, *CHECKPOINTS[name](runner, repo))
    codes = set()
    for pages in _rooms():
        case.fresh()
        filler = fill_disk(small_disk, pages * _PAGE)
        done = runner.run(case.place, *case.argv)
        filler.unlink()
        codes.add(done.code)
        what = f"{name} with {pages} pages: {done}"
        assert done.code in (0, 1), what
        assert "Traceback" not in done.err, what
        if done.code == 1:
            assert _TOLD.search(done.err), what
        assert not differing(case.before, snapshot(case.repo)), what
        runner.run_ok(case.place, "recover")
        assert_sound(case.repo, what)
    assert codes == {0, 1}, "the room is meant to be too small at first, and large enough in the end"
    assert_works(runner, case.repo, name)
