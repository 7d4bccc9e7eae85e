"""What is chosen in a restore of hunks: some hunks of some files, by their numbers or by answers.

`mixture` is the state that they lead to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from git_agentos.checkpoint.model import State
from git_agentos.errors import UsageError
from git_agentos.git.hunks import Hunk, HunkKind
from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.checkpoint.queries import FileDifference

_MOST_NAMES = 10


class FileChoice(NamedTuple):
    """The hunks of one file that are taken from a checkpoint: those of the difference, or what was made of them by
    splitting and editing."""

    difference: FileDifference
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> bytes:
        return self.difference.patch.path

    def has(self, kind: HunkKind) -> bool:
        return any(each.kind is kind for each in self.hunks)

    @property
    def is_whole(self) -> bool:
        """Whether the file becomes that of the checkpoint."""
        return self.hunks == self.difference.patch.hunks


@dataclass(frozen=True)
class Choice:
    """The chosen hunks of a restore, by file; `checkpoint` is where they come from, `then` its state."""

    checkpoint: str
    then: State
    files: tuple[FileChoice, ...]

    @property
    def paths(self) -> list[bytes]:
        return [each.path for each in self.files]


# Is given the files that differ, and returns what is chosen.
Chooser = Callable[["Sequence[FileDifference]"], Sequence[FileChoice]]


def words(spec: str) -> tuple[str, list[int]]:
    """Path and numbers of `PATH:N[,N...]`; UsageError if it is not of this form."""
    path, colon, numbers = spec.rpartition(":")
    found = numbers.split(",")
    if not colon or not path or not all(each.isascii() and each.isdigit() for each in found):
        raise UsageError(f"'{spec}' does not name hunks", "give PATH:N[,N...], for example src/app.py:1,3")
    return path, [int(each) for each in found]


def parse(specs: Sequence[tuple[bytes, Sequence[int]]]) -> dict[bytes, list[int]]:
    """The numbers by path; a path may be named more than once."""
    found: dict[bytes, list[int]] = {}
    for path, numbers in specs:
        found.setdefault(path, []).extend(numbers)
    return found


def numbered(
    checkpoint: str, differences: Sequence[FileDifference], wanted: Mapping[bytes, Sequence[int]]
) -> list[FileChoice]:
    """The hunks with these numbers. UsageError for a path or a number that there is not."""
    known = {each.patch.path: each for each in differences}
    found = []
    for path, numbers in wanted.items():
        name = os.fsdecode(path)
        if path not in known:
            raise UsageError(
                f"'{name}' has no hunks: it is as in checkpoint {checkpoint[:8]}, or not a file", _listed(known)
            )
        those = known[path].patch.hunks
        for number in numbers:
            if not 1 <= number <= len(those):
                raise UsageError(f"'{name}' has no hunk {number}", f"its hunks are 1 to {len(those)}")
        found.append(FileChoice(known[path], tuple(those[number - 1] for number in sorted(set(numbers)))))
    return found


def _listed(known: Mapping[bytes, FileDifference]) -> str:
    if not known:
        return "no file differs from the checkpoint"
    names = [f"{os.fsdecode(path)} ({len(each.patch.hunks)})" for path, each in sorted(known.items())[:_MOST_NAMES]]
    more = "" if len(known) <= _MOST_NAMES else f", and {len(known) - _MOST_NAMES} more"
    return f"files that differ, with their number of hunks: {', '.join(names)}{more}"
