"""Creating a worktree again that has ended (`worktree create ID --revive`), in the newest state of it that was saved:

archived or removed      all of it, as it was left (`removal`)
after a restore          what was restored; where that was a part, the state before with that part
destroyed otherwise      the last checkpoint. One that is created when the folder is found to be missing names it
                         (`STATE_OF`): it holds that state again, and the record of the worktree

A worktree of another host comes from what was fetched of it, in the same way; what was made up there is checked first.

The last checkpoint of an archived or removed worktree carries, beside its state, `worktree.json` (its record) and
`database/…` (log, memory, what the workflow database held).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from git_agentos import log
from git_agentos.checkpoint import format, journal, timeline
from git_agentos.checkpoint.model import Checkpoint, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.request import Restoration, RestoreOptions
from git_agentos.errors import AgentosError, CheckpointNotFound, RestoreError, WorktreeError
from git_agentos.git import refs, trees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository, Writer
from git_agentos.sync import fetched
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout, new_worktree, record, submodules
from git_agentos.worktree.new_worktree import WorktreeSpec
from git_agentos.worktree.record import Record

# Keys of a checkpoint's `meta`, for one that was made when the folder was missing.
FOLDER = "folder"
MISSING = "missing"
STATE_OF = "state_of"
_ENDINGS = ("archive", "before_remove")


class Saved(NamedTuple):
    """Where the newest saved state is: in the checkpoint `state`; then, where `part` is not None, a restore of a part
    of the checkpoint `of` was made. `newest` is the newest checkpoint, `meta` its metadata."""

    newest: str
    meta: Mapping[str, Any]
    state: str
    of: str | None = None
    part: Mapping[str, Any] | None = None

    @property
    def source(self) -> str:
        """The checkpoint that the state was first saved in."""
        return dict(self.meta.get("meta") or {}).get(STATE_OF) or self.state


@dataclass(frozen=True)
class Ended:
    """A worktree that has ended: its record, its newest checkpoint, and where its last state is.

    `source` is the checkpoint that this state was first saved in; `as_left` tells that everything was saved when the
    worktree ended, so that nothing can have come after it.
    """

    record: Record
    last: Checkpoint
    saved: Saved
    source: Checkpoint
    as_left: bool


def find_last_state(context: OpenWorktree, name: str, location: Location | None = None) -> Saved | None:
    """The newest state that is saved in a timeline; None where there is none. `location` is the worktree's, where it
    has an entry still: that tells whether its last restore came to an end."""
    repository = context.repository
    newest = timeline.newest(repository, name)
    if newest is None:
        return None
    meta = format.open_checkpoint(repository, newest.checkpoint).meta
    of, part = meta.get("restores"), meta.get("restored_part")
    if of is None or (location is not None and _was_interrupted(location)):
        return Saved(newest.checkpoint, meta, newest.checkpoint)
    if part is None:
        return Saved(newest.checkpoint, meta, of)
    return Saved(newest.checkpoint, meta, newest.checkpoint, of, part)


def covers(repository: Repository, writer: Writer, state: State, saved: Saved) -> bool:
    """Whether everything in the saved state is in `state` (which `writer` has), too: so nothing is missing where that
    is revived instead."""
    last = format.read_state(repository, saved.state)
    if saved.part is not None or last.operation or last.stages or last.ignored or last.nested or last.empty_directories:
        return False
    if last.head.commit is None or state.head.commit is None:
        return last.head.commit == state.head.commit
    if not repository.is_ancestor(last.head.commit, state.head.commit):
        return False
    last = format.with_visible_tree(repository, writer, last)
    begun = repository.commit_tree(last.head.commit)
    changed = [
        *trees.diff(writer, begun, last.visible_tree).items(),
        *trees.diff(writer, begun, last.index_tree).items(),
    ]
    return all(trees.find(writer, state.index_tree, path) == after for path, (_, after) in changed)


def _was_interrupted(location: Location) -> bool:
    try:
        return journal.read(location) is not None
    except (AgentosError, OSError):
        return True


def ended(context: OpenWorktree, id_: str, name: str | None = None) -> Ended:
    """What is known of a worktree that was archived, removed or destroyed, by the timeline `name`, by default its own;
    WorktreeError where nothing is."""
    saved = find_last_state(context, name or id_)
    if saved is None:
        raise WorktreeError(
            f"there is nothing to revive: no worktree '{id_}' has left checkpoints",
            f"git agentos worktree create {id_} makes a new one",
        )
    last = format.describe(saved.newest, saved.meta)
    first = last
    if saved.source != saved.newest:
        with contextlib.suppress(AgentosError):
            first = format.read(context.repository, saved.source)
    as_left = last.trigger in _ENDINGS and last.meta.get(FOLDER) != MISSING
    return Ended(last_record(context, id_, name), last, saved, first, as_left)


def last_record(context: OpenWorktree, id_: str, name: str | None = None) -> Record:
    """The newest record that a checkpoint of the worktree carries, in the timeline `name`; made up from its checkpoints
    where none does."""
    known = record.record_from_timeline(context.repository, id_, name)
    if known is None:
        raise WorktreeError(
            f"nothing is known of the worktree '{id_}'", "git agentos worktree list shows what there is"
        )
    return known


# -- reviving --------------------------------------------------------------------------------------------------------


class Revived(NamedTuple):
    """A worktree that was revived: what was known of it, and what was restored."""

    ended: Ended
    restored: Restoration


def revive(
    context: OpenWorktree,
    id_: str,
    *,
    task: str | None = None,
    lock: bool = False,
    guard: bool = True,
    host: str | None = None,
) -> Revived:
    """Create the ended worktree `id_` again, in its last state, with ignored files, log and memory; `guard` enables the
    guard in it. With `host`, it is made here as it is on that host, where it may go on.

    It is on its branch if that is where it was left, or gone; else on a new branch, as after a restore. On any error
    nothing is left.
    """
    layout.check_id(id_)
    name = None if host is None else fetched.one(context, host, id_)
    known = ended(context, id_, name)
    saved = known.saved
    if name is not None:
        _check_fetched(context, id_, saved)
        known = replace(known, record=_sound(context, id_, known.record))
    target = format.read_state(context.repository, saved.state)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {saved.state[:8]} was made before the first commit: git cannot make a worktree of it",
            f"git agentos restore {saved.state[:8]} --agent {id_} --no-branch brings its files here",
        )
    move = commands.initial_head(context.location, saved.state, target)
    spec = WorktreeSpec(
        id_,
        known.record.base_ref,
        target.head.commit,
        lock=lock,
        revived_record=replace(known.record, task=task or known.record.task),
        creates_ref=move.head.ref if move.create else None,
        guard=guard,
        later=_later(context, target),
    )
    with new_worktree.creating(context, spec) as made:
        inner = made.inner
        metadata = inner.metadata()._replace(created_by=context.agent)
        if name is None:
            submodules.put_back(inner.location, id_, inner.location.git_dir)
        restored = commands.restore_new_worktree(inner, metadata, saved.state, target, move)
        if saved.part is not None and saved.of is not None:
            commands.restore(inner, metadata, saved.of, RestoreOptions.of_part(saved.part))
        log.revive(inner, name)
        log.try_add(inner, "action", f"worktree {id_} revived", checkpoint_id=known.source.id, task_id=spec.task)
    if name is None:
        submodules.forget(context.location, id_)
    return Revived(known, restored)


def _check_fetched(context: OpenWorktree, id_: str, saved: Saved) -> None:
    """Check the checkpoints that a fetched timeline leads to; CheckpointNotFound if one of them was not pushed."""
    for oid in dict.fromkeys(filter(None, (saved.newest, saved.state, saved.of))):
        if not context.repository.exists(oid):
            raise CheckpointNotFound(
                f"the last state of '{id_}' is that of checkpoint {oid[:8]}, which its host has not pushed",
                f"git agentos restore ID --worktree {id_} --agent {id_} --host HOST restores another one",
            )
        fetched.check_checkpoint(context.repository, oid, id_)


def _sound(context: OpenWorktree, id_: str, known: Record) -> Record:
    """A record that came from another host, as far as it can be used here."""
    given = known.branch if refs.is_well_formed(layout.HEADS + known.branch) else record.branch_of(id_)
    base = known.base_sha if context.repository.hash.is_oid(known.base_sha) else context.repository.hash.zero
    base_ref = known.base_ref if refs.is_well_formed("refs/" + known.base_ref) else base
    return replace(known, id=id_, branch=given, base_sha=base, base_ref=base_ref, setup=None, copied=[])


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
