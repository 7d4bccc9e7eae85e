"""git itself fails, is killed, or takes the tool with it, at its K-th call."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.support.faults.restore_cases import CHANGES, CHECKPOINTS
from tests.support.faults.server import (
    Runner,
    assert_like,
    assert_sound,
    differing,
    has_journal,
    prepare,
    snapshot,
)
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE, SEED
from tests.support.state import State, assert_unchanged

# The calls are counted by folders: mkdir is the one step that two shells cannot both make.
_SHIM = """\
#!/bin/sh
n=1
while ! mkdir "$SHIM_COUNT/$n" 2>/dev/null; do n=$((n + 1)); done
if [ "$n" = "$SHIM_AT" ]; then
    case $SHIM_DOES in
    fails) echo 'fatal: the shim says no' >&2; exit 128 ;;
    fails-afterwards) {git} "$@" >/dev/null; echo 'error: too late' >&2; exit 1 ;;
    says-nothing) exit 1 ;;
    is-killed) kill -9 $$ ;;
    kills-the-tool) kill -9 "$PPID"; exit 1 ;;
    esac
fi
exec {git} "$@"
"""
_WAYS = ("fails", "fails-afterwards", "says-nothing", "is-killed", "kills-the-tool")
_NESTED = re.compile(r"\b((?:new-)?nested)/")
_STRIDE = 1 if EXHAUSTIVE else 13


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Path]:
    real = shutil.which("git")
    assert real is not None
    folder = tmp_path / "shim"
    folder.mkdir()
    (folder / "git").write_text(_SHIM.replace("{git}", real))
    (folder / "git").chmod(0o755)
    yield folder


def _except(state: State, paths: Collection[str]) -> State:
    """A state with no regard to nested repositories that a command said it had to leave alone."""
    if not paths:
        return state
    nested = {path: inner for path, inner in state.nested.items() if os.fsdecode(path) not in paths}
    return dataclasses.replace(state, nested=nested, status=b"")


def _environment(shim: Path, at: int, does: str) -> dict[str, str]:
    count = shim / "count"
    shutil.rmtree(count, ignore_errors=True)
    count.mkdir()
    path = f"{shim}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "SHIM_COUNT": str(count), "SHIM_AT": str(at), "SHIM_DOES": does}


def _calls(shim: Path) -> int:
    return len(list((shim / "count").iterdir()))


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@pytest.mark.parametrize("does", _WAYS)
@pytest.mark.parametrize("name", ["restore-into-merge", "restore-nested", "restore-sparse", "undo"])
def test_change(runner: Runner, repo: Repo, shim: Path, name: str, does: str) -> None:
    case = prepare(runner, repo, *CHANGES[name](runner, repo))
    case.fresh()
    runner.run_ok(case.place, *case.argv, env=_environment(shim, 0, does))
    total = _calls(shim)
    assert total > 5
    for at in range(1 + (_WAYS.index(does) + SEED) % _STRIDE, total + 1, _STRIDE):
        case.fresh()
        done = runner.run(case.place, *case.argv, env=_environment(shim, at, does))
        what = f"{name}: git {does} at call {at} of {total}: {done}"
        # Where git itself started git, that is the parent that dies.
        assert done.code in ((-9, 0, 1) if does == "kills-the-tool" else (0, 1)), what
        assert "Traceback" not in done.err, what
        found = snapshot(case.repo)
        if done.code == 0:
            named = _NESTED.findall(done.out + done.err)
            assert_like(_except(case.after, named), _except(found, named), what)
        elif has_journal(case.repo):
            assert done.code == -9 or "git agentos recover" in done.err, what
            abort = at % 2 == 0
            runner.run_ok(case.place, "recover", *(["--abort"] if abort else []))
            assert_like(case.before if abort else case.after, snapshot(case.repo), what)
        elif done.code == 1 or differing(case.after, found):
            assert_like(case.before, found, what)
        runner.run_ok(case.place, "recover")
        assert_sound(case.repo, what)


@pytest.mark.sampled(one_in=4)
@pytest.mark.slow
@pytest.mark.parametrize("does", _WAYS)
@pytest.mark.parametrize("name", ["again", "merge-and-nested"])
def test_checkpoint(runner: Runner, repo: Repo, shim: Path, name: str, does: str) -> None:
    """An error, and nothing changed; never a checkpoint that lacks what git did not tell."""
    case = prepare(runner, repo, *CHECKPOINTS[name](runner, repo))
    case.fresh()
    before = snapshot(case.repo, strict=True)
    runner.run_ok(case.place, *case.argv, env=_environment(shim, 0, does))
    total = _calls(shim)
    for at in range(1, total + 1):
        case.fresh()
        done = runner.run(case.place, *case.argv, env=_environment(shim, at, does))
        what = f"{name}: git {does} at call {at} of {total}: {done}"
        assert "Traceback" not in done.err, what
        assert_unchanged(before, snapshot(case.repo, strict=True), what)
        if does == "kills-the-tool":
            assert done.code in (-9, 0, 1), what
            runner.run_ok(case.place, *case.argv)
            assert_unchanged(before, snapshot(case.repo, strict=True), what)
        elif done.code == 0:
            _assert_complete(runner, case.repo, what)
        else:
            assert done.code == 1, what
        runner.run_ok(case.place, "recover")
        assert_sound(case.repo, what)


def _assert_complete(runner: Runner, repo: Repo, what: str) -> None:
    """What the newest checkpoint holds is the present state."""
    before = snapshot(repo)
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-fdq")
    runner.run_ok(repo.path, "restore", "latest", "--no-branch")
    assert_like(before, snapshot(repo), what)
