"""One run of a node: the checkpoints before and after it, its events in the evidence of the run, and its record.

A node that was killed runs again: its event exists and its record does not, so that its worktree is first restored to
the checkpoint before it. Everything that counts is on disk before the graph continues.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from git_agentos.checkpoint.creation import Created, create_checkpoint
from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import RunError, TddError
from git_agentos.git import process, trees
from git_agentos.run import branches as protected
from git_agentos.run import evidence_store, preparation, rebuild
from git_agentos.run.context import WorkspaceContext
from git_agentos.run.events import FAILED_STEP, OK, Event
from git_agentos.run.evidence import Evidence
from git_agentos.run.lock import Stop
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.snapshot import run_context, take_snapshot
from git_agentos.run.step import end_leftovers, record_changes
from git_agentos.tdd.routing import ROUTES
from git_agentos.tdd.state import N1, N2, N3, N4, ImplementationState, Observer, Record, Workflow
from git_agentos.util import times

Update = dict[str, Any]  # what a node changes in the state
# The nodes that are steps of the run, and their kinds: an agent writes, or something is validated.
_STEP_KINDS = {N1: "agent", N2: "validate", N3: "agent", N4: "validate"}
_BEGUN = "node-begun"


class Interrupted(Exception):
    """A signal has come: the workflow stops, and the node runs again when it is resumed."""


@dataclass(frozen=True)
class Session:
    """One process that works on a workflow, and holds the lock of its run (`holds_lock` tells). `context` is the user's
    worktree; `database` has the state; `describe` makes the workflow as it is shown of the state and the next node.
    `pinned` has the evidence once its record was read, which then is in memory."""

    context: OpenWorktree
    id: str
    database: str
    environment: Mapping[str, str]
    stop: Stop
    observer: Observer
    describe: Callable[[ImplementationState, str], Workflow]
    holds_lock: Callable[[], bool] = lambda: True
    pinned: list[Evidence] = field(default_factory=list)

    def run(self) -> WorkspaceContext:
        """The workspace; TddError before there is one."""
        run = preparation.recorded_context(self.context, self.id)
        if run is None:
            raise TddError(f"workflow '{self.id}' has no worktree", f"git agentos tdd show {self.id}")
        return run

    def worktree(self) -> OpenWorktree:
        """The agent in the workflow's worktree."""
        return run_context(self.context, self.run())

    def evidence(self) -> Evidence:
        """The run's evidence; `journal.Tampered` where its record was tampered with."""
        if not self.pinned:
            evidence = evidence_store.open_existing(self.context.location, self.id)
            evidence.pin(self.holds_lock)
            self.pinned.append(evidence)
        return self.pinned[0]

    def save(self, worktree: OpenWorktree, description: str, node: str, phase: str) -> Created:
        """Create a checkpoint of the workflow's worktree between two nodes."""
        run = self.run()
        meta = {"node": node, "phase": phase}
        metadata = worktree.metadata(
            trigger="phase_complete", description=description, task_id=run.task_id, run_id=run.run_id, meta=meta
        )
        return create_checkpoint(worktree, metadata)


@dataclass(frozen=True)
class NodeRun:
    """A node at work. `worktree` is the agent there; `checkpoint`, `tree` (of all visible files) and `skipped` (what
    was not saved) are the state before it. `folder` is relative to the evidence, None for a node that is no step.
    `branches` are the positions of protected branches; `violations_before` is what a killed attempt did to them."""

    session: Session
    state: ImplementationState
    node: str
    run: WorkspaceContext
    worktree: OpenWorktree
    checkpoint: str
    tree: str
    skipped: Sequence[Skipped]
    folder: str | None
    step: int | None
    branches: Mapping[str, str]
    violations_before: Sequence[str]
    began: float

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return os.path.join(self.session.evidence().folder, self.folder or "")

    def violations(self) -> list[str]:
        """What this node did to protected branches, for people."""
        return [*self.violations_before, *_violations(self.session, self.state, self.run, self.branches)]


@dataclass
class NodeResult:
    """The result of a node: `update` is for the state, the rest for its record; `holds` is False where the step
    failed."""

    update: Update
    summary: str
    exit_code: int | None = None
    vetoes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    red: Sequence[str] = ()
    output: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    holds: bool = True


