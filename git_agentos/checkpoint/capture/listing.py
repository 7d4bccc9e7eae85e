"""The folders of a worktree, and other things on disk that git ignores silently.

An exact restore needs them: git does not record folders, their permission bits, pipes, or a `.git` that is not a
repository. A folder whose times and inode have not changed contains the same names (no program can set the change
time), and is not read again: this costs a `stat` per folder instead of one per file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence

from git_agentos.git import untracked
from git_agentos.util.named_tuple import NamedTuple


class Folder(NamedTuple):
    """One folder: its permission bits, times (nanoseconds) and inode, and whether it is empty."""

    mode: int
    mtime: int
    ctime: int
    inode: int
    empty: bool


class Known(NamedTuple):
    """The result of an earlier listing: folders, and the files in them that were not in the index, whose tree was
    `tree`."""

    folders: Mapping[bytes, Folder]
    others: Sequence[bytes]
    tree: str | None


class Listing(NamedTuple):
    """Paths are bytes relative to the root, which is `b""` among the folders.

    `names` are the files and links of the folders that were read and, for those that were not read again, the files
    that were not in the index then. So it contains every file that is neither in the tree `tracked` nor in the index
    (None: every file). The root's `.git`, our own folder, and the contents of `repositories` inside are left out.
    `special` are pipes, sockets and devices, which have no contents to save; `odd` are entries named `.git` that are
    not a repository, and `.GIT` and the like, which no tree may contain; `closed` are folders that cannot be read;
    `plain` are the folders that contain none of these directly.
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
        """The empty folders."""
        return sorted(path for path, each in self.folders.items() if each.empty and path)


def list_directories(root: str, known: Known | None = None) -> Listing:
    """List a worktree's folders; those that have not changed since `known` are not read again."""
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
        """Record one folder; returns the folders in it."""
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
            self.repositories.append(path)  # saved and restored as a repository
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
