"""What a command says, on its way to a file and to whoever looks on: line by line, and without secrets.

Secrets are those that `redact` knows by their form, the values of variables whose names say that they are secret, and
private keys, which go over several lines. Bytes that are no UTF-8 pass through. A line that does not end is cut at
64 KiB, where no word is. Of a stream that gets longer than 64 MiB, what follows is left out up to the last 256 KiB:
it is the end that says what went wrong.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import BinaryIO

from git_agentos import redact

MOST, LAST = 64 << 20, 256 << 10
_LONGEST_LINE = 64 << 10
_SHORTEST_SECRET = 8
_NO_SECRETS = ("PWD", "OLDPWD")  # by their names they could be
# What cannot be a part of a token: a long line may be cut there.
_BETWEEN_WORDS = re.compile(rb"[^A-Za-z0-9_.+/=~%-]")
_KEY_BEGINS = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(rb"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
# A line of a key: base64, a header, or nothing; and its last, or a checksum, which are shorter.
_KEY_LINE = re.compile(
    rb"(?:.*[^A-Za-z0-9+/])?[A-Za-z0-9+/]{32,}={0,2}\W*|.*(?:Proc-Type|DEK-Info|Version|Comment|Hash): .*|"
)
_KEY_SHORT = re.compile(rb"=?[A-Za-z0-9+/]+={0,2}\W*")
_MOST_SHORT = 2
_MASK = redact.MASK.encode()


class Stream:
    """One stream of a command: what is fed to it goes to `file` and, each line without its end, to `show`."""

    def __init__(self, file: BinaryIO, show: Callable[[bytes], None], values: frozenset[bytes]) -> None:
        self._file = file
        self._show = show
        self._values = sorted(values, key=len, reverse=True)
        self._rest = b""
        self._key: _Key | None = None
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
            self._file.write(self._clean(line))
        self._file.flush()

    def note(self, text: str) -> None:
        """Say something ourselves."""
        self._line(f"git-agentos: {text}\n".encode())

    def _lines(self, lines: list[bytes]) -> None:
        """Several at once where nothing is in any of them; else each half by itself."""
        block = b"".join(lines)
        plain = self._key is None and len(block) <= self._room and self._is_plain(block)
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

    def _is_plain(self, block: bytes) -> bool:
        return not any(value in block for value in self._values) and not redact.may_hold(os.fsdecode(block))

    def _line(self, line: bytes) -> None:
        if self._hides(line):
            return
        if self._room <= 0:
            self._keep_last(line)
            return
        clean = self._clean(line)
        self._room -= len(clean)
        self._file.write(clean)
        self._show(clean.rstrip(b"\r\n"))

    def _clean(self, line: bytes) -> bytes:
        text = line.rstrip(b"\r\n")
        clean = os.fsencode(redact.redact(os.fsdecode(text))[0])
        for value in self._values:
            clean = clean.replace(value, _MASK)
        return clean + line[len(text) :]

    def _keep_last(self, line: bytes) -> None:
        self._tail.append(line)
        self._tail_size += len(line)
        while self._tail_size > LAST:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._left_out += gone

    def _hides(self, line: bytes) -> bool:
        """Whether a line is of a private key, but for its first: that one says that there was one."""
        if self._key is None:
            begins = _KEY_BEGINS.search(line)
            if begins is not None and _KEY_ENDS.search(line, begins.end()) is None:
                self._key = _Key(begins.start())
            return False
        if _KEY_ENDS.search(line) is not None:
            self._key = None
            return True
        if self._key.goes_on(line):
            return True
        self._key = None
        return self._hides(line)


class _Key:
    """A private key in the middle of a stream. `column` is where it began in its line: what comes before that in the
    following lines (a time, a line's number) is none of it."""

    def __init__(self, column: int) -> None:
        self._column = column
        self._room = 0

    def goes_on(self, line: bytes) -> bool:
        """Whether a line is the next of the key."""
        text = line[self._column :].strip()
        if _KEY_LINE.fullmatch(text) is not None:
            self._room = _MOST_SHORT
            return True
        self._room -= 1
        return self._room >= 0 and _KEY_SHORT.fullmatch(text) is not None


def secrets_of(environment: Mapping[str, str]) -> frozenset[bytes]:
    """The values of variables that are secret by their names. A path to a secret is none."""
    return frozenset(
        os.fsencode(value)
        for name, value in environment.items()
        if len(value) >= _SHORTEST_SECRET
        and name not in _NO_SECRETS
        and not value.startswith(("/", "~"))
        and redact.is_secret_name(name)
    )


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
