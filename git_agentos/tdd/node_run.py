"""Where the nodes of a workflow work, and the record of each: checkpoints before and after, events, evidence.

A node that was killed is begun again: its event is there and its record is not, so that its worktree is first set to
where it began. Everything that counts is on disk before the graph goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from git_agentos.checkpoint import take
from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.state import Skipped
from git_agentos.errors import RunError, TddError
from git_agentos.git import process, trees
from git_agentos.run import branches, evidence_store, preparation, rebuild
from git_agentos.run.context import WorkspaceContext
from git_agentos.run.events import FAILED_STEP, OK
from git_agentos.run.evidence import Evidence
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.snapshot import run_context, take_snapshot
from git_agentos.run.step import end_leftovers, record_changes
from git_agentos.run.stop import Stop
from git_agentos.tdd.state import N1, N2, N3, N4, ImplementationState, Record
from git_agentos.util import times

# What a node is, as a step of the run: an agent writes, or something is validated.
STEPS = {N1: "agent", N2: "validate", N3: "agent", N4: "validate"}
_BEGUN = "node-begun"


class Stopped(Exception):
    """The workflow is to stop: a signal has come. The node at hand is done again later."""


class Listener(Protocol):
    """The part of `service.Watcher` that nodes speak to."""

    def node_begins(self, state: ImplementationState, node: str) -> None:
        """A node begins."""

    def output(self, line: bytes) -> None:
        """A line that an agent or the tests said."""

    def node_ended(self, state: ImplementationState, record: Record) -> None:
        """A node has ended."""


@dataclass(frozen=True)
class Site:
    """One workflow and who works on it: `context` is the user's worktree, `place` the database that has the state; the
    run's lock is held, which `is_ours` tells. The record of the run is in memory once it was read."""

    context: Context
    id: str
    place: str
    environment: Mapping[str, str]
    stop: Stop
    listener: Listener
    is_ours: Callable[[], bool] = lambda: True
    pinned: list[Evidence] = field(default_factory=list)

    def run(self) -> WorkspaceContext:
        """The workspace; TddError before there is one."""
        found = preparation.recorded_context(self.context, self.id)
        if found is None:
            raise TddError(f"workflow '{self.id}' has no worktree", f"git agentos tdd show {self.id}")
        return found

    def evidence(self) -> Evidence:
        """The run's evidence; `journal.Tampered` where its record cannot be believed."""
        if not self.pinned:
            found = evidence_store.open_existing(self.context.location, self.id)
            found.pin(self.is_ours)
            self.pinned.append(found)
        return self.pinned[0]


@dataclass(frozen=True)
class Begun:
    """A node at work: `here` is the agent in the worktree; `checkpoint`, `tree` (of all visible files) and `skipped`
    (what was not saved) are how it found that; `folder` is in the evidence, relative to it, None for a node that is no
    step. `branches` are where protected branches were; `touched` is what a killed try of this node did to them."""

    site: Site
    state: ImplementationState
    n: int
    node: str
    run: WorkspaceContext
    here: Context
    checkpoint: str
    tree: str
    skipped: Sequence[Skipped]
    folder: str | None
    step: int | None
    branches: Mapping[str, str]
    touched: Sequence[str]
    began_at: str
    clock: float

    @property
    def path(self) -> str:
        """The folder, absolute."""
        assert self.folder is not None
        return os.path.join(self.site.evidence().folder, self.folder)


@dataclass
class Done:
    """What came of a node: `update` is for the state, the rest for its record."""

    update: dict[str, Any]
    summary: str
    exit_code: int | None = None
    vetoes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    red: Sequence[str] = ()
    output: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    holds: bool = True


def last(state: ImplementationState) -> str | None:
    """The node that was done last."""
    history = state.get("history") or []
    return history[-1]["node"] if history else None


def save(here: Context, run: WorkspaceContext, description: str, **meta: str) -> take.Taken:
    """A checkpoint of the worktree between two nodes."""
    origin = here.origin(
        trigger="phase_complete", description=description, task_id=run.task_id, run_id=run.run_id, meta=meta
    )
    return take.take(here.repository, here.settings, origin)


def begin(site: Site, state: ImplementationState, node: str, command: str | None) -> Begun:
    """Begin a node: the checkpoint before it, and its event. One that was killed finds its worktree as it was then."""
    n = len(state.get("history") or []) + 1
    run, kept = site.run(), site.evidence()
    events = kept.events()
    earlier = next((each for each in reversed(events) if each["event"] == _BEGUN and each["n"] == n), None)
    touched: list[str] = []
    if earlier is not None:
        end_leftovers(site.context, run, state["mark"])
        # Before the worktree is taken back: what it did is told by its reflogs.
        touched = [*(earlier.get("touched") or ()), *_touched(site, state, run, earlier.get("branches"))]
        if touched:
            kept.event(_BEGUN, n=n, node=node, checkpoint=earlier["checkpoint"], touched=touched)
        rollback_and_record(site.context, run, kept, earlier["checkpoint"])
    here = run_context(site.context, run)
    before = save(here, run, f"tdd {site.id}: before {node}", node=node, phase="before")
    folder = step = None
    kind = STEPS.get(node)
    if kind is not None:
        step = 1 + sum(each["node"] in STEPS for each in state.get("history") or [])
        folder = kept.step_folder(step, kind)
    protected = branches.protected_heads(site.context.location, state["protected"])
    kept.event(_BEGUN, n=n, node=node, checkpoint=before.checkpoint.id, branches=dict(protected), touched=list(touched))
    if step is not None:
        kept.event(
            "step-begun",
            n=step,
            kind=kind,
            attempt=1,
            command=command,
            checkpoint=before.checkpoint.id,
            stdout=f"{folder}/stdout",
            stderr=None,
        )
    return Begun(
        site=site,
        state=state,
        n=n,
        node=node,
        run=run,
        here=here,
        checkpoint=before.checkpoint.id,
        tree=before.state.visible_tree,
        skipped=before.state.skipped,
        folder=folder,
        step=step,
        branches=protected,
        touched=touched,
        began_at=now(),
        clock=time.monotonic(),
    )


