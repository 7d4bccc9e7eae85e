"""The steps of a plan for the contents and permission bits of files."""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from git_agentos.checkpoint.disk import Disk
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.own_bytes import OwnBytes
from git_agentos.checkpoint.paths import covers
from git_agentos.checkpoint.restore.difference import Difference, absent_paths
from git_agentos.checkpoint.restore.plan import FileWrite
from git_agentos.git import trees
from git_agentos.git.repository import Writer
from git_agentos.git.trees import Entry


class FileSteps:
    """Computes which files get which bytes and permission bits, from the state `now` to the state `target`.

    `in_scope` tells whether the restore may change a path.
    """

    def __init__(self, store: Writer, disk: Disk, now: State, target: State, in_scope: Callable[[bytes], bool]) -> None:
        self.store = store
        self.disk = disk
        self.now = now
        self.target = target
        self.in_scope = in_scope
        self.own_now = OwnBytes(now)
        self.own_then = OwnBytes(target)

    def has_same_bytes(self, path: bytes, before: Entry, after: Entry) -> bool:
        """Whether two entries of a path differ in their modes alone."""
        return (
            before[1] == after[1]
            and trees.SYMLINK not in (before[0], after[0])
            and self.own_now.of(path, before[1]) == self.own_then.of(path, after[1])
        )

    def add_own_bytes(self, write: dict[bytes, FileWrite], delta: Difference) -> None:
        """Add to `write` files whose blob is the same in both states, but whose bytes on disk differ or are unknown."""
        hidden = absent_paths(self.store, self.target)
        for path in self.own_now.paths | self.own_then.paths:
            if path in write or path in delta or not self.in_scope(path):
                continue
            entry = trees.find(self.store, self.target.visible_tree, path)
            if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
                continue
            before, after = self.own_now.of(path, entry[1]), self.own_then.of(path, entry[1])
            if before != after and path not in hidden:
                write[path] = replace(self.write(path, entry), recheck=before is None or after is None)

    def add_rechecked(self, write: dict[bytes, FileWrite], delta: Difference, *, exact: bool) -> None:
        """Add to `write` the files below a `.gitattributes` that changes: one with the right blob may have been checked
        out by the other attributes."""
        other = {path for path, _ in self.now.ignored.items() ^ self.target.ignored.items()} if exact else ()
        names = {path for path in (*delta, *other) if path.rpartition(b"/")[2] == b".gitattributes"}
        folders = {path.rpartition(b"/")[0] for path in names}
        if not folders:
            return
        hidden = absent_paths(self.store, self.target)
        for path, entry in trees.walk(self.store, self.target.visible_tree):
            if path in write or path in delta or path in hidden or not self.in_scope(path):
                continue
            if entry[0] in (trees.REGULAR, trees.EXECUTABLE) and covers(folders, path):
                write[path] = replace(self.write(path, entry), recheck=True)

    def write(self, path: bytes, entry: Entry) -> FileWrite:
        """The step that puts a file of the target in place."""
        return FileWrite(entry, self.own_then.of(path, entry[1]), self.permissions(path, entry))

    def permissions(self, path: bytes, entry: Entry) -> int:
        """The permission bits of a file in the target."""
        usual = (0o777 if entry[0] == trees.EXECUTABLE else 0o666) & ~self.target.umask
        return self.target.permissions.get(path, usual)

    def permission_changes(
        self, write: Mapping[bytes, FileWrite], known: Mapping[bytes, int], reread: Collection[bytes]
    ) -> dict[bytes, int]:
        """Files with the right content but other permission bits than in the target, which records unusual bits, and
        the usual ones of files that had changed. `reread` are files that may have changed without git reporting it."""
        changes: dict[bytes, int] = {}
        concerned = {*self.target.permissions, *self.now.permissions, *reread}
        changed_there = {*self.target.staged, *self.target.unstaged, *self.target.untracked, *self.target.ignored}
        usual = [bits & ~self.target.umask for bits in (0o666, 0o777)]
        for path in concerned | changed_there:
            if (path in write and not write[path].recheck) or path in known or not self.in_scope(path):
                continue
            found = self.disk.mode(self.disk.place(path))
            if found is None or not stat.S_ISREG(found):
                continue
            if path not in concerned and stat.S_IMODE(found) in usual:
                continue  # git's mode says whether it is executable
            entry = trees.find(self.store, self.target.visible_tree, path)
            entry = entry or self.target.ignored.get(path)
            if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
                continue
            bits = self.permissions(path, entry)
            if stat.S_IMODE(found) != bits:
                changes[path] = bits
        return changes