def run_node(
    session: Session,
    state: ImplementationState,
    node: str,
    work: Callable[[NodeRun], NodeResult],
    command: str | None,
) -> Update:
    """Run a node that works in the worktree, between two checkpoints, and record it. `command` is for its event."""
    if session.stop():
        raise Interrupted
    session.observer.node_begins(session.describe(state, node), node)
    node_run = _begin(session, state, node, command)
    try:
        result = work(node_run)
    except OSError:
        session.evidence().check()  # where its folder is gone, that is the reason
        raise
    if session.stop():
        raise Interrupted
    record, tree = _end(node_run, result)
    if node in (N1, N3):
        result.update["changed_files"] = changed_files(node_run.worktree, state["base_sha"], tree)
    return _report(session, state, result.update, record)


def record_node(
    session: Session,
    state: ImplementationState,
    node: str,
    result: NodeResult,
    began: float,
    checkpoints: tuple[str | None, str | None] = (None, None),
) -> Update:
    """Record a node that is no step; `checkpoints` are those before and after it."""
    record = make_record(state, node, result, began, checkpoints)
    return _report(session, state, result.update, record)


def make_record(
    state: ImplementationState,
    node: str,
    result: NodeResult,
    began: float,
    checkpoints: tuple[str | None, str | None] = (None, None),
    changed: Sequence[str] = (),
) -> Record:
    """The record of a node that has just ended; `began` is of `time.monotonic`."""
    seconds = time.monotonic() - began
    ended_at = datetime.now(UTC)
    return Record(
        n=len(state.get("history") or []) + 1,
        node=node,
        began_at=times.to_text(ended_at - timedelta(seconds=seconds)),
        ended_at=times.to_text(ended_at),
        seconds=round(seconds, 3),
        summary=result.summary,
        exit_code=result.exit_code,
        next=ROUTES[node][0]({**state, **result.update}),
        vetoes=list(result.vetoes),
        changed=list(changed),
        files=dict(result.files),
        red=list(result.red),
        output=result.output,
        checkpoint_before=checkpoints[0],
        checkpoint_after=checkpoints[1],
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
    )


def _report(session: Session, state: ImplementationState, update: Update, record: Record) -> Update:
    after: ImplementationState = {**state, **update}  # type: ignore[typeddict-item]  # the keys are those of the state
    session.observer.node_ended(session.describe(after, record["next"]), record)
    return {**update, "history": [record]}


# -- before and after --------------------------------------------------------------------------------------------------


def _begin(session: Session, state: ImplementationState, node: str, command: str | None) -> NodeRun:
    """The checkpoint before a node, and its event. If the node was killed, its worktree is restored first."""
    began = time.monotonic()
    n = len(state.get("history") or []) + 1
    run, evidence = session.run(), session.evidence()
    violations = _restore_killed(session, state, n, node)
    worktree = session.worktree()
    before = session.save(worktree, f"tdd {session.id}: before {node}", node, "before")
    folder = step = None
    kind = _STEP_KINDS.get(node)
    if kind is not None:
        step = 1 + sum(each["node"] in _STEP_KINDS for each in state.get("history") or [])
        folder = evidence.step_folder(step, kind)
    branches = protected.protected_heads(session.context.location, state["protected"])
    checkpoint = before.checkpoint.id
    evidence.event(_BEGUN, n=n, node=node, checkpoint=checkpoint, branches=dict(branches), touched=violations)
    if step is not None:
        evidence.event(
            "step-begun",
            n=step,
            kind=kind,
            attempt=1,
            command=command,
            checkpoint=checkpoint,
            stdout=f"{folder}/stdout",
            stderr=None,
        )
    return NodeRun(
        session=session,
        state=state,
        node=node,
        run=run,
        worktree=worktree,
        checkpoint=checkpoint,
        tree=before.state.visible_tree,
        skipped=before.state.skipped,
        folder=folder,
        step=step,
        branches=branches,
        violations_before=violations,
        began=began,
    )


def _restore_killed(session: Session, state: ImplementationState, n: int, node: str) -> list[str]:
    """Restore the worktree if an attempt at this node was killed; what that did to protected branches."""
    run, evidence = session.run(), session.evidence()
    earlier = next((each for each in reversed(evidence.events()) if each["event"] == _BEGUN and each["n"] == n), None)
    if earlier is None:
        return []
    end_leftovers(session.context, run, state["mark"])
    # Before the worktree is restored: its reflogs tell what was done.
    violations = [*(earlier.get("touched") or ()), *_violations(session, state, run, earlier.get("branches"))]
    if violations:
        evidence.event(_BEGUN, n=n, node=node, checkpoint=earlier["checkpoint"], touched=violations)
    rollback_and_record(session.context, run, evidence, earlier["checkpoint"])
    return violations


