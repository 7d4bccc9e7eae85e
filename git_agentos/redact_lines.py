"""Secrets in lines of bytes: in what a command prints, and in files. Private keys, which go over several lines, are
found as well as what `redact` finds in one; so are the values of secret environment variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from git_agentos import redact

MASK = redact.MASK.encode()

_SHORTEST_SECRET = 8
_NO_SECRETS = ("PWD", "OLDPWD")  # by their names they could be
_KEY_BEGINS = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(rb"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
# A line of a key: base64, a header, or nothing; and its last, or a checksum, which are shorter.
_KEY_LINE = re.compile(
    rb"(?:.*[^A-Za-z0-9+/])?[A-Za-z0-9+/]{32,}={0,2}\W*|.*(?:Proc-Type|DEK-Info|Version|Comment|Hash): .*|"
)
_KEY_SHORT = re.compile(rb"=?[A-Za-z0-9+/]+={0,2}\W*")
_MOST_SHORT = 2


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


class Cleaner:
    """Takes the secrets out of lines that come one after the other. `values` are secret wherever they stand."""

    def __init__(self, values: frozenset[bytes]) -> None:
        self._values = sorted(values, key=len, reverse=True)
        self._key: _Key | None = None

    def is_plain(self, block: bytes) -> bool:
        """Whether the next lines hold nothing to take out. Quick to say no, also of many lines at once."""
        if self._key is not None or any(value in block for value in self._values):
            return False
        return not redact.may_hold(os.fsdecode(block))

    def clean(self, line: bytes) -> bytes:
        """A line without the secrets in it; the end of the line stays."""
        text = line.rstrip(b"\r\n")
        clean = os.fsencode(redact.redact(os.fsdecode(text))[0])
        for value in self._values:
            clean = clean.replace(value, MASK)
        return clean + line[len(text) :]

    def hides(self, line: bytes) -> bool:
        """Whether the next line is of a private key, but for its first: that one shows that there is one."""
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
        return self.hides(line)


class _Key:
    """A private key in the middle of lines. `column` is where it began in its line: what comes before that in the
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


def clean_lines(lines: list[bytes], values: frozenset[bytes]) -> list[bytes]:
    """The lines of a file (without their newlines) without its secrets: as many lines as before."""
    cleaner = Cleaner(values)
    if cleaner.is_plain(b"\n".join(lines)):
        return lines
    found = [MASK if cleaner.hides(line) else cleaner.clean(line) for line in lines]
    # A name and its value may stand in two lines.
    whole = os.fsencode(redact.redact(os.fsdecode(b"\n".join(found)))[0]).split(b"\n")
    return whole if len(whole) == len(lines) else found
