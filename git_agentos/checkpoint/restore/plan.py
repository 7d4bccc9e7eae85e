"""What a plan says: the steps from one state to another. `planner` computes them, `application` applies them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.own_bytes import Form
from git_agentos.git import index
from git_agentos.git.trees import Entry


@dataclass(frozen=True)
class FileWrite:
    """One file or symlink to put in place: its entry, its own bytes if they are known, and its permission bits.

    With `recheck` it is written only if its bytes turn out to differ from those on disk.
    """

    entry: Entry
    own: Form | None
    permissions: int
    recheck: bool = False

    @property
    def oid(self) -> str:
        """The blob of its contents."""
        return self.own.oid if self.own is not None else self.entry[1]


@dataclass(frozen=True)
class Folders:
    """Permission bits of directories: the current ones (`now`), and those of the target (`then`, else `usual`)."""

    now: Mapping[bytes, int]
    then: Mapping[bytes, int]
    usual: int

    def wanted(self, path: bytes) -> int:
        return self.then.get(path, self.usual)


@dataclass(frozen=True)
class Plan:
    """The steps of a restore."""

    write: Mapping[bytes, FileWrite] = field(default_factory=dict)  # files and links to put in place
    remove: Sequence[bytes] = ()  # files to remove
    chmod: Mapping[bytes, int] = field(default_factory=dict)  # permission bits of files that otherwise stay
    make_directories: Sequence[bytes] = ()  # empty directories to make
    remove_directories: Sequence[bytes] = ()  # directories to remove, if they are empty then
    keep_directories: frozenset[bytes] = frozenset()  # directories to keep even if they get empty
    in_the_way: frozenset[bytes] = frozenset()  # files that must be moved aside
    unsaved: frozenset[bytes] = frozenset()  # those of them that no state contains yet
    revealed: frozenset[bytes] = frozenset()  # ignored files that become visible
    hidden: frozenset[bytes] = frozenset()  # ignored repositories that become visible, change or are moved aside
    created: Sequence[bytes] = ()  # paths of `write`, and directories, that do not exist yet
    emptied: Sequence[bytes] = ()  # empty directories that git does not report, and that are removed or filled
    aside: Sequence[bytes] = ()  # nested repositories that are moved aside
    nested: Mapping[bytes, str] = field(default_factory=dict)  # those that are restored: path -> description
    folders: Folders | None = None  # of an exact plan: permission bits of directories
    renames: Sequence[tuple[bytes, bytes]] = ()  # what is spelled in another way, and how it must be spelled
    unwritten: frozenset[bytes] = frozenset()  # paths that this file system cannot have; their index entries stay
    special: Sequence[bytes] = ()  # of an exact plan: special files to remove
    index: index.IndexEdit = field(default_factory=index.IndexEdit)  # the changes of the index
    skipped: Sequence[Skipped] = ()  # what is not restored, and why

    @property
    def changed(self) -> list[str]:
        """Paths whose content will change."""
        return sorted(
            os.fsdecode(path)
            for path in {
                *(p for p, f in self.write.items() if not f.recheck),
                *self.chmod,
                *self.nested,
                *(new for _, new in self.renames),
            }
        )

    @property
    def touched(self) -> set[bytes]:
        """Paths at which something on disk will change."""
        return {
            *(path for path, file in self.write.items() if not file.recheck),
            *(path for pair in self.renames for path in pair),
            *self.remove,
            *self.chmod,
            *self.created,
            *self.remove_directories,
            *self.in_the_way,
            *self.aside,
        }

    @property
    def removed(self) -> list[str]:
        """Paths that will be removed from the worktree."""
        return sorted(os.fsdecode(path) for path in {*self.remove, *self.aside})
