"""Tests and code that a model has written for the same task in another clone: taken over, not written again.

Nothing else is: what was judged there does not count, since the gates have judged it by that machine's interpreter and
files. Here the tests have to fail first, and then to pass with the code, as if the model had written both just now. So
it does not matter who has pushed them.

In the state, `inherited` has for N1 and N3 the checkpoint after it, the blob of its output (None: it is not known) and
the machine that it is from, until the node takes it, or N1 is asked for other tests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.request import RestoreOptions
from git_agentos.errors import AgentosError
from git_agentos.git import tree_refs, trees
from git_agentos.git.repository import Repository
from git_agentos.run.events import EVENTS, FLEET, OK, Step, state_of
from git_agentos.run.journal import parse_events
from git_agentos.run.snapshot import saved_state
from git_agentos.tdd.node_run import NodeRun, Update, nodes_of_steps
from git_agentos.tdd.state import N1, N3, ImplementationState
from git_agentos.util.named_tuple import NamedTuple

_LARGEST = 64 << 20  # bytes of a record
_LARGEST_OUTPUT = 1 << 20
_UNREADABLE = (AgentosError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Elsewhere(NamedTuple):
    """What there is of a workflow's run in another clone: the newest commit of its timeline, the tree of its evidence,
    and the name of its machine. Commit and tree are here, and nothing in them is trusted."""

    timeline: str
    evidence: str
    machine: str


# -- what there is -----------------------------------------------------------------------------------------------------


def find(repository: Repository, run_id: str, base: str, there: Elsewhere) -> Update:
    """The part of a new workflow's state that is inherited; nothing where there are no tests, the run has another base,
    or it cannot be read."""
    try:
        return _find(repository, run_id, base, there)
    except _UNREADABLE:
        return {}


def _find(repository: Repository, run_id: str, base: str, there: Elsewhere) -> Update:
    files = tree_refs.files_of(repository, there.evidence)
    record = files[EVENTS.encode()][1]
    if repository.is_large(record, _LARGEST):
        return {}
    events = parse_events(repository.blob(record), run_id)
    run = state_of(run_id, events).run("", alive=False)
    if run.tool != FLEET or run.context is None or run.context.base_sha != base:
        return {}
    nodes = nodes_of_steps(events)
    ended = [step for step in run.steps if step.outcome is not None]
    tests = [step for step in ended if nodes.get(step.n) == N1]
    if not tests or tests[-1].outcome != OK:
        return {}
    code = [step for step in ended if nodes.get(step.n) == N3 and step.n > tests[-1].n and step.outcome == OK]
    saved = {commit.parents[1] for commit in timeline.commits(repository, there.timeline)}
    found = {node: _describe(repository, steps, files, there, saved) for node, steps in ((N1, tests), (N3, code))}
    inherited = {node: work for node, work in found.items() if work is not None}
    if N1 not in inherited:
        return {}
    return {
        "inherited": inherited,
        "scaffold_retry_count": len(tests) - 1,
        "retry_count": max(len(code) - 1, 0),
    }


def _describe(
    repository: Repository, steps: Sequence[Step], files: tree_refs.Files, there: Elsewhere, saved: set[str]
) -> dict[str, Any] | None:
    """What a node has written the last time; None where that is not on the timeline."""
    if not steps or steps[-1].checkpoint_after not in saved:
        return None
    checkpoint = str(steps[-1].checkpoint_after)
    format.open_checkpoint(repository, checkpoint)
    entry = files.get(os.fsencode(steps[-1].stdout or ""))
    return {"checkpoint": checkpoint, "output": entry[1] if entry is not None else None, "machine": there.machine}


# -- taking it ---------------------------------------------------------------------------------------------------------


def of_node(state: ImplementationState, node: str) -> Mapping[str, Any] | None:
    """What a node has to take over; None where there is nothing."""
    return state.get("inherited", {}).get(node)


def take(node_run: NodeRun) -> str | None:
    """Make the worktree's files what the node has written elsewhere; a clause that says so. None where it is not here
    any more."""
    work, worktree = of_node(node_run.state, node_run.node), node_run.worktree
    if work is None:
        return None
    try:
        there = saved_state(worktree.repository, work["checkpoint"])
    except AgentosError:
        return None
    paths = sorted(trees.diff(worktree.repository, node_run.tree, there.visible_tree))
    if paths:
        what = f"what was written on {work['machine']}"
        metadata = worktree.metadata(trigger="before_restore", description=what, run_id=node_run.run.run_id)
        commands.restore(worktree, metadata, work["checkpoint"], RestoreOptions(paths=paths))
    evidence = node_run.session.evidence()
    evidence.put(f"{node_run.folder}/stdout", _output(worktree.repository, work["output"]), vouched=False)
    return f"written on '{work['machine']}', and taken over"


def _output(repository: Repository, blob: str | None) -> bytes:
    try:
        if blob is not None and not repository.is_large(blob, _LARGEST_OUTPUT):
            return repository.blob(blob)
    except AgentosError:
        pass  # it is for people, who have the work itself
    return b""


def without(state: ImplementationState, *nodes: str) -> Update:
    """The change of the state after which these nodes have nothing to take over."""
    inherited = state.get("inherited")
    return {"inherited": {node: work for node, work in inherited.items() if node not in nodes}} if inherited else {}
