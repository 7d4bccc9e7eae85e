"""Which paths a restore may touch: those that it is narrowed to, none of ours, none that git would not check out."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.errors import CheckpointFormatError
from git_agentos.git import scan


def covers(narrowing: Sequence[bytes] | None, path: bytes) -> bool:
    """Whether `path` is, or lies below, one of the narrowing paths; None covers everything, and so does `b""`."""
    return narrowing is None or any(path == p or path.startswith(p + b"/") or p == b"" for p in narrowing)


def may_touch(narrowing: Sequence[bytes] | None, path: bytes) -> bool:
    """Whether a plan may touch `path` at all."""
    return not scan.own(path) and covers(narrowing, path)


def is_allowed(path: bytes) -> bool:
    """Whether git would check out a path; `.GIT` is none that it would, wherever that is not the same as `.git`."""
    return not any(part in (b"", b".", b"..") or part.lower() == b".git" or b"\0" in part for part in path.split(b"/"))


def check(path: bytes) -> None:
    """Refuse a path that git would not check out: a checkpoint may have come from somebody else."""
    if not is_allowed(path):
        raise CheckpointFormatError(f"the checkpoint names the path '{os.fsdecode(path)}', which is not allowed")
