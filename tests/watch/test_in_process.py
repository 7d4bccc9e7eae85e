"""A process that watches worktrees for itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from git_agentos.watch import in_process
from git_agentos.watch.in_process import InProcess
from git_agentos.watch.inotify import InotifyWatcher
from tests.support.repo import Repo
from tests.support.waiting import wait_until
from tests.support.watch import QUEUE, SmallQueue


@pytest.fixture
def own(repo: Repo) -> Iterator[InProcess]:
    found = in_process.begin(str(repo.git_dir))
    assert found is not None
    yield found
    found.close()


def test_a_change_makes_another_moment(repo: Repo, own: InProcess) -> None:
    assert own.moments() == {}
    root = str(repo.path)
    own.watch(root)
    wait_until(lambda: own.moments().get(root), "it is watched")
    before = own.moments()[root]
    repo.git("--no-optional-locks", "status", "--porcelain")
    assert own.moments()[root] == before
    repo.write("file.txt", "changed\n")
    assert own.moments()[root] not in (None, before)


def test_what_is_no_worktree_of_the_repository_is_not_watched(repo: Repo, own: InProcess) -> None:
    own.watch("/")
    own.watch(str(repo.path))
    wait_until(lambda: list(own.moments()) == [str(repo.path)], "that of the repository is watched")


def test_where_events_are_lost_nothing_is_known_and_nothing_is_tried_for_a_while(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as long after the next time, up to a limit; a long time without a loss, and it begins anew."""
    clock = SimpleNamespace(now=0.0, sleep=time.sleep)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(in_process, "time", clock)
    watcher = InotifyWatcher()
    watcher._inotify = SmallQueue(watcher._inotify)
    own, root = InProcess(str(repo.git_dir), watcher), str(repo.path)

    def is_watched() -> bool:
        return own.moments().get(root) is not None

    def lose() -> None:
        with own._lock:  # nobody reads meanwhile
            for number in range(QUEUE):
                repo.write(f"n{number}", "")
        assert own.moments() == {root: None}

    try:
        own.watch(root)
        wait_until(is_watched, "it is watched")
        for calm, pause in [*((0, each) for each in (30, 60, 120, 240, 480, 960, 1800, 1800)), (1801, 30), (0, 60)]:
            clock.now += calm
            own._repository.worktrees[root]._again = 0.0
            lose()
            clock.now += pause - 0.5
            assert not is_watched()
            clock.now += 1
            wait_until(is_watched, "it is watched again")
    finally:
        own.close()


def test_after_the_end_nothing_is_known(repo: Repo, own: InProcess) -> None:
    own.watch(str(repo.path))
    own.close()
    own.close()
    own.watch(str(repo.path))
    assert own.moments() == {}
