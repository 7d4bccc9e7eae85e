"""Removing secrets from lines of bytes: the output of commands, and files. In addition to what `redact` finds in a
line, this finds private keys over several lines, and the values of secret environment variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from git_agentos import redact

MASK = redact.MASK.encode()

_SHORTEST_SECRET = 8
_NO_SECRETS = ("PWD", "OLDPWD")  # not secret, although their names look so
_KEY_BEGINS = re.compile(redact.PRIVATE_KEY_BEGINS.encode())
_KEY_ENDS = re.compile(redact.PRIVATE_KEY_ENDS.encode())
# A line of a key: base64, a header, or empty; the last line and a checksum are shorter.
_KEY_LINE = re.compile(
    rb"(?:.*[^A-Za-z0-9+/])?[A-Za-z0-9+/]{32,}={0,2}\W*|.*(?:Proc-Type|DEK-Info|Version|Comment|Hash): .*|"
)
_KEY_SHORT = re.compile(rb"=?[A-Za-z0-9+/]+={0,2}\W*")
_MOST_SHORT = 2


def secrets_of(environment: Mapping[str, str]) -> frozenset[bytes]:
    """The values of variables with secret names. A path to a secret is not a secret."""
    return frozenset(
        os.fsencode(value)
        for name, value in environment.items()
        if len(value) >= _SHORTEST_SECRET
        and name not in _NO_SECRETS
        and not value.startswith(("/", "~"))
        and redact.is_secret_name(name)
    )


class Cleaner:
    """Removes the secrets from consecutive lines. `values` are secret wherever they occur."""

    def __init__(self, values: frozenset[bytes]) -> None:
        self._values = sorted(values, key=len, reverse=True)
        self._key: _Key | None = None

    def is_plain(self, block: bytes) -> bool:
        """Whether the next lines contain no secret. Fast, also for many lines at once."""
        if self._key is not None or any(value in block for value in self._values):
            return False
        return not redact.may_hold(os.fsdecode(block))

    def clean(self, line: bytes) -> bytes:
        """A line without its secrets; its line ending is kept."""
        text = line.rstrip(b"\r\n")
        clean = os.fsencode(redact.redact(os.fsdecode(text))[0])
        for value in self._values:
            clean = clean.replace(value, MASK)
        return clean + line[len(text) :]

    def hides(self, line: bytes) -> bool:
        """Whether the next line belongs to a private key, except its first line, which is kept as a sign of the key."""
        if self._key is None:
            begins = _KEY_BEGINS.search(line)
            if begins is not None and _KEY_ENDS.search(line, begins.end()) is None:
                self._key = _Key(begins.start())
            return False
        if _KEY_ENDS.search(line) is not None:
            self._key = None
            return True
        if self._key.continues_in(line):
            return True
        self._key = None
        return self.hides(line)


class _Key:
    """A private key that began in an earlier line at `column`. In the next lines, text before that column (a time, a
    line number) does not belong to it."""

    def __init__(self, column: int) -> None:
        self._column = column
        self._room = 0

    def continues_in(self, line: bytes) -> bool:
        """Whether a line continues the key."""
        text = line[self._column :].strip()
        if _KEY_LINE.fullmatch(text) is not None:
            self._room = _MOST_SHORT
            return True
        self._room -= 1
        return self._room >= 0 and _KEY_SHORT.fullmatch(text) is not None


def clean_lines(lines: list[bytes], values: frozenset[bytes]) -> list[bytes]:
    """The lines of a file (without their newlines) with its secrets masked; their number does not change."""
    cleaner = Cleaner(values)
    if cleaner.is_plain(b"\n".join(lines)):
        return lines
    found = [MASK if cleaner.hides(line) else cleaner.clean(line) for line in lines]
    # A name and its value can be on two lines.
    whole = os.fsencode(redact.redact(os.fsdecode(b"\n".join(found)))[0]).split(b"\n")
    return whole if len(whole) == len(lines) else found
