"""The lines of reflogs (`git_agentos.git.refs.read_log`), even of one that a power cut has damaged."""

from __future__ import annotations

import os
from collections.abc import Iterable

from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.util.named_tuple import NamedTuple

# How the messages begin of entries for commits that were made there, and not only checked out.
_MADE = ("commit", "cherry-pick", "revert", "am", "rebase (pick", "rebase (squash", "rebase (fixup", "rebase (reword")
_MERGED = "Merge made by"


class Entry(NamedTuple):
    """A line of a reflog."""

    old: str
    new: str
    message: str


def is_made_there(entry: Entry) -> bool:
    """Whether an entry of HEAD's reflog is of a commit that was made in that worktree, and not only checked out."""
    return entry.message.startswith(_MADE) or _MERGED in entry.message


def parse(lines: Iterable[bytes]) -> list[Entry]:
    """The entries of a reflog by its lines, in their order; invalid lines are left out."""
    found = []
    for line in lines:
        before, _, message = os.fsdecode(line).partition("\t")
        words = before.split(" ", 2)
        if len(words) == 3 and all(map(is_any_oid, words[:2])):
            found.append(Entry(words[0], words[1], message.strip()))
    return found
