"""The files of the reftable format, read (reftable in git's technical documentation).

A stack is a folder of tables; `tables.list` names them, oldest first, and a record in a newer table replaces that in an
older one. A table never changes, so a stack that could be opened is one state. A table begins with a header and with
blocks of ref records, sorted by name; blocks of log records follow, compressed, sorted by name and newest first. git's
tables also have indexes; they are not needed here: the first record of each block says where a name is.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator

from git_agentos.util.named_tuple import NamedTuple

_MAGIC = b"REFT"
_LIST = "tables.list"
_HEADER = {1: 24, 2: 28}  # bytes, by the version of the format
_FOOTER = {1: 68, 2: 72}
_SHA256 = b"s256"
_ATTEMPTS = 100
_CHUNK = 1 << 16


class Ref(NamedTuple):
    """What a ref is at: an oid, or the name of another ref; neither if it was deleted."""

    oid: str | None = None
    target: str | None = None


class Stack:
    """The tables in a folder, as they were when it was opened; none if there is no such folder.

    ValueError if a table is damaged, OSError if one cannot be read.
    """

    def __init__(self, folder: str) -> None:
        self._tables = _open_tables(folder)

    def find(self, name: str) -> Ref:
        """One ref."""
        wanted = os.fsencode(name)
        for table in reversed(self._tables):
            found = table.find(wanted)
            if found is not None:
                return found
        return Ref()

    def refs(self, prefix: str = "") -> dict[str, Ref]:
        """Name -> ref, of those whose names begin with `prefix`."""
        wanted = os.fsencode(prefix)
        found = {name: ref for table in self._tables for name, ref in table.refs(wanted)}
        return {os.fsdecode(name): found[name] for name in sorted(found) if found[name] != Ref()}

    def logs(self, prefix: str = "") -> dict[str, list[bytes]]:
        """Name -> lines, as a file of reflogs would have them, oldest first; of those whose names begin with
        `prefix`."""
        wanted = os.fsencode(prefix)
        found = {key: line for table in self._tables for key, line in table.logs(wanted)}
        lines: dict[str, list[bytes]] = {}
        for key in sorted(found):
            line = found[key]
            if line is not None:
                lines.setdefault(os.fsdecode(key[0]), []).extend([line] if line else [])
        return lines

    def shortened_logs(self, since: int) -> set[str]:
        """The names of refs of whose reflogs a table that was written since a time (ns since the epoch) deletes lines.
        If all tables were merged since, nothing says what was deleted: then those whose reflogs do not begin with the
        ref's first value, and HEAD if it has none."""
        newer = [table for table in self._tables if table.written_at >= since]
        names = {os.fsdecode(key[0]) for table in newer for key, line in table.logs(b"") if line is None}
        if newer and newer[0] is self._tables[0]:
            lines = {"HEAD": [], **self.logs()}
            names |= {name for name, each in lines.items() if not each or each[0].split(b" ")[0].strip(b"0")}
        return {name for name in names if self.find(name) != Ref()}


def _open_tables(folder: str) -> list[_Table]:
    """Every table of a stack. git removes tables after it has merged them into another one: then the list is read
    again."""
    for _ in range(_ATTEMPTS):
        try:
            with open(os.path.join(folder, _LIST), "rb") as file:
                names = file.read().split()
        except FileNotFoundError:
            return []
        with contextlib.suppress(FileNotFoundError):
            return [_open_table(os.path.join(folder, os.fsdecode(name))) for name in names]
    raise FileNotFoundError(f"a table that '{os.path.join(folder, _LIST)}' names does not exist")


def _open_table(path: str) -> _Table:
    with open(path, "rb") as file:
        data, written_at = file.read(), os.fstat(file.fileno()).st_ctime_ns
    try:
        return _Table(data, written_at)
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(f"'{path}' is damaged") from error


