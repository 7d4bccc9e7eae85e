"""Doing a run, step by step: a checkpoint before and after each, exit codes and the diff judge, and the record comes
first. Whatever ends the kernel, the run can be resumed, or rolled back.

`work` has what a run does, `doing` one step of it; `runs` looks.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from git_agentos import log, processes
from git_agentos.checkpoint import take
from git_agentos.checkpoint.context import Context
from git_agentos.errors import AgentosError, LockedError, RunError
from git_agentos.guard import authorize
from git_agentos.run import context as contexts
from git_agentos.run import lock, preparation, workspace
from git_agentos.run.kernel import doing, progress, wanted
from git_agentos.run.kernel.progress import Progress
from git_agentos.run.kernel.spec import RunSpec
from git_agentos.run.kernel.stopping import Stop
from git_agentos.run.kernel.watcher import Watcher
from git_agentos.run.kernel.work import Work, pick_up, seal, settle
from git_agentos.run.record import evidence
from git_agentos.run.record.events import CANCELLED, OPEN, SERVICE, TDD, Run, fold
from git_agentos.run.record.evidence import Evidence
from git_agentos.run.record.runs import all_, diff, logs, show, told
from git_agentos.run.rollback.rollback import Rollback
from git_agentos.worktree import record

__all__ = ["Watcher", "all_", "cancel", "diff", "logs", "resume", "roll_back", "show", "start"]

_UNTIL_CANCELLED = 120.0  # seconds: what a run has under way (a rollback) may take a while


@authorize.entry("run", "start")
def start(context: Context, spec: RunSpec, watcher: Watcher | None = None) -> Run:
    """Do a run from its beginning; how it ended. LockedError where the id is at work, RunError where it is taken.

    SIGINT, SIGTERM and SIGHUP interrupt it: the run returned is `interrupted`, and no process of it is left.
    """
    run_id = contexts.check_id(spec.run_id if spec.run_id is not None else _new_id())
    with lock.hold(context.location, run_id), Stop(context.location, run_id) as stop:
        made = _make(context, run_id)
        with _failing(context, made):
            work = Work(context, made, spec, stop, watcher)
            work.begin()
            work.go_on()
    return told(context, made)


@authorize.entry("run", "resume")
def resume(context: Context, run_id: str, watcher: Watcher | None = None) -> Run:
    """Go on with an interrupted run at the step it was in, the worktree set to where that step began.

    One that has ended, and whose evidence could not be sealed, is sealed. RunError for any other that has ended, and
    for one that an orchestrator drives.
    """
    found = evidence.find(context.location, run_id)
    _refuse_driven(found, "resume")
    with lock.hold(context.location, run_id), Stop(context.location, run_id) as stop:
        at = progress.of(found.events())
        if at.ended is not None:
            if at.sealed or at.prepared is None:
                raise _has_ended(run_id, at.ended)
            seal(context, found)
        else:
            spec = pick_up(context, found)
            wanted.do_go_on(context.location, run_id)
            with _failing(context, found):
                Work(context, found, spec, stop, watcher).resume()
    return told(context, found)


@authorize.entry("run", "cancel")
def cancel(context: Context, run_id: str) -> Run:
    """End a run that is at work or interrupted, for good; its worktree is left as `on_failure` says.

    One that is at work ends itself: what it has under way is ended first. RunError where the run has ended otherwise,
    and for one that an orchestrator drives and says so.
    """
    found = evidence.find(context.location, run_id)
    _refuse_driven(found, "cancel")
    with _until_free(context, run_id), Stop(context.location, run_id) as stop:
        at = progress.of(found.events())
        if at.ended is None:
            settle(context, found, at)
            spec = RunSpec(steps=(), on_failure=told(context, found).on_failure)
            Work(context, found, spec, stop).end(CANCELLED, "cancelled")
        else:
            wanted.forget(context.location, run_id)
            if at.ended != CANCELLED:
                raise _has_ended(run_id, at.ended)
    return told(context, found)


def _refuse_driven(found: Evidence, what: str) -> None:
    """RunError for a run that has not ended, and that is somebody else's to go on with or to end. One whose driver has
    no name can be cancelled: nobody else may be there to do it."""
    events = found.events()
    if progress.of(events).begun is None:
        return  # damaged, and told as that
    run = fold(found.run_id, found.folder, events, alive=False)
    if run.state != OPEN or (what == "cancel" and run.tool == SERVICE):
        return
    if run.tool == SERVICE:
        raise RunError(
            f"run '{run.run_id}' is driven through the workspace service: its orchestrator goes on with it",
            f"git agentos run cancel {run.run_id} ends it, git agentos rollback {run.run_id} takes it back",
        )
    word = "abort" if what == "cancel" else what
    hint = f"git agentos tdd {word} {run.run_id}" if run.tool == TDD else f"'{run.tool}' can {what} it"
    raise RunError(f"run '{run.run_id}' is driven by '{run.tool}', and not by git agentos run", hint)


@contextlib.contextmanager
def _until_free(context: Context, run_id: str) -> Iterator[None]:
    """Have a run's lock, where need be after whoever has it was asked to end the run."""
    deadline = time.monotonic() + _UNTIL_CANCELLED
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock.hold(context.location, run_id))
                break
            except LockedError:
                if time.monotonic() > deadline:
                    raise
                wanted.ask_to_end(context.location, run_id)
        yield


