"""The commands of runs: start, resume, cancel, roll back; `query` reads runs.

Each step has a checkpoint before and after it; exit codes and the diff decide, and each event is recorded before it
counts. Whatever ends the process, the run can be resumed or rolled back.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import (
    AgentosError,
    LockedError,
    RepositoryError,
    RunError,
    storage_error,
    without_unchanged,
)
from git_agentos.git import authorship, process
from git_agentos.guard import authorize
from git_agentos.run import cleanup, evidence_store, lock, preparation, snapshot
from git_agentos.run import context as contexts
from git_agentos.run.events import CANCELLED, OPEN, SERVICE, TAMPERED, TDD, Run
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import NoKey, Tampered
from git_agentos.run.lock import Stop
from git_agentos.run.query import diff, list_runs, logs, show
from git_agentos.run.rollback import Rollback, rollback_and_record, rollback_worktree
from git_agentos.run.runner import Runner, end_as_tampered, judge_killed_step, seal_run, spec_to_resume
from git_agentos.run.spec import RunSpec
from git_agentos.run.step import Observer, RunSetup, SilentObserver
from git_agentos.worktree import layout, record

__all__ = [
    "Observer",
    "all_",
    "cancel",
    "diff",
    "list_runs",
    "logs",
    "resume",
    "roll_back",
    "rollback",
    "show",
    "start",
]

_CANCEL_TIMEOUT = 120.0  # seconds: what a run is doing (a rollback) may take a while


@authorize.entry("run", "start")
def start(context: OpenWorktree, spec: RunSpec, observer: Observer | None = None) -> Run:
    """Run a run from its beginning; how it ended. LockedError where the run is running, RunError where the id is taken,
    ConfigurationError where git cannot tell who commits.

    SIGINT, SIGTERM and SIGHUP interrupt it: the run returned is `interrupted`, and its processes were ended.
    """
    return begin(context, spec, observer)


def begin(context: OpenWorktree, spec: RunSpec, observer: Observer | None = None, *, commits: bool = False) -> Run:
    """`start`, for other orchestrators in this process; `commits` as for `RunSetup`."""
    run_id = contexts.check_id(spec.run_id if spec.run_id is not None else _new_id())
    authorship.require(context.location.root, process.user_environment({}))
    with lock.hold(context.location, run_id) as is_ours, Stop(context.location, run_id) as stop:
        made = _create_evidence(context, run_id)
        with _recording_failure(context, made):
            made.pin(is_ours)
            work = Runner(RunSetup(context, made, spec, stop, observer or SilentObserver(), commits))
            work.begin()
            work.run()
        return cleanup.finish(context, made)


@authorize.entry("run", "resume")
def resume(context: OpenWorktree, run_id: str, observer: Observer | None = None) -> Run:
    """Continue an interrupted run at the step it was in; the worktree is reset first to where that step began.

    A run that has ended, and whose evidence could not be sealed, is sealed; one whose record was tampered with ends by
    that. RunError for any other that has ended, and for one that an orchestrator drives.
    """
    return go_on(context, run_id, observer)


def go_on(context: OpenWorktree, run_id: str, observer: Observer | None = None, *, commits: bool = False) -> Run:
    """`resume`, for other orchestrators in this process; `commits` as for `RunSetup`."""
    found = evidence_store.open_or_rebuild(context.location, run_id)
    _refuse_external(found, "resume")
    with lock.hold(context.location, run_id) as is_ours, Stop(context.location, run_id) as stop:
        has_ended = False
        with _recording_failure(context, found):
            found.pin(is_ours)
            has_ended = found.state().ended is not None
            if not has_ended:
                spec = spec_to_resume(context, found)
                lock.discard(context.location, run_id, "cancel")
                Runner(RunSetup(context, found, spec, stop, observer or SilentObserver(), commits)).resume()
        if has_ended:
            _finish(context, found)
        return cleanup.finish(context, found)


@authorize.entry("run", "cancel")
def cancel(context: OpenWorktree, run_id: str) -> Run:
    """End a run that is running or interrupted, for good; `on_failure` says what becomes of its worktree.

    A running one ends itself, after its current command was ended. RunError where the run has ended otherwise, and for
    one that a named orchestrator drives.
    """
    found = evidence_store.open_or_rebuild(context.location, run_id)
    _refuse_external(found, "cancel")
    with _cancel_and_lock(context, run_id) as is_ours, Stop(context.location, run_id) as stop:
        has_ended = False
        with _ending_tampered(context, found):
            found.pin(is_ours)
            has_ended = found.state().ended is not None
            if not has_ended:
                judge_killed_step(context, found)
                spec = RunSpec(steps=(), on_failure=found.run().on_failure)
                Runner(RunSetup(context, found, spec, stop)).end(CANCELLED, "cancelled")
        if has_ended:
            lock.discard(context.location, run_id)
            _finish(context, found, fine=(CANCELLED, TAMPERED))
            if found.state().ended not in (CANCELLED, TAMPERED):
                raise _has_ended(found)
        return cleanup.finish(context, found)


def _finish(context: OpenWorktree, found: Evidence, *, fine: Sequence[str] = (TAMPERED,)) -> None:
    """Seal the evidence of a run that has ended, where that failed; RunError where it was sealed, and the run has not
    ended in one of the states `fine`."""
    at = found.state()
    if not at.is_sealed and at.prepared is not None:
        seal_run(context, found, again=True)
    elif at.ended not in fine:
        raise _has_ended(found)


def _refuse_external(found: Evidence, what: str) -> None:
    """RunError for a run that was recorded with another key, or that another program drives and has not ended. One
    whose driver has no name can be cancelled: there may be nobody else to do it."""
    if found.is_foreign():
        raise RunError(
            f"the record of run '{found.run_id}' was not written with your key",
            "use the HOME and XDG_CONFIG_HOME with which it was started; nothing was changed\n"
            f"git agentos rollback {found.run_id} resets its worktree nevertheless",
        )
    if found.state().begun is None:
        return  # the record is damaged, which is reported elsewhere
    run = found.run()
    if run.state != OPEN or (what == "cancel" and run.tool == SERVICE):
        return
    if run.tool == SERVICE:
        raise RunError(
            f"run '{run.run_id}' is driven through the workspace service: its orchestrator resumes it",
            f"git agentos run cancel {run.run_id} ends it, git agentos rollback {run.run_id} resets its worktree",
        )
    word = "abort" if what == "cancel" else what
    hint = f"git agentos tdd {word} {run.run_id}" if run.tool == TDD else f"'{run.tool}' can {what} it"
    raise RunError(f"run '{run.run_id}' is driven by '{run.tool}', and not by git agentos run", hint)


@contextlib.contextmanager
def _cancel_and_lock(context: OpenWorktree, run_id: str) -> Iterator[Callable[[], bool]]:
    """Hold a run's lock; a process that has it is asked to cancel the run."""
    deadline = time.monotonic() + _CANCEL_TIMEOUT
    with contextlib.ExitStack() as stack:
        while True:
            try:
                is_ours = stack.enter_context(lock.hold(context.location, run_id))
                break
            except LockedError:
                if time.monotonic() > deadline:
                    raise
                lock.request_cancel(context.location, run_id)
        yield is_ours


