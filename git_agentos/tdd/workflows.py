"""Starting, resuming and deciding about workflows: what the commands call.

One process at a time works on a workflow: it holds the lock of its run. SIGINT, SIGTERM and SIGHUP interrupt it;
whatever ended it, `resume` continues without repeating a finished node.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RepositoryError, RunError, TddError, UsageError
from git_agentos.git import authorship, process, refs
from git_agentos.guard import authorize
from git_agentos.process import marked
from git_agentos.run import branches, evidence_store, journal, lock
from git_agentos.run.lock import Stop
from git_agentos.run.runner import end_as_tampered
from git_agentos.store import database_path
from git_agentos.tdd import node_run, nodes, query, state_database
from git_agentos.tdd.context import source_files
from git_agentos.tdd.gate import setup
from git_agentos.tdd.graph import Graph, Position
from git_agentos.tdd.models import selection
from git_agentos.tdd.node_run import Interrupted, NodeResult, Session
from git_agentos.tdd.query import WorkflowRef, list_workflows
from git_agentos.tdd.signed_rows import Tampered
from git_agentos.tdd.state import (
    ABORT,
    ABORTED,
    MERGED,
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    RETRY,
    TAMPERED,
    ImplementationState,
    Observer,
    Workflow,
    branch_of,
    check_issue,
    new_id,
    possible_decisions,
)
from git_agentos.util import times
from git_agentos.worktree import layout

_NOT_MERGING = (N0, N1, N2, N3, N4, N5)  # a workflow that was interrupted at one of these can be aborted


@dataclass(frozen=True)
class WorkflowSpec:
    """What `git agentos tdd run` is asked for. `lld` and `context` are relative to the current worktree. `into` None:
    the branch that is checked out there. `tests` limits which tests are run (none: all that the project has)."""

    issue_id: str
    lld: str
    context: tuple[str, ...] = ()
    agent: str | None = None
    into: str | None = None
    test_timeout: float = 300.0
    sandbox: bool = False
    tests: tuple[str, ...] = ()


@authorize.entry("tdd", "run")
def start(
    context: OpenWorktree,
    spec: WorkflowSpec,
    environment: Mapping[str, str],
    observer: Observer,
    *,
    consent: Callable[[Sequence[str]], None],
) -> Workflow:
    """Start a workflow, and work on it until it ends, waits, or is interrupted.

    `consent` gets the lines of the data policy before anything is created or sent; it raises if there is no consent.
    ContextError for what must not be sent, TddError if the issue has an unfinished workflow; nothing was created then.
    """
    issue = check_issue(spec.issue_id)
    authorship.require(context.location.root, process.user_environment({}))
    agent = selection.choose(spec.agent, context.settings, environment, context.location.root)
    into = _target_branch(context, spec.into)
    documents = source_files.load(context.location.root, spec.lld, spec.context)
    id_ = new_id(issue)
    mark = f"{id_}-{os.urandom(8).hex()}"
    setup.prepare(context, environment, timeout=spec.test_timeout, sandbox=spec.sandbox, mark=mark)
    _refuse_second(context, issue, environment)
    consent(source_files.policy_lines(documents, agent.recipient))
    state = new_state(context, replace(spec, issue_id=issue, agent=agent.name, into=into), documents, id_, mark)
    ref = WorkflowRef(context, id_, state_database.location_of(context.location, environment))
    with working_on(ref, environment, observer) as worker:
        try:
            return worker.begin(state)
        except (Tampered, journal.Tampered):
            raise
        except AgentosError:
            # Two for the same issue at the same moment: only one can have the branch, so the second fails at N0.
            _refuse_second(context, issue, environment)
            raise


def new_state(
    context: OpenWorktree, spec: WorkflowSpec, documents: source_files.Documents, id_: str, mark: str
) -> ImplementationState:
    """The state in which a workflow begins; the agent and `into` of `spec` are known."""
    return ImplementationState(
        id=id_,
        issue_id=spec.issue_id,
        repository=database_path.repository_id(context.location),
        machine=platform.node(),
        mark=mark,
        protected=branches.protected_patterns(context, None),
        agent=spec.agent or "",
        into=spec.into or "",
        branch=branch_of(spec.issue_id),
        lld_path=documents.lld.path,
        lld_content=documents.lld.text,
        context_paths=[each.path for each in documents.context],
        context_content={each.path: each.text for each in documents.context},
        test_timeout=spec.test_timeout,
        sandbox=spec.sandbox,
        tests=list(spec.tests),
        retry_count=0,
        scaffold_retry_count=0,
        created_at=times.now_text(),
        history=[],
    )


@authorize.entry("tdd", "resume")
def resume(
    context: OpenWorktree, id_: str, environment: Mapping[str, str], observer: Observer, *, retry: bool = False
) -> Workflow:
    """Resume an interrupted workflow, or ask again about one that waits; `retry` sends one that waits back for another
    attempt. TddError for an unknown or an ended one."""
    ref = query.find(context, id_, environment)
    with working_on(ref, environment, observer) as worker:
        at = worker.position()
        _refuse_ended(ref, at)
        if retry and not at.waits:
            raise TddError(
                f"workflow '{ref.id}' is not waiting for a decision", f"git agentos tdd resume {ref.id} continues it"
            )
        return worker.resume(at, RETRY if retry else None)


def decide(
    context: OpenWorktree, id_: str, decision: str, environment: Mapping[str, str], observer: Observer
) -> Workflow:
    """Decide `approve` or `abort` for a workflow that waits; `abort` also for one that was interrupted before the
    merge. TddError if it does not wait, and for `approve` if the work is not green. Who may decide was checked before
    (`guard.operator`)."""
    authorize.require(context, "tdd", decision, operands=(id_,))
    ref = query.find(context, id_, environment)
    with working_on(ref, environment, observer) as worker:
        if decision == ABORT and (tampering := worker.tampering()) is not None:
            return worker.abandon(tampering)
        at = worker.position()
        _refuse_ended(ref, at)
        if decision == ABORT and at.node in _NOT_MERGING:
            return worker.abort(at)
        if at.node != N6:
            raise TddError(
                f"workflow '{ref.id}' is not waiting for a decision: it was interrupted at {at.node}",
                f"git agentos tdd resume {ref.id} continues it",
            )
        if decision not in possible_decisions(at.state):
            raise TddError(
                f"workflow '{ref.id}' cannot be approved: its work is not green",
                f"git agentos tdd resume {ref.id} --retry tries again, git agentos tdd abort {ref.id} ends it",
            )
        return worker.resume(at, decision)


# -- working on a workflow ---------------------------------------------------------------------------------------------


class Worker:
    """Works on one workflow, in a session."""

    def __init__(self, ref: WorkflowRef, graph: Graph, session: Session) -> None:
        self._ref = ref
        self._graph = graph
        self.session = session
        self._observer = session.observer

    def position(self) -> Position:
        """Where it stands; TddError if it does not exist, Tampered if its state or record was tampered with."""
        at = self._graph.position(self._ref.thread_id)
        if at is None:
            raise query.unknown(self._ref.id) if self._ref.database else Tampered(self._ref.id, query.MISSING)
        if query.is_local(self._ref, at.state):
            self._check(at)
        return at

    def _check(self, at: Position) -> None:
        """Tampered if the record of the run was tampered with, or knows of more than the state does."""
        try:
            evidence = self.session.evidence()
        except journal.Tampered:
            raise
        except RunError as error:
            if at.state.get("history") and at.node is not None:
                raise Tampered(self._ref.id, error.message) from error
            return
        reason = query.contradiction(evidence, at)
        if reason is not None:
            raise Tampered(self._ref.id, reason)

    def tampering(self) -> str | None:
        """How it was tampered with; None if it was not."""
        try:
            self.position()
        except (Tampered, journal.Tampered) as error:
            return error.reason
        return None

    def record_tampering(self, reason: str) -> None:
        """Record that it was tampered with: its worktree stays as it is, and it is never merged."""
        with contextlib.suppress(AgentosError, OSError):
            location = self._ref.context.location
            try:
                evidence = evidence_store.open_existing(location, self._ref.id)
            except (RunError, RepositoryError):  # it was removed
                evidence = evidence_store.end_destroyed(location, self._ref.id)
            record = evidence.record()
            if record.problem is not None or not any(each["event"] == "tampered" for each in record.events):
                end_as_tampered(self._ref.context, evidence, reason)

    def abandon(self, reason: str) -> Workflow:
        """End one that was tampered with: its worktree is saved, and nothing is merged."""
        self.record_tampering(reason)
        self.session.pinned.clear()
        workflow = query.describe_tampered(self._ref, reason)
        self._observer.began(workflow)
        state = ImplementationState(
            id=workflow.id,
            issue_id=workflow.issue_id,
            repository=database_path.repository_id(self._ref.context.location),
            machine=platform.node(),
            agent="",
            into=workflow.into,
            branch=workflow.branch,
            lld_path="",
            created_at=workflow.created_at,
            human_decision=ABORT,
            error_message=reason,
            history=[],
        )
        update = nodes.clean_up(self.session, state)
        self._graph.replace(self._ref.thread_id, {**state, **update})  # type: ignore[typeddict-item]  # the state's keys
        return self._finish()

    def begin(self, state: ImplementationState) -> Workflow:
        """Work from the beginning. If no worktree can be created, there is no workflow, and nothing is left of it."""
        self._observer.began(self.session.describe(state, N0))
        try:
            self._run(lambda: self._graph.begin(self._ref.thread_id, state))
        except AgentosError:
            at = self._graph.position(self._ref.thread_id)
            if at is not None and at.node == N0:
                self._graph.delete(self._ref.thread_id)
            raise
        return self._finish()

    def resume(self, at: Position, decision: str | None) -> Workflow:
        """Work from where it stands, with a decision if there is one."""
        self._observer.began(query.describe(self._ref, at, alive=True))
        if not at.waits:
            self._run(lambda: self._graph.resume(self._ref.thread_id))
        if decision is not None and self.session.stop.signal is None:
            self._run(lambda: self._graph.decide(self._ref.thread_id, decision))
        return self._finish()

    def abort(self, at: Position) -> Workflow:
        """Abort one that was interrupted: its processes are ended, and its worktree is saved."""
        self._observer.began(query.describe(self._ref, at, alive=True))
        marked.sweep(at.state["mark"])
        with contextlib.suppress(AgentosError):
            node_run.unlock(self.session)
        update: node_run.Update = {"human_decision": ABORT, "error_message": None}
        result = NodeResult(update, f"'{ABORT}', interrupted at {at.node}")
        record = node_run.make_record(at.state, N6, result, time.monotonic())
        self._graph.set_decision(self._ref.thread_id, {**update, "history": [record]})
        self._run(lambda: self._graph.resume(self._ref.thread_id))
        return self._finish()

    def _finish(self) -> Workflow:
        """Ask for decisions as long as somebody answers; the workflow as it then is."""
        stop = self.session.stop
        while stop.signal is None and (at := self.position()).waits:
            node_run.record_progress(self.session.evidence(), at.state, "waiting")
            decision = self._observer.ask(query.make_review(self._ref, at, query.describe(self._ref, at, alive=True)))
            if decision is None:
                break
            if decision in possible_decisions(at.state):
                self._run(lambda made=decision: self._graph.decide(self._ref.thread_id, made))  # type: ignore[misc]
        name = signal.Signals(stop.signal).name if stop.signal is not None else None
        return replace(query.describe(self._ref, self.position(), alive=False), interrupted_by=name)

    @staticmethod
    def _run(work: Callable[[], None]) -> None:
        with contextlib.suppress(Interrupted):
            work()


@contextlib.contextmanager
def working_on(ref: WorkflowRef, environment: Mapping[str, str], observer: Observer) -> Iterator[Worker]:
    """Hold the lock of a workflow's run, and open its state."""
    context = ref.context
    with contextlib.ExitStack() as stack:
        try:
            holds_lock = stack.enter_context(lock.hold(context.location, ref.id))
        except LockedError as error:
            message = f"another process works on workflow '{ref.id}': {error.message}"
            raise TddError(message, "wait for it") from error
        stop = stack.enter_context(Stop(context.location, ref.id))
        database = ref.database or state_database.location_of(context.location, environment)
        checkpointer = stack.enter_context(state_database.open_checkpointer(database, context.location))

        def describe(state: ImplementationState, node: str) -> Workflow:
            return query.describe(ref, Position(state, node, False), alive=True)

        session = Session(context, ref.id, database, environment, stop, observer, describe, holds_lock)
        worker = Worker(ref, Graph(session, checkpointer), session)
        try:
            yield worker
        except (Tampered, journal.Tampered) as error:
            worker.record_tampering(error.reason)
            raise error if isinstance(error, Tampered) else Tampered(ref.id, error.reason) from error


