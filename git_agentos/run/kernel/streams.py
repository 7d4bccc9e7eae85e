"""What a command says, on its way to a file and to whoever looks on: line by line, and without secrets.

`redact_lines` knows what secrets are. Bytes that are no UTF-8 pass through. A line that does not end is cut at
64 KiB, where no word is. Of a stream that gets longer than 64 MiB, what follows is left out up to the last 256 KiB:
it is the end that says what went wrong.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from git_agentos.redact_lines import Cleaner, secrets_of

__all__ = ["LAST", "MOST", "Stream", "secrets_of"]

MOST, LAST = 64 << 20, 256 << 10
_LONGEST_LINE = 64 << 10
# What cannot be a part of a token: a long line may be cut there.
_BETWEEN_WORDS = re.compile(rb"[^A-Za-z0-9_.+/=~%-]")


class Stream:
    """One stream of a command: what is fed to it goes to `file` and, each line without its end, to `show`."""

    def __init__(self, file: BinaryIO, show: Callable[[bytes], None], values: frozenset[bytes]) -> None:
        self._file = file
        self._show = show
        self._cleaner = Cleaner(values)
        self._rest = b""
        self._room = MOST
        self._tail: deque[bytes] = deque()
        self._tail_size = self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Take in some more; all lines that are complete go out."""
        lines = _lines(self._rest + data)
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        while len(self._rest) > _LONGEST_LINE:
            at = _cut(self._rest)
            lines.append(self._rest[:at])
            self._rest = self._rest[at:]
        self._lines(lines)
        self._file.flush()

    def end(self) -> None:
        """There is no more: the last line goes out, and the end of what was too long."""
        if self._rest:
            self._line(self._rest)
        if self._left_out:
            self._file.write(b"\n[git-agentos: %d bytes are left out here]\n" % self._left_out)
        for line in self._tail:
            self._file.write(self._cleaner.clean(line))
        self._file.flush()

    def note(self, text: str) -> None:
        """Say something ourselves."""
        self._line(f"git-agentos: {text}\n".encode())

    def _lines(self, lines: list[bytes]) -> None:
        """Several at once where nothing is in any of them; else each half by itself."""
        block = b"".join(lines)
        plain = len(block) <= self._room and self._cleaner.is_plain(block)
        if plain:
            self._room -= len(block)
            self._file.write(block)
            for line in lines:
                self._show(line.rstrip(b"\r\n"))
        elif len(lines) > 1:
            half = len(lines) // 2
            self._lines(lines[:half])
            self._lines(lines[half:])
        elif lines:
            self._line(lines[0])

    def _line(self, line: bytes) -> None:
        if self._cleaner.hides(line):
            return
        if self._room <= 0:
            self._keep_last(line)
            return
        clean = self._cleaner.clean(line)
        self._room -= len(clean)
        self._file.write(clean)
        self._show(clean.rstrip(b"\r\n"))

    def _keep_last(self, line: bytes) -> None:
        self._tail.append(line)
        self._tail_size += len(line)
        while self._tail_size > LAST:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._left_out += gone


def _lines(data: bytes) -> list[bytes]:
    """`splitlines` at newlines alone."""
    found = data.split(b"\n")
    return [each + b"\n" for each in found[:-1]] + ([found[-1]] if found[-1] else [])


def _cut(data: bytes) -> int:
    """Where a line that is too long is cut: after the last character within the limit that is of no word."""
    for found in _BETWEEN_WORDS.finditer(data, _LONGEST_LINE - 4096, _LONGEST_LINE):
        at = found.end()
        break
    else:
        return _LONGEST_LINE
    return at
