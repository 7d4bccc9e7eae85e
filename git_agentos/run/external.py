"""The end of a run that an orchestrator drives through the workspace service: only it knows how the run went.

A run of `git agentos run start` is ended by that (`kernel`), a workflow by `git agentos tdd`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from git_agentos import log
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import RunError, UsageError
from git_agentos.run import accept as accepting
from git_agentos.run import cleanup as cleaning
from git_agentos.run import evidence_store, landing, located, query, snapshot
from git_agentos.run.accept import Acceptance
from git_agentos.run.events import CANCELLED, FAILED, PASSED, PRE_RUN, TDD, Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.rollback import rollback_and_record
from git_agentos.run.runner import seal_run

_STATES = (PASSED, FAILED, CANCELLED)


def end(
    context: OpenWorktree,
    run_id: str,
    state: str,
    reason: str | None,
    *,
    roll_back: bool,
    cleanup: bool,
    is_ours: Callable[[], bool],
) -> Run:
    """End an open run in `state`; its lock is held. With `roll_back` its worktree is taken back to where it began
    before, with `cleanup` archived afterwards, with its branch. RunError where it has ended, or somebody else drives
    it."""
    if state not in _STATES:
        raise UsageError(f"a run cannot end as '{state}'", f"one of: {', '.join(_STATES)}")
    kept = _open(context, run_id, is_ours)
    run = located.workspace_of(context, kept)
    if roll_back:
        rollback_and_record(context, run, kept, PRE_RUN)
    with contextlib.suppress(RunError):  # its worktree is gone
        details = {"reason": reason} if reason else {}
        kind = "action" if state == PASSED else "error"
        here = snapshot.run_context(context, run)
        log.try_add(here, kind, f"run {run_id} {state}", details=details, task_id=run.task_id)
    kept.event("ended", state=state, reason=reason)
    seal_run(context, kept)
    return cleaning.finish(context, kept, wanted=cleanup)


def accept(
    context: OpenWorktree, run_id: str, *, into: str | None, squash: bool, cleanup: bool, is_ours: Callable[[], bool]
) -> Acceptance:
    """Merge the worktree of an open run as it stands into `into` (its base's branch), and end the run as accepted; its
    lock is held. One that was ended as passed can be accepted, too. With conflicts nothing has changed."""
    kept = _open(context, run_id, is_ours, passed=True)
    run = located.workspace_of(context, kept)
    target = into if into is not None else accepting.base_branch(context, run)
    here = snapshot.run_context(context, run)
    now = snapshot.take_snapshot(here, run).checkpoint
    message = accepting.message(kept.run(alive=True))
    made = landing.merge_validated(
        context, here, run, now, now, into=target, message=message, squash=squash, check=kept.check
    )  # fmt: skip
    if made.conflicts:
        return Acceptance(query.current_run(context, kept, is_ours=True), made)
    with accepting.recording(run_id, made):
        if kept.state().ended is None:
            kept.event("ended", state=PASSED, reason=None)
        kept.event("accepted", into=made.target, merge_commit=made.merge_commit)
        seal_run(context, kept)
    return Acceptance(cleaning.finish(context, kept, wanted=cleanup), made)


def _open(context: OpenWorktree, run_id: str, is_ours: Callable[[], bool], *, passed: bool = False) -> Evidence:
    """The evidence of an open run, its record in memory; with `passed` also that of one that only has to be merged."""
    kept = evidence_store.open_or_rebuild(context.location, run_id)
    kept.pin(is_ours)
    at = kept.state()
    run = kept.run()
    if at.ended is not None and not (passed and run.state == PASSED and run.is_driven):
        raise RunError(f"run '{run_id}' has ended: {run.state}", f"git agentos run show {run_id} tells more")
    if not run.is_driven or run.tool == TDD:
        word = "tdd abort" if run.tool == TDD else "run cancel"
        raise RunError(f"run '{run_id}' is driven by '{run.tool}'", f"git agentos {word} {run_id} ends it")
    return kept
