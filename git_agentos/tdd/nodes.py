"""The nodes of the graph: what each does. None decides which node is next: `routing` does, by the state they leave.

A node gets the Session and the state, and returns what changes in the state, with its own record in `history`. Those
that work in the worktree (N1 to N5) are in `code_nodes`; here are the worktree, the decision and the merge.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

from git_agentos import log
from git_agentos.errors import AgentosError, LockedError, RunError, StorageError, TddError
from git_agentos.run import accept, preparation, sealing
from git_agentos.run import query as run_query
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.events import PRE_RUN, TDD
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import Tampered
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.workspace import GitWorktreeWorkspaceService
from git_agentos.store import database_path
from git_agentos.tdd import code_nodes, state_database
from git_agentos.tdd.gate import gates, setup
from git_agentos.tdd.node_run import (
    Interrupted,
    NodeResult,
    Session,
    Update,
    record_event_once,
    record_node,
    record_progress,
)
from git_agentos.tdd.state import ABORT, N0, N1, N2, N3, N4, N5, N6, N7, N8, RETRY, ImplementationState
from git_agentos.worktree import journal, record, removal, repair

_MAX_LISTED_TESTS = 50


def load_context(session: Session, state: ImplementationState) -> Update:
    """Create the worktree. `workflows.start` has read and checked the context before: if that is refused, nothing is
    created."""
    began = time.monotonic()
    run = preparation.recorded_context(session.context, session.id) or _prepare_run(session, state)
    evidence = session.evidence()
    if not database_path.is_url(session.database):
        evidence.put(state_database.DATABASE_FILE, json.dumps({"database": session.database}).encode() + b"\n")
    if not any(each["event"] == "attempt" for each in evidence.events()):
        evidence.event("attempt", number=1, point=None)
    worktree = session.worktree()
    log.try_add(worktree, "action", f"tdd {session.id} begun", commit=run.base_sha, task_id=run.task_id)
    saved = session.save(worktree, f"tdd {session.id}: after {N0}", N0, "after").checkpoint.id
    interpreter = None
    with contextlib.suppress(TddError):  # the agent may be about to create it
        interpreter = gates.hash_interpreter(setup.prepare(worktree, session.environment, mark=state["mark"]))
    update: Update = {"worktree_path": run.worktree_path, "base_sha": run.base_sha, "python": interpreter}
    documents = len(state.get("context_paths", ())) + 1
    read = "1 document" if documents == 1 else f"{documents} documents"
    result = NodeResult(update, f"{read} read, worktree ready at {run.base_sha[:12]}")
    return record_node(session, state, N0, result, began, (None, saved))


def _prepare_run(session: Session, state: ImplementationState) -> WorkspaceContext:
    service = GitWorktreeWorkspaceService(
        session.context,
        base_ref=state["into"],
        task_id=state["issue_id"],
        guard=True,
        protected=state["protected"],
        branch=state["branch"],
        tool=state.get("tool") or TDD,
        held=True,
    )
    try:
        with session.stop.interruptible():
            return service.prepare_pre_run(run_id=session.id)
    except KeyboardInterrupt:
        raise Interrupted from None


def human_review(session: Session, state: ImplementationState) -> Update:
    """Wait for a person's decision. Nothing stands before that: a node that waits runs again from its top."""
    from langgraph.types import interrupt

    decision = str(interrupt({"id": session.id, "green": bool(state.get("green"))}))
    began = time.monotonic()
    update: Update = {"human_decision": decision}
    update["error_message"] = None if decision == RETRY else state.get("error_message")
    if decision == RETRY:
        # The person has seen the vetoes: an interpreter that was changed since the beginning is accepted.
        update |= {"retry_count": 0} if state.get("red") else {"scaffold_retry_count": 0, "python": None}
    return record_node(session, state, N6, NodeResult(update, f"'{decision}'"), began)


