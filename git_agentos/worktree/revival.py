"""Creating a worktree again that has ended: `worktree create ID --revive`.

The last checkpoint of an ended worktree carries, beside its state, `worktree.json` (its record) and `database/…` (log,
memory, what the workflow database held). A worktree that was destroyed otherwise has its checkpoints too, and comes
back from the last one (`last_state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from git_agentos import log
from git_agentos.checkpoint import format
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.request import Restoration, RestoreOptions
from git_agentos.errors import RestoreError, UsageError
from git_agentos.git import trees
from git_agentos.worktree import last_state, layout, new_worktree, submodules
from git_agentos.worktree.last_state import Ended
from git_agentos.worktree.new_worktree import WorktreeSpec


def revive(
    context: OpenWorktree,
    id_: str,
    *,
    task: str | None = None,
    sparse: Sequence[str] = (),
    lock: bool = False,
    guard: bool = True,
) -> Restoration:
    """Create the ended worktree `id_` again, in the newest state that is saved of it (`last_state`), with ignored
    files, log and memory; `guard` enables the guard in it.

    It is on its branch if that is where it was left, or gone; else on a new branch, as after a restore. On any error
    nothing is left.
    """
    check(id_, sparse)
    return revive_ended(context, last_state.ended(context, id_), id_, task=task, lock=lock, guard=guard)


def check(id_: str, sparse: Sequence[str]) -> None:
    """UsageError for arguments that `revive` does not take."""
    layout.check_id(id_)
    if sparse:
        raise UsageError("--sparse and --revive cannot be used together: the worktree comes back as it was")


def revive_ended(
    context: OpenWorktree, ended: Ended, id_: str, *, task: str | None = None, lock: bool = False, guard: bool = True
) -> Restoration:
    """`revive`, of what is known of the worktree."""
    saved = ended.saved
    target = format.read_state(context.repository, saved.state)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {saved.state[:8]} was made before the first commit: git cannot make a worktree of it",
            f"git agentos restore {saved.state[:8]} --agent {id_} --no-branch brings its files here",
        )
    move = commands.initial_head(context.location, saved.state, target)
    spec = WorktreeSpec(
        id_,
        ended.record.base_ref,
        target.head.commit,
        lock=lock,
        revived_record=replace(ended.record, task=task or ended.record.task),
        creates_ref=move.head.ref if move.create else None,
        guard=guard,
        later=_later(context, target),
    )
    with new_worktree.creating(context, spec) as made:
        inner = made.inner
        metadata = inner.metadata()._replace(created_by=context.agent)
        submodules.put_back(inner.location, id_, inner.location.git_dir)
        restored = commands.restore_new_worktree(inner, metadata, saved.state, target, move)
        if saved.part is not None and saved.of is not None:
            commands.restore(inner, metadata, saved.of, RestoreOptions.of_part(saved.part))
        log.revive(inner)
        log.try_add(inner, "action", f"worktree {id_} revived", checkpoint_id=ended.source.id, task_id=spec.task)
    submodules.forget(context.location, id_)
    return restored


def _later(context: OpenWorktree, target: State) -> frozenset[bytes]:
    """The files of the commit that differ in `target`, or are missing there: they need no checkout first."""
    repository = context.repository
    if "extensions.partialclone" in context.settings.values:
        return frozenset()  # a checkout of all files fetches what is missing at once
    with repository.writer() as writer:  # nothing of it is flushed
        after = format.with_visible_tree(repository, writer, target).visible_tree
        found = trees.diff(writer, repository.commit_tree(target.head.commit), after)
    kept = (None, trees.GITLINK)
    return frozenset(path for path, (before, _) in found.items() if (before[0] if before else None) not in kept)
