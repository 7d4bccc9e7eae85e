"""Which blob a file had when it was last hashed: so that a gigabyte of untracked files is read once.

An entry is used only while the file's stat data is what it was, and is kept only if the file had rested for a while
when it was read. That is git's racy-time rule (Documentation/technical/racy-git.txt) with the clock's granularity in
the place of the index's own time: a change after the read then has a later time stamp, whatever its size.

The cache is a file of the worktree's git directory; it can be deleted at any time. Layout: JSON
`{"version": 1, "files": {path: [mtime_ns, ctime_ns, size, inode, device, mode, oid]}}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import TypeGuard

from git_agentos.util import files

_VERSION = 1
_OID = re.compile(r"[0-9a-f]{40}")
_NAME = "stat-cache.json"
# A file system with fine time stamps has a clock that ticks at least every 10 ms; one with coarse stamps
# (FAT, some network file systems) has ticks of up to two seconds.
_FINE_NS = 100_000_000
_COARSE_NS = 2_500_000_000

_Row = tuple[int, int, int, int, int, int]


def row(stat: os.stat_result) -> _Row:
    """What identifies a file's content without reading it."""
    return (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino, stat.st_dev, stat.st_mode)


def _is_row(value: object) -> TypeGuard[list[object]]:
    """Whether a row is one that we write; the cache may be damaged."""
    return isinstance(value, list) and len(value) == 7 and isinstance(value[6], str) and bool(_OID.fullmatch(value[6]))


class StatCache:
    """The cache of one worktree, loaded when it is first asked. It takes in nothing new unless `grows`."""

    def __init__(self, state_dir: str) -> None:
        self.grows = True
        self._path = os.path.join(state_dir, _NAME)
        self._old: dict[str, list[object]] | None = None
        self._new: dict[str, list[object]] = {}
        self._changed = False

    def _load(self) -> dict[str, list[object]]:
        if self._old is None:
            self._old = {}
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
                data = json.loads(files.read(self._path, limit=1 << 30))
                if data.get("version") == _VERSION:
                    self._old = dict(data["files"])
        return self._old

    def get(self, path: bytes, stat: os.stat_result) -> str | None:
        """The blob of the file at `path` if it cannot have changed since it was hashed."""
        known = self._load().get(os.fsdecode(path))
        if not _is_row(known) or tuple(known[:6]) != row(stat):
            return None
        self._new[os.fsdecode(path)] = known
        return str(known[6])

    def put(self, path: bytes, stat: os.stat_result, oid: str, read_at_ns: int) -> None:
        """Remember a file that was read at `read_at_ns` (time.time_ns() before it was opened)."""
        if not self.grows:
            return
        newest = max(stat.st_mtime_ns, stat.st_ctime_ns)
        coarse = stat.st_mtime_ns % 1_000_000 == 0 and stat.st_ctime_ns % 1_000_000 == 0
        if read_at_ns - newest > (_COARSE_NS if coarse else _FINE_NS):
            self._new[os.fsdecode(path)] = [*row(stat), oid]
            self._changed = True

    def save(self) -> None:
        """Write what is still true; a failure costs time at the next checkpoint and nothing else."""
        if not self.grows or (not self._changed and len(self._new) == len(self._load())):
            return
        text = json.dumps({"version": _VERSION, "files": self._new}, separators=(",", ":"))
        with contextlib.suppress(OSError):
            files.replace(self._path, text.encode("ascii"), durable=False)


def now_ns() -> int:
    """The time to compare a file's stamps with."""
    return time.time_ns()
