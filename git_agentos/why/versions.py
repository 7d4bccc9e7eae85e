"""The checkpoints of a timeline, oldest first, and the versions of a file in them.

Checkpoints in the middle of a merge, a rebase and the like are left out: what they have is on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from git_agentos.checkpoint import format, timeline
from git_agentos.errors import CheckpointFormatError, MissingObjectsError
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.util.named_tuple import NamedTuple


class Position(NamedTuple):
    """One checkpoint of a timeline: its id, the tree of its visible worktree, and its metadata."""

    checkpoint: str
    tree: str
    meta: Mapping[str, Any]

    @property
    def created_at(self) -> str:
        return str(self.meta.get("created_at"))

    @property
    def head(self) -> str | None:
        """HEAD's commit."""
        found = (self.meta.get("head") or {}).get("commit")
        return found if isinstance(found, str) else None

    def said(self, key: str) -> str | None:
        """What the creator recorded under `key`."""
        found = (self.meta.get("meta") or {}).get(key)
        return found if isinstance(found, str) else None


class Version(NamedTuple):
    """A version of a file: the blob, from the checkpoint at `position` on (until the next version)."""

    position: int
    blob: str


class History:
    """A timeline."""

    def __init__(self, repository: Repository, name: str) -> None:
        self.repository = repository
        self.name = name
        self._found: dict[tuple[str, bytes], trees.Entry | None] = {}
        self._versions: dict[bytes, list[Version]] = {}

    @cached_property
    def positions(self) -> list[Position]:
        """The checkpoints, oldest first; those that cannot be read are left out."""
        found = []
        newest = timeline.tip(self.repository.location, self.name)
        for link in timeline.commits(self.repository, newest):
            try:
                meta = format.open_checkpoint(self.repository, link.parents[1]).meta
            except (CheckpointFormatError, MissingObjectsError):
                continue  # a carrier, among others
            if meta.get("operation") is None or meta.get("operation") == "bisect":
                found.append(Position(link.parents[1], link.tree, meta))
        found.reverse()
        return found

    @cached_property
    def by_id(self) -> Mapping[str, int]:
        """Checkpoint -> its position."""
        return {each.checkpoint: n for n, each in enumerate(self.positions)}

    def newest(self, path: bytes) -> bytes:
        """The file at a path as the newest checkpoint has it; empty where it has none. The others are not read."""
        tip = timeline.tip(self.repository.location, self.name)
        entry = self.entry(self.repository.commit(tip).tree, path) if tip is not None else None
        if entry is None or entry[0] not in (trees.REGULAR, trees.EXECUTABLE):
            return b""
        return self.repository.blob(entry[1])

    def newest_ref(self) -> str | None:
        """The branch that HEAD was on at the newest checkpoint. The others are not read."""
        link = timeline.newest(self.repository, self.name)
        if link is None:
            return None
        try:
            head = format.open_checkpoint(self.repository, link.checkpoint).meta.get("head")
        except (CheckpointFormatError, MissingObjectsError):
            return None
        ref = head.get("ref") if isinstance(head, dict) else None
        return ref if isinstance(ref, str) else None

    def versions(self, path: bytes) -> list[Version]:
        """The versions of the file at a path, oldest first, each where it is first seen after another one. Times in
        which there is no file are passed over."""
        if path not in self._versions:
            found: list[Version] = []
            for n, position in enumerate(self.positions):
                entry = self.entry(position.tree, path)
                blob = entry[1] if entry is not None and entry[0] in (trees.REGULAR, trees.EXECUTABLE) else None
                if blob is not None and (not found or found[-1].blob != blob):
                    found.append(Version(n, blob))
            self._versions[path] = found
        return self._versions[path]

    def entry(self, tree: str, path: bytes) -> trees.Entry | None:
        """What a tree has at a path. Trees that were seen before are not read again."""
        key = (tree, path)
        if key not in self._found:
            name, slash, rest = path.partition(b"/")
            below = self.repository.entries(tree).get(name)
            if slash and below is not None:
                below = self.entry(below[1], rest) if below[0] == trees.DIRECTORY else None
            self._found[key] = below
        return self._found[key]

    def head_moved(self, n: int) -> bool:
        """Whether HEAD is at another commit than at the checkpoint before."""
        return n == 0 or self.positions[n].head != self.positions[n - 1].head
