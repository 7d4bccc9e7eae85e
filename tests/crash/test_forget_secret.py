"""`forget --secret`, killed at any step or with a call that fails: each checkpoint is as before or as afterwards, and
the same command, given again, leaves the secret nowhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.run import evidence_store
from tests.support.faults.server import Runner, assert_sound, prepare, sample_steps
from tests.support.forgotten import holders, objects, timeline, unreachable
from tests.support.repo import Repo
from tests.support.runs import context_of, start, worktree
from tests.support.tool import run_ok

SECRET = "Blue-Horse_77"
_BUDGET = 16
_ERRORS = ("ENOSPC", "EACCES", "EIO")


@pytest.fixture
def given(runner: Runner) -> Iterator[Runner]:
    """The runner, whose commands get the secret."""
    runner.stdin = SECRET + "\n"
    yield runner
    runner.stdin = ""


def _made(repo: Repo) -> tuple[list[str], set[str]]:
    """Checkpoints with and without the secret, log entries, the evidence of a run; and unreachable objects of the
    user's."""
    repo.write("stashed.txt", "only in the stash\n")
    repo.git("stash", "push", "-q", "--include-untracked")
    repo.git("stash", "drop", "-q")
    theirs = unreachable(repo)
    made = start(repo, f"echo {SECRET} > secret.txt; echo {SECRET}", run_id="r-1", cleanup=False)
    worktree(made).path.joinpath("secret.txt").unlink()
    ids = []
    for number, text in enumerate(["none", SECRET, "none again", SECRET * 2]):
        repo.write("notes.txt", f"{text} {number}\n")
        run_ok(repo.path, "log", "add", "decision", f"because of {text}")
        ids.append(run_ok(repo.path, "checkpoint", "-m", f"{text} {number}")["id"])
    repo.git("repack", "-q", "-d")
    repo.write("notes.txt", "nothing any more\n")
    return ids, theirs


def _notes() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git-agentos/runs"


@pytest.mark.sampled(one_in=2)
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "kill-group", "error"])
def test_struck(given: Runner, repo: Repo, tmp_path: Path, mode: str) -> None:
    ids, theirs = _made(repo)
    kept = tmp_path / "notes"
    shutil.copytree(_notes(), kept)  # of how long the record is: beside the repository
    case = prepare(given, repo, "forget", "--secret")
    after = timeline(case.repo)
    assert holders(case.repo, SECRET.encode(), _notes()) == []
    for count, step in enumerate(sample_steps(case, _BUDGET)):
        case.fresh()
        shutil.copytree(kept, _notes(), dirs_exist_ok=True)
        how = _ERRORS[count % len(_ERRORS)] if mode == "error" else mode
        done = given.run(case.place, *case.argv, step=step, mode=how)
        what = f"{how} at step {step}: {done}"
        if mode == "error":
            assert done.code in (0, 1), what
            assert "Traceback" not in done.err, what
            assert "bug in git-agentos" not in done.err, what
        elif done.code == 0 and len(done.steps) < step:
            continue
        assert timeline(case.repo) in (ids, after), what
        case.repo.git("fsck", "--strict", "--no-dangling")
        assert theirs <= objects(case.repo), what
        # Another `forget` does what needs no secret: the evidence is whole again.
        given.run_ok(case.place, "forget", "--keep-last", "99")
        verified = evidence_store.verify(context_of(case.repo), "r-1")
        assert (verified.problems, verified.ok) == ([], True), what
        again = given.run(case.place, *case.argv)
        assert again.code == 0, f"{what}; then: {again}"
        assert timeline(case.repo) == after, what
        assert holders(case.repo, SECRET.encode(), _notes()) == [], what
        assert theirs <= unreachable(case.repo), what
        verified = evidence_store.verify(context_of(case.repo), "r-1")
        assert (verified.problems, verified.ok, verified.rewritten) == ([], True, True), what
        given.run_ok(case.place, "recover")
        assert_sound(case.repo, what)
        given.run_ok(case.place, "restore", ids[1], "--no-branch")
        given.run_ok(case.place, "undo")


def test_what_did_not_finish_is_said(given: Runner, repo: Repo) -> None:
    _made(repo)
    case = prepare(given, repo, "forget", "--secret")
    case.fresh()
    step = next(n for n, each in enumerate(case.steps, 1) if "rename" in each and "refs/agentos/timelines" in each)
    given.run(case.place, *case.argv, step=step + 1, mode="kill")
    said = run_ok(case.place, "forget", "--keep-last", "99")["unreachable"]
    assert len(said) == 1
    assert "that did not finish: give it the same secrets or paths again" in said[0]
    given.run_ok(case.place, *case.argv)
    assert run_ok(case.place, "forget", "--keep-last", "99")["unreachable"] == []
