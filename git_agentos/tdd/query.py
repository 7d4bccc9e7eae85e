"""Workflows as they are shown: where each stands, what its nodes did, what a person decides about. Nothing is changed.

The state of a workflow is in the database in which it was started, which may be another worktree's. The evidence of the
run names it (`state_database.DATABASE_FILE`), so that a workflow is found from every worktree of its repository.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from git_agentos import redact_lines
from git_agentos.checkpoint import format
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, DamagedDatabase, DatabaseError, TddError, WorkflowConfigurationError
from git_agentos.git import merge_tree
from git_agentos.redact import redact
from git_agentos.run import evidence_store, lock, patches, preparation, sealing
from git_agentos.run import query as run_query
from git_agentos.run.events import TAMPERED as RECORD_TAMPERED
from git_agentos.run.evidence import Evidence
from git_agentos.store import database_path
from git_agentos.tdd import state_copies, state_database
from git_agentos.tdd.graph import Graph, Position, threads
from git_agentos.tdd.node_run import furthest_node
from git_agentos.tdd.signed_rows import Tampered
from git_agentos.tdd.state import (
    ABORT,
    ABORTED,
    INTERRUPTED,
    MERGED,
    N6,
    RUNNING,
    TAMPERED,
    WAITING,
    ImplementationState,
    Record,
    Review,
    Workflow,
    branch_of,
    id_of,
    issue_of,
    possible_decisions,
)
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout
from git_agentos.worktree import record as worktree_records

MISSING = "its state is not in the workflow database"
_OLDER = "an older state stands in the place of the newest"
_UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
_MIN_PREFIX = 4  # characters of an id


class WorkflowRef(NamedTuple):
    """A workflow, and the database that has its state: a file, or a URL; empty if none has it. `thread` is its name
    there, if that is not its id."""

    context: OpenWorktree
    id: str
    database: str
    thread: str | None = None

    @property
    def thread_id(self) -> str:
        """Its name in the database."""
        return self.thread or self.id


Standing = Position | Tampered  # where a workflow stands, or how it was tampered with


# -- the commands ------------------------------------------------------------------------------------------------------


def find(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> WorkflowRef:
    """The workflow that an id, the beginning of one, or an issue's id means: of an issue's workflows the newest that is
    unfinished, else the newest. TddError if there is none, or more than one."""
    return _find(context, id_, environment)[0]


def show(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> Workflow:
    """One workflow; TddError if there is none of that id."""
    return _describe(*_find(context, id_, environment))


def show_default(context: OpenWorktree, environment: Mapping[str, str]) -> Workflow:
    """The only unfinished workflow, or the newest if all are finished."""
    workflows = list_workflows(context, environment)
    if not workflows:
        raise TddError("there is no workflow", "'git agentos tdd run --issue ID --lld PATH' starts one")
    unfinished = [each for each in workflows if each.state not in ("merged", "aborted")]
    if len(unfinished) > 1:
        raise TddError(
            f"{len(unfinished)} workflows have not ended", "name one: " + ", ".join(each.id for each in unfinished)
        )
    return unfinished[0] if unfinished else workflows[0]


def review(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> Review:
    """What a person reviews, also of a workflow that has ended."""
    ref, at = _find(context, id_, environment)
    return make_review(ref, at, _describe(ref, at))


def list_workflows(
    context: OpenWorktree, environment: Mapping[str, str], *, everywhere: bool = False
) -> Sequence[Workflow]:
    """The workflows of this repository, newest first; with `everywhere` also those of other repositories, clones and
    machines that share the database."""
    found = [_describe(*each) for each in _read_all(context, environment, everywhere=everywhere)]
    return sorted(found, key=lambda each: each.created_at, reverse=True)


def output(context: OpenWorktree, workflow: Workflow, record: Record) -> bytes:
    """The output of a node; empty if there is none, or it is on another machine."""
    name = record.get("output")
    if name is None or not workflow.here:
        return b""
    try:
        data = evidence_store.open_to_read(context.location, workflow.run_id).read(name)
    except (AgentosError, OSError):
        data = None
    return data if data is not None else sealing.read_sealed(context.repository, workflow.run_id, name) or b""


def patch(context: OpenWorktree, workflow: Workflow, record: Record) -> bytes:
    """What a node changed in the worktree, without secrets; empty if that was nothing, or is kept elsewhere."""
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
        data = patches.patch(repository, old, new, writer.environment)
    return patches.without_secrets(repository, data, redact_lines.secrets_of(os.environ))


def without_secrets(context: OpenWorktree, review: Review) -> Review:
    """A review without secrets, for a page that others may get."""
    values = redact_lines.secrets_of(os.environ)
    return replace(review, patch=patches.without_secrets(context.repository, review.patch, values))


def make_review(ref: WorkflowRef, at: Standing, workflow: Workflow) -> Review:
    """A workflow with what it would merge."""
    data = b""
    if workflow.here:
        with contextlib.suppress(AgentosError):
            data = run_query.diff(ref.context, ref.id)
    return Review(workflow, data, "" if isinstance(at, Tampered) else at.state.get("test_output", ""))


def unknown(id_: str) -> TddError:
    """The error for an id that no workflow has."""
    return TddError(f"there is no workflow '{id_}'", "git agentos tdd list lists the workflows")


# -- a workflow as it is shown -----------------------------------------------------------------------------------------


def is_local(ref: WorkflowRef, state: ImplementationState) -> bool:
    """Whether a workflow's worktree is in this repository, not in another clone's that shares the database."""
    return state["repository"] == database_path.repository_id(ref.context.location, make=False)


def describe(ref: WorkflowRef, at: Position, *, alive: bool | None = None) -> Workflow:
    """A workflow by its state. `alive`: whether a process works on it; None: find out."""
    state = at.state
    local = is_local(ref, state)
    run = preparation.recorded_context(ref.context, ref.id) if local else None
    if alive is None:
        alive = local and lock.holder(ref.context.location, ref.id) is not None
    history = list(state.get("history") or [])
    return Workflow(
        id=ref.id,
        issue_id=state["issue_id"],
        state=_state_name(at, alive=alive),
        node=at.node,
        retry_count=state.get("retry_count", 0),
        scaffold_retry_count=state.get("scaffold_retry_count", 0),
        branch=state["branch"],
        worktree_path=state.get("worktree_path") if at.node is not None else None,
        reason=_reason(at),
        words=list(possible_decisions(state)) if at.node == N6 else [],
        agent=redact(state["agent"])[0],  # a command may hold a key
        into=state["into"],
        base_sha=state.get("base_sha"),
        run_id=ref.id,
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
        evidence=_evidence_folder(ref) if run is not None else None,
        here=local,
        machine=state["machine"],
        history=history,
    )


def describe_tampered(ref: WorkflowRef, reason: str, *, local: bool = True) -> Workflow:
    """A workflow that was tampered with: what its id and the record of its run say."""
    issue = issue_of(ref.id)
    run = None
    with contextlib.suppress(AgentosError, OSError, ValueError):
        run = preparation.recorded_context(ref.context, ref.id) if local else None
    return Workflow(
        id=ref.id,
        issue_id=issue,
        state=TAMPERED,
        node=None,
        branch=run.branch_name if run is not None else branch_of(issue),
        worktree_path=run.worktree_path if run is not None and os.path.isdir(run.worktree_path) else None,
        reason=reason,
        words=[ABORT] if local else [],
        agent="",
        into=run.base_ref if run is not None else "",
        base_sha=run.base_sha if run is not None else None,
        run_id=ref.id,
        lld_path="",
        created_at=run.created_at if run is not None else _UNKNOWN_TIME,
        evidence=_evidence_folder(ref) if run is not None else None,
        here=local,
        machine=platform.node() if local else "",
    )


def _describe(ref: WorkflowRef, at: Standing) -> Workflow:
    if isinstance(at, Tampered):
        return describe_tampered(ref, at.reason)
    local = is_local(ref, at.state)
    reason = _tampering(ref, at) if local else None
    if reason is not None:
        return describe_tampered(ref, reason)
    try:
        return describe(ref, at)
    except AgentosError as error:
        return describe_tampered(ref, error.message, local=local)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # another user's: no signature was checked
        return describe_tampered(ref, f"it cannot be read ({error})", local=local)


def _evidence_folder(ref: WorkflowRef) -> str | None:
    try:
        return evidence_store.open_existing(ref.context.location, ref.id).folder
    except AgentosError:
        return None


def _tampering(ref: WorkflowRef, at: Position) -> str | None:
    """How the record of the workflow's run was tampered with, or contradicts its state; None for neither."""
    try:
        evidence = evidence_store.open_existing(ref.context.location, ref.id)
    except AgentosError as error:  # there is none before the first node has ended; an ended workflow needs none
        return error.message if at.state.get("history") and at.node is not None else None
    return contradiction(evidence, at)


