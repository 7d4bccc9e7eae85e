"""Remembers the blob that a file had when it was hashed, so that a gigabyte of untracked files is read only once.

An entry is used only while the file's stat data is unchanged, and is stored only if the file had not changed for a
while when it was read. This is git's rule for racy entries (Documentation/technical/racy-git.txt), with the step of
the file system's times instead of the index's time: any change after the read then has a later time stamp.

The cache is a file of the worktree's git directory; it can be deleted at any time. Layout: JSON
`{"version": 1, "files": {path: [mtime_ns, ctime_ns, size, inode, device, mode, oid]}}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TypeGuard

from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.util import file_times, files

_VERSION = 1
_NAME = "stat-cache.json"

_Row = tuple[int, int, int, int, int, int]


def row(stat: os.stat_result) -> _Row:
    """The stat data that identifies a file's content without reading it."""
    return (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino, stat.st_dev, stat.st_mode)


def _is_row(value: object) -> TypeGuard[list[object]]:
    """Whether a row is one that we write; the cache may be damaged."""
    return isinstance(value, list) and len(value) == 7 and isinstance(value[6], str) and is_any_oid(value[6])


class StatCache:
    """The cache of one worktree, loaded at the first look-up. New files are added only if `grows` is true."""

    def __init__(self, state_dir: str) -> None:
        self.grows = True
        self._path = os.path.join(state_dir, _NAME)
        self._old: dict[str, list[object]] | None = None
        self._new: dict[str, list[object]] = {}
        self._changed = False

    def _load(self) -> dict[str, list[object]]:
        if self._old is None:
            self._old = {}
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                data = files.read_object(self._path, limit=1 << 30)
                if data.get("version") == _VERSION:
                    self._old = dict(data["files"])
        return self._old

    def get(self, path: bytes, stat: os.stat_result) -> str | None:
        """The blob of the file at `path` if it cannot have changed since it was hashed."""
        name = os.fsdecode(path)
        known = self._load().get(name)
        if known is None or not _is_row(known) or tuple(known[:6]) != row(stat):
            return None
        self._new[name] = known
        return str(known[6])

    def put(self, path: bytes, stat: os.stat_result, oid: str, read_at_ns: int) -> None:
        """Remember a file that was read at `read_at_ns` (time.time_ns() before it was opened)."""
        if not self.grows:
            return
        newest = max(stat.st_mtime_ns, stat.st_ctime_ns)
        if read_at_ns - newest > file_times.unsafe_for(stat):
            self._new[os.fsdecode(path)] = [*row(stat), oid]
            self._changed = True

    def save(self) -> None:
        """Write the valid entries. A failure only makes the next checkpoint slower."""
        if not self.grows or (not self._changed and len(self._new) == len(self._load())):
            return
        text = json.dumps({"version": _VERSION, "files": self._new}, separators=(",", ":"))
        with contextlib.suppress(OSError):
            files.replace(self._path, text.encode("ascii"), durable=False)


def now_ns() -> int:
    """The current time, for comparing with a file's stamps."""
    return time.time_ns()