@authorize.entry("rollback", named=("point",))
def rollback(context: OpenWorktree, run_id: str | None, point: str, *, dry_run: bool = False) -> Rollback:
    """`git agentos rollback`: of the run `run_id`, or the one whose worktree `context` is.

    LockedError while it runs, RunError for a point that it has not.
    """
    if run_id is None:
        known = record.read(context.location.git_dir)
        run_id = known.run_id if known is not None else None
        if run_id is None:
            raise RunError(
                f"'{context.location.root}' is not the worktree of a run", "name the run: git agentos run list"
            )
    _require_known(context, run_id, dry_run=dry_run)
    with lock.hold(context.location, run_id) as is_ours:
        run = preparation.last_known_context(context, run_id)
        if run is None:
            raise RunError(f"run '{run_id}' has no workspace", f"git agentos run resume {run_id} makes it")
        if dry_run:
            return rollback_worktree(context, run, point, dry_run=True)
        found = _pinned_evidence(context, run_id, is_ours)
        with contextlib.suppress(NoKey):
            judge_killed_step(context, found)
        done = rollback_and_record(context, run, found, point)
        snapshot.add_log_entry(context, run, "action", f"run {run_id} rolled back to {done.point}")
        if found.state().ended is not None:
            with contextlib.suppress(NoKey):
                seal_run(context, found, again=True)
    return done