@authorize.entry("rollback", named=("point",))
def roll_back(context: Context, run_id: str | None, point: str, *, dry_run: bool = False) -> Rollback:
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
    found = _evidence(context, run_id, make=not dry_run)
    with lock.hold(context.location, run_id):
        run = preparation.recorded(context, run_id)
        if run is None:
            raise RunError(f"run '{run_id}' has no workspace", f"git agentos run resume {run_id} makes it")
        at = _progress(found)
        if not dry_run:
            settle(context, found, at)
        done = doing.take_back(context, run, found, point, dry_run=dry_run)
        if not dry_run:
            inner = workspace.inner(context, run)
            log.note(inner, "action", f"run {run_id} rolled back to {done.point}", task_id=run.task_id)
            if at.ended is not None:
                seal(context, found)
    return done


def _evidence(context: Context, run_id: str, *, make: bool) -> Evidence:
    """A run's evidence; where that was destroyed and the run is known all the same, a new folder for it."""
    try:
        return evidence.find(context.location, run_id)
    except RunError:
        if preparation.recorded(context, run_id) is None:
            raise
        if make:
            return evidence.make(context.location, run_id)
        return Evidence(os.path.join(evidence.folder_of(context.location), run_id), run_id)


def _progress(found: Evidence) -> Progress:
    """How far a run has come; where its record is damaged, nothing of it is believed."""
    try:
        return progress.of(found.events())
    except (RunError, KeyError, TypeError):
        return Progress()


def _new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def _make(context: Context, run_id: str) -> Evidence:
    """The folder for a new run; one that a killed `start` left before anything was on record is as good. RunError where
    the id is taken, also by a run whose evidence was removed."""
    try:
        found = evidence.find(context.location, run_id)
    except RunError:
        known = preparation.recorded(context, run_id) or evidence.carried_events(context, run_id)
        if known is not None:
            raise evidence.taken(run_id) from None
        return evidence.make(context.location, run_id)
    if found.events():
        raise evidence.taken(run_id)
    return found


@contextlib.contextmanager
def _failing(context: Context, found: Evidence) -> Iterator[None]:
    """A run that the kernel cannot go on with is interrupted. Nothing is left of one without a workspace."""
    try:
        yield
    except (AgentosError, OSError) as error:
        told_as = take.storage_error(error) if isinstance(error, OSError) else error
        if preparation.recorded(context, found.run_id) is None:
            wanted.forget(context.location, found.run_id)
            processes.remove_folder(found.folder)
        else:
            with contextlib.suppress(AgentosError, OSError):
                found.event("interrupted", signal=None, error=str(told_as))
            then = f"git agentos run resume {found.run_id} goes on with the run, rollback takes it back"
            if _progress(found).begun is None:  # its record was destroyed
                then = f"git agentos rollback {found.run_id} takes the run back"
            told_as.hint = "\n".join(each for each in (told_as.hint, then) if each)
        if told_as is error:
            raise
        raise told_as from error


def _has_ended(run_id: str, state: str) -> RunError:
    return RunError(f"run '{run_id}' has ended: {state}", f"git agentos run show {run_id} tells more")
