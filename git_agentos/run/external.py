"""Ending a run that an orchestrator drives through the workspace service: only the orchestrator knows how it went.

A run of `git agentos run start` is ended by `runner`, a workflow by `git agentos tdd`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from git_agentos import log
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import RunError, UsageError
from git_agentos.run import cleanup as cleaning
from git_agentos.run import evidence_store, query
from git_agentos.run.accept import (
    Acceptance,
    ValidatedWork,
    acceptance_message,
    base_branch,
    merge_validated,
    recording_failure,
)
from git_agentos.run.events import CANCELLED, FAILED, PASSED, PRE_RUN, TDD, Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.runner import seal_run
from git_agentos.run.snapshot import run_context, take_snapshot

_STATES = (PASSED, FAILED, CANCELLED)


class Ending(NamedTuple):
    """How a run ends: in `state`, for a `reason`. `roll_back` resets its worktree to its base first; `cleanup` archives
    the worktree afterwards, with its branch."""

    state: str
    reason: str | None
    roll_back: bool
    cleanup: bool


def end(context: OpenWorktree, run_id: str, ending: Ending, is_ours: Callable[[], bool]) -> Run:
    """End an open run; the caller holds its lock. RunError where it has ended, or another program drives it."""
    state, reason, roll_back, cleanup = ending
    if state not in _STATES:
        raise UsageError(f"a run cannot end as '{state}'", f"one of: {', '.join(_STATES)}")
    evidence = _open(context, run_id, is_ours)
    run = evidence_store.workspace_of(context, evidence)
    if roll_back:
        rollback_and_record(context, run, evidence, PRE_RUN)
    with contextlib.suppress(RunError):  # its worktree is gone
        details = {"reason": reason} if reason else {}
        kind = "action" if state == PASSED else "error"
        here = run_context(context, run)
        log.try_add(here, kind, f"run {run_id} {state}", details=details, task_id=run.task_id)
    evidence.event("ended", state=state, reason=reason)
    seal_run(context, evidence)
    return cleaning.finish(context, evidence, wanted=cleanup)


def accept(
    context: OpenWorktree, run_id: str, *, into: str | None, squash: bool, cleanup: bool, is_ours: Callable[[], bool]
) -> Acceptance:
    """Merge the worktree of an open run as it is into `into` (its base's branch), and end the run as accepted; the
    caller holds its lock. A run that was ended as passed can be accepted, too. With conflicts nothing is changed."""
    evidence = _open(context, run_id, is_ours, passed=True)
    run = evidence_store.workspace_of(context, evidence)
    target = into if into is not None else base_branch(context, run)
    here = run_context(context, run)
    now = take_snapshot(here, run).checkpoint
    message = acceptance_message(evidence.run(alive=True))
    work = ValidatedWork(run, here, now, now)
    made = merge_validated(context, work, into=target, message=message, squash=squash, check=evidence.check)
    if made.conflicts:
        return Acceptance(query.current_run(context, evidence, is_ours=True), made)
    with recording_failure(run_id, made):
        if evidence.state().ended is None:
            evidence.event("ended", state=PASSED, reason=None)
        evidence.event("accepted", into=made.target, merge_commit=made.merge_commit)
        seal_run(context, evidence)
    return Acceptance(cleaning.finish(context, evidence, wanted=cleanup), made)


def _open(context: OpenWorktree, run_id: str, is_ours: Callable[[], bool], *, passed: bool = False) -> Evidence:
    """The evidence of an open run, pinned; with `passed` also of a run that has passed and was not merged yet."""
    evidence = evidence_store.open_or_rebuild(context.location, run_id)
    evidence.pin(is_ours)
    at = evidence.state()
    run = evidence.run()
    if at.ended is not None and not (passed and run.state == PASSED and run.is_external):
        raise RunError(f"run '{run_id}' has ended: {run.state}", f"git agentos run show {run_id} shows details")
    if not run.is_external or run.tool == TDD:
        word = "tdd abort" if run.tool == TDD else "run cancel"
        raise RunError(f"run '{run_id}' is driven by '{run.tool}'", f"git agentos {word} {run_id} ends it")
    return evidence
