"""A run at work: attempt after attempt, step after step, and what becomes of it. Whoever has one has the run's lock.

What comes next is what the events lead to (`RunState`), each applied as it is put on record. The record is in memory:
the file is read when a run is resumed, and then only believed where our code is on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import replace
from typing import Any

from git_agentos import __version__, config, log
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.process import contained
from git_agentos.redact import MASK, redact
from git_agentos.run import (
    branches,
    changes,
    control,
    feedback,
    fingerprint,
    located,
    preparation,
    rebuild,
    sealing,
    snapshot,
    step,
)
from git_agentos.run import spec as specs
from git_agentos.run.context import WorkspaceContext, worktree_id
from git_agentos.run.events import CANCELLED, FAILED, OK, PASSED, PROTECTED, Event, RunState
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import Tampered
from git_agentos.run.observer import Observer, SilentObserver
from git_agentos.run.preparation import WorkspaceSpec
from git_agentos.run.rollback import PRE_RUN, rollback_and_record
from git_agentos.run.spec import FROM_PRE_RUN, ROLL_BACK, RunSpec
from git_agentos.run.step import StepContext, Stopped
from git_agentos.run.stop import Stop

_SPEC, _ENVIRONMENT = "spec.json", "environment.json"


class Runner:
    """One run; its lock is ours."""

    def __init__(
        self, context: OpenWorktree, evidence: Evidence, spec: RunSpec, stop: Stop, watcher: Observer | None = None
    ) -> None:
        self._context = context
        self._evidence = evidence
        self._spec = spec
        self._stop = stop
        self._watcher = watcher or SilentObserver()

    def begin(self) -> None:
        """Put a new run on record."""
        spec, id_ = self._spec, self._evidence.run_id
        text = specs.to_json(spec)
        control.discard(self._context.location, id_)
        control.save_spec(self._context.location, id_, text)
        self._evidence.event(
            "begun",
            task=spec.task,
            max_attempts=spec.max_attempts,
            on_failure=spec.on_failure,
            cleanup=config.run_cleanup(self._context.settings.values) if spec.cleanup is None else spec.cleanup,
            guard=spec.guard,
            protected=branches.protected_patterns(self._context, spec.protected),
            steps=[step.kind for step in spec.steps],
            tool=f"git-agentos {__version__}",
            spec=control.sign_spec(id_, text),
            mark=f"{id_}-{os.urandom(8).hex()}",
        )

    def go_on(self) -> None:
        """Do what is still to be done. A run that is stopped is on record as interrupted, or as cancelled."""
        try:
            while self._state.ended is None:
                if self._stop():
                    raise Stopped
                self._next()
        except Stopped:
            if self._stop.is_cancelled:
                self.end(CANCELLED, "cancelled")
            else:
                number = self._stop.signal
                name = signal.Signals(number).name if number is not None else None
                self._evidence.event("interrupted", signal=name)

    def resume(self) -> None:
        """Go on with a run that was interrupted; its worktree is first set to where the step that it was in began."""
        at = self._state
        check_timeline(self._context, self._evidence)
        self._evidence.event("resumed", step=at.under_way["n"] if at.under_way is not None else None)
        judge_killed_step(self._context, self._evidence)
        if self._goes_on_there():
            self._take_back(at.point)
        self.go_on()

    def _goes_on_there(self) -> bool:
        """Whether a step will begin where the worktree was left."""
        at = self._state
        if at.prepared is None or at.attempt == 0:
            return False
        if at.outcome is None:
            return at.under_way is not None or (at.failed is None and at.index < len(self._spec.steps))
        has_more = at.outcome != OK and at.attempt < self._spec.max_attempts
        return has_more and self._spec.retry_from != FROM_PRE_RUN

    # -- what comes next -----------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """The one thing that comes next; it ends with an event."""
        at = self._state
        if at.prepared is None:
            self._prepare()
        elif at.outcome == OK:
            self.end(PASSED, None)
        elif at.outcome is not None and at.attempt >= self._spec.max_attempts:
            self.end(FAILED, at.why)
        elif at.attempt == 0 or at.outcome is not None:
            self._begin_attempt()
        elif at.failed is not None:
            self._end_attempt(at.failed)
        elif at.index == len(self._spec.steps):
            self._evidence.event("attempt-ended", number=at.attempt, outcome=OK, reason=None)
        else:
            step.run_step(self._site(), self._workspace())

    def _prepare(self) -> None:
        """The workspace. Where it cannot be made there is no run, and nothing is left of it."""
        spec, evidence = self._spec, self._evidence
        shown = [replace(step, command=redact(step.command)[0] if step.command else None) for step in spec.steps]
        evidence.write_once(_SPEC, specs.to_json(replace(spec, steps=tuple(shown))))
        if evidence.read(_ENVIRONMENT) is None:
            evidence.write_once(_ENVIRONMENT, json.dumps(fingerprint.fingerprint(), indent=2) + "\n")
        assert self._state.begun is not None
        closed = tuple(self._state.begun["protected"])
        plan = WorkspaceSpec(evidence.run_id, spec.base_ref, spec.task, None, spec.guard, closed)
        try:
            with self._stop.at_once():
                made = preparation.prepare(self._context, plan, evidence)
        except KeyboardInterrupt:
            raise Stopped from None
        self._note("action", f"run {evidence.run_id} begun", {"base": made.base_sha})
        self._watcher.prepared(evidence.run(alive=True))

    def _begin_attempt(self) -> None:
        at = self._state
        number = at.attempt + 1
        if at.failed is not None:
            feedback.write(self._evidence, number, at.step(at.failed["n"]))
        point = PRE_RUN if number > 1 and self._spec.retry_from == FROM_PRE_RUN else None
        if point is not None:
            self._take_back(point)
        self._evidence.event("attempt", number=number, point=point)

    def _end_attempt(self, failed: Event) -> None:
        at = self._state
        if failed.get("checkpoint") is None:  # its end could not be saved: it has wrecked the worktree
            self._take_back(at.point)
        reason = feedback.how(at.step(failed["n"]))
        self._evidence.event("attempt-ended", number=at.attempt, outcome=failed["outcome"], reason=reason)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, state: str, reason: str | None) -> None:
        """The run has ended: its worktree is left as is wanted, and the evidence is sealed."""
        is_prepared = self._state.prepared is not None
        self._evidence.check_files()
        if is_prepared and state != PASSED and self._spec.on_failure == ROLL_BACK:
            self._take_back(PRE_RUN)
        left = None
        if is_prepared and self._evidence.run().rolled_back_to is None:
            left = changes.describe_end(self._context, self._workspace(), self._state)
        if is_prepared:
            kind = "action" if state == PASSED else "error"
            self._note(kind, f"run {self._evidence.run_id} {state}", {"reason": reason} if reason else {})
        self._evidence.event("ended", state=state, reason=reason, left=left)
        if is_prepared:
            seal_run(self._context, self._evidence)
        else:
            control.discard(self._context.location, self._evidence.run_id)

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _state(self) -> RunState:
        return self._evidence.state()

    def _workspace(self) -> WorkspaceContext:
        return located.workspace_of(self._context, self._evidence)

    def _site(self) -> StepContext:
        begun = self._state.begun
        assert begun is not None
        return StepContext(
            context=self._context,
            spec=self._spec,
            evidence=self._evidence,
            protected=begun["protected"],
            mark=begun["mark"],
            stop=self._stop,
            watcher=self._watcher,
        )

    def _take_back(self, point: str) -> None:
        rollback_and_record(self._context, self._workspace(), self._evidence, point)

    def _note(self, kind: str, summary: str, details: dict[str, Any]) -> None:
        run = self._workspace()
        inner = snapshot.run_context(self._context, run)
        log.try_add(inner, kind, summary, details=details, task_id=run.task_id)


def spec_to_resume(context: OpenWorktree, evidence: Evidence) -> RunSpec:
    """What a run that was begun before is to do. RunError where that is not known any more, or cannot be vouched for;
    Tampered where it is not what the record says."""
    id_ = evidence.run_id
    back = f"git agentos rollback {id_} takes it back"
    begun = evidence.state().begun
    if begun is None:
        raise RunError(f"the record of run '{id_}' is damaged: it has no beginning", back)
    why = evidence.vouched()
    if why is not None:
        raise RunError(f"run '{id_}' cannot be gone on with: {why}", back)
    text = control.load_spec(context.location, id_)
    if text is None:
        text = (evidence.read(_SPEC) or b"").decode("utf-8", "surrogateescape")
        if not text or MASK in text:
            raise RunError(f"what run '{id_}' is to do is not known here: it was begun elsewhere", back)
    if not control.is_signed_spec(id_, text, begun.get("spec")):
        raise Tampered(id_, "what it is to do was changed")
    return specs.from_json(text, _SPEC)


def check_timeline(context: OpenWorktree, evidence: Evidence) -> None:
    """Tampered where the timeline of a run does not have the last checkpoint that its events name."""
    named = ("prepared", "marked", "step-begun", "step-ended")
    events = [each for each in evidence.events() if each["event"] in named and each.get("checkpoint") is not None]
    if not events:
        return
    name = worktree_id(evidence.run_id)
    with contextlib.suppress(AgentosError):
        if any(link.checkpoint == events[-1]["checkpoint"] for link in timeline.walk(context.repository, name)):
            return
    raise Tampered(evidence.run_id, f"'{timeline.PREFIX}{name}' was moved or removed")


def judge_killed_step(context: OpenWorktree, evidence: Evidence) -> None:
    """End the processes that a killed run has left, and judge what the step that it was in did to protected branches;
    where it touched one, it has ended by that."""
    at = evidence.state()
    if at.begun is None or at.ended is not None:
        return
    mark = at.begun.get("mark")  # a run of another orchestrator has none
    if mark is not None:
        contained.sweep(mark)
    if at.prepared is None:
        return
    run = located.workspace_of(context, evidence)
    with contextlib.suppress(RunError):  # its worktree is wrecked
        rebuild.unlock(snapshot.run_context(context, run).location, run, killed=True)
    step = at.under_way
    if step is None or step.get("command") is None or "branches" not in step:  # as an orchestrator's step
        return
    touched = branches.check_branches(context, run, step["branches"], at.begun["protected"])
    if touched:
        evidence.event("step-ended", n=step["n"], outcome=PROTECTED, detail="; ".join(touched), checkpoint=None)


def seal_run(context: OpenWorktree, evidence: Evidence, *, again: bool = False) -> None:
    """Nothing is wanted any more of a run that has ended: close its evidence. `again`: that failed before."""
    control.discard(context.location, evidence.run_id)
    try:
        here = snapshot.run_context(context, located.workspace_of(context, evidence))
    except RunError:
        here = context  # its worktree is wrecked: what is known of it is sealed
    sealing.seal(here, evidence, evidence.run(), again=again)


def end_as_tampered(context: OpenWorktree, evidence: Evidence, reason: str) -> None:
    """The run has ended by that: its worktree is kept as it is."""
    evidence.end_as_tampered(reason)
    with contextlib.suppress(AgentosError, OSError):
        control.discard(context.location, evidence.run_id)
    if evidence.state().prepared is None:
        return
    run = located.workspace_of(context, evidence)
    with contextlib.suppress(AgentosError, OSError):
        here = snapshot.run_context(context, run)
        details = {"reason": reason}
        log.try_add(here, "error", f"run {run.run_id} was tampered with", details=details, task_id=run.task_id)
    with contextlib.suppress(AgentosError, OSError):
        seal_run(context, evidence, again=True)
