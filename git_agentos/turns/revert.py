"""Revert: take back what one turn changed, and keep later edits.

The state without the turn (`merging`) is written as a checkpoint that is on no timeline, and restored like some paths
of any other: the state now is saved first, and keeps it; a kill is recovered by `recover`; `undo` takes it back.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from git_agentos import log
from git_agentos.checkpoint import creation, format
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands, transaction
from git_agentos.checkpoint.restore.request import RestoreOptions, RestoreRequest, read_target
from git_agentos.errors import (
    CheckpointFormatError,
    CheckpointNotFound,
    MissingObjectsError,
    RestoreError,
    UsageError,
    converted_storage_errors,
)
from git_agentos.git import state_dir
from git_agentos.turns import changes, listing, merging
from git_agentos.turns.listing import Turn
from git_agentos.turns.merging import Merged
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

MARKERS = "markers"


class Revert(NamedTuple):
    """The result of a revert, or of a dry run; the fields are the keys of the JSON kind `revert`.

    `turn` is its id, `saved` the checkpoint of the state before (None if nothing was changed), `changed` the paths that
    were written or removed, `conflicts` those in which the turn and later edits conflict: unless markers were wanted,
    nothing was changed then.
    """

    turn: str
    saved: str | None
    changed: list[str]
    conflicts: list[str]
    dry_run: bool = False


def revert(worktree: OpenWorktree, spec: str, *, conflict: str | None = None, dry_run: bool = False) -> Revert:
    """Take back what the turn named `spec` changed; `conflict` is MARKERS to write markers where it conflicts.

    CheckpointNotFound if there is no such turn, or its checkpoints are forgotten; RestoreError while it goes on.
    """
    if conflict not in (None, MARKERS):
        raise UsageError(f"'{conflict}' is no way to handle a conflict", f"the only one is '{MARKERS}'")
    turn = listing.find(worktree, spec)
    before, after = _ends(worktree, turn)
    metadata = worktree.metadata(
        description=f"before turn {turn.id[:12]} was reverted", session_id=turn.session_id, meta={"reverts": turn.id}
    )
    location = worktree.location
    with converted_storage_errors(), state_dir.lock(location, "worktree"):
        commands.refuse_interrupted(location)
        with worktree.repository.writer() as writer:
            now = creation.preview_worktree(worktree, writer)
            merged = merging.without_turn(worktree.repository, writer, now, before, after, worktree.settings.committer)
            _refuse_unmerged(merged, now.stages.keys())
            conflicts = [os.fsdecode(path) for path in merged.conflicts]
            if not merged.touched or (conflicts and conflict is None):
                return Revert(turn.id, None, [], conflicts, dry_run)
            target = format.write(writer, merged.state, metadata, worktree.settings.committer, {}).id
            writer.flush()
        request = RestoreRequest(
            command="revert",
            checkpoint=target,
            target=read_target(worktree.repository, target),
            move=None,
            stamp=times.name_stamp(),
            options=RestoreOptions(paths=merged.touched, dry_run=dry_run),
            with_operation=False,
            pins=[target],
            made_from=now,
        )
        done = transaction.run(worktree, metadata, request)
    left = {each.path for each in done.skipped}
    changed = sorted({*done.changed, *done.removed, *map(os.fsdecode, merged.files)} - left)
    if not dry_run and worktree.has_database:
        details = {"turn": turn.id, "saved": done.saved, "conflicts": len(conflicts), "files": len(changed)}
        first = changed[: log.MOST_FILES]
        summary = f"reverted turn {turn.id[:12]}"
        log.try_add(worktree, "action", summary, details=details, files=first, checkpoint_id=done.saved)
    return Revert(turn.id, done.saved, changed, conflicts, dry_run)


def _ends(worktree: OpenWorktree, turn: Turn) -> tuple[str, str]:
    """The checkpoints between which the turn was; they can be read."""
    if turn.ended_at is None and turn.ended_by is None:
        raise RestoreError(f"turn {turn.id[:12]} has not ended", "revert it once its agent has stopped")
    if turn.before is None or turn.after is None:
        raise CheckpointNotFound(
            f"turn {turn.id[:12]} cannot be reverted: no checkpoint was created when it began or ended",
            "git agentos checkpoint list shows the states that were saved",
        )
    try:
        changes.between(worktree.repository, turn.before, turn.after)
    except (MissingObjectsError, CheckpointFormatError) as error:
        raise CheckpointNotFound(
            f"turn {turn.id[:12]} cannot be reverted: a checkpoint of it is forgotten",
            "git agentos turns shows what it changed; git agentos checkpoint list shows the states that are left",
        ) from error
    return turn.before, turn.after


def _refuse_unmerged(merged: Merged, unmerged: Collection[bytes]) -> None:
    for path in merged.touched:
        if path in unmerged:
            raise RestoreError(
                f"'{os.fsdecode(path)}' has a conflict that is not resolved", "resolve it first; nothing was changed"
            )
