"""What is written down of a command on a worktree, and whom it belongs to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import LockedError
from git_agentos.git.location import Location
from git_agentos.worktree import intent
from tests.support.repo import Repo


@pytest.fixture
def location(repo: Repo) -> Location:
    return open_workspace(repo.path).context.location


def begin(location: Location, id_: str = "dev-001") -> intent.Intent:
    with intent.turn(location):
        return intent.begin(location, id_, "remove")


def test_those_who_look_are_not_taken_for_the_owner(location: Location) -> None:
    """While one process asks whether the owner lives, another one that asks gets the same answer."""
    begun = begin(location)
    intent.leave(begun)
    owner = os.open(begun.path.removesuffix(".json") + ".owner", os.O_RDONLY)
    fcntl.flock(owner, fcntl.LOCK_SH)  # as one who looks has it
    assert [each.id for each in intent.pending(location)] == ["dev-001"]
    os.close(owner)


def test_an_owner_that_lives_is_seen(location: Location) -> None:
    begun = begin(location)
    assert intent.pending(location) == []
    with pytest.raises(LockedError):
        begin(location)
    intent.end(begun)
    assert intent.everything(location) == []


@pytest.mark.parametrize("instead", [os.mkdir, lambda path: os.symlink("/etc/passwd", path), os.mkfifo])
def test_something_else_in_place_of_the_lock(location: Location, instead: object) -> None:
    begun = begin(location)
    intent.leave(begun)
    owner = Path(begun.path.removesuffix(".json") + ".owner")
    owner.unlink()
    assert callable(instead)
    instead(owner)
    [found] = intent.pending(location)
    with intent.turn(location):
        adopted = intent.adopt(found)
    assert adopted is not None
    intent.end(adopted)
    assert intent.everything(location) == []
    intent.end(begin(location))
