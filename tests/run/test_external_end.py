"""An orchestrator ends the run that it drives through the workspace service: accepted, failed, cancelled, abandoned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from git_agentos import GitWorktreeWorkspaceService, NullWorkspaceService
from git_agentos.errors import LockedError, RunError, UsageError
from git_agentos.run import accept, commands, evidence_store, lock, workspace
from git_agentos.run.events import Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.workspace import WorkspaceService
from git_agentos.worktree import creation
from tests.support.repo import Repo
from tests.support.runs import context_of, start


def drive(repo: Repo, run_id: str = "r", **fields: Any) -> tuple[GitWorktreeWorkspaceService, Repo]:
    """A run with something done in it, and its worktree."""
    service = GitWorktreeWorkspaceService(repo.path, guard=False, tool="maestro", **fields)
    inside = Repo(Path(service.prepare_pre_run(run_id=run_id).worktree_path))
    inside.write("committed.txt", "committed\n")
    inside.commit("work")
    inside.write("new.txt", "new\n")
    return service, inside


def as_shown(repo: Repo, run: Run) -> None:
    """What a method returned is what everybody else is told."""
    assert commands.show(context_of(repo), run.run_id) == run
    checked = evidence_store.verify(context_of(repo), run.run_id)
    assert (checked.ok, checked.problems) == (True, [])


def test_accepted(repo: Repo) -> None:
    service, inside = drive(repo)
    run, merge = service.accept()
    assert (run.state, run.accepted_into, run.merge_commit) == ("accepted", "main", merge.merge_commit)
    assert (merge.merged, repo.oid("main"), run.reason) == (True, merge.merge_commit, None)
    assert (repo.read("new.txt"), repo.read("committed.txt")) == (b"new\n", b"committed\n")
    as_shown(repo, run)
    for again in (service.accept, service.cancel, service.abandon):
        with pytest.raises(RunError, match="has ended: accepted"):
            again()
    assert inside.path.is_dir()


def test_accepted_and_cleaned_up_by_another_process(repo: Repo) -> None:
    _, inside = drive(repo, branch="feat/x")
    run = GitWorktreeWorkspaceService(repo.path, run_id="r").accept(squash=True, cleanup=True).run
    assert (run.state, run.archive is not None, inside.path.exists()) == ("accepted", True, False)
    assert repo.text("for-each-ref", "refs/heads/feat") == ""
    as_shown(repo, run)


def test_a_conflict_leaves_it_open(repo: Repo) -> None:
    service, inside = drive(repo)
    repo.write("new.txt", "another\n")
    repo.commit("meanwhile")
    head, before = repo.oid(), (inside.oid(), inside.text("status", "--porcelain"))
    run, merge = service.accept()
    assert ([each.files for each in merge.conflicts], run.state, repo.oid()) == ([["new.txt"]], "open", head)
    assert (inside.oid(), inside.text("status", "--porcelain")) == before
    assert service.end("failed", "conflicts").reason == "conflicts"


@pytest.mark.parametrize(("state", "roll_back"), [("passed", False), ("failed", True), ("cancelled", False)])
def test_ended(repo: Repo, state: str, roll_back: bool) -> None:
    service, inside = drive(repo)
    run = service.end(state, "because", roll_back=roll_back)
    assert (run.state, run.reason, run.rolled_back_to) == (state, "because", "pre_run" if roll_back else None)
    assert (inside.path / "new.txt").exists() is not roll_back
    as_shown(repo, run)


@pytest.mark.parametrize("done", ["nothing", "merged", "ended", "accepted"])
def test_accepted_after_a_kill(repo: Repo, monkeypatch: pytest.MonkeyPatch, done: str) -> None:
    """It is killed when some of it is done; the next call finishes that, and merges nothing twice."""
    service, _ = drive(repo)
    steps = {"nothing": (workspace, "merge_validated"), "merged": (Evidence, "event"), "ended": (Evidence, "event")}
    owner, name = steps.get(done, (workspace, "seal_run"))
    real, calls = getattr(owner, name), [done == "ended"]

    def strike(*args: Any, **fields: Any) -> Any:
        if calls.pop() if calls else False:
            return real(*args, **fields)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(owner, name, strike)
        service.accept()
    head = repo.oid()
    later = GitWorktreeWorkspaceService(repo.path, run_id="r")
    if done == "accepted":
        run = accept.accept(context_of(repo), "r").run  # as `run accept` seals it
    else:
        run, merge = later.accept()
        assert merge.merged is (done == "nothing")
        head = repo.oid() if done == "nothing" else head
    assert (run.state, run.merge_commit, repo.oid()) == ("accepted", head, head)
    as_shown(repo, run)


def test_accepted_later(repo: Repo) -> None:
    service, _ = drive(repo)
    assert service.end("passed").state == "passed"
    run = service.accept().run
    assert (run.state, repo.read("new.txt")) == ("accepted", b"new\n")
    as_shown(repo, run)


def test_abandoned(repo: Repo) -> None:
    """Nothing of it stays in the way, and nothing is lost."""
    service, inside = drive(repo)
    run = service.abandon("the ticket was closed")
    assert (run.state, run.reason, run.problems) == ("cancelled", "the ticket was closed", [])
    assert (inside.path.exists(), repo.text("branch", "--list", "agentos/*")) == (False, "")
    as_shown(repo, run)
    creation.create(context_of(repo), "run-r", revive=True)
    assert (inside.read("new.txt"), inside.read("committed.txt")) == (b"new\n", b"committed\n")


def test_run_is_ended_only_by_its_driver(repo: Repo) -> None:
    service, _ = drive(repo)
    with pytest.raises(UsageError, match="cannot end as 'accepted'"):
        service.end("accepted")
    with lock.hold(context_of(repo).location, "r"):
        with pytest.raises(LockedError):
            service.cancel()
        held = GitWorktreeWorkspaceService(repo.path, run_id="r", held=True)
        assert held.cancel().state == "cancelled"
    start(repo, "echo x >x", run_id="kernels", guard=False)
    GitWorktreeWorkspaceService(repo.path, guard=False, tool="tdd").prepare_pre_run(run_id="tdds")
    for run_id, why in (("kernels", "has ended"), ("tdds", "driven by 'tdd'"), ("mistyped", "there is no run")):
        with pytest.raises(RunError, match=why):
            GitWorktreeWorkspaceService(repo.path, run_id=run_id).cancel()
    with pytest.raises(RunError, match="no workspace yet"):
        GitWorktreeWorkspaceService(repo.path).cancel()


def test_the_null_workspace_ends_too(tmp_path: Path) -> None:
    def ended(how: str, *words: str) -> Run:
        service: WorkspaceService = NullWorkspaceService(tmp_path)
        service.prepare_pre_run(run_id="r")
        done = getattr(service, how)(*words)
        with pytest.raises(RunError, match="has ended"):
            service.cancel()
        run: Run = done.run if how == "accept" else done
        return run

    states = [ended(*words).state for words in (("accept",), ("cancel",), ("abandon",), ("end", "failed", "no"))]
    assert states == ["accepted", "cancelled", "cancelled", "failed"]
    assert os.listdir(tmp_path) == []
