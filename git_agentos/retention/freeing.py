"""Giving room back: deleting what forgotten checkpoints reached and nothing else does.

What that is, `git.reachability` says; how objects are deleted while others read and write, `git.object_removal`. It is
worked out while checkpoints go on. Then, for the deletion itself, none can be appended; what has become reachable
meanwhile is seen, and stays. (A checkpoint that is appended afterwards writes again what it needs: `timeline.append`.)
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterable

from git_agentos.checkpoint import doctor, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError
from git_agentos.git import gc, object_removal, object_sizes, reachability, worktrees
from git_agentos.git.object_removal import Care, Removed
from git_agentos.git.objects.pack import remove_keep
from git_agentos.git.reachability import Kept
from git_agentos.git.repository import Repository
from git_agentos.retention import pending
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import phase
from git_agentos.util.values import parse_boolean

_LOCKS = ("index.lock", "next-index-")
_SLACK = 2_000_000_000  # ns: what the clock of a network file system may be off
_RECENT = 3600  # seconds
_LOOKING = "Looking for objects that nothing needs"
_PRECIOUS = ("extensions.preciousobjects", "gc.preciousobjects")


class Freed(NamedTuple):
    """What was deleted: bytes on disk, and what stays although nothing needs it, in words."""

    freed_bytes: int = 0
    left: tuple[str, ...] = ()


def estimate(context: OpenWorktree, roots: Iterable[str], without: Iterable[str], instead: Iterable[str]) -> int:
    """How many bytes would be freed of what `roots` reach, if the refs `without` did not count, but `instead` did."""
    kept = kept_by(context)._replace(without=tuple(without), instead=tuple(instead))
    with phase(context.progress, _LOOKING):
        found = reachability.unneeded(context.repository, kept, roots).oids
    if not found:
        return 0
    return object_sizes.on_disk(context.repository, found)


def free(context: OpenWorktree, *, used_until: int | None = None, worth: int = 0) -> Freed:
    """Delete what all notes name, and what killed processes left. The lock on forgetting must be held.

    `used_until` is the time of the newest commit that was written again (seconds): an object that was touched later,
    within the last hour, is somebody else's too. For `worth` see `object_removal.Care`.
    """
    repository, location = context.repository, context.location
    found = pending.read(location)
    if not found.paths:
        return Freed()
    reason = _refused(context)
    if reason is not None:
        return Freed(0, (reason,))
    object_removal.give_back(repository, found.objects)
    for path in doctor.stale_keep_files(repository, context.settings):
        remove_keep(path)
    kept = kept_by(context)
    care = Care(_locked_since(kept.git_dirs), _used_until(used_until), worth, frozenset(found.written))
    try:
        with phase(context.progress, _LOOKING):
            unneeded = reachability.unneeded(repository, kept, found.roots, found.objects)
        if not unneeded.oids:
            pending.remove(found.paths)
            return Freed()
        note = pending.note(location, pending.OBJECTS, sorted(unneeded.oids))
        pending.remove(found.paths)  # what the roots reach cannot be found again once some of it is gone
        _write_commit_graph(repository)
        with gc.deleting_objects(location):
            done = object_removal.remove(
                repository, unneeded.oids - reachability.needed_since(repository, unneeded), care, context.progress
            )
    except GitCommandError as error:
        return Freed(0, (f"objects, because it is not known which ones are still needed: {error.message}",))
    _write_pack_lists(repository, done)
    if done.in_use:
        pending.note(location, pending.OBJECTS, sorted(done.in_use))
    pending.remove([note])
    return Freed(done.freed_bytes, tuple(f"{len(oids)} objects: {why}" for why, oids in sorted(done.left.items())))


def kept_by(context: OpenWorktree) -> Kept:
    """All that keeps objects in the repository."""
    location = context.location
    git_dirs = dict.fromkeys([location.common_dir, *worktrees.linked_git_dirs(location.common_dir)])
    return Kept(tuple(git_dirs), functools.partial(timeline.is_link, context.repository))


def _refused(context: OpenWorktree) -> str | None:
    """Why nothing can be deleted now; None if it can."""
    values = context.settings.values
    for key in _PRECIOUS:
        if parse_boolean(values.get(key, ["false"])[-1]):
            return f"objects: '{key}' is set, so that none is deleted"
    if gc.is_running(context.location):
        return "objects, because git gc is running: the next forget deletes them"
    return None


def _locked_since(git_dirs: Iterable[str]) -> int | None:
    """When the oldest lock was taken under which an index is being written; None if there is none."""
    paths = [os.path.join(git_dir, name) for git_dir in git_dirs for name in _names(git_dir) if name.startswith(_LOCKS)]
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            found.append(os.lstat(path).st_ctime_ns - _SLACK)
    return min(found, default=None)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _used_until(seconds: int | None) -> int | None:
    if seconds is None:
        return None
    return max(seconds, int(time.time()) - _RECENT) * 1_000_000_000 + _SLACK


def _write_commit_graph(repository: Repository) -> None:
    """Write a commit-graph again, without the commits that are about to be deleted."""
    info = os.path.join(repository.objects_dir, "info")
    if os.path.lexists(os.path.join(info, "commit-graphs", "commit-graph-chain")):
        repository.git("commit-graph", "write", "--reachable", "--split=replace", "--no-progress")
    elif os.path.lexists(os.path.join(info, "commit-graph")):
        repository.git("commit-graph", "write", "--reachable", "--no-progress")


def _write_pack_lists(repository: Repository, done: Removed) -> None:
    """Write again what lists the packs, where that was there."""
    if done.had_multi_pack_index:
        repository.git("multi-pack-index", "write", "--no-progress")
    if os.path.lexists(os.path.join(repository.objects_dir, "info", "packs")):
        repository.git("update-server-info")
