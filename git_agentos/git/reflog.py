"""Reading reflogs from their files, even if a power cut has damaged them."""

from __future__ import annotations

import os
from typing import NamedTuple

from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.util import files


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
        if len(words) == 3 and all(map(is_any_oid, words[:2])):
            found.append(Entry(words[0], words[1], message.strip()))
    return found
