"""Mount points and the types of file systems, as the system tells them (proc(5), mountinfo; elsewhere mount(8))."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from git_agentos.process import ps

# `/dev/disk1s1 on / (apfs, local, journaled)` on macOS and FreeBSD, `/dev/wd0a on / type ffs (local)` on the others.
_MOUNTS = (r".*? on (/.*?) type (\S+) \(.*\)", r".*? on (/.*) \(([^,()]+)[^()]*\)")
# What several machines may use at once; a program in user space (fuse) may be the client of such a one.
_SHARED = (
    "nfs", "cifs", "smb", "9p", "virtiofs", "fuse", "ceph", "gluster", "lustre", "afs", "gpfs", "vboxsf", "vmhgfs",
    "beegfs", "webdav",
)  # fmt: skip
# What writes every change to a new place, so that there may be no room to write what has room already.
_COPYING = ("btrfs", "bcachefs")
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


def may_be_shared(path: str) -> bool | None:
    """Whether other machines may use the file system that holds `path`; None where the system does not tell."""
    kind = file_system_of(path)
    return None if kind is None else is_shared(kind)


def is_shared(kind: str) -> bool:
    """Whether other machines may use a file system of this type; then the system does not tell of all changes of it."""
    return kind.startswith(_SHARED)


def can_share_memory(path: str) -> bool:
    """Whether processes may share memory by a file beside `path`. Not where other machines may use the file system, and
    not where a full disk or quota ends a process that writes to such memory (SIGBUS), even if the file has its size."""
    kind = file_system_of(path) or ""
    return not kind.startswith((*_SHARED, *_COPYING))


def types_below(folder: str) -> set[str]:
    """The types of the file systems that hold `folder` and what is below it; none where the system does not tell."""
    held = file_system_of(folder)
    top = os.fsencode(os.path.realpath(folder)).rstrip(b"/")
    return {kind for path, kind in _mounts() if path.startswith(top + b"/")} | ({held} if held else set())


def snapshot() -> bytes:
    """What is mounted where, to be compared with a later answer; empty where the system has no such file."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return file.read()
    except OSError:
        return b""


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
        yield from parse_mount(ps.output_of(["mount"])[1])
        return
    for line in lines:
        before, _, after = line.partition(b" - ")
        path = before.split(b" ")[4]
        for escape, byte in _ESCAPES:
            path = path.replace(escape, byte)
        yield path, after.split(b" ")[0].decode("ascii", "replace")


def parse_mount(out: str) -> Iterator[tuple[bytes, str]]:
    """The mount point and type in each line that mount(8) prints."""
    for line in out.splitlines():
        found = next(filter(None, (re.fullmatch(form, line) for form in _MOUNTS)), None)
        if found is not None:
            yield os.fsencode(found[1]), found[2]
