"""What looks at a capture while it goes on: the warning about very many untracked files.

Other snapshot tools have filled disks with a repository that somebody had made in the home folder, or with a folder of
dependencies that no ignore rule named. Everything is saved here, too, but it is said what takes the room.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence

from git_agentos.errors import AgentosWarning
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.util.values import count

_MOST = 0.9  # what part of the files in a folder are nearly all


class CaptureObserver:
    """Warns if the worktree has more untracked files than `limit` (0: never), or any if its top is `home` or the top of
    the file system."""

    def __init__(self, limit: int, home: str) -> None:
        self.limit = limit
        self.home = home

    def scanned(self, repository: Repository, commit: str | None, untracked: Sequence[bytes]) -> None:
        """git has scanned the worktree; `commit` is HEAD's."""
        top = _describe_top(repository.location.root, self.home)
        if self.limit and (len(untracked) > self.limit or (top and untracked)):
            warnings.warn(AgentosWarning(_warning(repository, commit, untracked, top)), stacklevel=2)


def _describe_top(root: str, home: str) -> str:
    """What the top of a worktree is, if no repository should be there; else empty."""
    if root == os.sep:
        return "the top of the file system"
    return "your home folder" if root == os.path.realpath(home) else ""


def _warning(repository: Repository, commit: str | None, untracked: Sequence[bytes], top: str) -> str:
    folder, number = largest_folder(repository, repository.commit_tree(commit), untracked)
    name = os.fsdecode(folder).replace("\n", r"\n")  # a warning has one line
    where = f"the repository is in {top}: " if top else ""
    which = f"'{name}/'" if folder else "the top folder"
    advice = f"'{name}/' in .gitignore" if folder else "their names in .gitignore"
    return (
        f"{where}checkpoints hold {count(len(untracked), 'untracked file')}, {number} of them in {which};"
        f" if these are no work, list {advice} (agentos.maxUntracked = 0: no such warning)"
    )


def largest_folder(store: trees.TreeSource, tree: str, paths: Sequence[bytes]) -> tuple[bytes, int]:
    """The folder to ignore, and how many of `paths` are in it: the one with the most, as far up as possible.

    It is one without committed files (those of `tree`) if the most are in such a folder, and not one in which nearly
    all are in a folder further down; empty for the top folder.
    """
    folder, total = b"", len(paths)
    while True:
        name, number = _largest_child(folder, paths)
        if not name:
            return folder, number
        below = folder + b"/" + name if folder else name
        is_committed = not folder or trees.find(store, tree, folder) is not None
        if not is_committed and not _MOST * total <= number < total:
            return folder, total
        folder, total = below, number


def _largest_child(folder: bytes, paths: Sequence[bytes]) -> tuple[bytes, int]:
    """The folder directly in `folder` with the most of the paths, and how many; empty: most are directly in it."""
    prefix = folder + b"/" if folder else b""
    rest = (path[len(prefix) :].partition(b"/") for path in paths if path.startswith(prefix))
    return Counter(name if slash else b"" for name, slash, _ in rest).most_common(1)[0]
