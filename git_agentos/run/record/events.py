"""The record of a run: one line of JSON for everything that happens to it, and the run as those lines tell it.

`events.jsonl` is only ever appended to, each line flushed to disk before what it announces is done: so the state of a
run is what its events say, whoever was killed when. A torn last line is no event.

Every event has `event` and `at`. Those that there are, with their fields:

    begun          task, max_attempts, on_failure, guard, protected, steps, tool (who drives the run)
    prepared       context, checkpoint (the state of `pre_run`), tree (of its visible files)
    attempt        number, point (`pre_run` where it began there anew)
    step-begun     n, kind, attempt, command, checkpoint (the point `step:<n>`), stdout, stderr
    step-ended     n, outcome, exit_code, seconds, checkpoint, changed, detail, stdout, stderr
    marked         n, checkpoint: a point that an orchestrator without steps has set
    attempt-ended  number, outcome, reason
    interrupted    signal, or error: what kept the kernel from going on
    resumed        step
    rolled-back    point, checkpoint, saved
    ended          state, reason
    accepted       into, merge_commit
    sealed         checkpoint, manifest_sha256

An event that is not known is passed over. A step that is done again after an interruption is begun again with its `n`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from git_agentos.errors import RunError
from git_agentos.run.context import WorkspaceContext

EVENTS = "events.jsonl"
# Who drives a run: the kernel says so with its version, `git agentos tdd` and other orchestrators by their names, those
# who give none are the service's.
_KERNEL = "git-agentos "
TDD = "tdd"
SERVICE = "workspace service"
# The states of a run.
RUNNING, INTERRUPTED, OPEN = "running", "interrupted", "open"
PASSED, FAILED, CANCELLED, ACCEPTED = "passed", "failed", "cancelled", "accepted"
# How a step and an attempt ended.
OK, FAILED_STEP, TIMED_OUT, NO_CHANGES, PROTECTED = "ok", "failed", "timed-out", "no-changes", "protected-branch"


@dataclass(frozen=True)
class Step:
    """One step that was begun; the fields are the keys of `steps` in the JSON kind `run`.

    `n` counts from 1 over the whole run, in the order in which steps were begun; `kind` is `agent`, `validate`,
    `rollback` or `checkpoint`; `outcome` one of the above, None while it runs; `checkpoint_before` is the point
    `step:<n>`. `exit_code` is 128 + N for signal N, None where there is no process. Paths are relative to `evidence`.
    """

    n: int
    kind: str
    attempt: int
    command: str | None
    outcome: str | None
    exit_code: int | None
    started_at: str
    ended_at: str | None
    seconds: float | None
    checkpoint_before: str | None
    checkpoint_after: str | None
    changed: int | None
    stdout: str | None
    stderr: str | None
    detail: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One go of the agent and its validation: `outcome` as a step's, None while under way; `reason` is for people."""

    number: int
    outcome: str | None
    reason: str | None
    steps: list[int]


@dataclass(frozen=True)
class Run:
    """A run; the fields are the keys of the JSON kind `run`.

    `state` is one of those above; `reason` says why it is so, for people. `tool` is who drives it. `evidence` is the
    folder. `rolled_back_to` is the point that the worktree was last taken back to with nothing done since, None where
    it was not. `final_checkpoint` carries the evidence, `merge_commit` is what accepting it made.
    """

    run_id: str
    state: str
    reason: str | None
    context: WorkspaceContext | None
    task_id: str | None
    steps: list[Step]
    attempts: list[Attempt]
    evidence: str
    max_attempts: int
    on_failure: str
    guarded: bool
    protected: list[str]
    started_at: str
    ended_at: str | None
    rolled_back_to: str | None = None
    final_checkpoint: str | None = None
    merge_commit: str | None = None
    accepted_into: str | None = None
    process: int | None = None
    problems: list[str] = field(default_factory=list)
    tool: str | None = None

    @property
    def is_driven(self) -> bool:
        """Whether somebody else than our kernel does it, through the workspace service."""
        return self.tool is not None and not self.tool.startswith(_KERNEL)


def parse(data: bytes, run_id: str) -> list[dict[str, Any]]:
    """The events in the bytes of `events.jsonl`."""
    found = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            body = json.loads(line)
            if not isinstance(body["event"], str) or not isinstance(body["at"], str):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"the record of run '{run_id}' is damaged: line {number} of '{EVENTS}' is none",
                f"git agentos run verify {run_id} tells more",
            ) from error
        found.append(body)
    return found


def fold(run_id: str, evidence: str, events: Iterable[Mapping[str, Any]], *, alive: bool) -> Run:
    """The run that its events tell. `alive` says whether a process has it: one that none has and that did not end was
    interrupted, or is open where an orchestrator drives it, from one call to the next. RunError where they are no
    run's."""
    told = _Told(run_id)
    try:
        for event in events:
            told.take(event)
        return told.run(evidence, alive=alive)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"the record of run '{run_id}' is damaged", f"git agentos run verify {run_id}") from error


