"""The values that describe a checkpoint: a worktree's complete state, the checkpoint, and its metadata.

Paths are bytes relative to the worktree root; entries are (mode, hex oid) as in a tree.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from git_agentos.git.refs import Head
from git_agentos.git.trees import EMPTY_TREE, Entry

# An immutable default for mappings.
_NONE: Mapping[Any, Any] = MappingProxyType({})


class SkipReason(enum.StrEnum):
    """The reasons for leaving a path out that the code distinguishes. The value is the text that
    `Skipped.reason` holds."""

    TOO_LARGE = "larger than agentos.maxFileSize"
    NOT_ALLOWED = "git does not allow this name in a tree"
    UNREADABLE = "cannot be read: permission denied"
    TORN = "changed while it was being read; the saved bytes may be torn"
    OTHER_WORKTREE = "another worktree of this repository"
    LEFT_IGNORED = "ignored at the checkpoint: left in place"
    NEW_KEPT = "created since: kept"
    LEFT_VISIBLE = "ignored until now: left in place"
    HIDDEN_NOW = "restored, and ignored now by rules outside of the worktree"
    SPECIAL_FILE = "a pipe, socket or device: there is nothing in it to save"
    UNREADABLE_REPOSITORY = "a repository that git cannot open: put aside in the worktree's git directory"
    BAD_DOT_GIT = "a '.git' that is not a repository: put aside in the worktree's git directory"


@dataclass(frozen=True)
class Skipped:
    """A path that a checkpoint or restore left out, and why.

    `reason` is text for people. Code compares `kind`, which is None if the text is not one of `SkipReason`.
    """

    path: str
    reason: str

    @property
    def kind(self) -> SkipReason | None:
        try:
            return SkipReason(self.reason)
        except ValueError:
            return None


class Sparse(NamedTuple):
    """The sparse checkout: its settings and the blob of its patterns."""

    cone: bool
    sparse_index: bool
    patterns: str | None


class RulesOutside(NamedTuple):
    """The ignore rules outside the worktree: the blobs of `info/exclude` and of the user's file (core.excludesFile),
    None if they contain no rules; and the path of the latter, if it is in the worktree."""

    exclude: str | None = None
    users: str | None = None
    users_path: bytes | None = None


class State(NamedTuple):
    """Everything that a checkpoint holds.

    `tree` is the worktree's state of all tracked paths, `visible_tree` that plus the untracked files. `absent` names
    skip-worktree paths that are not on disk (a directory with a trailing slash stands for everything below).
    `not_present` names paths, also ignored ones, that are known not to exist. `raw` maps paths to blobs of the bytes on
    disk, if these are neither the blob's nor, for paths in `crlf`, the blob's with CRLF; `as_stored` names unmodified
    files that have the blob's bytes. With `has_own_bytes`, this is known of all files that were modified, staged or
    untracked (see `own_bytes`). `line_ends` are the settings by which git checked out the others, `filters` the filters
    that were configured. `permissions` has the bits (07777) of captured files, if they are not what `umask` gives.
    `operation_files` maps names below the git directory to blobs; `operation_trees` are trees that they name. `rules`
    is None in a checkpoint of an earlier version. `nested` maps directories to the blobs that describe the repositories
    in them, `pins` are commits that these need. `complete` means that the state contains all ignored files, all empty
    directories, and, in `folders`, the permission bits of directories that are not what `umask` gives: it can be
    restored exactly. `git_version` is the git that reported the state, and not a part of it.
    """

    head: Head
    index_tree: str = EMPTY_TREE
    tree: str = EMPTY_TREE
    untracked_tree: str = EMPTY_TREE
    visible_tree: str = EMPTY_TREE
    stages: Mapping[bytes, Mapping[int, Entry]] = _NONE
    intent_to_add: Mapping[bytes, int] = _NONE
    assume_unchanged: Sequence[bytes] = ()
    skip_worktree: Sequence[bytes] = ()
    absent: Sequence[bytes] = ()
    not_present: Sequence[bytes] = ()
    sparse: Sparse | None = None
    rules: RulesOutside | None = None
    empty_directories: Sequence[bytes] = ()
    permissions: Mapping[bytes, int] = _NONE
    umask: int = 0o022
    raw: Mapping[bytes, str] = _NONE
    crlf: frozenset[bytes] = frozenset()
    as_stored: frozenset[bytes] = frozenset()
    has_own_bytes: bool = False
    line_ends: Mapping[str, str] | None = None
    filters: Sequence[str] = ()
    ignored: Mapping[bytes, Entry] = _NONE
    operation: str | None = None
    operation_files: Mapping[str, str] = _NONE
    operation_trees: Mapping[str, str] = _NONE
    pins: Sequence[str] = ()
    nested: Mapping[bytes, str] = _NONE
    skipped: Sequence[Skipped] = ()
    staged: Sequence[bytes] = ()
    unstaged: Sequence[bytes] = ()
    untracked: Sequence[bytes] = ()
    git_version: str = ""
    complete: bool = False
    folders: Mapping[bytes, int] = _NONE

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that a stash would save."""
        return bool(self.staged or self.unstaged or self.untracked or self.operation or self.nested)


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint as users and scripts see it; the fields are the keys of the JSON kind `checkpoint`.

    `id` is C's commit id. `commit` is HEAD's commit, None if unborn; `branch` is short, None if detached. Paths are
    text (`os.fsdecode`). `stash_ref` is the id if the state was dirty. `unchanged` means that an automatic trigger
    found no changes, and this is the previous checkpoint.
    """

    id: str
    created_at: str
    created_by: str
    branch: str | None
    commit: str | None
    worktree_path: str
    task_id: str | None
    description: str
    trigger: str
    staged_changes: list[str]
    unstaged_changes: list[str]
    untracked_files: list[str]
    skipped: list[Skipped]
    stash_ref: str | None
    operation: str | None
    run_id: str | None
    session_id: str | None
    meta: dict[str, str]
    timeline: str
    unchanged: bool = False


class Metadata(NamedTuple):
    """What a checkpoint records about itself: who creates it, where and why."""

    created_by: str
    worktree_id: str
    worktree_path: str
    trigger: str = "manual"
    description: str = ""
    task_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    meta: Mapping[str, str] = MappingProxyType({})
    restores: str | None = None
    restored_part: Mapping[str, Any] | None = None
