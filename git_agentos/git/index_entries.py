"""The entries of a worktree's index, by `git ls-files --stage`, and checks of the index file's bytes without git.

Standard library only: scans need it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Collection, Iterator

from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.util.named_tuple import NamedTuple

# Mode 160000 as the index stores it (32 bits, big endian): its absence proves that there is no gitlink. In an entry, it
# is 24 bytes after the beginning; with whole names, all entries begin 12 bytes after a multiple of 8.
_GITLINK_MODE = b"\x00\x00\xe0\x00"
_GITLINK = 0o160000
# Versions 2 and 3 store each path whole; version 4 shares prefixes.
_WHOLE_NAMES = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")


class IndexEntry(NamedTuple):
    """An entry of the index; `stage` is 0 without a conflict."""

    path: bytes
    stage: int
    mode: int
    oid: str


def stamp(location: Location) -> tuple[int, ...]:
    """A value that changes whenever the worktree's index is written."""
    try:
        return stamp_of(os.stat(os.path.join(location.git_dir, "index")))
    except FileNotFoundError:
        return ()


def stamp_of(found: os.stat_result) -> tuple[int, ...]:
    """That value, from the stat data of the index file."""
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def parse(out: bytes) -> Iterator[IndexEntry]:
    """The output of `ls-files -z` with --stage or --unmerged (git-ls-files(1), OUTPUT)."""
    for record in out.split(b"\0"):
        if record:
            entry, _, path = record.partition(b"\t")
            mode, oid, stage = entry.split(b" ")
            yield IndexEntry(path, int(stage), int(mode, 8), oid.decode())


def entries_of(location: Location, paths: Collection[bytes]) -> dict[bytes, tuple[int, str]]:
    """Mode and oid of the `paths` that are in the index without a conflict."""
    return {
        entry.path: (entry.mode, entry.oid) for entry in _read(location) if entry.path in paths and entry.stage == 0
    }


def gitlinks(location: Location) -> dict[bytes, str]:
    """Path -> commit of every gitlink."""
    if not may_have_gitlinks(location.git_dir):
        return {}
    return {entry.path: entry.oid for entry in _read(location) if entry.mode == _GITLINK}


def _read(location: Location) -> Iterator[IndexEntry]:
    return parse(process.run(["ls-files", "--stage", "-z"], cwd=location.root, env=location.environment()))


def may_have_gitlinks(git_dir: str) -> bool:
    """Whether the index file, or a shared one, contains a gitlink's mode where an entry may have its own. Only 'no' is
    certain."""
    shared = [os.path.join(git_dir, name) for name in os.listdir(git_dir) if name.startswith("sharedindex.")]
    for path in [*shared, os.path.join(git_dir, "index")]:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if has_gitlink_mode(data):
                    return True
    return False


def has_gitlink_mode(data: mmap.mmap) -> bool:
    """Whether the bytes of an index contain a gitlink's mode where an entry may have its own."""
    position = data.find(_GITLINK_MODE)
    if data[:8] in _WHOLE_NAMES:  # the number of an inode or a size is elsewhere
        while position >= 0 and position % 8 != (12 + 24) % 8:
            position = data.find(_GITLINK_MODE, position + 1)
    return position >= 0


def may_name(git_dir: str, name: bytes) -> bool:
    """Whether the index file may contain a path with `name` in it. Only 'no' is certain.

    The answer is 'yes' for a split index, an index of version 4, and one that is not a regular file: they are not
    searched.
    """
    index = os.path.join(git_dir, "index")
    try:
        if any(each.startswith("sharedindex.") for each in os.listdir(git_dir)):
            return True
        if os.path.lexists(index) and not os.path.isfile(index):
            return True  # reading a pipe would block
        with open(index, "rb") as file:
            if os.fstat(file.fileno()).st_size < 12:
                return True
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return data[:8] not in _WHOLE_NAMES or data.find(name) >= 0
    except FileNotFoundError:
        return False
    except OSError:
        return True
