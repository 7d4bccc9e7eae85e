"""The values that describe a checkpoint: a worktree's complete state, the checkpoint, and its metadata.

Paths are bytes relative to the worktree root; entries are (mode, hex oid) as in a tree.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from git_agentos.git.refs import Head
from git_agentos.git.trees import Entry
from git_agentos.util.named_tuple import NamedTuple

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
    NAME_TAKEN = "another path of the checkpoint has the same name on this file system"
    NAME_REFUSED = "this file system does not allow the name"
    HIDDEN_NOW = "restored, and ignored now by rules outside of the worktree"
    SPECIAL_FILE = "a pipe, socket or device: there is nothing in it to save"
    UNREADABLE_REPOSITORY = "a repository that git cannot open: put aside in the worktree's git directory"
    FORGOTTEN = "forgotten: it was removed from this checkpoint"
    BAD_DOT_GIT = "a '.git' that is not a repository: put aside in the worktree's git directory"


class Skipped(NamedTuple):
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
    """Everything that a checkpoint holds. Paths are bytes, relative to the worktree's root."""

    head: Head  # HEAD: its branch and its commit
    index_tree: str  # the index, stage 0 (an unmerged path: stage 2)
    tree: str  # the worktree's state of all tracked paths
    untracked_tree: str  # untracked files that are not ignored
    visible_tree: str = ""  # both of these; empty until `format.with_visible_tree`, if the state was read
    stages: Mapping[bytes, Mapping[int, Entry]] = _NONE  # stages 1 to 3 of unmerged paths
    intent_to_add: Mapping[bytes, int] = _NONE  # entries of `git add -N`, which no tree holds: path -> mode
    assume_unchanged: Sequence[bytes] = ()  # paths with that flag
    skip_worktree: Sequence[bytes] = ()  # paths with that flag; `d/` stands for everything below d, `/` for all
    absent: Sequence[bytes] = ()  # those of skip_worktree that are not on disk, in the same form
    not_present: Sequence[bytes] = ()  # paths, ignored ones too, that are known not to exist
    sparse: Sparse | None = None  # the sparse checkout; None without one
    rules: RulesOutside | None = None  # ignore rules outside of the worktree; None in older checkpoints
    empty_directories: Sequence[bytes] = ()  # directories with nothing in them
    permissions: Mapping[bytes, int] = _NONE  # bits (07777) of captured files, where they are not what `umask` gives
    umask: int = 0o022  # the umask when the state was captured
    raw: Mapping[bytes, str] = _NONE  # blobs of the worktree's own bytes, where neither the blob nor `crlf` has them
    crlf: frozenset[bytes] = frozenset()  # paths whose own bytes are the blob's with CRLF
    as_stored: frozenset[bytes] = frozenset()  # unmodified files that git converts and whose own bytes are the blob's
    has_own_bytes: bool = False  # whether own bytes are known of all modified, staged and untracked files (`own_bytes`)
    line_ends: Mapping[str, str] | None = None  # settings by which git checked out unmodified files; None if unknown
    filters: Sequence[str] = ()  # the filters that were configured
    ignored: Mapping[bytes, Entry] = _NONE  # ignored files that were saved
    operation: str | None = None  # the operation in progress: merge, rebase …
    operation_files: Mapping[str, str] = _NONE  # its files: name below the git directory -> blob
    operation_trees: Mapping[str, str] = _NONE  # trees that these files mention
    pins: Sequence[str] = ()  # commits that must be kept alive for it and for nested repositories
    nested: Mapping[bytes, str] = _NONE  # directory -> blob that describes the repository in it
    skipped: Sequence[Skipped] = ()  # what could not be saved, and why
    staged: Sequence[bytes] = ()  # paths that differ between HEAD and index
    unstaged: Sequence[bytes] = ()  # paths that differ between index and worktree
    untracked: Sequence[bytes] = ()  # untracked paths; repositories with a trailing slash
    git_version: str = ""  # the git that reported the state; not a part of it
    complete: bool = False  # all ignored files, empty directories and `folders` are in it: a restore can be exact
    folders: Mapping[bytes, int] = _NONE  # if complete: permission bits of directories that are not what `umask` gives
    nested_states: Mapping[bytes, str] = _NONE  # fingerprints of the states of nested repositories; not written

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that a stash would save."""
        return bool(self.staged or self.unstaged or self.untracked or self.operation or self.nested)


class Checkpoint(NamedTuple):
    """One checkpoint as users and scripts see it; the fields are the keys of the JSON kind `checkpoint`. Paths are text
    (`os.fsdecode`)."""

    id: str  # commit C of `format`
    created_at: str  # ISO 8601, UTC
    created_by: str  # the agent
    branch: str | None  # short; None if HEAD was detached
    commit: str | None  # HEAD's; None if unborn
    worktree_path: str  # the root of the worktree
    task_id: str | None  # from the caller
    description: str  # from the caller
    trigger: str  # one of `format.TRIGGERS`
    staged_changes: list[str]  # paths that differ between HEAD and index
    unstaged_changes: list[str]  # paths that differ between index and worktree
    untracked_files: list[str]  # untracked paths; repositories with a trailing slash
    skipped: list[Skipped]  # what could not be saved, and why
    stash_ref: str | None  # `id` if the state was dirty: `git stash apply` takes it
    operation: str | None  # the operation in progress
    run_id: str | None  # the run that it belongs to
    session_id: str | None  # from the caller
    meta: dict[str, str]  # from the caller
    timeline: str  # the worktree's id
    unchanged: bool = False  # an automatic trigger found no changes: this is the previous checkpoint


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
