"""Looking at workflows: where each stands, what it did, what a person is to decide about. Nothing changes.

The state of one is in the database in which it was begun. That may be another worktree's: which it was is in the
evidence of the run (`tdd.json`), so that a workflow is found from every worktree of its repository.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from git_agentos import redact_lines
from git_agentos.checkpoint import format
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, DamagedDatabase, DatabaseError, TddError, WorkflowConfigurationError
from git_agentos.git import merge_tree
from git_agentos.redact import redact
from git_agentos.run import evidence, evidence_store, lock, patches, preparation, query, sealing
from git_agentos.run.events import TAMPERED as RECORD_TAMPERED
from git_agentos.store import database_path
from git_agentos.tdd import node_run as sites
from git_agentos.tdd import state_copies, state_database
from git_agentos.tdd.graph import Graph, Position, threads
from git_agentos.tdd.ids import branch_of
from git_agentos.tdd.signed_rows import Tampered
from git_agentos.tdd.state import (
    ABORT,
    ABORTED,
    MERGED,
    N6,
    RUNNING,
    STOPPED,
    TAMPERED,
    WAITING,
    ImplementationState,
    Record,
    Review,
    Workflow,
    words,
)
from git_agentos.worktree import layout as tops
from git_agentos.worktree import record as worktrees

PLACE = "tdd.json"  # in the evidence
OLDER = "an older state stands in the place of the newest"
MISSING = "its state is not in the workflow database"
_EPOCH = "1970-01-01T00:00:00.000Z"  # of what nobody knows when it was begun
_LEAST = 4  # characters of an id that tell one workflow from another


class Found(NamedTuple):
    """A workflow, and where its state is: a file, or a URL."""

    context: OpenWorktree
    id: str
    place: str


Stand = Position | Tampered  # where a workflow stands; or why that cannot be believed


def find(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> Found:
    """The workflow that an id, a beginning of one, or an issue's id means: of an issue's workflows the newest that is
    unfinished, or else the newest. TddError where there is none, or more than one."""
    wanted = id_.removeprefix("#")
    known = list(_every(context, environment, everywhere=True))
    for found, _ in known:
        if found.id == wanted:
            return found
    own = database_path.repository_id(context.location, make=False)
    of_issue = [(found, at) for found, at in known if _is_of(found, at, wanted, own)]
    if of_issue:
        return max(of_issue, key=lambda each: _age(each[1]))[0]
    begin = [found for found, _ in known if len(wanted) >= _LEAST and found.id.startswith(wanted)]
    if len(begin) > 1:
        raise TddError(f"'{id_}' is the beginning of {len(begin)} workflows", ", ".join(each.id for each in begin))
    if begin:
        return begin[0]
    raise unknown(id_)


def _is_of(found: Found, at: Stand, issue: str, repository: str) -> bool:
    if isinstance(at, Tampered):
        return found.id.rpartition("-")[0] == issue
    return at.state["issue_id"] == issue and at.state["repository"] == repository


def _age(at: Stand) -> tuple[bool, str]:
    """What is unfinished comes last, and what is newer."""
    return (False, "") if isinstance(at, Tampered) else (at.node is not None, at.state["created_at"])


def is_here(found: Found, state: ImplementationState) -> bool:
    """Whether a workflow's worktree is in this repository, and not in another clone's that shares the database."""
    return state["repository"] == database_path.repository_id(found.context.location, make=False)


def unknown(id_: str) -> TddError:
    """What is said where there is no such workflow."""
    return TddError(f"there is no workflow '{id_}'", "git agentos tdd list shows those that there are")


def show(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> Workflow:
    """One workflow: TddError where there is none of that id."""
    found = find(context, id_, environment)
    return _told(found, _position(found))


def review(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> Review:
    """What a person is to look at: also of a workflow that has ended."""
    found = find(context, id_, environment)
    at = _position(found)
    return reviewed(found, at, _told(found, at))


def list_(context: OpenWorktree, environment: Mapping[str, str], *, everywhere: bool = False) -> Sequence[Workflow]:
    """The workflows of this repository, the newest first; `everywhere` those of other repositories, clones and machines
    that share the database too."""
    found = [_told(each, at) for each, at in _every(context, environment, everywhere=everywhere)]
    return sorted(found, key=lambda each: each.created_at, reverse=True)


def output(context: OpenWorktree, workflow: Workflow, record: Record) -> bytes:
    """What was said while a node was done; empty where nothing was kept, or it is kept on another machine."""
    name = record.get("output")
    if name is None or not workflow.here:
        return b""
    try:
        found = evidence_store.open_to_read(context.location, workflow.run_id).read(name)
    except (AgentosError, OSError):
        found = None
    return found if found is not None else sealing.read_sealed(context.repository, workflow.run_id, name) or b""


def patch(context: OpenWorktree, workflow: Workflow, record: Record) -> bytes:
    """What a node changed in the worktree, without secrets; empty where that was nothing, or is kept elsewhere."""
    before, after = record.get("checkpoint_before"), record.get("checkpoint_after")
    if before is None or after is None or not workflow.here or not record.get("changed"):
        return b""
    repository = context.repository
    with merge_tree.discarding_writer(repository) as writer:
        states = (
            format.with_visible_tree(repository, writer, format.read_state(repository, id_)) for id_ in (before, after)
        )
        old, new = (state.visible_tree for state in states)
        writer.flush()
        found = query.patch(repository, old, new, writer.environment)
    return patches.without_secrets(repository, found, redact_lines.secrets_of(os.environ))


def without_secrets(context: OpenWorktree, review: Review) -> Review:
    """What a person is to look at, for a page that others may get."""
    values = redact_lines.secrets_of(os.environ)
    return replace(review, patch=patches.without_secrets(context.repository, review.patch, values))


def reviewed(found: Found, at: Stand, workflow: Workflow) -> Review:
    """The workflow with what it would merge."""
    patch = b""
    if workflow.here:
        with contextlib.suppress(AgentosError):
            patch = query.diff(found.context, found.id)
    return Review(workflow, patch, "" if isinstance(at, Tampered) else at.state.get("test_output", ""))


def told(found: Found, at: Position, *, alive: bool | None = None) -> Workflow:
    """A workflow as its state has it. `alive`: whether a process is at work on it; looked up where it is not given."""
    state = at.state
    here = is_here(found, state)
    run = preparation.recorded_context(found.context, found.id) if here else None
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
        evidence=_evidence(found) if run is not None else None,
        here=here,
        machine=state["machine"],
        interrupted_by=None,
        history=history,
    )


def _told(found: Found, at: Stand) -> Workflow:
    """A workflow by its state, or by what else is known of it."""
    if isinstance(at, Tampered):
        return untold(found, at.reason)
    here = is_here(found, at.state)
    tampered = tampering(found, at) if here else None
    if tampered is not None:
        return untold(found, tampered)
    try:
        return told(found, at)
    except AgentosError as error:
        return untold(found, error.message, here=here)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # of another user: nothing vouches for it
        return untold(found, f"it cannot be read ({error})", here=here)


def _evidence(found: Found) -> str | None:
    try:
        return evidence_store.open_existing(found.context.location, found.id).folder
    except AgentosError:
        return None


def tampering(found: Found, at: Position) -> str | None:
    """Why the record of the workflow's run cannot be believed, or contradicts its state; None where neither is so."""
    try:
        kept = evidence_store.open_existing(found.context.location, found.id)
    except AgentosError as error:  # there is none before the first node is done; what has ended needs none
        return error.message if at.state.get("history") and at.node is not None else None
    return contradiction(kept, at)


