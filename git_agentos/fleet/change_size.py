"""How large the change of a task is, by which one of several samples is chosen."""

from __future__ import annotations

from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple


class ChangeSize(NamedTuple):
    """The smaller one is less: by lines added and removed, then by files. Binary files have no lines."""

    lines: int
    files: int


def measure(repository: Repository, base: str, commit: str) -> ChangeSize:
    """What a commit, or a tree, changes since another commit."""
    rows = repository.git("diff-tree", "-r", "-z", "--no-renames", "--numstat", base, commit).split(b"\0")
    lines = [row.split(b"\t", 2)[:2] for row in rows if row]
    return ChangeSize(sum(int(each) for row in lines for each in row if each != b"-"), len(lines))