def violations(begun: Begun) -> list[str]:
    """What this node did to protected branches, for people; a killed try of it counts."""
    return [*begun.touched, *_touched(begun.site, begun.state, begun.run, begun.branches)]


def _touched(
    site: Site, state: ImplementationState, run: WorkspaceContext, before: Mapping[str, str] | None
) -> list[str]:
    if before is None:  # of a version that did not note them
        return []
    return branches.check_branches(site.context, run, before, state["protected"])


def unlock(site: Site, run: WorkspaceContext, *, killed: bool = True) -> None:
    """Remove the locks that a killed git has left in the worktree; see `rebuild.unlock`."""
    with contextlib.suppress(RunError):  # it is wrecked
        rebuild.unlock(run_context(site.context, run).location, run, killed=killed)


def end(begun: Begun, done: Done, next_: str) -> tuple[Record, str]:
    """End a node: the checkpoint after it, its events; its record, and the tree of all visible files."""
    site, run = begun.site, begun.run
    kept = site.evidence()
    here = run_context(site.context, run)
    after = save(here, run, f"tdd {site.id}: {begun.node}: {done.summary}", node=begun.node, phase="after")
    changed = trees.diff(here.repository, begun.tree, after.state.visible_tree)
    seconds = round(time.monotonic() - begun.clock, 3)
    if begun.step is not None:
        _keep(begun, done, kept, here)
        kept.event(
            "step-ended",
            n=begun.step,
            outcome=OK if done.holds else FAILED_STEP,
            exit_code=done.exit_code,
            seconds=seconds,
            checkpoint=after.checkpoint.id,
            changed=len(changed),
            detail=f"{begun.node}: {done.summary}",
            stdout=f"{begun.folder}/stdout",
            stderr=None,
        )
    record = Record(
        n=begun.n,
        node=begun.node,
        began_at=begun.began_at,
        ended_at=now(),
        seconds=seconds,
        summary=done.summary,
        exit_code=done.exit_code,
        next=next_,
        vetoes=list(done.vetoes),
        changed=[os.fsdecode(path) for path in sorted(changed)],
        files=dict(done.files),
        red=list(done.red),
        output=done.output,
        checkpoint_before=begun.checkpoint,
        checkpoint_after=after.checkpoint.id,
        tokens_in=done.tokens_in,
        tokens_out=done.tokens_out,
    )
    return record, after.state.visible_tree


def _keep(begun: Begun, done: Done, kept: Evidence, here: Context) -> None:
    """Put into the evidence of a step how it ended, the state after it, and what it changed; the event that follows
    has the hashes of all that is there."""
    folder = f"{begun.folder}/"
    if done.exit_code is not None:
        kept.put(f"{folder}exit_code", f"{done.exit_code}\n".encode())
    environment = process.user_environment({})
    after = take_snapshot(here, begun.run)
    record_changes(kept, str(begun.folder), here.repository, begun.tree, after, environment=environment)
    for name, regular in kept.files():
        if regular and name.startswith(folder):
            kept.add_file(name)


def reached(kept: Evidence, state: ImplementationState, kind: str = "node") -> None:
    """Put on record how far a workflow has come, by nodes that are no steps (`node`), or that it waits for a person
    (`waiting`): an older state in its newest one's place is seen by that (`furthest`)."""
    n = len(state.get("history") or []) + 1
    if n > furthest(kept):
        kept.event(kind, n=n)


def furthest(kept: Evidence) -> int:
    """The number of the last node that has begun, by the record of the run."""
    return max((each["n"] for each in kept.events() if each["event"] in (_BEGUN, "node", "waiting")), default=0)


def plain(state: ImplementationState, node: str, summary: str, next_: str, began: float, **more: Any) -> Record:
    """The record of a node that leaves the worktree alone."""
    seconds = time.monotonic() - began
    ended_at = datetime.now(UTC)
    record = Record(
        n=len(state.get("history") or []) + 1,
        node=node,
        began_at=times.to_text(ended_at - timedelta(seconds=seconds)),
        ended_at=times.to_text(ended_at),
        seconds=round(seconds, 3),
        summary=summary,
        exit_code=None,
        next=next_,
        vetoes=[],
        changed=[],
        files={},
        red=[],
        output=None,
        checkpoint_before=None,
        checkpoint_after=None,
        tokens_in=None,
        tokens_out=None,
    )
    record.update(more)  # type: ignore[typeddict-item]  # the keys are those of Record
    return record


def now() -> str:
    """ISO 8601, UTC."""
    return times.now_text()