def points(events: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """The checkpoint of every point `step:<n>` of a run, by n; of a step that was begun twice, the later one."""
    return {
        each["n"]: each["checkpoint"]
        for each in events
        if each["event"] in ("step-begun", "marked") and each.get("checkpoint") is not None
    }


def pre_run(events: Iterable[Mapping[str, Any]]) -> str | None:
    """The checkpoint of the state right after set-up; None where the run has no workspace yet."""
    return next((each["checkpoint"] for each in events if each["event"] == "prepared"), None)


class _Told:
    """A run in the telling."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.begun: Mapping[str, Any] | None = None
        self.context: WorkspaceContext | None = None
        self.steps: dict[int, Step] = {}
        self.attempts: dict[int, Attempt] = {}
        self.state = RUNNING
        self.reason: str | None = None
        self.started_at: str | None = None
        self.ended_at: str | None = None
        self.rolled_back_to: str | None = None
        self.final_checkpoint: str | None = None
        self.merge_commit: str | None = None
        self.accepted_into: str | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """What one event changes."""
        at = event["at"]
        self.started_at = self.started_at or at
        match event["event"]:
            case "begun":
                self.begun = event
            case "prepared":
                self.context = WorkspaceContext.from_fields(event["context"], "an event")
            case "attempt":
                number, self.rolled_back_to = event["number"], None
                known = self.attempts.get(number)
                self.attempts[number] = Attempt(number, None, None, known.steps if known is not None else [])
            case "step-begun":
                self._step_begun(event, at)
            case "step-ended":
                self._step_ended(event, at)
            case "attempt-ended":
                number = event["number"]
                ended = self.attempts.get(number) or Attempt(number, None, None, [])
                self.attempts[number] = replace(ended, outcome=event["outcome"], reason=event.get("reason"))
            case "interrupted":
                self.state = INTERRUPTED
                if event.get("error"):
                    self.reason = f"interrupted: {event['error']}"
                else:
                    self.reason = f"interrupted by {event['signal']}" if event.get("signal") else "interrupted"
            case "resumed":
                self.state, self.reason, self.ended_at = RUNNING, None, None
            case "rolled-back":
                self.rolled_back_to = event["point"]
            case "ended":
                self.state, self.reason, self.ended_at = event["state"], event.get("reason"), at
            case "accepted":
                self.state, self.rolled_back_to = ACCEPTED, None
                self.accepted_into, self.merge_commit = event["into"], event["merge_commit"]
            case "sealed":
                self.final_checkpoint = event["checkpoint"]

    def _step_begun(self, event: Mapping[str, Any], at: str) -> None:
        n, number = event["n"], event["attempt"]
        self.steps[n] = Step(
            n=n,
            kind=event["kind"],
            attempt=number,
            command=event.get("command"),
            outcome=None,
            exit_code=None,
            started_at=at,
            ended_at=None,
            seconds=None,
            checkpoint_before=event.get("checkpoint"),
            checkpoint_after=None,
            changed=None,
            stdout=event.get("stdout"),
            stderr=event.get("stderr"),
        )
        attempt = self.attempts.setdefault(number, Attempt(number, None, None, []))
        if n not in attempt.steps:
            self.attempts[number] = replace(attempt, steps=[*attempt.steps, n])
        self.rolled_back_to = None  # something is done since

    def _step_ended(self, event: Mapping[str, Any], at: str) -> None:
        step = self.steps[event["n"]]
        self.steps[step.n] = replace(
            step,
            outcome=event["outcome"],
            exit_code=event.get("exit_code"),
            ended_at=at,
            seconds=event.get("seconds"),
            checkpoint_after=event.get("checkpoint"),
            changed=event.get("changed"),
            stdout=event.get("stdout", step.stdout),
            stderr=event.get("stderr", step.stderr),
            detail=event.get("detail"),
        )

    def run(self, evidence: str, *, alive: bool) -> Run:
        """The whole of it."""
        if self.started_at is None:
            raise RunError(f"run '{self.run_id}' was never begun", f"remove '{evidence}' to use its id again")
        begun = self.begun or {}
        state, reason = self.state, self.reason
        task = begun.get("task")
        run = Run(
            run_id=self.run_id,
            state=state,
            reason=reason,
            context=self.context,
            task_id=task if task is not None or self.context is None else self.context.task_id,
            steps=[self.steps[n] for n in sorted(self.steps)],
            attempts=[self.attempts[number] for number in sorted(self.attempts)],
            evidence=evidence,
            max_attempts=begun.get("max_attempts", 1),
            on_failure=begun.get("on_failure", "keep"),
            guarded=bool(begun.get("guard", True)),
            protected=list(begun.get("protected") or ()),
            started_at=self.started_at,
            ended_at=self.ended_at,
            rolled_back_to=self.rolled_back_to,
            final_checkpoint=self.final_checkpoint,
            merge_commit=self.merge_commit,
            accepted_into=self.accepted_into,
            tool=begun.get("tool"),
        )
        if state not in (RUNNING, INTERRUPTED):
            return run
        if alive:
            return replace(run, state=RUNNING, reason=None)
        if run.is_driven:
            return replace(run, state=OPEN)
        return replace(run, state=INTERRUPTED, reason=reason or "its process is gone")
