"""Worktrees that are prepared in advance: in a large repository the checkout takes most of the time.

    <folder of the worktrees>/.pool/p-<random>       a worktree with detached HEAD, all files checked out
    <git dir>/agentos/pool.json                      marks its entry; written last, so a half-made one is not taken

`agentos.pool` says how many there are to be. `create` claims one by `git worktree move` (a rename), and checks out what
is different in its commit: nothing, where it was prepared at the same one. A process in the background fills the pool
again, one process at a time. A prepared worktree has no id and belongs to no agent, so nothing is lost if it goes.

A worktree that was used and given back (`discard`) is a prepared one as well. `agentos.pool` does not count these:
there are never more of them than have worked at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import LockedError
from git_agentos.git import process, worktrees
from git_agentos.git.location import Location
from git_agentos.process import programs
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple

# How the ids of journals begin that are about prepared worktrees: not an agent's, so never taken for one.
UNFINISHED = ".pool-"
_MARK = "pool.json"
_VERSION = 1


class Prepared(NamedTuple):
    """A worktree that waits to be claimed, with the files of `base_sha`; `is_returned`: it was used before."""

    git_dir: str
    path: str
    base_sha: str
    is_returned: bool = False


def prepared(location: Location) -> list[Prepared]:
    """Those that can be claimed, the newest first."""
    found = []
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        mark = os.path.join(git_dir, "agentos", _MARK)
        with contextlib.suppress(OSError, ValueError, KeyError):
            body = files.read_object(mark)
            base_sha = body["base_sha"]
            path = worktrees.root_of(git_dir)
            if not isinstance(base_sha, str) or not location.hash.is_oid(base_sha):
                continue
            if os.path.isfile(os.path.join(path, ".git")):
                found.append(
                    (os.stat(mark).st_mtime_ns, Prepared(git_dir, path, base_sha, body.get("returned") is True))
                )
    return [each for _, each in sorted(found, reverse=True)]


def filled(location: Location) -> list[Prepared]:
    """Those that `agentos.pool` counts."""
    return [each for each in prepared(location) if not each.is_returned]


def choose(location: Location, base_sha: str) -> Prepared | None:
    """The one to claim for a worktree at `base_sha`: one that has its files, else the newest. The lock on
    worktrees must be held."""
    waiting = prepared(location)
    return next((each for each in waiting if each.base_sha == base_sha), waiting[0] if waiting else None)


def mark(git_dir: str, base_sha: str, *, is_returned: bool = False) -> None:
    """Make a worktree a prepared one."""
    folder = directories.make_own(os.path.join(git_dir, "agentos"))
    data = json.dumps({"version": _VERSION, "base_sha": base_sha, "returned": is_returned}).encode("ascii")
    files.replace(os.path.join(folder, _MARK), data, durable=False)


def is_prepared(git_dir: str) -> bool:
    """Whether a worktree waits to be claimed."""
    return os.path.lexists(os.path.join(git_dir, "agentos", _MARK))


def unmark(git_dir: str) -> None:
    """Remove the mark: the worktree is claimed."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(git_dir, "agentos", _MARK))


def refill(context: OpenWorktree) -> None:
    """Start a process in the background that fills the pool, unless it is full."""
    wanted = config.pool(context.settings.values)
    if wanted == len(filled(context.location)):
        return
    try:
        with filling(context.location):
            pass
    except LockedError:
        return  # another process fills the pool, and will look again
    words = [sys.executable, "-P", "-m", "git_agentos", "-C", context.location.root, "worktree", "refill", "-q"]
    programs.start_in_background(words, env=process.user_environment({}))


@contextlib.contextmanager
def filling(location: Location) -> Iterator[None]:
    """Hold the lock of the process that fills the pool; LockedError where another one has it."""
    folder = directories.make_own(location.shared_state_dir)
    with locks.hold(os.path.join(folder, "pool.turn"), wait=False):
        yield
