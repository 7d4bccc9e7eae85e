"""`forget --secret` between a command that was killed and the one that goes on with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.support.faults.server import Runner, has_journal, prepare
from tests.support.forgotten import holders
from tests.support.repo import Repo
from tests.support.tool import run_ok

SECRET = "Blue-Horse_77"


@pytest.fixture
def given(runner: Runner) -> Iterator[Runner]:
    """The runner, whose commands get the secret."""
    runner.stdin = SECRET + "\n"
    yield runner
    runner.stdin = ""


@pytest.mark.parametrize("abort", [False, True])
def test_a_restore(given: Runner, repo: Repo, abort: bool) -> None:
    repo.write("notes.txt", f"then {SECRET}\n")
    repo.write("new.txt", "then\n")
    target = run_ok(repo.path, "checkpoint", "-m", "target")["id"]
    repo.write("notes.txt", f"now {SECRET}\n")
    repo.write("new.txt", "now\n")
    case = prepare(given, repo, "restore", target, "--no-branch")
    renames = [n for n, each in enumerate(case.steps, 1) if "rename" in each and "new.txt" in each]
    case.fresh()
    given.run(case.place, *case.argv, step=renames[0], mode="kill")
    assert has_journal(case.repo)
    given.run_ok(case.place, "forget", "--secret")
    given.run_ok(case.place, "recover", *(["--abort"] if abort else []))
    assert case.repo.read("new.txt") == (b"now\n" if abort else b"then\n")
    case.repo.write("notes.txt", "")
    given.run_ok(case.place, "forget", "--secret")
    assert holders(case.repo, SECRET.encode()) == []
    case.repo.git("fsck", "--strict", "--no-dangling")


def test_a_run(given: Runner, repo: Repo) -> None:
    """Its spec, which is signed, has the secret; what is resumed has the placeholder."""
    words = ("run", "start", "--id", "r-1", "--no-cleanup", "--agent", f"echo '{SECRET}' >> out.txt", "-q")
    case = prepare(given, repo, *words)
    agent = [n for n, each in enumerate(case.steps, 1) if "001-agent" in each]
    case.fresh()
    shutil.rmtree(case.place.parent / f"{case.place.name}.worktrees")
    given.run(case.place, *case.argv, step=agent[-1], mode="kill")
    assert any("agentos/runs/r-1.json" in each for each in holders(case.repo, SECRET.encode()))
    given.run_ok(case.place, "forget", "--secret")
    worktree = Repo(case.place.parent / f"{case.place.name}.worktrees/run-r-1")
    (worktree.path / "out.txt").unlink(missing_ok=True)
    given.run_ok(case.place, "forget", "--secret")
    assert holders(case.repo, SECRET.encode()) == []
    given.run_ok(case.place, "run", "resume", "r-1", "-q")
    assert run_ok(case.place, "run", "show", "r-1")["state"] == "passed"
    verified = run_ok(case.place, "run", "verify", "r-1")
    assert (verified["problems"], verified["rewritten"]) == ([], True)