def merge(session: Session, state: ImplementationState) -> Update:
    """Commit what was tested, and merge it: in memory first, all or nothing."""
    began = time.monotonic()
    before, after = state.get("tested_before"), state.get("tested_after")
    if before is None or after is None:
        raise TddError(
            f"workflow '{session.id}' has no checkpoints of tested work", f"git agentos tdd show {session.id}"
        )
    evidence, saved = session.evidence(), None
    record_progress(evidence, state)
    try:
        worktree = session.worktree()
        saved = session.save(worktree, f"tdd {session.id}: before {N7}", N7, "before").checkpoint.id
        merged = accept.merge_validated(
            session.context,
            accept.ValidatedWork(session.run(), worktree, before, after),
            into=state["into"],
            message=commit_message(session, state),
            check=lambda: check_record(evidence),
        )
    except (LockedError, StorageError, Tampered):
        raise  # no decision of a person helps
    except AgentosError as error:
        reason = f"{error.message}; {error.hint}" if error.hint else error.message
        update: Update = {"error_message": reason, "conflicts": [], "merge_commit": None}
        result = NodeResult(update, f"not merged: {error.message}")
        return record_node(session, state, N7, result, began, (saved, None))
    if merged.conflicts:
        files = sorted({path for each in merged.conflicts for path in each.files})
        reason = f"'{merged.target}' has moved on, and conflicts in {', '.join(files)}"
        conflicts = [asdict(each) for each in merged.conflicts]
        update = {"conflicts": conflicts, "error_message": reason, "merge_commit": None}
        return record_node(session, state, N7, NodeResult(update, "not merged: conflicts"), began, (saved, None))
    commit = merged.merge_commit or merged.before
    record_event_once(session, "accepted", into=merged.target, merge_commit=commit)
    update = {"merge_commit": commit, "conflicts": [], "error_message": None}
    result = NodeResult(update, f"merged into '{merged.target}' as {commit[:12]}")
    return record_node(session, state, N7, result, began, (saved, None))


def check_record(evidence: Evidence) -> None:
    """Tampered if the record of the run, or a file that it names, is not as it was written."""
    evidence.check()
    evidence.check_files()


def commit_message(session: Session, state: ImplementationState) -> bytes:
    """The message of the commit of what was tested."""
    issue = " ".join(state["issue_id"].split())
    lines = [
        f"feat: issue {issue}",
        "",
        f"Tests first, by git agentos tdd ({session.id}):",
        *(f"  {each}" for each in state["red"][:_MAX_LISTED_TESTS]),
        "",
        f"Agentos-Agent: {worktree_id(session.id)}",
        f"Agentos-Task: {issue}",
    ]
    return os.fsencode("\n".join(lines) + "\n")


def clean_up(session: Session, state: ImplementationState) -> Update:
    """Save everything, seal the evidence, and remove the worktree and its branch. `--revive` brings them back."""
    began = time.monotonic()
    id_ = worktree_id(session.id)
    aborted = state.get("human_decision") == ABORT and not state.get("merge_commit")
    final = state.get("final_checkpoint")
    interrupted = [each.id for each in journal.interrupted(session.context.location)]
    if id_ in interrupted:  # its creation or removal was killed
        repair.repair(session.context, id_)
    exists = (
        preparation.recorded_context(session.context, session.id) is not None
    )  # not if it was killed while it was made
    if aborted and exists:
        record_event_once(session, "ended", state="cancelled", reason="aborted")
    if record.get(session.context.location.common_dir, id_) is not None:
        run, evidence = session.run(), session.evidence()
        record_progress(evidence, state)
        try:
            worktree = session.worktree()
        except RunError:  # an agent has wrecked it: it is made again, and what can be read is saved
            rollback_and_record(session.context, run, evidence, _last_checkpoint(state))
            worktree = session.worktree()
        log.try_add(worktree, "action", f"tdd {session.id} {'aborted' if aborted else 'merged'}", task_id=run.task_id)
        sealing.seal(worktree, evidence, run_query.current_run(session.context, evidence))
        final = removal.remove(session.context, id_, delete_branch=True).checkpoint
    summary = "worktree and branch removed" if exists else "there was no worktree yet"
    if final:
        summary += f", saved as {final[:12]}"
    return record_node(session, state, N8, NodeResult({"final_checkpoint": final}, summary), began, (None, final))


def _last_checkpoint(state: ImplementationState) -> str:
    """The newest checkpoint of the worktree."""
    checkpoints = (each["checkpoint_after"] for each in reversed(state.get("history") or []))
    return next((each for each in checkpoints if each is not None), PRE_RUN)


Node = Callable[[Session, ImplementationState], Update]

NODES: Mapping[str, Node] = {
    N0: load_context,
    N1: code_nodes.scaffold_tests,
    N2: code_nodes.fail_gate,
    N3: code_nodes.implement,
    N4: code_nodes.pass_gate,
    N5: code_nodes.audit_changes,
    N6: human_review,
    N7: merge,
    N8: clean_up,
}
