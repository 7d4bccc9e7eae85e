"""Packing the loose objects of checkpoints, and saving while `git gc` runs.

A checkpoint of a few files writes a dozen loose objects, each a block on disk. Their ids are recorded in a file in the
common git directory. When there are enough, git packs exactly those (`pack-objects`, with deltas), and their loose
files are removed, as `git prune-packed` would do. Nothing depends on it: after a failure the objects stay loose, and
`git gc` packs them too.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable

from git_agentos.errors import AgentosError
from git_agentos.git import gitfile
from git_agentos.git.location import Location
from git_agentos.git.objects import loose
from git_agentos.git.repository import Repository
from git_agentos.process import table
from git_agentos.util import directories, files, locks

_NOTES = "loose-objects"
_TAKEN = "loose-objects.packing"
# About 90 checkpoints of a few files. Until then each object takes a block on disk (4 KiB), so this limits the overhead
# of the store; and there are few packs: git's own `gc --auto` merges them at gc.autoPackLimit, 50.
_ENOUGH = 1000

_PRUNE_PATIENCE = 10.0  # seconds
_PRUNES_NOW = ("--prune=now", "--prune=all", "--prune=0")


def note_loose(repository: Repository, oids: Iterable[str]) -> None:
    """Record loose objects that were just written; pack all recorded ones if there are enough."""
    rows = "".join(f"{oid}\n" for oid in oids)
    if not rows:
        return
    folder = repository.location.shared_state_dir
    with contextlib.suppress(OSError):
        path = os.path.join(directories.make_own(folder), _NOTES)
        descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
        )
        try:
            os.write(descriptor, rows.encode())
            enough = os.fstat(descriptor).st_size >= _ENOUGH * (repository.hash.hex_length + 1)
        finally:
            os.close(descriptor)
        if enough:
            with contextlib.suppress(AgentosError):
                _pack(repository, folder)


def _pack(repository: Repository, folder: str) -> None:
    """Pack the recorded objects; LockedError if another process does so."""
    with locks.hold(os.path.join(folder, "pack.turn"), wait=False):
        taken = os.path.join(folder, _TAKEN)
        rows = _rows(repository, taken)  # left by a process that was killed here
        os.replace(os.path.join(folder, _NOTES), taken)
        rows += _rows(repository, taken)
        rows = [oid for oid in dict.fromkeys(rows) if loose.exists(repository.objects_dir, oid)]
        if rows:
            base = os.path.join(repository.objects_dir, "pack", "pack")
            repository.git("pack-objects", "-q", "--non-empty", base, data="".join(f"{oid}\n" for oid in rows).encode())
            for oid in rows:
                with contextlib.suppress(OSError):
                    os.unlink(loose.path(repository.objects_dir, oid))
        os.unlink(taken)


def _rows(repository: Repository, path: str) -> list[str]:
    try:
        return [row for row in files.read(path).decode("ascii").split("\n") if repository.hash.is_oid(row)]
    except FileNotFoundError:
        return []


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
        pid = int(files.read(os.path.join(location.common_dir, "gc.pid"), limit=gitfile.LONGEST).split()[0])
        return any(word in _PRUNES_NOW for word in table.argv(pid))
    except (OSError, ValueError, IndexError):
        return False
