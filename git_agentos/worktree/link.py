"""agentos.link: large ignored files and folders of the source worktree (`node_modules`, `target`) in a new one.

A file is cloned where the file system can (its blocks are shared until one of the two files is written). Where it
cannot, a file that nobody may write is hard-linked, and any other copied. The names of a hard link share one mode and
one content: a writable file would be changed in both worktrees, and to make it read-only would change the source, too.

A symbolic link stays one. If it leads to something in the source worktree by another way than a relative path inside of
it, it leads to the same path in the new worktree: nothing in there leads back to the source. What a pattern matches is
brought only if git ignores it in both worktrees, is not below a link, and is no link itself; nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosWarning, GitCommandError
from git_agentos.git import ignore, untracked
from git_agentos.git.repository import Repository
from git_agentos.util import files, system
from git_agentos.util.progress import phase
from git_agentos.worktree import file_copies

if TYPE_CHECKING:
    from git_agentos.util.progress import Phase

_GIT = b".git"
_NO_LINKS = (*files.NO_LINKS, errno.EACCES)
_WRITABLE = 0o222


@dataclass(frozen=True)
class Linked:
    """A file or folder that was brought: numbers of its files and their bytes, and of those that were cloned,
    hard-linked and copied. Symbolic links count as copied."""

    path: str
    files: int
    bytes: int
    cloned: int
    hard_linked: int
    copied: int


def bring(source: OpenWorktree, inner: OpenWorktree) -> list[Linked]:
    """Bring what agentos.link names from the worktree `source` into the new one. OSError if there is no room."""
    patterns = config.link(source.settings.values)
    if not patterns:
        return []
    there, here = os.fsencode(source.location.root), os.fsencode(inner.location.root)
    folders: dict[bytes, None] = {}
    brought = []
    for name in _matching(source, inner, patterns):
        path = name.rstrip(b"/")
        if os.path.islink(os.path.join(there, path)):
            text = f"agentos.link: '{os.fsdecode(path)}' is a symbolic link, and is not brought into the worktree"
            warnings.warn(AgentosWarning(text), stacklevel=2)
        elif file_copies.make_parents(here, path, folders):
            with phase(source.progress, f"Copying '{os.fsdecode(path)}'") as begun:
                brought.append(_Bringer(there, here, begun).bring(path))
    file_copies.finish_folders(there, here, folders)
    return brought


def _matching(source: OpenWorktree, inner: OpenWorktree, patterns: tuple[str, ...]) -> list[bytes]:
    """What matches and is ignored in both worktrees: files, and whole folders with a trailing slash."""
    args = ["ls-files", "--others", "--ignored", "--directory", "-z", *(f"--exclude={each}" for each in patterns)]
    out = source.repository.git(*args)
    found = [path for path in out.split(b"\0") if path and not untracked.is_agentos_path(path)]
    for each in (source, inner):
        found = list(_ignored(each.repository, found))
    return sorted(path for path in found if not _is_repository(os.fsencode(source.location.root), path))


def _ignored(repository: Repository, paths: list[bytes]) -> Iterator[bytes]:
    """Those that git ignores. It refuses all of them if one is below a link or in a submodule, where nothing is
    brought."""
    try:
        yield from ignore.ignored_among(repository, paths)
    except GitCommandError:
        for path in paths:
            with contextlib.suppress(GitCommandError):
                yield from ignore.ignored_among(repository, [path])


def _is_repository(root: bytes, path: bytes) -> bool:
    return path.endswith(b"/") and os.path.lexists(os.path.join(root, path, _GIT))


class _Bringer:
    """Brings one file or folder from `source` to `target`, the top folders of two worktrees."""

    def __init__(self, source: bytes, target: bytes, begun: Phase) -> None:
        self.source, self.target = source, target
        self.begun = begun
        self.number = 0
        self.bytes = 0
        self.counts = {"cloned": 0, "hard_linked": 0, "copied": 0}

    def bring(self, path: bytes) -> Linked:
        """Bring `path`, relative to the top."""
        if stat.S_ISDIR(os.lstat(os.path.join(self.source, path)).st_mode):
            self._folder(path)
        else:
            self._entry(path)
        return Linked(os.fsdecode(path), sum(self.counts.values()), self.bytes, **self.counts)

    def _folder(self, top: bytes) -> None:
        """A folder with all in it, but repositories and git-agentos' own files."""
        made: dict[bytes, None] = {}
        waiting = [top]
        while waiting:
            path = waiting.pop()
            os.mkdir(os.path.join(self.target, path))
            made[path] = None
            for name, is_folder in self._entries(path):
                if is_folder:
                    waiting.append(name)
                else:
                    self._entry(name)
        file_copies.finish_folders(self.source, self.target, made)

    def _entries(self, path: bytes) -> Iterator[tuple[bytes, bool]]:
        """What is in a folder: path, and whether it is a folder. OSError if it cannot be read."""
        with os.scandir(os.path.join(self.source, path)) as found:
            entries = list(found)
        for entry in entries:
            name = path + b"/" + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if not untracked.is_agentos_path(name) and not (is_folder and _is_repository(self.source, name + b"/")):
                yield name, is_folder

    def _entry(self, path: bytes) -> None:
        """A file or a link; what is neither, or has gone meanwhile, is left out."""
        source, target = os.path.join(self.source, path), os.path.join(self.target, path)
        try:
            found = os.lstat(source)
            if stat.S_ISLNK(found.st_mode):
                how = self._symlink(path, os.readlink(source), target)
            elif stat.S_ISREG(found.st_mode):
                how = _file(source, target, found)
                self.bytes += found.st_size
            else:
                return
        except FileNotFoundError:
            return
        self.counts[how] += 1
        self.number += 1
        self.begun.reached(self.number)
        if how != "hard_linked":  # which has the mode and times of the source, as they are one file
            shutil.copystat(source, target, follow_symlinks=False)

    def _symlink(self, path: bytes, leads_to: bytes, target: bytes) -> str:
        folder = os.path.dirname(os.path.join(self.source, path))
        absolute = os.path.normpath(os.path.join(folder, leads_to))
        inside = absolute == self.source or absolute.startswith(self.source + b"/")
        if inside and (os.path.isabs(leads_to) or self._leaves(path, leads_to)):
            leads_to = os.path.relpath(absolute, folder)
        os.symlink(leads_to, target)
        return "copied"

    def _leaves(self, path: bytes, leads_to: bytes) -> bool:
        """Whether a relative link goes out of the worktree, and comes back."""
        depth = path.count(b"/")
        for part in leads_to.split(b"/"):
            depth += {b"..": -1, b".": 0, b"": 0}.get(part, 1)
            if depth < 0:
                return True
        return False


def _file(source: bytes, target: bytes, found: os.stat_result) -> str:
    """Bring the contents of a regular file; how that was done."""
    steps: list[tuple[str, Callable[[bytes, bytes], bool]]] = [("cloned", system.clone_contents)]
    if not found.st_mode & _WRITABLE:
        steps.append(("hard_linked", _hard_link))
    for how, step in steps:
        if step(source, target):
            return how
    system.copy_contents(source, target)
    return "copied"


def _hard_link(source: bytes, target: bytes) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True
