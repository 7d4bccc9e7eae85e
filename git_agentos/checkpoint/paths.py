"""Paths as users give them, and which paths a restore may touch: none of ours, none that git would not check out."""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet

from git_agentos.errors import CheckpointFormatError, UsageError
from git_agentos.git import untracked


def covers(narrowing: AbstractSet[bytes] | None, path: bytes) -> bool:
    """Whether `path` is, or lies below, one of the narrowing paths; None covers everything, and so does `b""`.

    The cost is that of the folders above `path`, however many paths there are to narrow to.
    """
    if narrowing is None or b"" in narrowing:
        return True
    while path:
        if path in narrowing:
            return True
        path = path.rpartition(b"/")[0]
    return False


def may_touch(narrowing: AbstractSet[bytes] | None, path: bytes) -> bool:
    """Whether a plan may touch `path` at all."""
    return not untracked.is_agentos_path(path) and covers(narrowing, path)


def is_allowed(path: bytes) -> bool:
    """Whether git would check out a path; `.GIT` is none that it would, wherever that is not the same as `.git`."""
    return not any(part in (b"", b".", b"..") or part.lower() == b".git" or b"\0" in part for part in path.split(b"/"))


def check(path: bytes) -> None:
    """Refuse a path that git would not check out: a checkpoint may have come from somebody else."""
    if not is_allowed(path):
        raise CheckpointFormatError(f"the checkpoint names the path '{os.fsdecode(path)}', which is not allowed")


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
