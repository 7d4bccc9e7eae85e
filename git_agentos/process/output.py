"""What a command writes, line by line and without secrets, into a file and to an observer.

`redact_lines` knows what secrets are. Bytes that are no UTF-8 pass through. A line that does not end is cut at
64 KiB, between words. Of output beyond 64 MiB only the last 256 KiB are kept: the end says what went wrong.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from git_agentos.redact_lines import Cleaner

MAX_BYTES, TAIL_BYTES = 64 << 20, 256 << 10
_MAX_LINE = 64 << 10
# What cannot be a part of a token: a long line may be cut there.
_BETWEEN_WORDS = re.compile(rb"[^A-Za-z0-9_.+/=~%-]")


class RedactingWriter:
    """Takes one stream of a command: lines go to `file`, and to `show` without their ends. `values` are secrets."""

    def __init__(self, file: BinaryIO, show: Callable[[bytes], None], values: frozenset[bytes]) -> None:
        self._file = file
        self._show = show
        self._cleaner = Cleaner(values)
        self._rest = b""
        self._room = MAX_BYTES
        self._tail: deque[bytes] = deque()
        self._tail_size = self._left_out = 0

    def write(self, data: bytes) -> None:
        """Take some more; all lines that are complete are written."""
        lines = _split(self._rest + data)
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        while len(self._rest) > _MAX_LINE:
            end = _cut(self._rest)
            lines.append(self._rest[:end])
            self._rest = self._rest[end:]
        self._write_lines(lines)
        self._file.flush()

    def close(self) -> None:
        """Write the last line, and the end of output that was too long; the file stays open."""
        if self._rest:
            self._write_line(self._rest)
        if self._left_out:
            self._file.write(b"\n[git-agentos: %d bytes are left out here]\n" % self._left_out)
        for line in self._tail:
            self._file.write(self._cleaner.clean(line))
        self._file.flush()

    def note(self, text: str) -> None:
        """Write a line of our own."""
        self._write_line(f"git-agentos: {text}\n".encode())

    def _write_lines(self, lines: list[bytes]) -> None:
        """Write several lines at once where there is nothing to redact in any; else each half by itself."""
        block = b"".join(lines)
        plain = len(block) <= self._room and self._cleaner.is_plain(block)
        if plain:
            self._room -= len(block)
            self._file.write(block)
            for line in lines:
                self._show(line.rstrip(b"\r\n"))
        elif len(lines) > 1:
            half = len(lines) // 2
            self._write_lines(lines[:half])
            self._write_lines(lines[half:])
        elif lines:
            self._write_line(lines[0])

    def _write_line(self, line: bytes) -> None:
        if self._cleaner.hides(line):
            return
        if self._room <= 0:
            self._append_to_tail(line)
            return
        clean = self._cleaner.clean(line)
        self._room -= len(clean)
        self._file.write(clean)
        self._show(clean.rstrip(b"\r\n"))

    def _append_to_tail(self, line: bytes) -> None:
        self._tail.append(line)
        self._tail_size += len(line)
        while self._tail_size > TAIL_BYTES:
            dropped = len(self._tail.popleft())
            self._tail_size -= dropped
            self._left_out += dropped


def _split(data: bytes) -> list[bytes]:
    """`splitlines` at newlines alone, ends included."""
    found = data.split(b"\n")
    return [each + b"\n" for each in found[:-1]] + ([found[-1]] if found[-1] else [])


def _cut(data: bytes) -> int:
    """Where a line that is too long is cut: after the last character within the limit that is between words."""
    for found in _BETWEEN_WORDS.finditer(data, _MAX_LINE - 4096, _MAX_LINE):
        return found.end()
    return _MAX_LINE
