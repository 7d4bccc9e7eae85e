"""A run that was begun in one clone goes on in another one, with all that it has done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos.errors import RunError
from git_agentos.run import adoption, commands, query, spec
from git_agentos.run.adoption import Begun
from git_agentos.run.events import Run, Step
from git_agentos.run.spec import RunSpec
from git_agentos.run.step import SilentObserver
from tests.support.repo import Repo, git
from tests.support.runs import context_of


class Killed(BaseException):
    """The process ends."""


class KilledAfter(SilentObserver):
    """Ends the process after a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def step_ended(self, run: Run, step: Step) -> None:
        if step.n == self._step:
            raise Killed


def begun_elsewhere(repo: Repo, wanted: RunSpec, after: int) -> Repo:
    """Begin a run in `repo`, and kill it after a step; another clone, which has its timeline at refs/t and its evidence
    at refs/e."""
    with pytest.raises(Killed):
        commands.begin(context_of(repo), wanted, KilledAfter(after), commits=True)
    other = Repo(repo.path.with_name("other"))
    git(repo.path, "clone", "-q", ".", str(other.path))
    refs = {"refs/agentos/timelines/run-r": "refs/t", "refs/agentos/runs/r": "refs/e"}
    other.git("fetch", "-q", "origin", *(f"{theirs}:{ours}" for theirs, ours in refs.items()))
    return other


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_goes_on_in_another_clone(repo: Repo, tmp_path: Path, after: int, fails: bool) -> None:
    """Whichever step was the last one that ended, and whether it has failed."""
    folder = tmp_path / "counts"
    folder.mkdir()
    agent = f"echo x >>'{folder}/agent'; echo work >>f"
    last = f"echo x >>'{folder}/last'; " + (f"[ $(wc -l <'{folder}/last') = 2 ]" if fails else "grep -q work f")
    wanted = spec.from_options([agent], ["grep -q work f", last], run_id="r", max_attempts=2)
    wanted = replace(wanted, base_ref=repo.oid("HEAD"))
    other = begun_elsewhere(repo, wanted, after)
    context = context_of(other)
    adoption.adopt(context, Begun("r", other.oid("refs/t"), other.oid("refs/e")), wanted, origin="desk")
    found = query.show(context, "r")
    assert found.state == "interrupted"
    assert [step.n for step in found.steps if step.outcome is not None] == list(range(1, after + 1))
    done = commands.go_on(context, "r", commits=True)
    assert done.state == "passed"
    agents = 2 if fails else 1  # each attempt has one
    assert len((folder / "agent").read_text().split()) == agents
    assert other.text("show", f"{done.context.branch_name}:f").split() == ["work"] * agents if done.context else None
    assert not done.problems
    assert [step.n for step in done.steps] == list(range(1, 3 * agents + 1))


@pytest.mark.parametrize("lacks", ["the last", "one between"])
def test_a_run_whose_timeline_lacks_a_checkpoint_is_not_taken_over(repo: Repo, lacks: str) -> None:
    """A run that goes on could not be rolled back to it; and nothing of the run is left here."""
    wanted = replace(spec.from_options(["echo 1 >f", "echo 2 >f"], [], run_id="r"), base_ref=repo.oid("HEAD"))
    other = begun_elsewhere(repo, wanted, 2)
    tip = other.oid("refs/t~1" if lacks == "the last" else "refs/t")
    if lacks == "one between":
        data = other.git("cat-file", "commit", tip)
        assert data.count(f"parent {other.oid('refs/t~1')}\n".encode()) == 1
        data = data.replace(other.oid("refs/t~1").encode(), other.oid("refs/t~2").encode())
        tip = other.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
    before = other.text("for-each-ref"), other.text("worktree", "list")
    context = context_of(other)
    with pytest.raises(RunError, match="not all of its checkpoints are here"):
        adoption.adopt(context, Begun("r", tip, other.oid("refs/e")), wanted, origin="desk")
    assert (other.text("for-each-ref"), other.text("worktree", "list")) == before
    assert not query.list_runs(context)
