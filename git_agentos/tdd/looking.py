"""Looking at workflows: where each stands, what it did, what a person is to decide about. Nothing changes.

The state of one is in the database in which it was begun. That may be another worktree's: which it was is in the
evidence of the run (`tdd.json`), so that a workflow is found from every worktree of its repository.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from git_agentos.checkpoint import format
from git_agentos.checkpoint.context import Context
from git_agentos.errors import AgentosError, RunError, TddError, WorkflowConfigurationError
from git_agentos.redact import redact
from git_agentos.run import lock, preparation
from git_agentos.run.record import evidence as folders
from git_agentos.run.record import runs, sealing
from git_agentos.store import location as places
from git_agentos.tdd import saver
from git_agentos.tdd.graph import Graph, Position, threads
from git_agentos.tdd.state import (
    ABORTED,
    MERGED,
    N6,
    RUNNING,
    STOPPED,
    WAITING,
    ImplementationState,
    Record,
    Review,
    Workflow,
    words,
)

PLACE = "tdd.json"  # in the evidence
_LEAST = 4  # characters of an id that tell one workflow from another


class Found(NamedTuple):
    """A workflow, and where its state is: a file, or a URL."""

    context: Context
    id: str
    place: str


def find(context: Context, id_: str, environment: Mapping[str, str]) -> Found:
    """The workflow that an id, a beginning of one, or an issue's id means: of an issue's workflows, the unfinished one,
    or else the newest. TddError where there is none, or more than one."""
    wanted = id_.removeprefix("#")
    known = list(_every(context, environment, everywhere=True))
    for found, _ in known:
        if found.id == wanted:
            return found
    own = places.repository_id(context.location, make=False)
    of_issue = [(found, at) for found, at in known if at.state["issue_id"] == wanted and at.state["repository"] == own]
    if of_issue:
        unfinished = [each for each in of_issue if each[1].node is not None]
        return max(unfinished or of_issue, key=lambda each: each[1].state["created_at"])[0]
    begin = [found for found, _ in known if len(wanted) >= _LEAST and found.id.startswith(wanted)]
    if len(begin) > 1:
        raise TddError(f"'{id_}' is the beginning of {len(begin)} workflows", ", ".join(each.id for each in begin))
    if begin:
        return begin[0]
    raise unknown(id_)


def is_here(found: Found, state: ImplementationState) -> bool:
    """Whether a workflow's worktree is in this repository, and not in another clone's that shares the database."""
    return state["repository"] == places.repository_id(found.context.location, make=False)


def unknown(id_: str) -> TddError:
    """What is said where there is no such workflow."""
    return TddError(f"there is no workflow '{id_}'", "git agentos tdd list shows those that there are")


def show(context: Context, id_: str, environment: Mapping[str, str]) -> Workflow:
    """One workflow: TddError where there is none of that id."""
    found = find(context, id_, environment)
    return told(found, _position(found))


def review(context: Context, id_: str, environment: Mapping[str, str]) -> Review:
    """What a person is to look at: also of a workflow that has ended."""
    found = find(context, id_, environment)
    at = _position(found)
    return reviewed(found, at, told(found, at))


def list_(context: Context, environment: Mapping[str, str], *, everywhere: bool = False) -> Sequence[Workflow]:
    """The workflows of this repository, the newest first; `everywhere` those of other repositories, clones and machines
    that share the database too."""
    found = [told(each, at) for each, at in _every(context, environment, everywhere=everywhere)]
    return sorted(found, key=lambda each: each.created_at, reverse=True)


def output(context: Context, workflow: Workflow, record: Record) -> bytes:
    """What was said while a node was done; empty where nothing was kept, or it is kept on another machine."""
    name = record.get("output")
    if name is None or not workflow.here:
        return b""
    try:
        found = folders.find(context.location, workflow.run_id).read(name)
    except RunError:
        found = None
    return found if found is not None else sealing.carried(context.repository, workflow.run_id, name) or b""


def patch(context: Context, workflow: Workflow, record: Record) -> bytes:
    """What a node changed in the worktree; empty where that was nothing, or is kept on another machine."""
    before, after = record.get("checkpoint_before"), record.get("checkpoint_after")
    if before is None or after is None or not workflow.here or not record.get("changed"):
        return b""
    repository = context.repository
    with repository.writer() as writer:
        states = (
            format.with_visible_tree(repository, writer, format.read_state(repository, id_)) for id_ in (before, after)
        )
        old, new = (state.visible_tree for state in states)
        writer.flush()
        return runs.patch(repository, old, new)


def reviewed(found: Found, at: Position, workflow: Workflow) -> Review:
    """The workflow with what it would merge."""
    patch = b""
    if workflow.here:
        with contextlib.suppress(AgentosError):
            patch = runs.diff(found.context, found.id)
    return Review(workflow, patch, at.state.get("test_output", ""))


def told(found: Found, at: Position, *, alive: bool | None = None) -> Workflow:
    """A workflow as its state has it. `alive`: whether a process is at work on it; looked up where it is not given."""
    state = at.state
    here = is_here(found, state)
    run = preparation.recorded(found.context, found.id) if here else None
    if alive is None:
        alive = here and lock.holder(found.context.location, found.id) is not None
    history = list(state.get("history") or [])
    return Workflow(
        id=found.id,
        issue_id=state["issue_id"],
        state=_state(at, alive=alive),
        node=at.node,
        retry_count=state.get("retry_count", 0),
        scaffold_retry_count=state.get("scaffold_retry_count", 0),
        branch=state["branch"],
        worktree_path=state.get("worktree_path") if at.node is not None else None,
        reason=_reason(at),
        words=list(words(state)) if at.node == N6 else [],
        agent=redact(state["agent"])[0],  # a command may hold a key
        into=state["into"],
        base_sha=state.get("base_sha"),
        run_id=found.id,
        lld_path=state["lld_path"],
        context_paths=list(state.get("context_paths", ())),
        changed_files=list(state.get("changed_files", ())),
        test_exit_code=state.get("test_exit_code"),
        tests_passed=bool(state.get("green")),
        vetoes=list(state.get("vetoes") or ()),
        findings=list(state.get("findings") or ()),
        conflicts=list(state.get("conflicts") or ()),
        human_decision=state.get("human_decision"),
        merge_commit=state.get("merge_commit"),
        final_checkpoint=state.get("final_checkpoint"),
        created_at=state["created_at"],
        updated_at=history[-1]["ended_at"] if history else None,
        evidence=folders.find(found.context.location, found.id).folder if run is not None else None,
        here=here,
        machine=state["machine"],
        interrupted_by=None,
        history=history,
    )


def _state(at: Position, *, alive: bool) -> str:
    if at.node is None:
        return MERGED if at.state.get("merge_commit") else ABORTED
    if at.node == N6 and (at.waits or not alive):
        return WAITING
    return RUNNING if alive else STOPPED


def _reason(at: Position) -> str | None:
    """Why it stands where it does, for people."""
    state = at.state
    if at.node != N6:
        return state.get("error_message")
    if state.get("error_message"):
        return state["error_message"]
    if state.get("green"):
        return "the work is green: it waits for a person"
    history = state.get("history") or []
    return f"{history[-1]['node']}: {history[-1]['summary']}" if history else None


# -- where they are ---------------------------------------------------------------------------------------------------


def _position(found: Found) -> Position:
    with saver.opened(found.place) as opened:
        at = Graph(None, opened).position(found.id)
    if at is None:
        raise unknown(found.id)
    return at


def _every(context: Context, environment: Mapping[str, str], *, everywhere: bool) -> Iterator[tuple[Found, Position]]:
    """Every workflow that can be found from here, each once."""
    own = places.repository_id(context.location, make=False)
    seen: set[str] = set()
    for place in _places(context, environment):
        with saver.opened(place) as opened:
            graph = Graph(None, opened)
            for id_ in threads(opened, None if everywhere else own):
                at = graph.position(id_)
                if at is not None and id_ not in seen:
                    seen.add(id_)
                    yield Found(context, id_, place), at


def _places(context: Context, environment: Mapping[str, str]) -> Sequence[str]:
    """The databases in which there may be one: that of here, and those in which one was begun elsewhere. None is made
    for looking."""
    found: dict[str, None] = {}
    with contextlib.suppress(WorkflowConfigurationError):
        found[saver.place(context.location, environment, make=False)] = None
    for run_id in folders.ids(context.location):
        with contextlib.suppress(AgentosError, OSError, ValueError, TypeError, KeyError):
            kept = folders.find(context.location, run_id).read(PLACE)
            if kept is not None and isinstance(place := json.loads(kept)["database"], str):
                found[place] = None
    return [place for place in found if saver.exists(place)]
