"""Running a run: attempt by attempt, step by step, until it ends. The caller holds the run's lock.

The state (`RunState`) says what comes next; each event is applied to it when it is recorded. The state is in memory:
the file is read when a run is resumed, and then only events with a valid MAC count.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from git_agentos import __version__, config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError
from git_agentos.git import process
from git_agentos.process import marked
from git_agentos.redact import MASK, redact
from git_agentos.run import (
    branches,
    evidence_store,
    lock,
    preparation,
    sealing,
    snapshot,
    step,
    validated,
)
from git_agentos.run import spec as specs
from git_agentos.run.context import worktree_id
from git_agentos.run.events import (
    CANCELLED,
    FAILED,
    NO_CHANGES,
    OK,
    PASSED,
    PROTECTED,
    TIMED_OUT,
    Event,
    RunState,
    Step,
    new_mark,
    with_current_ids,
)
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import Tampered
from git_agentos.run.preparation import WorkspaceSpec
from git_agentos.run.rollback import PRE_RUN, rollback_and_record
from git_agentos.run.spec import FROM_PRE_RUN, ROLL_BACK, RunSpec
from git_agentos.run.step import RunSetup, Stopped

_MAX_FEEDBACK = 16 << 10  # bytes
_SPEC, _ENVIRONMENT = "spec.json", "environment.json"


class Runner:
    """One run, whose lock is held."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        self._evidence = setup.evidence

    def begin(self) -> None:
        """Record the beginning of a new run."""
        spec, id_ = self._setup.spec, self._evidence.run_id
        text = specs.to_json(spec)
        lock.discard(self._setup.context.location, id_)
        lock.save_spec(self._setup.context.location, id_, text)
        self._evidence.event(
            "begun",
            task=spec.task,
            max_attempts=spec.max_attempts,
            on_failure=spec.on_failure,
            cleanup=config.run_cleanup(self._setup.context.settings.values) if spec.cleanup is None else spec.cleanup,
            guard=spec.guard,
            protected=branches.protected_patterns(self._setup.context, spec.protected),
            steps=[step.kind for step in spec.steps],
            tool=f"git-agentos {__version__}",
            spec=lock.sign_spec(id_, text),
            mark=new_mark(id_),
        )

    def run(self) -> None:
        """Run what is left to run. A run that is stopped is recorded as interrupted, or as cancelled."""
        try:
            while self._state.ended is None:
                if self._setup.stop():
                    raise Stopped
                self._next()
        except Stopped:
            if self._setup.stop.is_cancelled:
                self.end(CANCELLED, "cancelled")
            else:
                number = self._setup.stop.signal
                name = signal.Signals(number).name if number is not None else None
                self._evidence.event("interrupted", signal=name)

    def resume(self) -> None:
        """Continue an interrupted run; its worktree is reset first to where the interrupted step began."""
        at = self._state
        check_timeline(self._setup.context, self._evidence)
        self._evidence.event("resumed", step=at.under_way["n"] if at.under_way is not None else None)
        judge_killed_step(self._setup.context, self._evidence)
        if at.is_elsewhere or self._continues_from_worktree():
            self._rollback(at.point)
        self.run()

    def _continues_from_worktree(self) -> bool:
        """Whether the worktree must be as the run left it: a step will begin in it, or the run passes with it."""
        at = self._state
        if at.prepared is None or at.attempt == 0:
            return False
        if at.outcome == OK or (at.outcome is None and at.failed is None and at.index == len(self._setup.spec.steps)):
            return at.recorded.rolled_back_to is not None  # nothing is left to do, but its work is not in the worktree
        if at.outcome is None:
            return at.under_way is not None or at.failed is None
        has_more = at.outcome != OK and at.attempt < self._setup.spec.max_attempts
        return has_more and self._setup.spec.retry_from != FROM_PRE_RUN

    # -- what comes next -----------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Do the next thing; it ends with an event."""
        at = self._state
        if at.prepared is None:
            self._prepare()
        elif at.outcome == OK:
            self.end(PASSED, None)
        elif at.outcome is not None and at.attempt >= self._setup.spec.max_attempts:
            self.end(FAILED, at.why)
        elif at.attempt == 0 or at.outcome is not None:
            self._begin_attempt()
        elif at.failed is not None:
            self._end_attempt(at.failed)
        elif at.index == len(self._setup.spec.steps):
            self._evidence.event("attempt-ended", number=at.attempt, outcome=OK, reason=None)
        else:
            step.run_step(self._setup)

    def _prepare(self) -> None:
        """Make the workspace. Where that fails there is no run, and nothing of it is left."""
        spec, evidence = self._setup.spec, self._evidence
        shown = [replace(step, command=redact(step.command)[0] if step.command else None) for step in spec.steps]
        evidence.write_once(_SPEC, specs.to_json(replace(spec, steps=tuple(shown))))
        if evidence.read(_ENVIRONMENT) is None:
            evidence.write_once(_ENVIRONMENT, json.dumps(_fingerprint(), indent=2) + "\n")
        protected = tuple(self._setup.begun["protected"])
        workspace = WorkspaceSpec(evidence.run_id, spec.base_ref, spec.task, None, spec.guard, protected)
        try:
            with self._setup.stop.interruptible():
                made = preparation.prepare(self._setup.context, workspace, evidence)
        except KeyboardInterrupt:
            raise Stopped from None
        self._log("action", f"run {evidence.run_id} begun", {"base": made.base_sha})
        self._setup.observer.prepared(evidence.run(alive=True))

    def _begin_attempt(self) -> None:
        at = self._state
        number = at.attempt + 1
        if at.failed is not None:
            _write_feedback(self._evidence, number, at.step(at.failed["n"]))
        point = PRE_RUN if number > 1 and self._setup.spec.retry_from == FROM_PRE_RUN else None
        if point is not None:
            self._rollback(point)
        self._evidence.event("attempt", number=number, point=point)

    def _end_attempt(self, failed: Event) -> None:
        at = self._state
        if failed.get("checkpoint") is None:  # its end could not be saved: it has damaged the worktree
            self._rollback(at.point)
        reason = _describe_failure(at.step(failed["n"]))
        self._evidence.event("attempt-ended", number=at.attempt, outcome=failed["outcome"], reason=reason)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, state: str, reason: str | None) -> None:
        """End the run: leave its worktree as the spec says, and seal the evidence."""
        is_prepared = self._state.prepared is not None
        self._evidence.check_files()
        if is_prepared and state != PASSED and self._setup.spec.on_failure == ROLL_BACK:
            self._rollback(PRE_RUN)
        left = None
        if is_prepared and self._setup.commits and (state == PASSED or self._is_left(state)):
            self._commit(state)
        if is_prepared and (state == PASSED or self._state.recorded.rolled_back_to is None):
            left = snapshot.describe_end(self._setup.context, self._setup.workspace(), self._state)
        if is_prepared:
            kind = "action" if state == PASSED else "error"
            self._log(kind, f"run {self._evidence.run_id} {state}", {"reason": reason} if reason else {})
        self._evidence.event("ended", state=state, reason=reason, left=left)
        if is_prepared:
            seal_run(self._setup.context, self._evidence)
        else:
            lock.discard(self._setup.context.location, self._evidence.run_id)

    def _is_left(self, state: str) -> bool:
        """Whether what a run did that ends in this state is in its worktree."""
        return state == FAILED and self._setup.spec.on_failure != ROLL_BACK

    def _commit(self, state: str) -> None:
        """Commit on the run's branch what was validated, else what the run has left. Where that cannot be done, it is
        only in the last checkpoint, and the log says why."""
        run, context = replace(self._evidence.run(alive=True), state=state), self._setup.context
        try:
            checkpoints, message = validated.validations(run), validated.acceptance_message(run)
        except RunError:
            try:
                checkpoints, message = validated.left(run), validated.left_message(run)
            except RunError:
                return  # there is nothing
        workspace = self._setup.workspace()
        try:
            work = validated.ValidatedWork(workspace, snapshot.run_context(context, workspace), *checkpoints)
            validated.move_branch(work.worktree, workspace, validated.as_commit(work, message))
        except (AgentosError, OSError) as error:
            if state == PASSED and not isinstance(error, RunError):
                raise
            self._log("error", "what the run has left is not committed", {"reason": str(error)})

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _state(self) -> RunState:
        return self._evidence.state()

    def _rollback(self, point: str) -> None:
        rollback_and_record(self._setup.context, self._setup.workspace(), self._evidence, point)

    def _log(self, kind: str, summary: str, details: dict[str, Any]) -> None:
        snapshot.add_log_entry(self._setup.context, self._setup.workspace(), kind, summary, details)


