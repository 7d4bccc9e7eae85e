"""The paths in which the visible worktree of two checkpoints differs."""

from __future__ import annotations

import os

from git_agentos.checkpoint import format
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.git.trees import Entry
from git_agentos.util.named_tuple import NamedTuple


class Trees(NamedTuple):
    """The trees of a checkpoint: of tracked paths, and of untracked files."""

    tracked: str
    untracked: str


def trees_of(repository: Repository, checkpoint: str) -> Trees:
    """The trees of a checkpoint; CheckpointFormatError or MissingObjectsError where it cannot be read."""
    found = format.open_checkpoint(repository, checkpoint)
    return Trees(found.commit.tree, repository.commit(found.untracked).tree)


def entry_at(repository: Repository, found: Trees, path: bytes) -> Entry | None:
    """What a checkpoint has at a path, folders excluded."""
    for tree in (found.untracked, found.tracked):
        entry = trees.find(repository, tree, path)
        if entry is not None and entry[0] != trees.DIRECTORY:
            return entry
    return None


def between(repository: Repository, before: str, after: str) -> dict[bytes, tuple[Entry | None, Entry | None]]:
    """Path -> what the two checkpoints have there, for all files that differ."""
    if before == after:
        return {}
    old, new = trees_of(repository, before), trees_of(repository, after)
    paths = {
        *trees.diff(repository, old.tracked, new.tracked),
        *trees.diff(repository, old.untracked, new.untracked),
    }
    pairs = {path: (entry_at(repository, old, path), entry_at(repository, new, path)) for path in paths}
    return {path: pair for path, pair in sorted(pairs.items()) if pair[0] != pair[1]}


def names(repository: Repository, before: str, after: str) -> list[str]:
    """The paths of `between`, as text."""
    return [os.fsdecode(path) for path in between(repository, before, after)]
