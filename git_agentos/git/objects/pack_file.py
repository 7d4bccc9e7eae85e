"""Reading small objects from a pack without git: gitformat-pack(5).

To start `git cat-file`, and to send each question through two pipes, takes longer than to read the few trees that a
small checkpoint needs. What takes long in Python, large objects and long chains of deltas, is left to git; so is
whatever does not look as it should, and the caller compares the hash.
"""

from __future__ import annotations

import os
import weakref
import zlib

from git_agentos.git.objects.pack_index import PackIndex

_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA, _ID_DELTA = 6, 7
_BLOCK = 4096  # bytes that are read at once: most trees and their headers
_LARGEST = 256 << 10  # bytes of an object, and of a delta
_LONGEST = 10  # deltas on top of each other
_CACHED = 2 << 20  # bytes of objects that were read, as others may be deltas of them


class PackFile:
    """One open pack; it stays readable when the file has been removed."""

    def __init__(self, index: PackIndex) -> None:
        """OSError if it cannot be opened."""
        self._index = index
        self._descriptor = os.open(index.pack_path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._read: dict[int, tuple[int, bytes]] = {}
        self._read_bytes = 0

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object in the pack; None if git has to read it."""
        try:
            offset = self._index.offset(oid)
            found = None if offset is None else self._object(offset)
        except (OSError, ValueError, LookupError, zlib.error):
            return None
        return None if found is None else (_KINDS[found[0]], found[1])

    def _object(self, offset: int) -> tuple[int, bytes] | None:
        """Kind and content of the object at `offset`."""
        deltas: list[tuple[int, bytes]] = []
        while (found := self._read.get(offset)) is None:
            kind, base, data = self._entry(offset)
            if data is None or len(deltas) > _LONGEST:
                return None
            if base is None:
                found = self._remember(offset, kind, data)
                break
            deltas.append((offset, data))
            offset = base
        for place, delta in reversed(deltas):
            found = self._remember(place, found[0], _apply(found[1], delta))
        return found

    def _remember(self, offset: int, kind: int, data: bytes) -> tuple[int, bytes]:
        self._read_bytes += len(data)
        if self._read_bytes > _CACHED:
            self._read.clear()
            self._read_bytes = len(data)
        self._read[offset] = (kind, data)
        return kind, data

    def _entry(self, offset: int) -> tuple[int, int | None, bytes | None]:
        """The kind of an entry, where its base is if it is a delta, and its bytes; None instead of many of them."""
        head = os.pread(self._descriptor, _BLOCK, offset)
        byte = head[0]
        kind, size, shift, at = byte >> 4 & 7, byte & 15, 4, 1
        while byte & 0x80:
            byte = head[at]
            size |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
        base = None
        if kind == _OFFSET_DELTA:
            byte = head[at]
            back, at = byte & 0x7F, at + 1
            while byte & 0x80:
                byte = head[at]
                back, at = (back + 1) << 7 | byte & 0x7F, at + 1
            base = offset - back
        elif kind == _ID_DELTA:
            end = at + self._index.raw_length
            base, at = self._index.offset(head[at:end].hex()), end
        if size > _LARGEST or (kind not in _KINDS and base is None):
            return kind, base, None
        return kind, base, self._inflate(head[at:], offset + len(head), size)

    def _inflate(self, compressed: bytes, offset: int, size: int) -> bytes:
        """`size` bytes from a zlib stream, whose beginning was read; the rest is at `offset`."""
        stream = zlib.decompressobj()
        data = stream.decompress(compressed)
        while not stream.eof:
            more = os.pread(self._descriptor, 4 * _BLOCK, offset)
            if not more or len(data) > size:
                raise ValueError("the object ends too early, or too late")
            offset += len(more)
            data += stream.decompress(more)
        if len(data) != size:
            raise ValueError("its size is not the one in its header")
        return data


def _apply(base: bytes, delta: bytes) -> bytes:
    """The object that a delta makes of `base`."""
    before, at = _size(delta, 0)
    after, at = _size(delta, at)
    if before != len(base) or after > _LARGEST:
        raise ValueError("the delta is of another object, or of a large one")
    parts = []
    while at < len(delta):
        op = delta[at]
        at += 1
        if op & 0x80:
            start = length = 0
            for n in range(4):
                if op >> n & 1:
                    start |= delta[at] << 8 * n
                    at += 1
            for n in range(3):
                if op >> 4 + n & 1:
                    length |= delta[at] << 8 * n
                    at += 1
            parts.append(base[start : start + (length or 0x10000)])
        elif op:
            parts.append(delta[at : at + op])
            at += op
        else:
            raise ValueError("the delta has an unknown instruction")
    made = b"".join(parts)
    if len(made) != after:
        raise ValueError("the delta gives another size")
    return made


def _size(delta: bytes, at: int) -> tuple[int, int]:
    """A size in a delta, and what is after it."""
    value = shift = 0
    while True:
        byte = delta[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