def contradiction(evidence: Evidence, at: Position) -> str | None:
    """Why a workflow cannot stand at `at`, by the record of its run; None if it can."""
    done = len(at.state.get("history") or ())
    if done and at.node is None and at.state.get("human_decision") == ABORT:
        return None  # a tampered workflow can be aborted
    problem = evidence.record().problem
    if problem is not None:
        return problem
    if evidence.state().ended == RECORD_TAMPERED:
        return evidence.run().reason or RECORD_TAMPERED
    return _OLDER if furthest_node(evidence) > done + 1 else None


def _state_name(at: Position, *, alive: bool) -> str:
    if at.node is None:
        return MERGED if at.state.get("merge_commit") else ABORTED
    if at.node == N6 and (at.waits or not alive):
        return WAITING
    return RUNNING if alive else INTERRUPTED


def _reason(at: Position) -> str | None:
    """Why it stands where it does, for people."""
    state = at.state
    if at.node != N6 or state.get("error_message"):
        return state.get("error_message")
    if state.get("green"):
        return "the work is green: it waits for a person"
    history = state.get("history") or []
    return f"{history[-1]['node']}: {history[-1]['summary']}" if history else None


# -- finding workflows -------------------------------------------------------------------------------------------------


def _find(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> tuple[WorkflowRef, Standing]:
    wanted = id_.removeprefix("#")
    known = list(_read_all(context, environment, everywhere=True))
    exact = [each for each in known if each[0].id == wanted]
    if exact:
        return next((each for each in exact if _is_here(*each)), exact[0])
    repository = database_path.repository_id(context.location, make=False)
    of_issue = [(ref, at) for ref, at in known if _is_of_issue(ref, at, wanted, repository)]
    if of_issue:
        return max(of_issue, key=lambda each: _age(each[1]))
    beginning = [each for each in known if len(wanted) >= _MIN_PREFIX and each[0].id.startswith(wanted)]
    if len(beginning) > 1:
        ids = ", ".join(ref.id for ref, _ in beginning)
        raise TddError(f"'{id_}' is the beginning of {len(beginning)} workflows", ids)
    if beginning:
        return beginning[0]
    raise unknown(id_)


def _is_here(ref: WorkflowRef, at: Standing) -> bool:
    """Whether it is this clone's, of several that have one of this id."""
    return isinstance(at, Tampered) or is_local(ref, at.state)


def _is_of_issue(ref: WorkflowRef, at: Standing, issue: str, repository: str) -> bool:
    if isinstance(at, Tampered):
        return issue_of(ref.id) == issue
    return at.state["issue_id"] == issue and at.state["repository"] == repository


def _age(at: Standing) -> tuple[bool, str]:
    """A key by which unfinished workflows come last, and newer ones after older ones."""
    return (False, "") if isinstance(at, Tampered) else (at.node is not None, at.state["created_at"])


def _read_all(
    context: OpenWorktree, environment: Mapping[str, str], *, everywhere: bool
) -> Iterator[tuple[WorkflowRef, Standing]]:
    """Every workflow that can be found from here, each once; a damaged one does not hide the others."""
    repository = database_path.repository_id(context.location, make=False)
    seen: set[str] = set()
    state_copies.restore_missing(context)
    recorded = _recorded_databases(context)
    failed: AgentosError | None = None
    for database in _databases(context, environment, recorded):
        try:
            with state_database.open_checkpointer(database) as checkpointer:
                ids = threads(checkpointer, None if everywhere else repository)
                standings = [(thread, _read_standing(context, checkpointer, thread)) for thread in ids]
        except AgentosError as error:
            # A database that is locked, of a newer version, or unreachable says nothing about its content.
            is_unreadable = isinstance(error, DatabaseError) and not isinstance(error, DamagedDatabase)
            if database_path.is_url(database) or is_unreadable:
                raise
            failed = error
            standings = [(id_, Tampered(id_, error.message)) for id_, path in recorded.items() if path == database]
        for thread, at in standings:
            if at is not None and thread not in seen:
                seen.add(thread)
                yield WorkflowRef(context, id_of(thread), database, thread), at
    known = dict.fromkeys((*recorded, *state_copies.ids(context.location)))
    found = {id_of(thread) for thread in seen}
    missing = [id_ for id_ in known if id_ not in found and _has_worktree(context, id_)]
    if failed is not None and not seen and not missing:
        raise failed
    for id_ in missing:
        yield WorkflowRef(context, id_, ""), Tampered(id_, MISSING)


def _read_standing(context: OpenWorktree, checkpointer: state_database.Checkpointer, thread: str) -> Standing | None:
    """Where a thread stands; None if there is none. Users of other clones have other keys: theirs can be shown."""
    try:
        return Graph(None, checkpointer).position(thread)
    except Tampered as error:
        if not error.is_foreign:
            return error
        repository = database_path.repository_id(context.location, make=False)
        try:
            at = Graph(None, state_database.trusting(checkpointer)).position(thread)
        except Tampered as damaged:
            return damaged
        return error if at is None or at.state.get("repository") == repository else at


def _has_worktree(context: OpenWorktree, id_: str) -> bool:
    with contextlib.suppress(AgentosError, OSError, ValueError):
        return any(each.record.run_id == id_ for each in worktree_records.agent_worktrees(context.location.common_dir))
    return False


def _recorded_databases(context: OpenWorktree) -> Mapping[str, str]:
    """The workflows that have evidence here, and the file that has the state of each. URLs there are not ours."""
    found = {}
    with contextlib.suppress(AgentosError, OSError):
        for run_id in evidence_store.ids(context.location):
            with contextlib.suppress(AgentosError, OSError, ValueError, TypeError, KeyError, RecursionError):
                data = evidence_store.open_existing(context.location, run_id).read(state_database.DATABASE_FILE)
                path = json.loads(data)["database"] if data is not None else None
                if isinstance(path, str) and not database_path.is_url(path) and "\0" not in path:
                    found[run_id] = path
    return found


def _databases(context: OpenWorktree, environment: Mapping[str, str], recorded: Mapping[str, str]) -> Sequence[str]:
    """The databases that may have workflows: that of here, those in which one was started elsewhere, and that of the
    main worktree, which gets the state if its own worktree is gone. None is created."""
    found: dict[str, None] = {}
    with contextlib.suppress(WorkflowConfigurationError):
        found[state_database.location_of(context.location, environment, make=False)] = None
    found |= dict.fromkeys(recorded.values())
    if state_copies.ids(context.location):
        found[os.path.join(layout.main_folder(context.location), database_path.FOLDER, database_path.NAME)] = None
    return [each for each in found if state_database.exists(each)]
