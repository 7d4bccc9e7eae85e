"""Mount points and the types of file systems, as the system tells them (proc(5), mountinfo)."""

from __future__ import annotations

import os
from collections.abc import Iterator

_ESCAPES = ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\"))


def is_read_only(folder: str) -> bool:
    """Whether a folder is on a read-only mount, so that no process here can have written to it."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def file_system_of(path: str) -> str | None:
    """The type of the file system that holds `path`; None where the system does not tell."""
    mounts = dict(_mounts())
    folder = os.fsencode(os.path.realpath(path))
    while folder not in mounts:
        if folder in (b"/", b""):
            return None
        folder = os.path.dirname(folder)
    return mounts[folder]


def mounted_below(folder: str) -> list[str]:
    """Mount points at and below `folder`: what is in them lies elsewhere, and must not be deleted with it."""
    top = os.fsencode(os.path.realpath(folder))
    return sorted(os.fsdecode(path) for path, _ in _mounts() if path == top or path.startswith(top + b"/"))


def _mounts() -> Iterator[tuple[bytes, str]]:
    """Mount point and type of each mounted file system, the one on top last."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(b" - ")
        path = before.split(b" ")[4]
        for escape, byte in _ESCAPES:
            path = path.replace(escape, byte)
        yield path, after.split(b" ")[0].decode("ascii", "replace")
