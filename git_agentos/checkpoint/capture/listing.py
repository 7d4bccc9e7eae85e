"""What is on disk in a worktree beside what git tells of it: its folders, and what git passes over without a word.

An exact restore needs it: to git a folder is nothing, nor are its permission bits, a pipe, or a `.git` that makes no
repository. A folder whose times and inode are those that are known of it has the same names in it (no program can set
the change time), and is not looked into again: the cost is a `stat` for each folder, not one for each file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from git_agentos.git import untracked


class Folder(NamedTuple):
    """One folder: its permission bits, times (nanoseconds) and inode, and whether there is nothing in it."""

    mode: int
    mtime: int
    ctime: int
    inode: int
    empty: bool


class Known(NamedTuple):
    """What was found at an earlier time: folders, and the files in them that the index, whose tree is `tree`, did not
    have."""

    folders: Mapping[bytes, Folder]
    others: Sequence[bytes]
    tree: str | None


@dataclass(frozen=True)
class Listing:
    """Paths are bytes relative to the root, which is `b""` among the folders.

    `names` are the files and links of the folders that were looked into, and, of those that were not, what was not in
    the index of the tree `tracked` then: every file is among them that is neither in that tree nor in the index (None:
    every file at all). Left out are the root's `.git`, our own folder, and what lies in
    `repositories` inside. `special` are pipes, sockets and devices (there is nothing in them to save), `odd` entries
    named `.git` that make no repository, and `.GIT` and the like, which no tree may have; `closed` folders that cannot
    be read; `plain` tells which folders have none of these directly in them.
    """

    folders: Mapping[bytes, Folder]
    names: Sequence[bytes]
    repositories: Sequence[bytes]
    special: Sequence[bytes]
    odd: Sequence[bytes]
    closed: Sequence[bytes]
    plain: frozenset[bytes]
    tracked: str | None = None

    @property
    def empty(self) -> list[bytes]:
        """The folders with nothing in them."""
        return sorted(path for path, each in self.folders.items() if each.empty and path)


def list_directories(root: str, known: Known | None = None) -> Listing:
    """Look through a worktree; folders that are as they are `known` are taken to have in them what they had."""
    return _Walk(os.fsencode(root), known or Known({}, (), None)).run()


class _Walk:
    def __init__(self, top: bytes, known: Known) -> None:
        self.top = top
        self.known = known
        self.below = _by_parent(known.folders)
        self.folders: dict[bytes, Folder] = {}
        self.names: list[bytes] = []
        self.repositories: list[bytes] = []
        self.special: list[bytes] = []
        self.odd: list[bytes] = []
        self.closed: list[bytes] = []
        self.special_places: set[bytes] = set()
        self.same: set[bytes] = set()

    def run(self) -> Listing:
        waiting = [b""]
        while waiting:
            waiting += self._look(waiting.pop())
        self.names += [path for path in self.known.others if path.rpartition(b"/")[0] in self.same]
        return Listing(
            self.folders,
            self.names,
            sorted(self.repositories),
            sorted(self.special),
            sorted(self.odd),
            self.closed,
            frozenset(self.folders.keys() - self.special_places),
            self.known.tree,
        )

    def _look(self, path: bytes) -> Sequence[bytes]:
        """Note one folder; the folders in it."""
        try:
            found = os.lstat(self.top + b"/" + path)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        if not stat.S_ISDIR(found.st_mode):
            return ()
        row = (stat.S_IMODE(found.st_mode), found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        before = self.known.folders.get(path)
        if before is not None and before[:4] == row:
            self.folders[path] = before
            self.same.add(path)
            return self.below.get(path, ())
        return self._into(path, row)

    def _into(self, path: bytes, row: tuple[int, int, int, int]) -> list[bytes]:
        inner: list[bytes] = []
        files: list[bytes] = []
        special: list[bytes] = []
        other = has_git = False
        prefix = path + b"/" if path else b""
        try:
            with os.scandir(self.top + b"/" + path) as entries:
                for entry in entries:
                    name = prefix + entry.name
                    if entry.name == b".git":
                        has_git = True
                    elif entry.name.lower() == b".git":
                        self.odd.append(name)
                        self.special_places.add(path)
                        other = True
                    elif not path and untracked.is_agentos_path(name):
                        other = True
                    elif entry.is_dir(follow_symlinks=False):
                        inner.append(name)
                    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        files.append(name)
                    else:
                        special.append(name)
        except OSError:
            self.closed.append(path)
            self.special_places.add(path)
            other = True
        if has_git and path and untracked.is_repository(os.path.join(self.top, path)):
            self.repositories.append(path)  # it is saved and restored as one
            self.special_places.add(path.rpartition(b"/")[0])
            return []
        if has_git and path:
            self.odd.append(prefix + b".git")
            self.special_places.add(path)
        if special:
            self.special += special
            self.special_places.add(path)
        self.names += files
        self.folders[path] = Folder(*row, empty=not (inner or files or special or has_git or other))
        return inner


def _by_parent(folders: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for path in folders:
        if path:
            found.setdefault(path.rpartition(b"/")[0], []).append(path)
    return found
