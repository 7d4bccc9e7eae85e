"""Whether `git gc` runs, and saving while it does."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from git_agentos.git import gitfile
from git_agentos.git.location import Location
from git_agentos.process import table
from git_agentos.util import directories, files, locks

PACKING = "pack.turn"

_PRUNE_PATIENCE = 10.0  # seconds
_LONGEST = 12 * 3600  # seconds that a gc takes
_PRUNES_NOW = ("--prune=now", "--prune=all", "--prune=0")


# -- while objects of forgotten checkpoints are deleted ---------------------------------------------------------------


@contextlib.contextmanager
def objects_in_use(location: Location) -> Iterator[None]:
    """Keep `forget` from deleting objects meanwhile: hold this while missing objects are written again and a ref moves
    to them."""
    with _objects_lock(location, shared=True):
        yield


@contextlib.contextmanager
def deleting_objects(location: Location) -> Iterator[None]:
    """Keep checkpoints from being appended meanwhile, and loose objects from being packed."""
    folder = directories.make_own(location.shared_state_dir)
    with locks.hold(os.path.join(folder, PACKING)), _objects_lock(location, shared=False):
        yield


def _objects_lock(location: Location, *, shared: bool) -> contextlib.AbstractContextManager[None]:
    folder = directories.make_own(location.shared_state_dir)
    return locks.hold(os.path.join(folder, "objects.turn"), shared=shared)


# -- while `git gc --prune=now` runs --------------------------------------------------------------------------------


def wait_for_prune(location: Location, rewrite_missing: Callable[[], None]) -> None:
    """Call `rewrite_missing` until no gc that prunes without a grace period is running, or for ten seconds.

    Such a gc may have listed the refs just before ours moved, and may delete our objects afterwards. With git's
    default, a grace period of two weeks, nothing is called.
    """
    deadline = time.monotonic() + _PRUNE_PATIENCE
    while is_pruning(location) and time.monotonic() < deadline:
        time.sleep(0.02)
        rewrite_missing()


def is_pruning(location: Location) -> bool:
    """Whether a gc is running that prunes without a grace period."""
    try:
        return any(word in _PRUNES_NOW for word in table.argv(_read(location)[0]))
    except (OSError, ValueError):
        return False


def is_running(location: Location) -> bool:
    """Whether a gc is running, as git decides it: by gc.pid, if that is not old, and the process, if it is of this
    machine."""
    try:
        pid, host = _read(location)
        if time.time() - os.stat(_path(location)).st_mtime > _LONGEST:
            return False
    except (OSError, ValueError):
        return False
    return host != os.uname().nodename or table.is_alive(pid)


def _read(location: Location) -> tuple[int, str]:
    """The pid of the gc that runs, or ran, and the name of its machine."""
    pid, _, host = files.read(_path(location), limit=gitfile.LONGEST).decode("utf-8", "replace").partition(" ")
    return int(pid), host.strip()


def _path(location: Location) -> str:
    return os.path.join(location.common_dir, "gc.pid")
