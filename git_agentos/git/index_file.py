"""The bytes of an index file, read without git: where its entries are, and an index that has only some of them.

Only the plain form is read (gitformat-index(5)): version 2 or 3, no flag at any entry, no conflict, no submodule, not
split and not sparse. Other indexes are git's.
"""

from __future__ import annotations

import bisect
import mmap
import os
import stat
import struct
from array import array
from collections.abc import Iterable

from git_agentos.git import index_entries, trees
from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.location import Location
from git_agentos.util.named_tuple import NamedTuple

_HEADER = struct.Struct(">4sII")
_VERSIONS = (2, 3)
_STAT_DATA = 40  # bytes before the object id
_LARGEST = 1 << 31  # bytes of a file that is read
_LONG_NAME = 0xFFF  # flags from here on: a name that is longer, or a flag, or a conflict
_read_flags = struct.Struct(">H").unpack_from
_read_extension = struct.Struct(">4sI").unpack_from


class Entries(NamedTuple):
    """Where each entry of an index file begins, and the file's stamp."""

    offsets: array[int]
    stamp: tuple[int, ...]


class IndexFile(NamedTuple):
    """An index file: its bytes, its entries, and its modification time."""

    data: mmap.mmap
    entries: Entries
    mtime_ns: int
    hash: HashAlgorithm

    @property
    def offsets(self) -> array[int]:
        """Where each entry begins."""
        return self.entries.offsets

    def find(self, path: bytes) -> int | None:
        """The number of the entry of a path; None if it has none."""
        number = self._at(path)
        return number if number < len(self.offsets) and self._name(self.offsets[number]) == path else None

    def has_below(self, folder: bytes) -> bool:
        """Whether there is an entry below a folder (without a slash at the end)."""
        return self._at(folder + b"/") < self._at(folder + b"0")

    def part(self, paths: Iterable[bytes]) -> bytes:
        """An index that has only the entries of these paths, of what is below them, and of files in the place of the
        folders above them."""
        numbers: set[int] = set()
        for path in paths:
            numbers.update(range(self._at(path + b"/"), self._at(path + b"0")))
            for each in (path, *trees.folders_above([path])):
                number = self.find(each)
                if number is not None:
                    numbers.add(number)
        entries = [self.data[self.offsets[each] : self._end(self.offsets[each])] for each in sorted(numbers)]
        made = _HEADER.pack(b"DIRC", 2, len(entries)) + b"".join(entries)
        return made + self.hash.new(made).digest()

    def _at(self, path: bytes) -> int:
        """The number of the first entry that is not before a path."""
        return bisect.bisect_left(self.offsets, path, key=self._name)

    def _name(self, offset: int) -> bytes:
        begin = offset + _STAT_DATA + self.hash.raw_length
        (length,) = _read_flags(self.data, begin)
        return self.data[begin + 2 : begin + 2 + length]

    def _end(self, offset: int) -> int:
        begin = _STAT_DATA + self.hash.raw_length
        (length,) = _read_flags(self.data, offset + begin)
        return offset + (begin + 2 + int(length) + 8 & ~7)


def read(location: Location, known: Entries | None = None) -> IndexFile | None:
    """The worktree's index; None if there is none, or one of another form. `known` are its entries if it has not been
    written since they were read."""
    try:
        with open(os.path.join(location.git_dir, "index"), "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
                return None
            data = mmap.mmap(file.fileno(), found.st_size, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None  # ValueError: it is empty
    if known is None or known.stamp != index_entries.stamp_of(found):
        offsets = _offsets(data, location.hash)
        if offsets is None or index_entries.has_gitlink_mode(data):
            return None
        known = Entries(offsets, index_entries.stamp_of(found))
    return IndexFile(data, known, found.st_mtime_ns, location.hash)


def _offsets(data: mmap.mmap, algorithm: HashAlgorithm) -> array[int] | None:
    if len(data) < _HEADER.size + algorithm.raw_length:
        return None
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in _VERSIONS:
        return None
    offsets = array("I")
    position, flags_at = _HEADER.size, _STAT_DATA + algorithm.raw_length
    end = len(data) - algorithm.raw_length
    rest = flags_at + 2 + 8
    try:
        for _ in range(count):
            offsets.append(position)
            (flags,) = _read_flags(data, position + flags_at)
            if flags >= _LONG_NAME:
                return None
            position += rest + flags & ~7
        while position < end:
            name, size = _read_extension(data, position)
            if not name[:1].isupper():
                return None  # what must be understood: the link of a split index, the folders of a sparse one
            position += 8 + size
    except struct.error:
        return None
    return offsets if position == end else None
