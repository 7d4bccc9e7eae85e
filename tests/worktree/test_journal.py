"""What is written down of a command on a worktree, and whom it belongs to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import LockedError
from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.worktree import journal
from tests.support.repo import Repo


@pytest.fixture
def location(repo: Repo) -> Location:
    return open_workspace(repo.path).context.location


def begin(location: Location, id_: str = "dev-001") -> journal.WorktreeJournal:
    with worktrees.lock(location):
        return journal.start(location, id_, "remove")


def test_reader_is_not_taken_for_the_owner(location: Location) -> None:
    """While one process asks whether the owner lives, another one that asks gets the same answer."""
    begun = begin(location)
    journal.release(begun)
    owner = os.open(begun.path.removesuffix(".json") + ".owner", os.O_RDONLY)
    fcntl.flock(owner, fcntl.LOCK_SH)  # as one who looks has it
    assert [each.id for each in journal.interrupted(location)] == ["dev-001"]
    os.close(owner)


def test_an_owner_that_lives_is_seen(location: Location) -> None:
    begun = begin(location)
    assert journal.interrupted(location) == []
    with pytest.raises(LockedError):
        begin(location)
    journal.remove(begun)
    assert journal.find_all(location) == []


@pytest.mark.parametrize("instead", [os.mkdir, lambda path: os.symlink("/etc/passwd", path), os.mkfifo])
def test_something_else_in_place_of_the_lock(location: Location, instead: object) -> None:
    begun = begin(location)
    journal.release(begun)
    owner = Path(begun.path.removesuffix(".json") + ".owner")
    owner.unlink()
    assert callable(instead)
    instead(owner)
    [found] = journal.interrupted(location)
    with worktrees.lock(location):
        adopted = journal.take_over(found)
    assert adopted is not None
    journal.remove(adopted)
    assert journal.find_all(location) == []
    journal.remove(begin(location))


def test_only_locks_that_nobody_holds_are_removed(location: Location) -> None:
    begun = begin(location)
    os.unlink(begun.path)  # as if it had not been written yet
    with worktrees.lock(location):
        journal.remove_unused(location)
    assert journal.without_journal(location) == ["dev-001"]
    journal.release(begun)
    with worktrees.lock(location):
        journal.remove_unused(location)
    assert journal.without_journal(location) == []
