"""What is on disk in a worktree, path by path."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from git_agentos.git import trees
from git_agentos.git.filesystem import Names
from git_agentos.git.repository import Repository
from git_agentos.git.trees import Entry


class Disk:
    """The modes of paths in a worktree at one moment: each path is read once. A path that leads through a symlink is
    outside the worktree, and counts as absent."""

    def __init__(self, root: bytes) -> None:
        self._below = os.path.join(root, b"")
        self._directories = {b""}
        self._no_directories: set[bytes] = set()
        self._modes: dict[bytes, int | None] = {}

    def at(self, path: bytes) -> bytes:
        return self._below + path

    def mode(self, path: bytes) -> int | None:
        """The `st_mode` of what is at `path`; None if there is nothing."""
        if path not in self._modes:
            self._modes[path] = self._look(path) if self._is_in_directories(path) else None
        return self._modes[path]

    def place(self, path: bytes) -> bytes:
        """The path of the file that opening `path` opens, as it is spelled on disk; `path` if there is none."""
        return path

    def is_link(self, path: bytes, entry: Entry, repository: Repository) -> bool:
        """Whether the symlink at `path` is the one that `entry` describes."""
        return entry[0] == trees.SYMLINK and os.readlink(self.at(path)) == repository.blob(entry[1])

    def _is_in_directories(self, path: bytes) -> bool:
        above = []
        parent = path.rpartition(b"/")[0]
        while parent not in self._directories:
            if parent in self._no_directories:
                return False
            above.append(parent)
            parent = parent.rpartition(b"/")[0]
        for folder in reversed(above):
            found = self._look(folder)
            if found is None or not stat.S_ISDIR(found):
                self._no_directories.add(folder)
                return False
            self._directories.add(folder)
        return True

    def _look(self, path: bytes) -> int | None:
        try:
            return os.lstat(self.at(path)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno != errno.EILSEQ:
                raise
            return None  # no file can have this name


class FoldingDisk(Disk):
    """The same on a file system where different names can be one file. There is something at a path only if it is
    spelled so on disk."""

    def __init__(self, root: bytes, names: Names) -> None:
        super().__init__(root)
        self.names = names
        self._listings: dict[bytes, Mapping[bytes, bytes]] = {}

    def mode(self, path: bytes) -> int | None:
        return super().mode(path) if self.place(path) == path else None

    def place(self, path: bytes) -> bytes:
        found: list[bytes] = []
        for part in path.split(b"/"):
            listing = self._by_key(b"/".join(found))
            found.append(listing.get(self.names.key(part), part))
        return b"/".join(found)

    def _by_key(self, folder: bytes) -> Mapping[bytes, bytes]:
        """The names in a folder, by their keys."""
        if folder not in self._listings:
            try:
                self._listings[folder] = {self.names.key(name): name for name in os.listdir(self.at(folder))}
            except OSError:
                self._listings[folder] = {}
        return self._listings[folder]
