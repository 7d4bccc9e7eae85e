"""A run whose kernel is killed before any of its steps can be resumed, and ends as if nothing had happened; or it
can be rolled back. A step is a call that changes a file or starts a program (`tests.support.faults.injector`)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.run import commands, evidence_store
from tests.support.faults.server import Runner
from tests.support.repo import Repo, filled
from tests.support.runs import IS_RIGHT, LEARNS, assert_no_process_left, context_of, outcomes, processes_of, worktree
from tests.support.sampling import EXHAUSTIVE, evenly

ID = "T-1"
RUN = (
    "run", "start", "--id", ID, "--agent", LEARNS + "git add -A; git commit -qm mine; echo more > more",
    "--validate", IS_RIGHT, "--max-attempts", "2", "--retry-from", "pre_run", "-q",
)  # fmt: skip
ENDED = [("agent", "ok"), ("validate", "failed"), ("agent", "ok"), ("validate", "ok")]
STRIDE = 7 if EXHAUSTIVE else 430


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started


@pytest.mark.slow
def test_killed_at_any_step(runner: Runner, tmp_path: Path) -> None:
    filled(tmp_path / "template" / "repo")
    place = tmp_path / "field"
    repo = fresh(tmp_path / "template", place)
    total = len(runner.run_ok(repo.path, *RUN).steps)
    check(repo, "nothing happened")
    reached = set()
    for count, step in enumerate(evenly(list(range(1, total)), total // STRIDE)):
        repo = fresh(tmp_path / "template", place)
        done = runner.run(repo.path, *RUN, step=step, mode="kill-group" if count % 2 else "kill")
        if done.code == 0 and len(done.steps) < step:
            continue  # two runs do not make the same number of steps
        assert done.code == -9, str(done)
        what = f"killed before step {step}: {done.steps[-1]}"
        assert_no_process_left(repo, ID)
        found = recorded(repo)
        reached.add(found[-1] if found else "nothing")
        if "prepared" in found and count % 3 == 1:
            take_back(repo, what)
        go_on(runner, repo, found, what)
        check(repo, what)
    assert len(reached) > 1, "it was killed at several stages"


def fresh(template: Path, place: Path) -> Repo:
    if place.exists():
        shutil.rmtree(place)
    subprocess.run(["cp", "-a", str(template), str(place)], check=True)
    return Repo(place / "repo")


def recorded(repo: Repo) -> list[str]:
    """What is on record of the run."""
    location = context_of(repo).location
    return (
        [each["event"] for each in evidence_store.open_existing(location, ID).events()]
        if ID in evidence_store.ids(location)
        else []
    )


def go_on(runner: Runner, repo: Repo, found: list[str], what: str) -> None:
    if not found:
        done = runner.run(repo.path, *RUN)
    elif "ended" in found and recorded(repo)[-1] == "sealed":
        return
    else:
        done = runner.run(repo.path, "run", "resume", ID, "-q")
    assert done.code == 0, f"{what}: {done}"


def take_back(repo: Repo, what: str) -> None:
    """Back to where it began; a run that had passed is made to pass again by undoing that."""
    context = context_of(repo)
    state = commands.show(context, ID).state
    done = commands.rollback(context, ID, "pre_run")
    inside = Repo(Path(done.worktree_path))
    assert (inside.oid(), inside.text("status", "--porcelain")) == (repo.oid(), ""), what
    assert processes_of(repo, ID) == [], what
    if state == "passed":
        open_workspace(inside.path).undo()


def check(repo: Repo, what: str) -> None:
    """The run has passed, and nothing shows that it did not do so at once."""
    run = commands.show(context_of(repo), ID)
    assert (run.state, outcomes(run), run.problems) == ("passed", ENDED, []), what
    inside = worktree(run)
    assert (inside.read("answer.txt"), inside.exists("more"), inside.exists("first.txt")) == (
        b"right\n",
        True,
        False,
    ), what
    assert inside.text("log", "--format=%s", f"{repo.oid()}..") == "mine", what
    checked = evidence_store.verify(context_of(repo), ID)
    assert checked.ok, (what, checked.problems)
    left = [path for path in repo.git_dir.rglob("*.lock") if "objects" not in path.parts]
    left += (repo.git_dir / "agentos/worktrees").glob("*.json")
    left += (repo.git_dir / "agentos/runs").glob("*.json*")
    assert not left, what
    assert repo.try_git("fsck", "--strict", "--no-dangling") == 0, what