def spec_to_resume(context: OpenWorktree, evidence: Evidence) -> RunSpec:
    """The spec of a run that was begun before. RunError where it is not known any more, or the record cannot be
    verified; Tampered where it is not the one that the record names."""
    id_ = evidence.run_id
    hint = f"git agentos rollback {id_} resets its worktree"
    begun = step.begun_of(evidence)
    problem = evidence.why_unverified()
    if problem is not None:
        raise RunError(f"run '{id_}' cannot be resumed: {problem}", hint)
    text = lock.load_spec(context.location, id_)
    if text is None:
        text = (evidence.read(_SPEC) or b"").decode("utf-8", "surrogateescape")
        if not text or MASK in text:
            raise RunError(f"the spec of run '{id_}' is not on this machine: it was begun elsewhere", hint)
    if not lock.is_signed_spec(id_, text, begun.get("spec")):
        raise Tampered(id_, "its spec was changed")
    return specs.from_json(text, _SPEC)


def check_timeline(context: OpenWorktree, evidence: Evidence) -> None:
    """Tampered where the timeline of a run does not contain the last checkpoint that its events name."""
    named = ("prepared", "marked", "step-begun", "step-ended")
    found = with_current_ids(evidence.events())
    events = [each for each in found if each["event"] in named and each.get("checkpoint") is not None]
    if not events:
        return
    name = worktree_id(evidence.run_id)
    with contextlib.suppress(AgentosError):
        if any(link.checkpoint == events[-1]["checkpoint"] for link in timeline.walk(context.repository, name)):
            return
    raise Tampered(evidence.run_id, f"'{timeline.PREFIX}{name}' was moved or removed")


