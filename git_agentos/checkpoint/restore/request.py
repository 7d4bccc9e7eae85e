"""Input and result of a restore."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from git_agentos.checkpoint import format
from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.checkpoint.journal import Journal
from git_agentos.checkpoint.model import Skipped, State
from git_agentos.checkpoint.restore.head import BranchMove, HeadTarget
from git_agentos.errors import CheckpointFormatError, MissingObjectsError
from git_agentos.git.repository import Repository

if TYPE_CHECKING:
    from git_agentos.checkpoint.restore.choice import Choice


@dataclass(frozen=True)
class RestoreOptions:
    """How to restore. `paths` are bytes relative to the root; `branch` a short name for the new branch.

    `expected` is the state (`Restoration.state`) that may be replaced, None for any. `call` is the key of the call and
    the hash of its arguments (`idempotency.Call`), None without a key.

    `choice` are the hunks of the files at `paths` that alone are restored; `hunks_of` is the checkpoint they are of.
    """

    paths: Sequence[bytes] | None = None
    branch: str | None = None
    no_branch: bool = False
    keep_new: bool = False
    dry_run: bool = False
    expected: str | None = None
    call: tuple[str, str] | None = None
    choice: Choice | None = None
    hunks_of: str | None = None

    @property
    def part(self) -> dict[str, Any] | None:
        """The restored part of a state, as a checkpoint records it (`restored_part`); None if it is all of it."""
        if self.paths is None and not self.no_branch and not self.keep_new:
            return None
        paths = None if self.paths is None else [os.fsdecode(path) for path in self.paths]
        part = {"paths": paths, "no_branch": self.no_branch, "keep_new": self.keep_new}
        return part if self.hunks_of is None else {**part, "hunks_of": self.hunks_of}

    @classmethod
    def of_part(cls, part: Mapping[str, Any]) -> RestoreOptions:
        """The options for restoring the same part; CheckpointFormatError if it is not valid."""
        try:
            paths = part["paths"]
            return cls(
                paths=None if paths is None else [os.fsencode(path) for path in paths],
                no_branch=bool(part["no_branch"]),
                keep_new=bool(part["keep_new"]),
            )
        except (KeyError, TypeError) as error:
            raise CheckpointFormatError("the metadata of a checkpoint does not name a valid part of a state") from error


@dataclass(frozen=True)
class RestoreRequest:
    """The input of one transaction.

    command           what the user ran
    checkpoint        the checkpoint to restore, and its state, `target`
    move              where HEAD goes; None: it stays
    stamp             the time, as the names of new branches contain it
    options           what the user limited it to
    with_operation    restore the operation in progress as well
    interrupted       of a recovery: the journal of the interrupted restore; with `abort`, it is reverted
    branch_moves      existing branches that move
    exact             remove whatever the target (a complete state) does not have, ignored files too
    save_everything   save all files before, of any size, ignored ones too
    reread            files that are read even if git calls them unmodified
    listing           the worktree's directories, if they were just listed
    pins              commits that the save keeps
    trigger           the trigger of the save
    made_from         the state that the target was made from: what is restored must not have changed since
    new_worktree      the worktree is being created, and is removed after a failure; files that are not checked out yet
                      are saved as the index has them
    """

    command: str
    checkpoint: str
    target: State
    move: HeadTarget | None
    stamp: str
    options: RestoreOptions = RestoreOptions()
    with_operation: bool = True
    interrupted: Journal | None = None
    abort: bool = False
    branch_moves: Sequence[BranchMove] = ()
    exact: bool = False
    save_everything: bool = False
    reread: frozenset[bytes] = frozenset()
    listing: Listing | None = None
    pins: Sequence[str] = ()
    trigger: str = "before_restore"
    new_worktree: bool = False
    made_from: State | None = None

    def journal(self, saved: str, agent: str) -> Journal:
        """The journal of this restore by `agent`; `saved` is the checkpoint of the state before."""
        move, paths = self.move, self.options.paths
        return Journal(
            command=self.command,
            saved=saved,
            target=self.checkpoint,
            head_ref=move.head.ref if move is not None else None,
            head_commit=move.head.commit if move is not None else None,
            create=move.create if move is not None else False,
            paths=None if paths is None else [os.fsdecode(path) for path in paths],
            keep_new=self.options.keep_new,
            with_operation=self.with_operation,
            original=saved,
            stamp=self.stamp,
            by=agent,
            shifts=[list(each) for each in self.branch_moves],
            exact=self.exact,
            thorough=self.save_everything,
            trigger=self.trigger,
            call=None if self.options.call is None else list(self.options.call),
        )


@dataclass(frozen=True)
class Restoration:
    """The result of a restore, or of a dry run; the fields are the keys of the JSON kind `restore`.

    `checkpoint` is the restored id, `saved` the checkpoint of the state before (None in a dry run), `branch` the
    short name of the branch that HEAD is on afterwards (None if detached), `head` its commit. `state` is a hash of the
    state that is replaced, as far as this restore saves it; a call that is given it as `expected` replaces nothing
    else. It is None if nothing was captured, and of a restore that `recover` finished. Paths are text.
    """

    checkpoint: str
    saved: str | None
    branch: str | None
    head: str | None
    worktree_path: str
    changed: list[str]
    removed: list[str]
    skipped: list[Skipped]
    dry_run: bool
    state: str | None = None


def read_target(repository: Repository, checkpoint: str) -> State:
    """The target state. Objects that every restore of it needs must exist."""
    try:
        return format.read_state(repository, checkpoint)
    except MissingObjectsError as error:
        raise MissingObjectsError(
            f"checkpoint {checkpoint[:8]} is incomplete: {error.message}", "git fsck shows details; nothing was changed"
        ) from error
