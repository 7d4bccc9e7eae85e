"""Fetches of fleets into a repository, one beside the other, and the lock files that killed ones have left there.

    <common dir>/agentos/fleet-fetches.turn    flock(2): shared by a fetch, exclusive for the removal of lock files

A git that is killed leaves its lock files (`shallow.lock`, `packed-refs.lock`, those of refs), and every later one
fails at them. They are removed where nobody fetches, and `git.stale_locks` proves that no process can have made them.
The flock is for workers that share a clone and do not see each other's processes, as in containers.

It also leaves the pack that it was about to write, which may be as large as the repository.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Callable

from git_agentos.errors import GitCommandError, LockedError
from git_agentos.git import lockfile, stale_locks
from git_agentos.git.location import Location
from git_agentos.util import directories, locks

_NAME = "fleet-fetches.turn"
_PATIENCE = 5.0  # seconds that other fetches have to end
_SHORTEST, _LONGEST = 10.0, 600.0  # seconds for which a lock file is waited for: a large fetch may hold it
_PAUSE = 0.5
_UNFINISHED = re.compile(r"tmp_(pack|idx|rev)_[A-Za-z0-9]{6}")  # as mkstemp(3) names git's; ours are longer
_UNTOUCHED = 3600.0  # seconds
# What git says where a lock file is in its way; of a repository with reftables, it says no more.
_LOCKED = re.compile(r"Unable to create '(.+?\.lock)': File exists|cannot lock references")


def fetch(location: Location, run: Callable[[], None], *, wait: float = 0.0) -> None:
    """Fetch by `run`, which raises GitCommandError. Lock files that are in its way are removed, if killed processes
    have left them, or waited for, for some seconds at least and `wait` at most; LockedError where one stays."""
    deadline = time.monotonic() + max(_SHORTEST, min(wait, _LONGEST))
    while True:
        try:
            with locks.hold(_path(location), shared=True):
                return run()
        except GitCommandError as error:
            lock = _lock_of(location, error)
            if lock is None:
                raise
            if remove_left(location):
                continue
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"git cannot fetch: '{lock}' exists, and a process that is alive may have made it",
                    "if no git runs there any more, remove the file",
                ) from error
        time.sleep(random.uniform(0.5, 1.0) * _PAUSE)


def remove_left(location: Location, *, patience: float = _PATIENCE) -> bool:
    """Remove the lock files that killed processes have left on what all worktrees share; whether there was one. Nothing
    is removed where others fetch for longer than `patience` seconds."""
    candidates = list(stale_locks.shared(location, 0.0))
    if not candidates:
        return False
    try:
        with locks.hold(_path(location), wait=False, patience=patience):
            removed = lockfile.remove_stale(location)
            return None in stale_locks.remove(location, candidates).values() or bool(removed)
    except LockedError:
        return False


def remove_unfinished_packs(location: Location) -> None:
    """Delete the packs that killed fetches have left unfinished, as git's `prune` does (its `builtin/prune.c`): those
    to which nobody has written for an hour. Nothing is deleted while others fetch."""
    folder = os.path.join(location.common_dir, "objects", "pack")
    with contextlib.suppress(OSError):
        found = [os.path.join(folder, name) for name in os.listdir(folder) if _UNFINISHED.fullmatch(name)]
        if not found:
            return
        with contextlib.suppress(LockedError), locks.hold(_path(location), wait=False):
            for path in found:
                with contextlib.suppress(FileNotFoundError):
                    if os.lstat(path).st_mtime < time.time() - _UNTOUCHED:
                        os.unlink(path)


def _lock_of(location: Location, error: GitCommandError) -> str | None:
    """The lock file of this repository that git has failed at; None where it has failed at something else."""
    folder = os.path.realpath(location.common_dir)
    for found in _LOCKED.finditer(error.stderr):
        path = found[1] or os.path.join(folder, stale_locks.TABLES, "tables.list.lock")
        if os.path.realpath(path).startswith(folder + os.sep):
            return path
    return None


def _path(location: Location) -> str:
    return os.path.join(directories.make_own(location.shared_state_dir), _NAME)
