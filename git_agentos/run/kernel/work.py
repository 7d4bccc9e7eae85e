"""A run at work: attempt after attempt, step after step, and what becomes of it. Whoever has one has the run's lock.

What comes next is never remembered, but read from the record each time (`progress`): so a run that goes on after a kill
does what it would have done without.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import replace
from typing import Any

from git_agentos import __version__, log
from git_agentos.checkpoint.context import Context
from git_agentos.errors import RunError
from git_agentos.redact import MASK, redact
from git_agentos.run import workspace
from git_agentos.run.context import WorkspaceContext
from git_agentos.run.kernel import children, doing, feedback, progress, protected, wanted
from git_agentos.run.kernel import spec as specs
from git_agentos.run.kernel.doing import Site, Stopped
from git_agentos.run.kernel.progress import Progress
from git_agentos.run.kernel.spec import FROM_PRE_RUN, ROLL_BACK, RunSpec
from git_agentos.run.kernel.stopping import Stop
from git_agentos.run.kernel.watcher import Nobody, Watcher
from git_agentos.run.record import evidence as folders
from git_agentos.run.record import runs
from git_agentos.run.record.events import CANCELLED, FAILED, OK, PASSED, PROTECTED, Step
from git_agentos.run.record.evidence import Evidence
from git_agentos.run.rollback import mend
from git_agentos.run.rollback.rollback import PRE_RUN
from git_agentos.run.workspace import GitWorktreeWorkspaceService
from git_agentos.worktree import place

_SPEC, _ENVIRONMENT = "spec.json", "environment.json"


class Work:
    """One run; its lock is ours."""

    def __init__(
        self, context: Context, evidence: Evidence, spec: RunSpec, stop: Stop, watcher: Watcher | None = None
    ) -> None:
        self._context = context
        self._evidence = evidence
        self._spec = spec
        self._stop = stop
        self._watcher = watcher or Nobody()

    def begin(self) -> None:
        """Put a new run on record."""
        spec, id_ = self._spec, self._evidence.run_id
        branches = protected.patterns(self._context, spec.protected)
        wanted.forget(self._context.location, id_)
        wanted.put(self._context.location, id_, specs.to_json(spec))
        self._evidence.event(
            "begun",
            task=spec.task,
            max_attempts=spec.max_attempts,
            on_failure=spec.on_failure,
            guard=spec.guard,
            protected=branches,
            steps=[step.kind for step in spec.steps],
            tool=f"git-agentos {__version__}",
            mark=f"{id_}-{os.urandom(8).hex()}",
        )

    def go_on(self) -> None:
        """Do what is still to be done. A run that is stopped is on record as interrupted, or as cancelled."""
        try:
            while (at := self._progress()).ended is None:
                if self._stop():
                    raise Stopped
                self._next(at)
        except Stopped:
            if self._stop.is_cancelled:
                self.end(CANCELLED, "cancelled")
            else:
                number = self._stop.signal
                name = signal.Signals(number).name if number is not None else None
                self._evidence.event("interrupted", signal=name)

    def resume(self) -> None:
        """Go on with a run that was interrupted; its worktree is first set to where the step that it was in began."""
        at = self._progress()
        self._evidence.event("resumed", step=at.under_way["n"] if at.under_way is not None else None)
        settle(self._context, self._evidence, at)
        at = self._progress()
        if self._goes_on_from(at):
            self._take_back(at.point)
        self.go_on()

    def _goes_on_from(self, at: Progress) -> bool:
        """Whether a step will begin where the worktree was left."""
        if at.prepared is None or at.attempt == 0:
            return False
        if at.outcome is None:
            return at.under_way is not None or (at.failed is None and at.index < len(self._spec.steps))
        has_more = at.outcome != OK and at.attempt < self._spec.max_attempts
        return has_more and self._spec.retry_from != FROM_PRE_RUN

    # -- what comes next -----------------------------------------------------------------------------------------------

    def _next(self, at: Progress) -> None:
        """The one thing that comes next; it ends with an event."""
        if at.prepared is None:
            self._prepare()
        elif at.outcome == OK:
            self.end(PASSED, None)
        elif at.outcome is not None and at.attempt >= self._spec.max_attempts:
            self.end(FAILED, at.reason)
        elif at.attempt == 0 or at.outcome is not None:
            self._begin_attempt(at)
        elif at.failed is not None:
            self._end_attempt(at)
        elif at.index == len(self._spec.steps):
            self._evidence.event("attempt-ended", number=at.attempt, outcome=OK, reason=None)
        else:
            doing.do(self._site(at), at, self._workspace())

    def _prepare(self) -> None:
        """The workspace. Where it cannot be made there is no run, and nothing is left of it."""
        spec, evidence = self._spec, self._evidence
        shown = [replace(step, command=redact(step.command)[0] if step.command else None) for step in spec.steps]
        evidence.write_once(_SPEC, specs.to_json(replace(spec, steps=tuple(shown))))
        if evidence.read(_ENVIRONMENT) is None:
            evidence.write_once(_ENVIRONMENT, json.dumps(folders.fingerprint(), indent=2) + "\n")
        service = self._service()
        try:
            with self._stop.at_once():
                made = service.prepare_pre_run(run_id=evidence.run_id)
        except KeyboardInterrupt:
            raise Stopped from None
        self._note("action", f"run {evidence.run_id} begun", {"base": made.base_sha})
        self._watcher.prepared(runs.told(self._context, evidence))

    def _begin_attempt(self, at: Progress) -> None:
        number = at.attempt + 1
        if at.failed is not None:
            feedback.write(self._evidence, number, self._step(at.failed["n"]))
        point = PRE_RUN if number > 1 and self._spec.retry_from == FROM_PRE_RUN else None
        if point is not None:
            self._take_back(point)
        self._evidence.event("attempt", number=number, point=point)

    def _end_attempt(self, at: Progress) -> None:
        assert at.failed is not None
        if at.failed.get("checkpoint") is None:  # its end could not be saved: it has wrecked the worktree
            self._take_back(at.point)
        reason = feedback.how(self._step(at.failed["n"]))
        self._evidence.event("attempt-ended", number=at.attempt, outcome=at.failed["outcome"], reason=reason)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, state: str, reason: str | None) -> None:
        """The run has ended: its worktree is left as is wanted, and the evidence is sealed."""
        is_prepared = self._progress().prepared is not None
        if is_prepared and state != PASSED and self._spec.on_failure == ROLL_BACK:
            self._take_back(PRE_RUN)
        if is_prepared:
            kind = "action" if state == PASSED else "error"
            self._note(kind, f"run {self._evidence.run_id} {state}", {"reason": reason} if reason else {})
        self._evidence.event("ended", state=state, reason=reason)
        if is_prepared:
            seal(self._context, self._evidence)
        else:
            wanted.forget(self._context.location, self._evidence.run_id)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _progress(self) -> Progress:
        return progress.of(self._evidence.events())

    def _step(self, n: int) -> Step:
        return runs.told(self._context, self._evidence).steps[n - 1]

    def _workspace(self) -> WorkspaceContext:
        return folders.context_of(self._evidence)

    def _service(self) -> GitWorktreeWorkspaceService:
        spec, at = self._spec, self._progress()
        assert at.begun is not None
        return GitWorktreeWorkspaceService(
            self._context,
            base_ref=spec.base_ref,
            task_id=spec.task,
            guard=spec.guard,
            protected=at.begun["protected"],
            run_id=self._evidence.run_id if at.prepared is not None else None,
            held=True,
        )

    def _site(self, at: Progress) -> Site:
        assert at.begun is not None
        return Site(
            context=self._context,
            spec=self._spec,
            evidence=self._evidence,
            service=self._service(),
            protected=at.begun["protected"],
            mark=at.begun["mark"],
            stop=self._stop,
            watcher=self._watcher,
        )

    def _take_back(self, point: str) -> None:
        doing.take_back(self._context, self._workspace(), self._evidence, point)

    def _note(self, kind: str, summary: str, details: dict[str, Any]) -> None:
        run = self._workspace()
        inner = workspace.inner(self._context, run)
        log.note(inner, kind, summary, details=details, task_id=run.task_id)


def pick_up(context: Context, evidence: Evidence) -> RunSpec:
    """What a run that was begun before is to do. RunError where that is not known any more."""
    if progress.of(evidence.events()).begun is None:
        raise RunError(
            f"the record of run '{evidence.run_id}' is damaged: it has no beginning",
            f"git agentos rollback {evidence.run_id} takes it back",
        )
    text = wanted.get(context.location, evidence.run_id)
    if text is None:
        text = (evidence.read(_SPEC) or b"").decode("utf-8", "surrogateescape")
        if not text or MASK in text:
            raise RunError(
                f"what run '{evidence.run_id}' is to do is not known here: it was begun elsewhere",
                f"git agentos rollback {evidence.run_id} takes it back",
            )
    return specs.from_json(text, _SPEC)


def settle(context: Context, evidence: Evidence, at: Progress) -> None:
    """End the processes that a killed run has left, and judge what the step that it was in did to protected branches;
    where it touched one, it has ended by that."""
    if at.begun is None or at.ended is not None:
        return
    mark = at.begun.get("mark")  # a run of another orchestrator has none
    if mark is not None:
        children.sweep(mark)
    step = at.under_way
    if step is None or step.get("command") is None or "branches" not in step:  # as an orchestrator's step
        return
    run = folders.context_of(evidence)
    with contextlib.suppress(RunError):  # its worktree is wrecked
        mend.unlock(workspace.inner(context, run).location, place.HEADS + run.branch_name)
    touched = protected.violations(context, run, step["branches"], at.begun["protected"])
    if touched:
        evidence.event("step-ended", n=step["n"], outcome=PROTECTED, detail="; ".join(touched), checkpoint=None)


def seal(context: Context, evidence: Evidence) -> None:
    """Nothing is wanted any more of a run that has ended: close its evidence."""
    wanted.forget(context.location, evidence.run_id)
    try:
        here = workspace.inner(context, folders.context_of(evidence))
    except RunError:
        here = context  # its worktree is wrecked: what is known of it is sealed
    folders.seal(here, evidence, runs.told(context, evidence))
