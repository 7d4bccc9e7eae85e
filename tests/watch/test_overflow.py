"""More happens at once than the system remembers: the queue is small here, and nobody reads it for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.watch.inotify import InotifyWatcher
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.worktree import WatchedWorktree
from tests.support.repo import Repo
from tests.support.waiting import wait_until
from tests.support.watch import QUEUE, SmallQueue, covers

_FOLDERS = 35  # of a worktree; to list one is four events


@pytest.fixture
def several(repo: Repo) -> Iterator[tuple[WatchedRepository, SmallQueue]]:
    """Three worktrees that are watched. The queue has room for the listing of one, but not for that of all."""
    for number in range(_FOLDERS):
        repo.write(f"many/d{number}/f", "1\n")
    repo.add("many")
    repo.commit("many folders")
    watcher = InotifyWatcher()
    queue = watcher._inotify = SmallQueue(watcher._inotify)
    repository = WatchedRepository(str(repo.git_dir), watcher)
    for name in ("repo", "ada", "bob"):
        if name != "repo":
            repo.git("worktree", "add", "-q", "--detach", f"../{name}")
        assert repository.worktree(str(repo.path.parent / name)) is not None
        repository.read()
    assert _problems(repository) == set() and queue.overflows == 0
    yield repository, queue
    repository.close()


def _problems(repository: WatchedRepository) -> set[str]:
    return {each.problem for each in repository.worktrees.values() if each.problem}


def _asked(repository: WatchedRepository, worktree: WatchedWorktree, token: str) -> frozenset[bytes] | None:
    repository.read()
    return worktree.answer(token).paths


def _wait_until_watched(repository: WatchedRepository) -> None:
    def are_watched() -> bool:
        repository.retry()
        return not _problems(repository)

    wait_until(are_watched, "all are watched again")


def test_no_worktree_has_a_stale_answer_and_all_are_watched_again(
    several: tuple[WatchedRepository, SmallQueue],
) -> None:
    repository, queue = several
    worktrees = list(repository.worktrees.values())
    tokens = [each.answer("").token for each in worktrees]
    for number in range(QUEUE):
        Path(worktrees[0].location.root, f"n{number}").touch()
    for each in worktrees:  # after the queue was full
        Path(each.location.root, "readme.txt").write_text("2\n")
    repository.read()
    assert (_problems(repository), queue.overflows) == ({"more happened at once than the system remembers"}, 1)
    assert all(each.problem for each in worktrees)
    for each, token in zip(worktrees, tokens, strict=True):
        assert _asked(repository, each, token) is None
    _wait_until_watched(repository)
    for _ in range(5):
        repository.read()
        assert _problems(repository) == set()
        repository.retry()
    assert queue.overflows == 1
    for each, token in zip(worktrees, tokens, strict=True):
        assert _asked(repository, each, token) is None
        now = each.answer("").token
        Path(each.location.root, "many/d3/f").write_text("3\n")
        assert _asked(repository, each, now) == frozenset({b"many/d3/f"})


def test_a_worktree_that_appears_at_once(several: tuple[WatchedRepository, SmallQueue]) -> None:
    """A folder with more in it than the queue has room for: `cp -r`, `git checkout`."""
    repository, queue = several
    worktree = next(iter(repository.worktrees.values()))
    token = worktree.answer("").token
    top = Path(worktree.location.root, "new")
    for number in range(3 * QUEUE):
        (top / f"d{number}").mkdir(parents=True)
        (top / f"d{number}" / "f").touch()
    paths = _asked(repository, worktree, token)
    assert covers(paths, f"new/d{3 * QUEUE - 1}/f")
    assert queue.overflows <= 1
    _wait_until_watched(repository)
    token = worktree.answer("").token
    (top / "d7" / "f").write_text("1\n")
    assert covers(_asked(repository, worktree, token), "new/d7/f")