def contradiction(kept: evidence.Evidence, at: Position) -> str | None:
    """Why a workflow cannot stand at `at`, by the record of its run; None where it can."""
    done = len(at.state.get("history") or ())
    if done and at.node is None and at.state.get("human_decision") == ABORT:
        return None  # one that cannot be believed can be aborted
    problem = kept.record().problem
    if problem is not None:
        return problem
    if kept.state().ended == RECORD_TAMPERED:
        return kept.run().reason or RECORD_TAMPERED
    return OLDER if sites.furthest(kept) > done + 1 else None


def untold(found: Found, reason: str, *, here: bool = True) -> Workflow:
    """A workflow whose state cannot be believed: what its id and the record of its run say."""
    issue = found.id.rpartition("-")[0]
    run = None
    with contextlib.suppress(AgentosError, OSError, ValueError):
        run = preparation.recorded_context(found.context, found.id) if here else None
    is_there = run is not None and os.path.isdir(run.worktree_path)
    return Workflow(
        id=found.id,
        issue_id=issue,
        state=TAMPERED,
        node=None,
        retry_count=0,
        scaffold_retry_count=0,
        branch=run.branch_name if run is not None else branch_of(issue),
        worktree_path=run.worktree_path if run is not None and is_there else None,
        reason=reason,
        words=[ABORT] if here else [],
        agent="",
        into=run.base_ref if run is not None else "",
        base_sha=run.base_sha if run is not None else None,
        run_id=found.id,
        lld_path="",
        context_paths=[],
        changed_files=[],
        test_exit_code=None,
        tests_passed=False,
        vetoes=[],
        findings=[],
        conflicts=[],
        human_decision=None,
        merge_commit=None,
        final_checkpoint=None,
        created_at=run.created_at if run is not None else _EPOCH,
        updated_at=None,
        evidence=_evidence(found) if run is not None else None,
        here=here,
        machine=platform.node() if here else "",
        interrupted_by=None,
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


def _position(found: Found) -> Stand:
    if not found.place:
        return Tampered(found.id, MISSING)
    try:
        with state_database.opened(found.place) as opened:
            at = _stand(found.context, opened, found.id)
    except AgentosError as error:
        if database_path.is_url(found.place) or _says_nothing(error):
            raise
        return Tampered(found.id, error.message)
    if at is None:
        raise unknown(found.id)
    return at


def _says_nothing(error: AgentosError) -> bool:
    """Whether a database could not be read for a reason that says nothing of what is in it: it is locked, a newer
    version has used it, it cannot be opened."""
    return isinstance(error, DatabaseError) and not isinstance(error, DamagedDatabase)


def _stand(context: OpenWorktree, opened: state_database.Opened, id_: str) -> Stand | None:
    """Where a thread stands; None where there is none. Other clones' users have other keys: theirs can be looked at."""
    try:
        return Graph(None, opened).position(id_)
    except Tampered as error:
        if not error.is_foreign:
            return error
        own = database_path.repository_id(context.location, make=False)
        try:
            at = Graph(None, state_database.trusting(opened)).position(id_)
        except Tampered as damaged:
            return damaged
        return error if at is None or at.state.get("repository") == own else at


def _every(context: OpenWorktree, environment: Mapping[str, str], *, everywhere: bool) -> Iterator[tuple[Found, Stand]]:
    """Every workflow that can be found from here, each once; one that is damaged stops none of the others."""
    own = database_path.repository_id(context.location, make=False)
    seen: set[str] = set()
    state_copies.bring_back(context)
    recorded = _recorded(context)
    failed: AgentosError | None = None
    for place in _places(context, environment, recorded):
        try:
            with state_database.opened(place) as opened:
                stands = [(id_, _stand(context, opened, id_)) for id_ in threads(opened, None if everywhere else own)]
        except AgentosError as error:
            if database_path.is_url(place) or _says_nothing(error):
                raise
            failed = error
            stands = [(id_, Tampered(id_, error.message)) for id_, where in recorded.items() if where == place]
        for id_, at in stands:
            if at is not None and id_ not in seen:
                seen.add(id_)
                yield Found(context, id_, place), at
    known = dict.fromkeys((*recorded, *state_copies.ids(context.location)))
    missing = [id_ for id_ in known if id_ not in seen and _has_worktree(context, id_)]
    if failed is not None and not seen and not missing:
        raise failed
    for id_ in missing:
        yield Found(context, id_, ""), Tampered(id_, MISSING)


def _has_worktree(context: OpenWorktree, id_: str) -> bool:
    with contextlib.suppress(AgentosError, OSError, ValueError):
        return any(each.record.run_id == id_ for each in worktrees.agent_worktrees(context.location.common_dir))
    return False


def _recorded(context: OpenWorktree) -> Mapping[str, str]:
    """The workflows that have evidence here, and the file that has the state of each. An address there is not ours."""
    found = {}
    with contextlib.suppress(AgentosError, OSError):
        for run_id in evidence_store.ids(context.location):
            with contextlib.suppress(AgentosError, OSError, ValueError, TypeError, KeyError, RecursionError):
                kept = evidence_store.open_existing(context.location, run_id).read(PLACE)
                place = json.loads(kept)["database"] if kept is not None else None
                if isinstance(place, str) and not database_path.is_url(place) and "\0" not in place:
                    found[run_id] = place
    return found


def _places(context: OpenWorktree, environment: Mapping[str, str], recorded: Mapping[str, str]) -> Sequence[str]:
    """The databases in which there may be one: that of here, those in which one was begun elsewhere, and that of the
    main worktree, where the state is put whose own worktree is gone. None is made for looking."""
    found: dict[str, None] = {}
    with contextlib.suppress(WorkflowConfigurationError):
        found[state_database.place(context.location, environment, make=False)] = None
    found |= dict.fromkeys(recorded.values())
    if state_copies.ids(context.location):
        found[os.path.join(tops.main_folder(context.location), database_path.FOLDER, database_path.NAME)] = None
    return [place for place in found if state_database.exists(place)]
