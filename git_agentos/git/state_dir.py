"""The folder of git-agentos in a worktree's git directory (`Location.state_dir`): its locks and scratch folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from git_agentos.git.location import Location
from git_agentos.util import directories, locks

_SCRATCH = "tmp"


@contextlib.contextmanager
def lock(location: Location, name: str, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold one of a worktree's locks, `<state dir>/<name>.turn`.

    With `wait=False`, LockedError if another process holds it.
    """
    path = os.path.join(directories.make_own(location.state_dir), name + ".turn")
    with locks.hold(path, shared=shared, wait=wait):
        yield


@contextlib.contextmanager
def scratch(location: Location) -> Iterator[str]:
    """A new folder on the file system of the worktree's git directory, removed at the end."""
    with directories.scratch(directories.make_own(location.state_dir, _SCRATCH)) as path:
        yield path


def remove_abandoned(location: Location) -> list[str]:
    """Remove the scratch folders of processes that were killed; their paths."""
    return directories.remove_abandoned(os.path.join(location.state_dir, _SCRATCH))


def refuse_planted(location: Location) -> None:
    """RepositoryError where a link, or anything else than a folder, has the name of one of our folders."""
    directories.is_own(os.path.join(location.root, ".agentos"))
    refuse_planted_state(location)


def refuse_planted_state(location: Location) -> None:
    """The same for those in the git directory."""
    for folder in {location.state_dir, location.shared_state_dir}:
        directories.is_own(folder)
