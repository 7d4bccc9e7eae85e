"""What is written down of a command on a worktree, and whom it belongs to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import LockedError
from git_agentos.git.location import Location
from git_agentos.worktree import journal
from tests.support.repo import Repo


@pytest.fixture
def location(repo: Repo) -> Location:
    return open_workspace(repo.path).context.location


def begin(location: Location, id_: str = "dev-001") -> journal.Intent:
    with journal.turn(location):
        return journal.begin(location, id_, "remove")


def test_those_who_look_are_not_taken_for_the_owner(location: Location) -> None:
    """While one process asks whether the owner lives, another one that asks gets the same answer."""
    begun = begin(location)
    journal.leave(begun)
    owner = os.open(begun.path.removesuffix(".json") + ".owner", os.O_RDONLY)
    fcntl.flock(owner, fcntl.LOCK_SH)  # as one who looks has it
    assert [each.id for each in journal.pending(location)] == ["dev-001"]
    os.close(owner)


def test_an_owner_that_lives_is_seen(location: Location) -> None:
    begun = begin(location)
    assert journal.pending(location) == []
    with pytest.raises(LockedError):
        begin(location)
    journal.end(begun)
    assert journal.everything(location) == []


@pytest.mark.parametrize("instead", [os.mkdir, lambda path: os.symlink("/etc/passwd", path), os.mkfifo])
def test_something_else_in_place_of_the_lock(location: Location, instead: object) -> None:
    begun = begin(location)
    journal.leave(begun)
    owner = Path(begun.path.removesuffix(".json") + ".owner")
    owner.unlink()
    assert callable(instead)
    instead(owner)
    [found] = journal.pending(location)
    with journal.turn(location):
        adopted = journal.adopt(found)
    assert adopted is not None
    journal.end(adopted)
    assert journal.everything(location) == []
    journal.end(begin(location))
