"""Paths as users give them, and which paths a restore may change: not our own, nor those that git never checks out, nor
what is on a part of the worktree that is mounted read-only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from git_agentos.errors import UNCHANGED, CheckpointFormatError, StorageError, UsageError
from git_agentos.git import untracked
from git_agentos.process import mounts


def covers(narrowing: AbstractSet[bytes] | None, path: bytes) -> bool:
    """Whether `path` is one of the paths in `narrowing`, or below one; None and `b""` cover everything.

    The cost is proportional to the depth of `path`, and does not depend on the number of paths in `narrowing`.
    """
    if narrowing is None or b"" in narrowing:
        return True
    while path:
        if path in narrowing:
            return True
        path = path.rpartition(b"/")[0]
    return False


def may_touch(narrowing: AbstractSet[bytes] | None, path: bytes) -> bool:
    """Whether a plan may change `path`."""
    return not untracked.is_agentos_path(path) and covers(narrowing, path)


def is_allowed(path: bytes) -> bool:
    """Whether git would check out a path; `.GIT` never, whether or not the file system distinguishes it from `.git`."""
    return not any(part in (b"", b".", b"..") or part.lower() == b".git" or b"\0" in part for part in path.split(b"/"))


def check(path: bytes) -> None:
    """Refuse a path that git would not check out: a checkpoint may be from another repository."""
    if not is_allowed(path):
        raise CheckpointFormatError(f"the checkpoint names the path '{os.fsdecode(path)}', which is not allowed")


def refuse_read_only(root: str, changing: Iterable[bytes]) -> None:
    """StorageError if one of the paths to change is on a read-only file system, or will be created on one."""
    known: dict[bytes, bool] = {}
    for path in sorted(changing):
        folder = path.rpartition(b"/")[0]
        if folder not in known:
            known[folder] = _is_read_only(root, folder)
        if known[folder]:
            raise StorageError(
                f"'{os.fsdecode(path)}' cannot be changed: it is on a read-only file system",
                f"make it writable, or leave it out; {UNCHANGED}",
            )


def _is_read_only(root: str, folder: bytes) -> bool:
    full = os.path.join(os.fsencode(root), folder)
    while not os.path.isdir(full):
        full = os.path.dirname(full)
    return mounts.is_read_only(os.fsdecode(full))


def inside_worktree(root: str, start: str, path: str) -> bytes:
    """A path as the user gave it, relative to `start`, as bytes relative to the worktree's root; UsageError outside."""
    full = os.path.normpath(os.path.join(start, path))
    # The directory is resolved, the last part is not: it may be a symlink that is meant itself.
    parent = os.path.realpath(os.path.dirname(full))
    full = full if full == root else os.path.join(parent, os.path.basename(full))
    if os.path.realpath(full) == root:
        full = root
    relative = os.path.relpath(full, root)
    if relative == ".." or relative.startswith("../"):
        raise UsageError(f"'{path}' is outside of the worktree '{root}'")
    return b"" if relative == "." else os.fsencode(relative)