class _Table:
    """One table, with the time at which it was written (ns since the epoch)."""

    def __init__(self, data: bytes, written_at: int) -> None:
        version = data[4]
        self.written_at = written_at
        self._data = data
        self._header = _HEADER[version]
        self._size = len(data) - _FOOTER[version]
        if data[:4] != _MAGIC or self._size < 0 or data[self._size :][: self._header] != data[: self._header]:
            raise ValueError("no reftable")
        footer = data[self._size :]
        if zlib.crc32(footer[:-4]) != int.from_bytes(footer[-4:], "big"):
            raise ValueError("wrong checksum")
        self._raw = 32 if version > 1 and data[24:28] == _SHA256 else 20
        self._block_size = int.from_bytes(data[5:8], "big")
        self._base = int.from_bytes(data[8:16], "big")
        self._logs_begin = int.from_bytes(footer[-20:-12], "big")

    # -- refs ---------------------------------------------------------------------------------------------------------

    def find(self, name: bytes) -> Ref | None:
        """One ref; None if this table has no record of it."""
        block = None
        for each in self._ref_blocks():
            if self._first_name(each[0]) > name:
                break
            block = each
        for found, ref in self._records(*block) if block is not None else ():
            if found == name:
                return ref
        return None

    def refs(self, prefix: bytes) -> Iterator[tuple[bytes, Ref]]:
        """The records of refs whose names begin with `prefix`."""
        blocks = list(self._ref_blocks())
        for number, block in enumerate(blocks):
            if number + 1 < len(blocks) and self._first_name(blocks[number + 1][0]) < prefix:
                continue
            for name, ref in self._records(*block):
                if name.startswith(prefix):
                    yield name, ref
                elif name > prefix:
                    return

    def _ref_blocks(self) -> Iterator[tuple[int, int]]:
        """Where the records of each block of refs begin and end."""
        position = 0
        while position < self._size:
            start = position or self._header
            if self._data[start : start + 1] != b"r":
                return
            length = int.from_bytes(self._data[start + 1 : start + 4], "big")
            end = position + length
            yield start + 4, end - 2 - 3 * int.from_bytes(self._data[end - 2 : end], "big")
            # A block that is shorter than a full one is padded with zeros, or the next one follows immediately.
            is_padded = length < self._block_size and self._data[end : end + 1] == b"\0"
            position += self._block_size if is_padded else length

    def _first_name(self, position: int) -> bytes:
        _, position = _number(self._data, position)
        word, position = _number(self._data, position)
        return self._data[position : position + (word >> 3)]

    def _records(self, position: int, end: int) -> Iterator[tuple[bytes, Ref]]:
        data, raw, name = self._data, self._raw, b""
        while position < end:
            shared, position = _number(data, position)
            word, position = _number(data, position)
            name = name[:shared] + data[position : position + (word >> 3)]
            position += word >> 3
            _, position = _number(data, position)  # the update's number
            kind, ref = word & 7, Ref()
            if kind in (1, 2):
                ref = Ref(oid=data[position : position + raw].hex())
                position += raw * kind  # the object that a tag leads to follows
            elif kind == 3:
                length, position = _number(data, position)
                ref = Ref(target=os.fsdecode(data[position : position + length]))
                position += length
            elif kind:
                raise ValueError("unknown kind of record")
            yield name, ref

    # -- reflogs ------------------------------------------------------------------------------------------------------

    def logs(self, prefix: bytes) -> Iterator[tuple[tuple[bytes, int], bytes | None]]:
        """(Name, number of the update) -> line of the reflog; None if it was deleted. An empty line only says that
        there is a reflog."""
        for block in self._log_blocks():
            position, end, key = 0, len(block) - 2 - 3 * int.from_bytes(block[-2:], "big"), b""
            while position < end:
                shared, position = _number(block, position)
                word, position = _number(block, position)
                key = key[:shared] + block[position : position + (word >> 3)]
                position += word >> 3
                name, number = key[:-9], (1 << 64) - 1 - int.from_bytes(key[-8:], "big")
                line = None
                if word & 7:
                    line, position = self._log_line(block, position)
                if name.startswith(prefix):
                    yield (name, number), line
                elif name > prefix:
                    return

    def _log_blocks(self) -> Iterator[bytes]:
        """The records and restart points of each block of log records."""
        position = self._logs_begin
        while position < self._size:
            start = position or self._header
            if self._data[start : start + 1] != b"g":
                return
            inflate, position = zlib.decompressobj(), start + 4
            block = b""
            while not inflate.eof and position < self._size:
                block += inflate.decompress(self._data[position : position + _CHUNK])
                position += _CHUNK
            yield block
            position = min(position, len(self._data)) - len(inflate.unused_data)

    def _log_line(self, block: bytes, position: int) -> tuple[bytes, int]:
        raw = self._raw
        old, new = block[position : position + raw], block[position + raw : position + 2 * raw]
        name, position = _text(block, position + 2 * raw)
        email, position = _text(block, position)
        seconds, position = _number(block, position)
        zone = int.from_bytes(block[position : position + 2], "big", signed=True)
        message, position = _text(block, position + 2)
        if not any(old) and not any(new):
            return b"", position
        head = b"%b %b %b <%b> %d %+05d" % (old.hex().encode(), new.hex().encode(), name, email, seconds, zone)
        return head + (b"\t" + message.rstrip(b"\n") if message.strip() else b""), position


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number of variable length (as the offsets in packs), and where it ends."""
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, position + 1


def _text(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = _number(data, position)
    return data[position : position + length], position + length