def _violations(
    session: Session, state: ImplementationState, run: WorkspaceContext, branches: Mapping[str, str] | None
) -> list[str]:
    if branches is None:  # recorded by a version that did not note them
        return []
    return protected.check_branches(session.context, run, branches, state["protected"])


def _end(node_run: NodeRun, result: NodeResult) -> tuple[Record, str]:
    """The checkpoint after a node, its events and its record; the record, and the tree of all visible files."""
    session, node = node_run.session, node_run.node
    evidence = session.evidence()
    worktree = session.worktree()
    after = session.save(worktree, f"tdd {session.id}: {node}: {result.summary}", node, "after")
    changed = trees.diff(worktree.repository, node_run.tree, after.state.visible_tree)
    paths = [os.fsdecode(path) for path in sorted(changed)]
    checkpoints = (node_run.checkpoint, after.checkpoint.id)
    record = make_record(node_run.state, node, result, node_run.began, checkpoints, paths)
    if node_run.step is not None:
        _write_step(node_run, result, evidence, worktree)
        evidence.event(
            "step-ended",
            n=node_run.step,
            outcome=OK if result.holds else FAILED_STEP,
            exit_code=result.exit_code,
            seconds=record["seconds"],
            checkpoint=after.checkpoint.id,
            changed=len(changed),
            detail=f"{node}: {result.summary}",
            stdout=f"{node_run.folder}/stdout",
            stderr=None,
        )
    return record, after.state.visible_tree


def _write_step(node_run: NodeRun, result: NodeResult, evidence: Evidence, worktree: OpenWorktree) -> None:
    """Write the exit code, the snapshot and the patch of a step into the evidence; the event that follows has the
    hashes of all files of the step."""
    folder = f"{node_run.folder}/"
    snapshot = take_snapshot(worktree, node_run.run)
    if result.exit_code is not None:
        evidence.put(f"{folder}exit_code", f"{result.exit_code}\n".encode())
    environment = process.user_environment({})
    record_changes(
        evidence, str(node_run.folder), worktree.repository, node_run.tree, snapshot, environment=environment
    )
    for name, regular in evidence.files():
        if regular and name.startswith(folder):
            evidence.add_file(name)


# -- what nodes use ----------------------------------------------------------------------------------------------------


def unlock(session: Session, *, killed: bool = True) -> None:
    """Remove the locks that a killed git left in the worktree; see `rebuild.unlock`."""
    with contextlib.suppress(RunError):  # the worktree is wrecked
        rebuild.unlock(session.worktree().location, session.run(), killed=killed)


def record_event_once(session: Session, kind: str, **fields: Any) -> None:
    """Record an event, unless it exists: a node may run again."""
    evidence = session.evidence()
    if not any(each["event"] == kind for each in evidence.events()):
        evidence.event(kind, **fields)


def record_progress(evidence: Evidence, state: ImplementationState, kind: str = "node") -> None:
    """Record how far a workflow has come, by nodes that are no steps (`node`), or that it waits for a person
    (`waiting`): `furthest_node` reveals an older state in the newest one's place."""
    n = len(state.get("history") or []) + 1
    if n > furthest_node(evidence):
        evidence.event(kind, n=n)


def furthest_node(evidence: Evidence) -> int:
    """The number of the last node that began, by the record of the run."""
    return max((each["n"] for each in evidence.events() if each["event"] in (_BEGUN, "node", "waiting")), default=0)


def nodes_of_steps(events: Sequence[Event]) -> dict[int, str]:
    """The nodes that the steps of a run are, by their numbers: each was begun right before its step."""
    found, node = {}, ""
    for event in events:
        if event["event"] == _BEGUN:
            node = event["node"]
        elif event["event"] == "step-begun":
            found[event["n"]] = node
    return found


def changed_files(worktree: OpenWorktree, base: str, tree: str) -> list[str]:
    """The paths in which a tree of visible files differs from the base."""
    changed = trees.diff(worktree.repository, worktree.repository.commit_tree(base), tree)
    return [os.fsdecode(path) for path in sorted(changed)]