def _require_known(context: OpenWorktree, run_id: str, *, dry_run: bool) -> None:
    """RunError where there is no such run, and never was one, or where its record came from elsewhere: the worktree is
    not this repository's, and another one may have its path. Evidence that only git has is made again."""
    if evidence_store.is_from_elsewhere(context.location, run_id):
        known = preparation.last_known_context(context, run_id)
        here = layout.path_of(context.location, context.settings, contexts.worktree_id(run_id))
        if known is None or known.worktree_path != here:
            raise evidence_store.foreign(run_id)
    try:
        (evidence_store.open_to_read if dry_run else evidence_store.open_or_rebuild)(context.location, run_id)
    except (RunError, RepositoryError):
        if preparation.last_known_context(context, run_id) is None:
            raise


def _pinned_evidence(context: OpenWorktree, run_id: str, is_ours: Callable[[], bool]) -> Evidence:
    """A run's evidence, pinned; one that was destroyed or tampered with is ended as that first."""
    try:
        found = evidence_store.open_existing(context.location, run_id)
    except (RunError, RepositoryError):
        found = evidence_store.end_destroyed(context.location, run_id)
    with _ending_tampered(context, found):
        found.pin(is_ours)
    return found


def _new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def _create_evidence(context: OpenWorktree, run_id: str) -> Evidence:
    """The folder for a new run; one that a killed `start` left before anything was on record is as good. RunError where
    the id is taken, also by a run whose evidence was removed."""
    found = None
    with contextlib.suppress(RunError):
        found = evidence_store.open_existing(context.location, run_id)
    if found is None or not os.listdir(found.folder):
        if preparation.recorded_context(context, run_id) or evidence_store.sealed_events(context, run_id) is not None:
            raise evidence_store.id_taken(run_id)
        return evidence_store.create(context.location, run_id)
    if found.record().problem is not None or found.events():
        raise evidence_store.id_taken(run_id)
    return found


@contextlib.contextmanager
def _ending_tampered(context: OpenWorktree, found: Evidence) -> Iterator[None]:
    """End a run whose record was tampered with."""
    try:
        yield
    except Tampered as error:
        end_as_tampered(context, found, error.reason)


@contextlib.contextmanager
def _recording_failure(context: OpenWorktree, found: Evidence) -> Iterator[None]:
    """Record a run as interrupted where an error stops it. Nothing is left of one without a workspace."""
    try:
        with _ending_tampered(context, found):
            yield
    except (AgentosError, OSError) as error:
        raised = storage_error(error) if isinstance(error, OSError) else error
        workspace = preparation.recorded_context(context, found.run_id)
        if workspace is None:
            lock.discard(context.location, found.run_id)
            evidence_store.remove(context.location, found.run_id)
        else:
            then = [f"git agentos run resume {found.run_id} continues the run, rollback resets its worktree"]
            if os.path.isdir(workspace.worktree_path):
                then.insert(0, f"the run has the worktree '{workspace.worktree_path}'")
            ended = found.state().ended
            if ended is None:
                with contextlib.suppress(AgentosError, OSError):
                    found.event("interrupted", signal=None, error=str(raised))
            else:
                then = [f"the run has ended: {ended}; git agentos run resume {found.run_id} seals its evidence"]
            raised.hint = "\n".join(filter(None, [without_unchanged(raised.hint), *then]))
        if raised is error:
            raise
        raise raised from error


def _has_ended(found: Evidence) -> RunError:
    id_ = found.run_id
    return RunError(f"run '{id_}' has ended: {found.state().ended}", f"git agentos run show {id_} shows details")


# Names of docs/api.md.
all_ = list_runs
roll_back = rollback