def judge_killed_step(context: OpenWorktree, evidence: Evidence) -> None:
    """End the processes that a killed run left, and judge what the step that it was in did to protected branches; where
    it touched one, the step has ended by that."""
    at = evidence.state()
    if at.begun is None or at.ended is not None:
        return
    mark = at.begun.get("mark")  # a run of another orchestrator has none
    if at.prepared is None:
        if mark is not None:
            marked.sweep(mark)
        return
    workspace = evidence_store.workspace_of(context, evidence)
    step.end_leftovers(context, workspace, mark)
    begun = at.under_way
    if begun is None or begun.get("command") is None or "branches" not in begun:  # as an orchestrator's step
        return
    violations = branches.check_branches(context, workspace, begun["branches"], at.begun["protected"])
    if violations:
        evidence.event("step-ended", n=begun["n"], outcome=PROTECTED, detail="; ".join(violations), checkpoint=None)


def seal_run(context: OpenWorktree, evidence: Evidence, *, again: bool = False) -> None:
    """Discard the private files of a run that has ended, and seal its evidence. `again`: that failed before."""
    lock.discard(context.location, evidence.run_id)
    try:
        here = snapshot.run_context(context, evidence_store.workspace_of(context, evidence))
    except RunError:
        here = context  # its worktree is damaged: its last known state is sealed
    sealing.seal(here, evidence, evidence.run(), again=again)


def end_as_tampered(context: OpenWorktree, evidence: Evidence, reason: str) -> None:
    """End a run whose record was tampered with; its worktree is kept as it is."""
    evidence.end_as_tampered(reason)
    with contextlib.suppress(AgentosError, OSError):
        lock.discard(context.location, evidence.run_id)
    if evidence.state().prepared is None:
        return
    run = evidence_store.workspace_of(context, evidence)
    with contextlib.suppress(AgentosError, OSError):
        snapshot.add_log_entry(context, run, "error", f"run {run.run_id} was tampered with", {"reason": reason})
    with contextlib.suppress(AgentosError, OSError):
        seal_run(context, evidence, again=True)


def _fingerprint() -> Mapping[str, Any]:
    """What a run depends on beside its commit: the system, the versions of git, Python and this tool, and the names of
    the variables that are set."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "encoding": sys.getfilesystemencoding(),
        "git": process.run(["--version"]).decode("utf-8", "replace").strip().removeprefix("git version "),
        "tool": f"git-agentos {__version__}",
        "variables": sorted(os.environ),
    }


# -- feedback for the next attempt ------------------------------------------------------------------------------------


def _write_feedback(evidence: Evidence, attempt: int, failed: Step) -> None:
    """Write the feedback for attempt number `attempt`; `failed` is the step with which the one before it ended."""
    out, err = (evidence.read(name) or b"" if name is not None else b"" for name in (failed.stdout, failed.stderr))
    text = "\n".join([_describe_failure(failed), ""]).encode("utf-8", "replace") + _last_part(out, err)
    evidence.put(step.feedback_file(attempt), text, vouched=False)  # the agent may read it, and write to it


def _describe_failure(failed: Step) -> str:
    """One line on how a step failed."""
    what = f"step {failed.n} ({failed.kind})"
    command = f": {' '.join(failed.command.split())}" if failed.command else ""
    detail = f" ({failed.detail})" if failed.detail else ""
    if failed.outcome == PROTECTED:
        return f"{what} touched a protected branch{detail}{command}"
    if failed.outcome == TIMED_OUT:
        return f"{what} ran out of time{detail}{command}"
    if failed.outcome == NO_CHANGES:
        nothing = f"no file that git would commit{detail}" if detail else "nothing"
        return f"{what} exited with 0, but changed {nothing}{command}"
    return f"{what} failed with exit code {failed.exit_code}{detail}{command}"


def _last_part(out: bytes, err: bytes) -> bytes:
    """The last 16 KiB of both, stdout first; each has half of it, and what the other leaves."""
    half = _MAX_FEEDBACK // 2
    of_err = min(len(err), max(half, _MAX_FEEDBACK - len(out)))
    of_out = min(len(out), _MAX_FEEDBACK - of_err)
    parts = [data[len(data) - size :] for data, size in ((out, of_out), (err, of_err)) if size]
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
