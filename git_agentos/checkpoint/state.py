"""A worktree's complete state, as values.

Paths are bytes relative to the worktree root; entries are (mode, hex oid) as in a tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from git_agentos.git.refs import Head
from git_agentos.git.trees import EMPTY_TREE, Entry


@dataclass(frozen=True)
class Skipped:
    """A path that a checkpoint or restore left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Sparse:
    """The sparse checkout in force: its settings and the patterns' blob."""

    cone: bool
    index: bool
    patterns: str | None


@dataclass(frozen=True)
class State:
    """Everything that a checkpoint holds.

    `tree` is the worktree's state of all tracked paths, `visible_tree` that plus the untracked files. `absent` names
    skip-worktree paths that are not on disk (a directory with a trailing slash stands for everything below). `not_present` names
    paths, ignored ones among them, that are known not to exist. `raw` maps paths
    to blobs of the worktree's own bytes where a checkout would not give them. `permissions` holds the bits (07777) of
    captured files where they are not what `umask` gives. `operation_files` maps names below the git directory to
    blobs; `operation_trees` names trees that they mention. `nested` maps directories to the blobs that describe the
    repositories in them, `pins` are commits
    that these need. `git_version` tells which git reported the state, and is no part of it.
    """

    head: Head
    index_tree: str = EMPTY_TREE
    tree: str = EMPTY_TREE
    untracked_tree: str = EMPTY_TREE
    visible_tree: str = EMPTY_TREE
    stages: Mapping[bytes, Mapping[int, Entry]] = field(default_factory=dict)
    intent_to_add: Mapping[bytes, int] = field(default_factory=dict)
    assume_unchanged: Sequence[bytes] = ()
    skip_worktree: Sequence[bytes] = ()
    absent: Sequence[bytes] = ()
    not_present: Sequence[bytes] = ()
    sparse: Sparse | None = None
    empty_directories: Sequence[bytes] = ()
    permissions: Mapping[bytes, int] = field(default_factory=dict)
    umask: int = 0o022
    raw: Mapping[bytes, str] = field(default_factory=dict)
    ignored: Mapping[bytes, Entry] = field(default_factory=dict)
    operation: str | None = None
    operation_files: Mapping[str, str] = field(default_factory=dict)
    operation_trees: Mapping[str, str] = field(default_factory=dict)
    pins: Sequence[str] = ()
    nested: Mapping[bytes, str] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()
    staged: Sequence[bytes] = ()
    unstaged: Sequence[bytes] = ()
    untracked: Sequence[bytes] = ()
    git_version: str = ""

    @property
    def is_dirty(self) -> bool:
        """Whether a stash would have something to save."""
        return bool(self.staged or self.unstaged or self.untracked or self.operation or self.nested)
