"""Rolling back a run's worktree to its base, a step or a checkpoint. The state before is saved first, for `undo`.

`pre_run` is the base: afterwards the worktree is byte for byte what a fresh `git worktree add` at the base and the
recorded set-up gave (`.agentos/` apart), ignored files included, and its branch is at the base. The worktree is reset
in place, at a cost that depends on what the run changed: `baseline` says what differs. Where the folder or git's entry
is damaged or missing, `rebuild` makes it again first.

A step's point is what was visible when it began: ignored files stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import Any

from git_agentos.checkpoint import format, journal, timeline
from git_agentos.checkpoint.model import Skipped, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands, head
from git_agentos.checkpoint.restore.commands import RollbackOptions
from git_agentos.checkpoint.restore.head import BranchMove, HeadTarget
from git_agentos.checkpoint.restore.request import Restoration
from git_agentos.errors import AgentosError, CheckpointNotFound, MissingObjectsError, RestoreError, RunError
from git_agentos.git import refs, worktrees
from git_agentos.git.refs import Head
from git_agentos.git.scan import Scan
from git_agentos.run import baseline, events, evidence_store, preparation, rebuild
from git_agentos.run.context import WorkspaceContext, run_metadata, worktree_id
from git_agentos.run.events import RunState
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import NoKey
from git_agentos.run.rebuild import Rebuilt
from git_agentos.util import times
from git_agentos.worktree import layout, losses

PRE_RUN = events.PRE_RUN
_STEP = re.compile(r"(?:step:)?([0-9]{1,9})\Z")


@dataclass(frozen=True)
class Rollback:
    """What a rollback did; the fields are the keys of the JSON kind `rollback`.

    `point` is what it was rolled back to (`pre_run`, `step:2`, a checkpoint's full id) and `checkpoint` the id of that
    state; `saved` holds everything before. `recreated` says that the folder or git's entry had to be made again,
    `not_saved` what could not be read of a damaged one; `last_saved` is the last checkpoint from before the damage was
    found, made at `last_saved_at` (both None where nothing was damaged). `branch` and `head` are HEAD's afterwards.
    Paths are text.
    """

    run_id: str
    point: str
    checkpoint: str
    saved: str | None
    branch: str | None
    head: str | None
    worktree_path: str
    changed: list[str]
    removed: list[str]
    recreated: bool
    not_saved: list[Skipped]
    dry_run: bool
    last_saved: str | None = None
    last_saved_at: str | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of the event `rolled-back`."""
        names = ("point", "checkpoint", "saved", "last_saved", "last_saved_at")
        found = {name: getattr(self, name) for name in names}
        return {**found, "not_saved": [each._asdict() for each in self.not_saved]}


@dataclass(frozen=True)
class _Point:
    """A point of a run: its name, the checkpoint, and the state in it."""

    name: str
    checkpoint: str
    state: State


def rollback_worktree(
    context: OpenWorktree, run: WorkspaceContext, point: str = PRE_RUN, *, dry_run: bool = False
) -> Rollback:
    """Roll back the run's worktree to `point`.

    `context` is any worktree of the run's repository, and says who acts; the caller holds the run's lock. RunError for
    a point that the run does not have.
    """
    goal = _resolve(context, run, point)
    last = timeline.newest(context.repository, worktree_id(run.run_id))
    rebuilt = rebuild.rebuild_worktree(context, run, dry_run=dry_run)
    inner = rebuilt.inner
    if inner is None:  # a dry run, and what has to be rebuilt cannot be read
        path = run.worktree_path
        done = Restoration(goal.checkpoint, None, run.branch_name, run.base_sha, path, [], [], [], dry_run)
    else:
        finished = None if dry_run else _finish_interrupted(inner, run, goal, rebuilt)
        done = finished or _restore(inner, run, goal, rebuilt, dry_run=dry_run)
        if not dry_run:
            rebuild.restore_config(rebuilt, inner, run)
    not_saved = [*rebuilt.not_saved, *(item for item in done.skipped if item not in goal.state.skipped)]
    last_saved = last_saved_at = None
    if last is not None and (not_saved or inner is None):
        last_saved, last_saved_at = last.checkpoint, format.read(context.repository, last.checkpoint).created_at
    return Rollback(
        run_id=run.run_id,
        point=goal.name,
        checkpoint=goal.checkpoint,
        saved=done.saved,
        branch=done.branch,
        head=done.head,
        worktree_path=done.worktree_path,
        changed=done.changed,
        removed=done.removed,
        recreated=rebuilt.recreated or rebuilt.damaged,
        not_saved=not_saved,
        dry_run=dry_run,
        last_saved=last_saved,
        last_saved_at=last_saved_at,
    )


def rollback_and_record(context: OpenWorktree, run: WorkspaceContext, evidence: Evidence, point: str) -> Rollback:
    """Roll back, and record it; where there is no key to record it with, the rollback is done all the same."""
    done = rollback_worktree(context, run, point)
    with contextlib.suppress(NoKey):
        evidence.event("rolled-back", **done.fields())
    return done


# -- where to ------------------------------------------------------------------------------------------------------


def _resolve(context: OpenWorktree, run: WorkspaceContext, point: str) -> _Point:
    step = _STEP.match(point)
    if point == PRE_RUN:
        name, checkpoint = PRE_RUN, _pre_run(context, run)
    elif step is not None and (point.startswith("step:") or len(point) < 4):
        n = int(step[1])
        name, checkpoint = f"step:{n}", _step(context, run, n)
    else:
        checkpoint = name = _on_timeline(context, run, point)
    if not context.repository.exists(checkpoint):  # which other one took its place, only the signed record says
        raise MissingObjectsError(f"checkpoint {checkpoint} is missing from the object store")
    return _Point(name, checkpoint, format.read_state(context.repository, checkpoint))


def _state(context: OpenWorktree, run: WorkspaceContext) -> RunState:
    """The state of the run by the verified part of its record."""
    try:
        return evidence_store.open_to_read(context.location, run.run_id).state()
    except (AgentosError, OSError):
        return RunState(run.run_id)


def _pre_run(context: OpenWorktree, run: WorkspaceContext) -> str:
    """The checkpoint made right after set-up, by the record, else by the timeline."""
    prepared = _state(context, run).prepared or evidence_store.noted_prepared(context.location, run.run_id)
    if prepared is not None:
        return str(prepared["checkpoint"])
    found = preparation.initial_link(context, run.run_id)
    if found is None:
        raise RunError(f"run '{run.run_id}' has no checkpoint from before it began", "its workspace was never finished")
    return found.checkpoint


def _step(context: OpenWorktree, run: WorkspaceContext, n: int) -> str:
    points = _state(context, run).points
    if n not in points:
        there = ", ".join(f"step:{each}" for each in sorted(points)) or "none"
        raise RunError(f"run '{run.run_id}' has no point 'step:{n}'", f"its points: {PRE_RUN}; of steps: {there}")
    return points[n]


def _on_timeline(context: OpenWorktree, run: WorkspaceContext, point: str) -> str:
    id_ = worktree_id(run.run_id)
    try:
        return timeline.find(context.repository, point, [id_]).checkpoint
    except CheckpointNotFound as error:
        raise RunError(
            f"run '{run.run_id}' has no point '{point}': {error.message}",
            f"'{PRE_RUN}', 'step:N', or a checkpoint: git agentos checkpoint list --agent {id_}",
        ) from error


# -- going there ---------------------------------------------------------------------------------------------------


def _finish_interrupted(
    inner: OpenWorktree, run: WorkspaceContext, goal: _Point, rebuilt: Rebuilt
) -> Restoration | None:  # fmt: skip
    """Finish a restore or rollback in the worktree that was interrupted, or else abort it, or else set its journal
    aside. What it did, where it was a rollback to the same point and is finished now."""
    location = inner.location
    if not journal.exists(location):
        return None
    metadata = run_metadata(inner, run)
    for abort in (False, True):
        with contextlib.suppress(AgentosError):
            found = journal.read(location)
            done = commands.recover(inner, metadata, abort=abort)
            if abort or found is None or found.command != commands.ROLLBACK or done.checkpoint != goal.checkpoint:
                return None
            at = refs.read_head(location)
            return Restoration(
                checkpoint=goal.checkpoint,
                saved=done.saved,
                branch=at.branch,
                head=at.commit,
                worktree_path=location.root,
                changed=done.changed,
                removed=done.removed,
                skipped=done.skipped,
                dry_run=False,
            )
    kept = rebuild.set_aside(location, os.path.join(location.state_dir, "journal.json"), "journal")
    reason = f"an interrupted restore could not be finished: its journal is at '{kept}' now"
    rebuilt.not_saved.append(Skipped("journal.json", reason))
    return None


def _restore(
    inner: OpenWorktree, run: WorkspaceContext, goal: _Point, rebuilt: Rebuilt, *, dry_run: bool
) -> Restoration:
    scan = Scan(inner.location)  # git reads the files meanwhile
    try:
        found = baseline.compare(inner.location, rebuilt.baseline)
        touched = found.touched
        if touched is None:
            touched = baseline.changed_by_reading(inner, goal.state)
        move, shifts = _move(inner, run, goal)
        back = RollbackOptions(move, shifts, touched, found.walked, _pins(inner, run, rebuilt), scan)
    except BaseException:
        scan.discard()
        raise
    description = f"run {run.run_id}: before it was rolled back to {goal.name[:12]}"
    metadata = run_metadata(inner, run, description=description)
    return commands.rollback(inner, metadata, goal.checkpoint, back, dry_run=dry_run)


def _move(inner: OpenWorktree, run: WorkspaceContext, goal: _Point) -> tuple[HeadTarget, list[BranchMove]]:
    """Where HEAD goes, and the run's branch; RunError where another worktree has that checked out."""
    location = inner.location
    ref = layout.HEADS + run.branch_name
    then = Head(ref, run.base_sha) if goal.name == PRE_RUN else goal.state.head
    if then.ref != ref:
        return head.original_head(location, goal.checkpoint, goal.state, times.name_stamp()), []
    present = refs.resolve(location, ref)
    shifts = [BranchMove(ref, present, then.commit)] if present != then.commit else []
    if present is None:
        try:
            head.check_ref_conflict(location, ref)
        except RestoreError as error:
            hint = "rename what is in the way (git branch -m OLD NEW), then try again; nothing was changed"
            raise RunError(error.message, hint) from error
    if shifts or refs.read_head(location).ref != ref:
        others = worktrees.branch_users(location, ref, except_git_dir=location.git_dir)
        if others:
            where = others[0].root or others[0].git_dir
            raise RunError(
                f"the branch '{run.branch_name}' is checked out at '{where}' as well",
                f"git -C '{where}' switch --detach, then try again; nothing was changed",
            )
    return HeadTarget(then, create=False), shifts


def _pins(inner: OpenWorktree, run: WorkspaceContext, rebuilt: Rebuilt) -> list[str]:
    """Commits that only the run's branch or this worktree's reflog keeps, and its timeline does not yet."""
    repository = inner.repository
    _, tips = losses.own_commits(repository, without=layout.HEADS + run.branch_name)
    tip = timeline.tip(inner.location, inner.worktree_id)
    wanted = dict.fromkeys([*rebuilt.commits, *tips])
    return [oid for oid in wanted if tip is None or not repository.is_ancestor(oid, tip)]
