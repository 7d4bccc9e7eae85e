"""Reading reflogs, as they are on disk: also those that a power cut has torn."""

from __future__ import annotations

import os
from typing import NamedTuple

from git_agentos.util import files
from git_agentos.util.values import is_hex


class Entry(NamedTuple):
    """A line of a reflog."""

    old: str
    new: str
    said: str


def read(path: str) -> list[Entry]:
    """The entries of a reflog, oldest first; lines that are none are left out. Empty where it cannot be read."""
    try:
        lines = files.read(path, limit=1 << 30).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, said = os.fsdecode(line).partition("\t")
        words = before.split(" ", 2)
        if len(words) == 3 and all(len(oid) == 40 and is_hex(oid) for oid in words[:2]):
            found.append(Entry(words[0], words[1], said.strip()))
    return found
