"""`worktree archive`, and how an ended worktree comes back: `worktree create ID --revive`.

The last checkpoint of an ended worktree carries, beside its state, `worktree.json` (its record) and `database/…` (log,
memory, what the workflow database held). A worktree that was destroyed otherwise has its checkpoints too, and comes
back from the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from git_agentos import log
from git_agentos.checkpoint import format, restore, timeline
from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.format import Checkpoint
from git_agentos.checkpoint.restore import Restoration
from git_agentos.errors import RestoreError, UsageError, WorktreeError
from git_agentos.guard import authorize
from git_agentos.worktree import create, end, place, record
from git_agentos.worktree.end import Removal
from git_agentos.worktree.record import Record


@dataclass(frozen=True)
class Ended:
    """A worktree that is no more: its record as it was, its newest checkpoint, and the one whose state it was left in
    (another one where the newest was taken by a restore, to save what that then replaced)."""

    record: Record
    last: Checkpoint
    state: str

    @property
    def is_archived(self) -> bool:
        return self.last.trigger == "archive"


@authorize.entry("worktree", "archive")
def archive(context: Context, id_: str) -> Removal:
    """Save all that is in the managed worktree `id_`, its log, memory and database, on its timeline, and remove it.

    Branch and timeline stay. Refuses what `end.end` refuses.
    """
    return end.end(context, id_, end.ARCHIVE)


def ended(context: Context, id_: str) -> Ended:
    """What there is of a worktree that was archived, removed or destroyed; WorktreeError where there is nothing."""
    repository = context.repository
    newest = timeline.newest(repository, id_)
    if newest is None:
        raise WorktreeError(
            f"there is nothing to revive: no worktree '{id_}' has left checkpoints",
            f"git agentos worktree create {id_} makes a new one",
        )
    last = format.read(repository, newest.checkpoint)
    restores = format.parts(repository, newest.checkpoint).meta.get("restores")
    return Ended(last_record(context, id_), last, restores or newest.checkpoint)


def last_record(context: Context, id_: str) -> Record:
    """The newest record that a checkpoint of the worktree carries; made up from its checkpoints where none does."""
    known = record.remembered(context.repository, id_)
    if known is None:
        raise WorktreeError(
            f"nothing is known of the worktree '{id_}'", "git agentos worktree list shows what there is"
        )
    return known


def revive(
    context: Context,
    id_: str,
    *,
    task: str | None = None,
    sparse: Sequence[str] = (),
    lock: bool = False,
    guard: bool = True,
) -> Restoration:
    """Make the ended worktree `id_` again, exactly in the state that it was left in, ignored files, log and memory
    included; `guard` switches the guard on in it.

    It is on its branch if that is where it was left, or gone; else on a new branch, as after a restore. On any error
    nothing is left.
    """
    place.check_id(id_)
    if sparse:
        raise UsageError("--sparse and --revive cannot be used together: the worktree comes back as it was")
    found = ended(context, id_)
    target = format.read_state(context.repository, found.state)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {found.state[:8]} was made before the first commit: git cannot make a worktree of it",
            f"git agentos restore {found.state[:8]} --agent {id_} --no-branch brings its files here",
        )
    move = restore.way_back(context.location, found.state, target)
    wanted = create.Wanted(
        id_,
        found.record.base_ref,
        target.head.commit,
        lock=lock,
        revived=replace(found.record, task=task or found.record.task),
        makes=move.head.ref if move.create else None,
        guard=guard,
    )

    def bring_up(inner: Context, _: Record) -> Restoration:
        origin = inner.origin()._replace(created_by=context.agent)
        done = restore.bring_back(inner.repository, inner.settings, origin, found.state, target, move)
        log.revive(inner)
        log.note(inner, "action", f"worktree {id_} revived", checkpoint_id=found.state, task_id=wanted.task)
        return done

    return create.make(context, wanted, bring_up)
