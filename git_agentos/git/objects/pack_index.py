"""Which objects a pack has, by its index: gitformat-pack(5), versions 1 and 2, with ids of any hash algorithm."""

from __future__ import annotations

import bisect
import mmap
import os
import struct
from collections.abc import Iterator

_FANOUT = 256 * 4
_MAGIC = b"\xfftOc"
_FAR = 0x80000000  # an offset that is in another table
# Ids are looked up in a set if a pack is not too large for that, and as many have been looked up as pay for the set.
_MOST_IN_SET = 20_000
_LOOK_UPS = 8  # objects for each look-up


class PackIndex:
    """The open index of one pack. It stays readable when the file has been removed."""

    def __init__(self, path: str, raw_length: int) -> None:
        """OSError or ValueError if the index cannot be read."""
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # ValueError if it is empty
        self.pack_path = f"{path.removesuffix('.idx')}.pack"
        self.raw_length = self._length = raw_length
        self._ids: frozenset[str] | None = None
        self._asked = 0
        if self._data[:4] == _MAGIC:
            if self._data[4:8] != b"\0\0\0\x02":
                raise ValueError(f"'{path}' has an unknown version")
            self._fanout, self._stride, self._skip = 8, raw_length, 0
        else:
            self._fanout, self._stride, self._skip = 0, 4 + raw_length, 4  # each id is after its offset
        ids = self._fanout + _FANOUT
        self._count = self._count_up_to(255) if len(self._data) >= ids else 0
        if len(self._data) < ids + self._stride * self._count + 2 * raw_length:
            raise ValueError(f"'{path}' is too short")

    def __iter__(self) -> Iterator[str]:
        if self._skip:  # version 1
            return (self._id(n).hex() for n in range(self._count))
        start = self._fanout + _FANOUT
        digits = self._data[start : start + self._count * self._length].hex()
        width = 2 * self._length
        return (digits[n : n + width] for n in range(0, len(digits), width))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, oid: str) -> bool:
        if self._ids is not None:
            return oid in self._ids
        self._asked += _LOOK_UPS
        if self._asked > self._count <= _MOST_IN_SET:
            self._ids = frozenset(self)
        raw = bytes.fromhex(oid)
        n, end = self._place(raw)
        return n < end and self._id(n) == raw

    def offset(self, oid: str) -> int | None:
        """Where an object is in the pack; None if it is not in it, or this index does not say it simply."""
        raw = bytes.fromhex(oid)
        n, end = self._place(raw)
        if n >= end or self._id(n) != raw:
            return None
        if self._skip:  # version 1
            at = self._fanout + _FANOUT + n * self._stride
            return int.from_bytes(self._data[at : at + 4])
        # After the ids are as many checksums of four bytes.
        at = self._fanout + _FANOUT + len(self) * (self._stride + 4) + 4 * n
        found = int.from_bytes(self._data[at : at + 4])
        return found if found < _FAR else None

    def with_prefix(self, prefix: str) -> Iterator[str]:
        """The oids that begin with a hex prefix of at least two digits, in order."""
        lowest = bytes.fromhex(prefix.ljust(2 * self._length, "0"))
        n, end = self._place(lowest)
        while n < end and (oid := self._id(n).hex()).startswith(prefix):
            yield oid
            n += 1

    def ids(self) -> Iterator[str]:
        """All oids, in order."""
        return (self._id(n).hex() for n in range(self._count_up_to(255)))

    def _place(self, raw: bytes) -> tuple[int, int]:
        """The number of the first id that is not less than `raw`, and where the ids end that share its first byte."""
        end = self._count_up_to(raw[0])
        first = self._count_up_to(raw[0] - 1) if raw[0] else 0
        return bisect.bisect_left(range(end), raw, first, end, key=self._id), end

    def _count_up_to(self, byte: int) -> int:
        """How many ids begin with a byte that is not greater."""
        found: int = struct.unpack_from(">I", self._data, self._fanout + 4 * byte)[0]
        return found

    def _id(self, n: int) -> bytes:
        start = self._fanout + _FANOUT + n * self._stride + self._skip
        return self._data[start : start + self._length]


class PackIndexes:
    """The indexes of all packs in some object stores, each opened once."""

    def __init__(self, stores: list[str], raw_length: int) -> None:
        self._stores = stores
        self._length = raw_length
        self._open: dict[str, PackIndex | None] = {}  # None: it cannot be read; git says what is wrong with it

    def known(self) -> list[PackIndex]:
        """Those that were on disk when they were last listed."""
        return [each for each in (self._open or self._list()).values() if each is not None]

    def on_disk(self) -> list[PackIndex]:
        """Those that are on disk now, with their packs."""
        return [each for each in self._list().values() if each is not None]

    def _list(self) -> dict[str, PackIndex | None]:
        found: dict[str, PackIndex | None] = {}
        for store in self._stores:
            folder = os.path.join(store, "pack")
            try:
                names = set(os.listdir(folder))
            except OSError:
                continue
            for name in names:
                if name.endswith(".idx") and f"{name[:-4]}.pack" in names:
                    path = os.path.join(folder, name)
                    found[path] = self._open[path] if path in self._open else _open(path, self._length)
        self._open = found
        return found


def _open(path: str, raw_length: int) -> PackIndex | None:
    try:
        return PackIndex(path, raw_length)
    except (OSError, ValueError):
        return None