# -- refusals ----------------------------------------------------------------------------------------------------------


def _target_branch(context: OpenWorktree, given: str | None) -> str:
    """The short name of the branch that the work is merged into."""
    if given is None:
        head = refs.read_head(context.location)
        if head.branch is None:
            raise UsageError("HEAD is detached here", "name the branch to merge into: --into BRANCH")
        given = head.branch
    name = given.removeprefix(layout.HEADS)
    if refs.resolve(context.location, layout.HEADS + name) is None:
        raise UsageError(f"there is no branch '{name}' with a commit", "git branch lists the branches")
    return name


def _refuse_second(context: OpenWorktree, issue: str, environment: Mapping[str, str]) -> None:
    for each in list_workflows(context, environment):
        if each.issue_id == issue and (each.node is not None or each.state == TAMPERED):
            raise TddError(
                f"issue '{issue}' has an unfinished workflow, '{each.id}', which is {each.state}",
                f"git agentos tdd show {each.id}, resume {each.id}, or abort {each.id}",
            )


def _refuse_ended(ref: WorkflowRef, at: Position) -> None:
    """Refuse a workflow that has ended, and one of another clone."""
    hint = f"git agentos tdd show {ref.id} shows its nodes and results"
    if at.node is None:
        how = MERGED if at.state.get("merge_commit") else ABORTED
        raise TddError(f"workflow '{ref.id}' has ended: it was {how}", hint)
    if not query.is_local(ref, at.state):
        machine = at.state["machine"]
        raise TddError(f"workflow '{ref.id}' belongs to another clone, on '{machine}': its worktree is not here", hint)
