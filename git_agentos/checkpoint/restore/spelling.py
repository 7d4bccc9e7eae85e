"""The names of a restore where the file system takes different names for one file (`git.filesystem`).

The plan is made as if all names were different files: only what is spelled as a path is at that path
(`disk.FoldingDisk`). Then this module says what this file system cannot have, which paths need not be removed because
the checkpoint has the same file with another spelling, and what must be renamed to be spelled as in the checkpoint.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from git_agentos.checkpoint.disk import Disk
from git_agentos.checkpoint.model import SkipReason, State
from git_agentos.checkpoint.own_bytes import OwnBytes
from git_agentos.checkpoint.restore.application import RENAMING
from git_agentos.checkpoint.restore.difference import absent_paths
from git_agentos.git import trees
from git_agentos.git.filesystem import Names
from git_agentos.git.repository import Writer
from git_agentos.git.trees import Entry
from git_agentos.util.named_tuple import NamedTuple


class Found(NamedTuple):
    """What a tree has with the name of a path, in any spelling: files, directories, and files where the path has a
    directory."""

    files: Mapping[bytes, Entry]
    directories: Sequence[bytes]
    above: Sequence[bytes]


class Unwritten(NamedTuple):
    """Paths that this file system cannot have (`impossible`), with the reason, and those that are the `same` file as
    another one."""

    impossible: Mapping[bytes, SkipReason]
    same: Collection[bytes]


class Spelling:
    """How the paths of a restore's `target` are spelled, and how they are on disk."""

    def __init__(self, names: Names, store: Writer, disk: Disk, target: State) -> None:
        self.names = names
        self.store = store
        self.disk = disk
        self.target = target
        self._own = OwnBytes(target)
        self._untracked = frozenset(target.untracked)
        self._absent: Collection[bytes] | None = None
        self._folded: dict[str, dict[bytes, list[bytes]]] = {}

    def in_tree(self, tree: str, path: bytes) -> Found:
        """What a tree has with the name of `path`."""
        found = Found({}, [], [])
        if self.names.are_distinct:
            return found
        files: dict[bytes, Entry] = {}
        directories, above = [], []
        level = [(b"", tree)]
        *parents, last = map(self.names.key, path.split(b"/"))
        for key in parents:
            inside = []
            for prefix, oid in level:
                for name, (mode, child) in self._at(oid, key):
                    if mode == trees.DIRECTORY:
                        inside.append((prefix + name + b"/", child))
                    elif mode != trees.GITLINK:
                        above.append(prefix + name)
            level = inside
        for prefix, oid in level:
            for name, entry in self._at(oid, last):
                if entry[0] == trees.DIRECTORY:
                    directories.append(prefix + name)
                elif entry[0] != trees.GITLINK:
                    files[prefix + name] = entry
        return Found(files, directories, above)

    def _at(self, oid: str, key: bytes) -> Iterable[tuple[bytes, Entry]]:
        """The entries of one tree whose names have this key."""
        entries = self.store.entries(oid)
        if oid not in self._folded:
            folded = self._folded[oid] = {}
            for name in entries:
                folded.setdefault(self.names.key(name), []).append(name)
        return [(name, entries[name]) for name in self._folded[oid].get(key, ())]

    def _in_target(self, path: bytes) -> Found:
        """What the target has on disk with the name of `path`."""
        if self._absent is None:
            self._absent = absent_paths(self.store, self.target).keys()
        found = self.in_tree(self.target.visible_tree, path)
        files = {each: entry for each, entry in found.files.items() if each not in self._absent}
        return found._replace(files=files)

    def has(self, tree: str, path: bytes) -> bool:
        """Whether a tree has something at a path, or a file with the name of it."""
        return trees.find(self.store, tree, path) is not None or bool(self.in_tree(tree, path).files)

    def unwritten(self, write: Collection[bytes], directories: Iterable[bytes]) -> Unwritten:
        """The paths among files to `write` and directories that cannot be written, and those that need not be."""
        if self.names.are_plain:
            return Unwritten({}, [])
        refused = [path for path in (*write, *directories) if not self.names.allows(path)]
        lost, same = self._clashes(write)
        reasons = dict.fromkeys(refused, SkipReason.NAME_REFUSED) | dict.fromkeys(lost, SkipReason.NAME_TAKEN)
        return Unwritten(reasons, same)

    def _clashes(self, write: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
        """The paths that are lost to another one with the same name, and those that are the same file as another one.

        A file loses to a directory; of two files the untracked one is written, as its spelling is the one that was on
        disk, or the last one, as git does.
        """
        lost: set[bytes] = set()
        same: set[bytes] = set()
        if self.names.are_distinct:
            return lost, same
        for path in write:
            found = self._in_target(path)
            if found.directories:
                lost.add(path)
                continue
            lost.update(found.above)
            if len(found.files) < 2:
                continue
            chosen = self._chosen(found.files)
            wanted = found.files[chosen]
            for each, entry in found.files.items():
                if each == chosen:
                    continue
                alike = entry == wanted and self._own.of(each, entry[1]) == self._own.of(chosen, entry[1])
                (same if alike else lost).add(each)
        return lost, same

    def _chosen(self, paths: Iterable[bytes]) -> bytes:
        return max(paths, key=lambda path: (path in self._untracked, path))

    def without_target(
        self, remove: list[bytes], write: Iterable[bytes], in_scope: Callable[[bytes], bool]
    ) -> list[bytes]:
        """The paths to `remove` without those whose file the target has, with another spelling."""
        if self.names.are_distinct or not remove:
            return remove
        written = {self.names.key(path) for path in write}
        return [
            path
            for path in remove
            if self.names.key(path) not in written and not any(map(in_scope, self._in_target(path).files))
        ]

    def renames(self, write: Iterable[bytes], in_scope: Callable[[bytes], bool]) -> list[tuple[bytes, bytes]]:
        """What must be renamed to be spelled as in the target, as pairs of paths, a directory before what is in it."""
        if self.names.are_distinct:
            return []
        found: list[tuple[bytes, bytes]] = []
        waiting = [(b"", b"", [self.target.visible_tree])]
        while waiting:
            place, folder, oids = waiting.pop()
            listing = set(_listed(self.disk.at(place)))
            for entries in self._wanted(oids, listing):
                there, wanted = self._renamed(entries, listing, folder)
                if there is None:
                    continue
                is_directory = entries[wanted][0] in (trees.DIRECTORY, trees.GITLINK)
                if _is_directory(self.disk.at(place + there)) != is_directory:
                    continue
                if there != wanted and in_scope(folder + wanted):
                    found.append((folder + there, folder + wanted))
                below = [oid for mode, oid in entries.values() if mode == trees.DIRECTORY]
                if below:
                    waiting.append((place + there + b"/", folder + wanted + b"/", below))
        for path in write:  # ignored files are in no tree
            place = self.disk.place(path)
            name, there = os.path.basename(path), os.path.basename(place)
            if path in self.target.ignored and name != there and not _is_directory(self.disk.at(place)):
                found.append((os.path.join(os.path.dirname(path), there), path))
        return found

    def _wanted(self, oids: Sequence[str], listing: Set[bytes]) -> list[dict[bytes, Entry]]:
        """The entries of a folder (the trees of all its spellings), those with the same name together; only directories
        where nothing is spelled in another way."""
        merged = {name: entry for oid in oids for name, entry in self.store.entries(oid).items()}
        if len(oids) == 1 and merged.keys() <= listing:
            return [{name: entry} for name, entry in merged.items() if entry[0] == trees.DIRECTORY]
        found: dict[bytes, dict[bytes, Entry]] = {}
        for oid in oids:
            for name, entry in self.store.entries(oid).items():
                found.setdefault(self.names.key(name), {})[name] = entry
        return list(found.values())

    def _renamed(
        self, entries: Mapping[bytes, Entry], listing: Collection[bytes], folder: bytes
    ) -> tuple[bytes | None, bytes]:
        """The name on disk of what the target has as one of `entries` (None if it is not there), and the name that it
        must have."""
        directories = [name for name, entry in entries.items() if entry[0] in (trees.DIRECTORY, trees.GITLINK)]
        if directories:
            wanted = next((name for name in directories if name in listing), max(directories))
        else:
            wanted = self._chosen(folder + name for name in entries)[len(folder) :]
        if wanted in listing:
            return wanted, wanted
        if RENAMING + wanted in listing:
            return RENAMING + wanted, wanted
        return next((name for name in listing if self.names.key(name) == self.names.key(wanted)), None), wanted


def _listed(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_directory(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
