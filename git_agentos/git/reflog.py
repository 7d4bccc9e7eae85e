"""Reading reflogs from their files, even if a power cut has damaged them."""

from __future__ import annotations

import os
from typing import NamedTuple

from git_agentos.util import files
from git_agentos.util.values import is_hex


class Entry(NamedTuple):
    """A line of a reflog."""

    old: str
    new: str
    message: str


def read(path: str) -> list[Entry]:
    """The entries of a reflog, oldest first; invalid lines are left out. Empty if it cannot be read."""
    try:
        lines = files.read(path, limit=1 << 30).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, message = os.fsdecode(line).partition("\t")
        words = before.split(" ", 2)
        if len(words) == 3 and all(len(oid) == 40 and is_hex(oid) for oid in words[:2]):
            found.append(Entry(words[0], words[1], message.strip()))
    return found
