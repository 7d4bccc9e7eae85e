"""What a restore is to bring about: whose state, where HEAD goes, which paths; and what came of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.checkpoint import format
from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.checkpoint.journal import Journal
from git_agentos.checkpoint.model import Skipped, State
from git_agentos.checkpoint.restore.head import BranchMove, HeadTarget
from git_agentos.errors import CheckpointFormatError, MissingObjectsError
from git_agentos.git.repository import Repository


@dataclass(frozen=True)
class RestoreOptions:
    """How to restore. `paths` are bytes relative to the root; `branch` a short name for the new branch."""

    paths: Sequence[bytes] | None = None
    branch: str | None = None
    no_branch: bool = False
    keep_new: bool = False
    dry_run: bool = False

    @property
    def part(self) -> dict[str, Any] | None:
        """What of a state is restored, as a checkpoint notes it (`restored_part`); None where it is all of it."""
        if self.paths is None and not self.no_branch and not self.keep_new:
            return None
        paths = None if self.paths is None else [os.fsdecode(path) for path in self.paths]
        return {"paths": paths, "no_branch": self.no_branch, "keep_new": self.keep_new}

    @classmethod
    def of_part(cls, part: Mapping[str, Any]) -> RestoreOptions:
        """The options for restoring the same part; CheckpointFormatError for what is none."""
        try:
            paths = part["paths"]
            return cls(
                paths=None if paths is None else [os.fsencode(path) for path in paths],
                no_branch=bool(part["no_branch"]),
                keep_new=bool(part["keep_new"]),
            )
        except (KeyError, TypeError) as error:
            raise CheckpointFormatError("the metadata of a checkpoint does not say what a restore brought") from error


@dataclass(frozen=True)
class RestoreRequest:
    """One transaction's aim: the state `target` of `checkpoint`, and HEAD moved by `move` (None: it stays).

    `command` is what the user ran; `with_operation` says that the operation in progress comes back too; `stamp` names
    the branches that are made. A recovery has the journal of what was `interrupted`, and with `abort` goes back.

    `shifts` are existing branches that move. `thorough` has everything saved, whatever its size, ignored files too;
    `exact` has them leave as well, where the target (which is complete) does not have them, and so on: nothing is left
    that is not its. `touched` are files that are read even if git calls them unmodified, `walked` what a walk has just
    found, `pins` commits that the save keeps alive, `trigger` the save's. `fresh`: the worktree is being made, and what
    makes it removes it after a failure. Files that are not checked out yet are saved as the index has them.
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
    shifts: Sequence[BranchMove] = ()
    exact: bool = False
    thorough: bool = False
    touched: frozenset[bytes] = frozenset()
    walked: Listing | None = None
    pins: Sequence[str] = ()
    trigger: str = "before_restore"
    fresh: bool = False


@dataclass(frozen=True)
class Restoration:
    """What a restore did, or, in a dry run, would do; the fields are the keys of the JSON kind `restore`.

    `checkpoint` is the id restored, `saved` the id that holds the state before (None in a dry run), `branch` the
    short name of the branch that HEAD is on afterwards (None if detached), `head` its commit. Paths are text.
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


def read_target(repository: Repository, checkpoint: str) -> State:
    """The target state, with what of it is needed whatever the present state is."""
    try:
        return format.read_state(repository, checkpoint)
    except MissingObjectsError as error:
        raise MissingObjectsError(
            f"checkpoint {checkpoint[:8]} is incomplete: {error.message}", "git fsck tells more; nothing was changed"
        ) from error
