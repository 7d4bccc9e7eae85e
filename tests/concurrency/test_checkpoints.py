"""Many checkpoints at once, while git commits, packs and fetches: none is lost, none fails, timelines stay linear."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.concurrent_processes import (
    assert_restorable,
    assert_timeline,
    assert_whole,
    git_retrying,
    in_background,
    workers,
)
from tests.support.repo import Repo, git

pytestmark = pytest.mark.slow


class _Disturbance:
    """git at work in the same repository. With `careful`, one git command at a time: `gc --prune=now` takes what other
    git commands are about to use (git-gc(1), NOTES), which is none of our doing.
    """

    def __init__(self, repo: Repo, gc: list[str], *, careful: bool) -> None:
        self.repo = repo
        self.gc_options = gc
        self.lock = threading.Lock() if careful else None
        self.remote = Repo.init(repo.scratch / "remote")
        self.remote.write("there.txt", "there\n")
        self.remote.commit("there")
        repo.git("remote", "add", "origin", str(self.remote.path))

    def _git(self, where: Path, *args: str) -> None:
        if self.lock is None:
            git_retrying(where, *args)
            return
        with self.lock:
            git_retrying(where, *args)

    def commit(self, number: int) -> None:
        self.repo.write("committed.txt", f"{number}\n")
        self._git(self.repo.path, "add", "committed.txt")
        self._git(self.repo.path, "commit", "-q", "-m", f"commit {number}")

    def gc(self, number: int) -> None:
        self._git(self.repo.path, "gc", "-q", *self.gc_options)

    def fetch(self, number: int) -> None:
        self.remote.write("there.txt", f"{number}\n")
        self.remote.commit(f"there {number}")
        self._git(self.repo.path, "fetch", "-q", "origin")


@pytest.mark.parametrize("gc", [[], ["--prune=now"]], ids=["gc", "gc-prune-now"])
def test_32_processes_in_one_worktree(repo: Repo, gc: list[str]) -> None:
    disturbance = _Disturbance(repo, gc, careful=bool(gc))
    repo.write("untracked.txt", "untracked\n")
    repo.append("notes.txt", "unstaged\n")
    with workers() as people:
        for _ in range(32):
            people.add("checkpoint", repo.path, 2)
        people.begin()
        with in_background(disturbance.commit, disturbance.gc, disturbance.fetch) as failures:
            turns = people.finish()
    assert failures == []
    assert [turn.error for each in turns for turn in each if turn.error] == []
    ids = [turn.id for each in turns for turn in each if turn.id]
    assert len(ids) == 64
    assert_timeline(repo.path, "main", ids)
    assert_whole(repo.path)
    assert_restorable(repo.path, ids[::13])
    repo.git("gc", "-q", "--prune=now")
    assert_whole(repo.path)
    assert_restorable(repo.path, ids[1::13])


@pytest.mark.parametrize("gc", [[], ["--prune=now"]], ids=["gc", "gc-prune-now"])
def test_16_worktrees_at_once(repo: Repo, gc: list[str]) -> None:
    disturbance = _Disturbance(repo, gc, careful=bool(gc))
    linked = []
    for number in range(16):
        path = repo.scratch / f"dev-{number:03}"
        repo.git("worktree", "add", "-q", "--detach", str(path))
        worktree = Repo(path)
        worktree.write("own.txt", f"of worktree {number}\n")
        worktree.write("readme.txt", f"changed in worktree {number}\n")
        linked.append(worktree)
    with workers() as people:
        for worktree in linked:
            people.add("checkpoint", worktree.path, 3)
        people.begin()
        with in_background(disturbance.commit, disturbance.gc, disturbance.fetch) as failures:
            turns = people.finish()
    assert failures == []
    assert [turn.error for each in turns for turn in each if turn.error] == []
    assert_whole(repo.path)
    for number, (worktree, each) in enumerate(zip(linked, turns, strict=True)):
        ids = [turn.id for turn in each if turn.id]
        assert len(ids) == 3
        assert_timeline(worktree.path, worktree.path.name, ids)
        for oid in ids:
            assert git(worktree.path, "show", f"{oid}^3:own.txt") == f"of worktree {number}\n".encode()
            assert git(worktree.path, "show", f"{oid}:readme.txt") == f"changed in worktree {number}\n".encode()
    for worktree, each in list(zip(linked, turns, strict=True))[::5]:
        worktree.git("reset", "-q", "--hard")
        assert_restorable(worktree.path, [turn.id for turn in each if turn.id][-1:])
