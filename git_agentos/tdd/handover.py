"""Workflows about which somebody decides elsewhere: the tasks of a fleet.

Such a workflow is worked on until it waits for a decision. Then its run ends: what was tested is committed on its
branch, and the evidence is sealed, so that both can be brought to the person who decides. Nothing is merged, and
`forget` removes the state, about which nobody decides. Nothing is committed that no green gate has judged: what is left
of a workflow that has failed is in the last checkpoint alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import SETUP
from git_agentos.errors import AgentosError, DatabaseError, RunError, TddError
from git_agentos.git import authorship, process
from git_agentos.run import lock, runner, snapshot, validated
from git_agentos.run import query as run_query
from git_agentos.run.context import worktree_id
from git_agentos.run.events import FAILED, FAILED_STEP, FLEET, INTERRUPTED, OK, PASSED, Run
from git_agentos.run.validated import ValidatedWork
from git_agentos.store import database_path
from git_agentos.tdd import inherited_work, node_run, nodes, query, state_database, workflows
from git_agentos.tdd.context import source_files
from git_agentos.tdd.gate import setup
from git_agentos.tdd.graph import Graph
from git_agentos.tdd.inherited_work import Elsewhere
from git_agentos.tdd.models import selection
from git_agentos.tdd.node_run import Session
from git_agentos.tdd.query import WorkflowRef
from git_agentos.tdd.state import N6, ImplementationState, Observer, Workflow, check_issue, thread_of
from git_agentos.tdd.workflows import Worker, WorkflowSpec
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import record


class Assignment(NamedTuple):
    """What is to be done: `id` is that of the workflow and its run, `base` the commit at which it begins, which has the
    design document `lld`. `there` is what another clone has of it, from which tests and code are taken over."""

    id: str
    issue: str
    lld: str
    agent: str
    base: str
    there: Elsewhere | None = None


def begun(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> Run | None:
    """The run of a workflow that was begun in this repository, and can be continued or has ended; None where there is
    none. DatabaseError where its state cannot be looked at now."""
    try:
        run = run_query.show(context, id_)
    except (AgentosError, OSError):
        return None
    if run.problems:
        return None
    if run.final_checkpoint is not None:
        return run
    try:
        ref = _ref(context, id_, environment)
        with state_database.open_checkpointer(ref.database) as checkpointer:
            at = Graph(None, checkpointer).position(ref.thread_id)
            return run if at is not None and query.is_local(ref, at.state) else None
    except DatabaseError:
        raise
    except TddError:  # it was tampered with, or is signed with another key
        return None


def work(
    context: OpenWorktree, task: Assignment, environment: Mapping[str, str], observer: Observer, *, is_new: bool
) -> Run:
    """Work on a workflow until its run has ended, or was interrupted; the run. It has passed if the work is green.

    The data policy was accepted with the task. ContextError for a document that must not be sent; TddError if
    another process works on it, or it cannot be done on this machine.
    """
    ref = _ref(context, task.id, environment)
    state = _new(context, task, environment) if is_new else None
    with workflows.working_on(ref, environment, observer) as worker:
        lock.discard(context.location, task.id, "cancel")
        workflow = worker.begin(state) if state is not None else worker.resume(worker.position(), None)
        is_done = workflow.node == N6 and workflow.interrupted_by is None
        if is_done:
            _end(worker, workflow)
    run = run_query.show(context, task.id)
    return run if is_done else replace(run, state=INTERRUPTED)


def forget(context: OpenWorktree, id_: str, environment: Mapping[str, str]) -> None:
    """Remove the state of a workflow that no process has; nothing where there is none."""
    ref = _ref(context, id_, environment, make=False)
    if state_database.exists(ref.database):
        with state_database.open_checkpointer(ref.database, context.location) as checkpointer:
            checkpointer.delete_thread(ref.thread_id)


def _ref(context: OpenWorktree, id_: str, environment: Mapping[str, str], *, make: bool = True) -> WorkflowRef:
    """The workflow of this clone: others may work on the same task, and keep their state in the same database."""
    database = state_database.location_of(context.location, environment, make=make)
    is_shared = state_database.may_be_shared(database)
    thread = thread_of(id_, database_path.repository_id(context.location)) if is_shared else None
    return WorkflowRef(context, id_, database, thread)


def _new(context: OpenWorktree, task: Assignment, environment: Mapping[str, str]) -> ImplementationState:
    """Its state at the beginning. Nothing is sent yet."""
    authorship.require(context.location.root, process.user_environment({}))
    agent = selection.choose(task.agent, context.settings, environment, context.location.root)
    documents = source_files.of_commit(context.repository, task.base, task.lld)
    mark = f"{task.id}-{os.urandom(8).hex()}"
    spec = WorkflowSpec(check_issue(task.issue), task.lld, agent=agent.name, into=task.base)
    if SETUP not in context.settings.values:  # else that command may make the interpreter, in the worktree
        setup.prepare(context, environment, timeout=spec.test_timeout, mark=mark)
    state = workflows.new_state(context, spec, documents, task.id, mark)
    state["branch"] = record.branch_of(worktree_id(task.id), task.id)  # an issue may have several tasks
    state["tool"] = FLEET
    if task.there is not None:
        found = inherited_work.find(context.repository, task.id, task.base, task.there)
        state |= found  # type: ignore[typeddict-item]  # the keys are those of the state
    return state


# -- the end -----------------------------------------------------------------------------------------------------------


def _end(worker: Worker, workflow: Workflow) -> None:
    """End the run of a workflow that waits. Killed in between, it can be called again."""
    session, state = worker.session, worker.position().state
    evidence = session.evidence()
    if evidence.state().ended is None:
        nodes.check_record(evidence)
        reason = _commit(session, state) if workflow.tests_passed else workflow.reason
        if evidence.state().outcome is None:
            outcome = OK if reason is None else FAILED_STEP
            evidence.event("attempt-ended", number=1, outcome=outcome, reason=reason)
        left = snapshot.describe_end(session.context, session.run(), evidence.state())
        evidence.event("ended", state=PASSED if reason is None else FAILED, reason=reason, left=left)
    runner.seal_run(session.context, evidence)


def _commit(session: Session, state: ImplementationState) -> str | None:
    """Commit what was tested on the workflow's branch; why that cannot be done, None where it was."""
    before, after = state.get("tested_before"), state.get("tested_after")
    if before is None or after is None:
        return "it has no checkpoints of tested work"
    node_run.unlock(session)  # where a commit was killed
    work = ValidatedWork(session.run(), session.worktree(), before, after)
    try:
        made = validated.as_commit(work, nodes.commit_message(session, state))
        validated.move_branch(work.worktree, work.run, made)
    except RunError as error:
        return error.message
    return None
