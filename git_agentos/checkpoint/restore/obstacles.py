"""Obstacles: files that a plan would overwrite or remove, and that the current state does not contain.

Ignored files among them must be saved first. If one cannot be saved, the restore refuses.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from git_agentos.checkpoint.disk import Disk
from git_agentos.checkpoint.model import Skipped, SkipReason, State
from git_agentos.checkpoint.paths import covers
from git_agentos.checkpoint.restore.plan import FileWrite
from git_agentos.errors import RestoreError
from git_agentos.git import trees, untracked
from git_agentos.git.repository import Writer
from git_agentos.util.named_tuple import NamedTuple


def is_like(found: int, file: FileWrite) -> bool:
    """Whether the path (by its `st_mode`) is a file with the permission bits of the new one."""
    comes = file.entry[0] in (trees.REGULAR, trees.EXECUTABLE)
    return comes and stat.S_ISREG(found) and stat.S_IMODE(found) == file.permissions


class Removals(NamedTuple):
    """What is removed before anything is written: files, `special` files, which have no contents to save, and
    everything below `repositories` that are moved aside."""

    removed: frozenset[bytes]
    special: frozenset[bytes]
    repositories: frozenset[bytes]

    def has(self, path: bytes) -> bool:
        """Whether the path is in a repository that is moved aside."""
        return covers(self.repositories, path.rpartition(b"/")[0])


@dataclass(frozen=True)
class Obstacles:
    """`in_the_way` are files that must be replaced, `unsaved` those of them that the current state does not contain,
    `emptied` are empty directories and `aside` repositories in the way. `met` are files that git does not report and
    that are already as planned; `alike` are those that may be, depending on how git converts the blob."""

    in_the_way: frozenset[bytes]
    unsaved: frozenset[bytes]
    emptied: list[bytes]
    aside: list[bytes]
    met: list[bytes]
    alike: list[bytes]


class Present(NamedTuple):
    """The current worktree: the files on disk, their `state`, the paths that no checkpoint can hold (`unsaved`), with
    the reason, and whether the state has something visible at a path (`has`)."""

    disk: Disk
    store: Writer
    state: State
    unsaved: Mapping[bytes, Skipped]
    has: Callable[[bytes], bool]


def find(
    present: Present, write: Mapping[bytes, FileWrite], leaving: Removals, directories: Iterable[bytes]
) -> Obstacles:
    """Examine the paths of all files to `write` and of all new `directories`. RestoreError if something that no
    checkpoint can hold is in the way."""
    search = _Search(present, leaving)
    coming = [path for path in directories if not leaving.has(path)]
    files = {path: file for path, file in write.items() if not leaving.has(path)}
    search.above([*files, *coming])
    met = search.at_files(files)
    search.at_directories(coming)
    return Obstacles(
        in_the_way=frozenset(search.in_the_way),
        unsaved=frozenset(
            # Files that are right already must be in the saved state all the same.
            path
            for path in (*search.in_the_way, *met)
            if path not in leaving.special and not search.is_visible_now(path)
        ),
        emptied=search.emptied,
        aside=search.aside,
        met=met,
        alike=search.alike,
    )


class _Search:
    def __init__(self, present: Present, leaving: Removals) -> None:
        self.disk, self.store, self.now, self.unsaved, self.has = present
        self.leaving = leaving
        self.in_the_way: set[bytes] = set()
        self.emptied: list[bytes] = []
        self.aside: list[bytes] = []
        self.alike: list[bytes] = []

    def above(self, paths: Iterable[bytes]) -> None:
        """Find files where a directory is needed."""
        checked: set[bytes] = set()
        for path in paths:
            parent = path
            while parent := parent.rpartition(b"/")[0]:
                if parent in checked:
                    break
                checked.add(parent)
                self._no_directory(parent)

    def at_files(self, write: Mapping[bytes, FileWrite]) -> list[bytes]:
        """Find what is in the place of files to write; returns the files that are right already."""
        met: list[bytes] = []
        for path, file in write.items():
            place = self.disk.place(path)
            found = self.disk.mode(place)
            if found is None:
                continue
            if stat.S_ISDIR(found):
                self._inside(place)
                continue
            saved = self.is_visible_now(place)
            if saved and place not in self.now.ignored:
                continue
            if place != path:
                if not saved and place not in self.leaving.removed:
                    self._obstacle(place)
                continue
            if self._holds(path, found, file):
                met.append(path)
                continue
            if is_like(found, file):
                self.alike.append(path)
            if not saved:
                self._obstacle(path)
        return met

    def at_directories(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            self._no_directory(path)

    def is_visible_now(self, path: bytes) -> bool:
        if path in self.unsaved and self.unsaved[path].kind is not SkipReason.TORN:
            return False
        return path in self.now.ignored or self.has(path)

    def _no_directory(self, path: bytes) -> None:
        path = self.disk.place(path)
        found = self.disk.mode(path)
        if found is not None and not stat.S_ISDIR(found) and path not in self.leaving.removed:
            self._obstacle(path)

    def _holds(self, path: bytes, found: int, file: FileWrite) -> bool:
        """Whether a file or link that git does not report certainly equals the one to write."""
        if stat.S_ISLNK(found):
            return self.disk.is_link(path, file.entry, self.store.repository)
        return file.own is not None and is_like(found, file) and file.own.is_at(self.disk.at(path))

    def _obstacle(self, path: bytes) -> None:
        """Record a file in the place of something else in the target, if the current state does not contain it."""
        if path in self.unsaved and self.unsaved[path].kind is not SkipReason.TORN:
            raise RestoreError(
                f"'{os.fsdecode(path)}' is in the way and cannot be saved: {self.unsaved[path].reason}",
                "move it away, or raise agentos.maxFileSize; nothing was changed",
            )
        self.in_the_way.add(path)

    def _inside(self, directory: bytes) -> None:
        """Record everything below a directory that a file replaces."""
        waiting = [directory]
        while waiting:
            directory = waiting.pop()
            if untracked.is_repository(self.disk.at(directory)):
                self.aside.append(directory)
                continue
            entries = list(os.scandir(self.disk.at(directory)))
            if not entries:
                self.emptied.append(directory)
            for entry in entries:
                path = directory + b"/" + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif path not in self.leaving.removed:
                    self._obstacle(path)
