"""The events of a run, and the state of a run by its events.

Every event has `event` and `at`; those that made files of the evidence have `files` (name -> SHA-256). Those that there
are, with their fields:

    begun          task, max_attempts, on_failure, cleanup, guard, protected, steps, tool (the program that drives
                   the run), spec (a MAC of the spec, by the user's key), mark (a variable of all its processes)
    prepared       context, checkpoint (the state of `pre_run`), tree (of its visible files)
    attempt        number, point (`pre_run` where it began there anew)
    step-begun     n, kind, attempt, command, checkpoint (the point `step:<n>`), stdout, stderr, index (in the spec),
                   branches (where protected branches were)
    step-ended     n, outcome, exit_code, seconds, checkpoint, changed, detail, stdout, stderr, moved (other branches
                   that moved meanwhile), moved_refs (refs that are no branches)
    marked         n, checkpoint: a point that an orchestrator without steps has set
    attempt-ended  number, outcome, reason
    interrupted    signal, or error: what stopped it
    resumed        step
    rolled-back    point, checkpoint, saved, not_saved (what of the state before could not be read), last_saved and
                   last_saved_at (the checkpoint before that, where there is such a thing, and its time)
    ended          state, reason, left (how the worktree was left; null: it was rolled back, or cannot be read)
    tampered       reason: the record, or what it names, was changed by somebody else; the run has ended by that
    accepted       into, merge_commit
    sealed         checkpoint, manifest_sha256
    rewritten      by, renamed: `forget` has removed texts from the evidence, and all of it was signed again; former ids
                   of the run's checkpoints -> the ids now

Unknown events are ignored. A step that runs again after an interruption is begun again with its `n`. `journal` stores
and verifies events.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from git_agentos.checkpoint.model import Skipped
from git_agentos.errors import RunError
from git_agentos.run.context import WorkspaceContext

EVENTS = "events.jsonl"
MANIFEST = "manifest.json"
REWRITTEN = "rewritten"
ADOPTED = "adopted"  # from here on it goes on in another clone
# Which program drives a run: `git agentos run` with its version, `git agentos tdd` and other orchestrators by their
# names, those without a name as the service.
_KERNEL = "git-agentos "
TDD = "tdd"
FLEET = "git agentos fleet"  # a workflow that is a task of one
SERVICE = "workspace service"
PRE_RUN = "pre_run"  # the point where a run began
# The states of a run.
RUNNING, INTERRUPTED, OPEN = "running", "interrupted", "open"
PASSED, FAILED, CANCELLED, ACCEPTED = "passed", "failed", "cancelled", "accepted"
TAMPERED = "tampered"
# How a step and an attempt ended.
OK, FAILED_STEP, TIMED_OUT, NO_CHANGES, PROTECTED = "ok", "failed", "timed-out", "no-changes", "protected-branch"
Event = Mapping[str, Any]
_CHECKPOINTS = ("checkpoint", "saved", "last_saved")  # keys of events


@dataclass(frozen=True)
class Step:
    """One step that was begun; the fields are the keys of `steps` in the JSON kind `run`. Paths are relative to
    `evidence`."""

    n: int  # counts from 1 over the whole run, in the order in which steps were begun
    kind: str  # agent, validate, rollback or checkpoint
    attempt: int  # counts from 1
    command: str | None = None  # shell text, without secrets; None if the step runs none
    outcome: str | None = None  # one of the above; None while it runs
    exit_code: int | None = None  # 128 + N for signal N; None where there is no process
    started_at: str = ""  # ISO 8601, UTC
    ended_at: str | None = None  # None while it runs
    seconds: float | None = None  # of the command
    checkpoint_before: str | None = None  # the point `step:<n>`
    checkpoint_after: str | None = None  # None where the worktree could not be captured
    changed: int | None = None  # how many paths the step changed
    stdout: str | None = None  # the file with the command's output
    stderr: str | None = None  # the same
    detail: str | None = None  # for people
    moved: list[str] | None = field(default_factory=list)  # other branches that moved while it ran; None: not known
    moved_refs: list[str] | None = field(default_factory=list)  # other refs that moved, full names; None: not known


@dataclass(frozen=True)
class Attempt:
    """One go of the agent and its validation: `outcome` as a step's, None while under way; `reason` is for people."""

    number: int
    outcome: str | None
    reason: str | None
    steps: list[int]


@dataclass(frozen=True)
class Left:
    """How a run left its worktree. `changed` counts paths (`run.changes`), `commits` those since its base; `branch` is
    HEAD's (None: it is detached), `head_sha` its commit (None: there is none). `ignored` tells, where `changed` is 0,
    whether there are other ignored files than before; None where that was not looked at. `worktree_path` is where it
    was then."""

    changed: int
    commits: int
    branch: str | None
    head_sha: str | None
    ignored: bool | None
    worktree_path: str


@dataclass(frozen=True)
class Run:
    """A run; the fields are the keys of the JSON kind `run`."""

    run_id: str  # its id
    state: str  # one of those above
    reason: str | None = None  # why it is so, for people
    context: WorkspaceContext | None = None  # its worktree; None before that was made
    task_id: str | None = None  # from the caller
    steps: list[Step] = field(default_factory=list)  # those that were begun
    attempts: list[Attempt] = field(default_factory=list)  # those that were begun
    evidence: str = ""  # the folder
    max_attempts: int = 1  # how often the agent may try
    on_failure: str = "keep"  # or rollback
    guarded: bool = True  # whether the guard is on in the worktree
    protected: list[str] = field(default_factory=list)  # patterns of branches that the run must not move
    started_at: str = ""  # ISO 8601, UTC
    ended_at: str | None = None  # None while it is open
    rolled_back_to: str | None = None  # the point of the last rollback, if nothing was done since
    final_checkpoint: str | None = None  # carries the evidence, once that is sealed
    merge_commit: str | None = None  # what accepting it made
    accepted_into: str | None = None  # the branch that it was merged into
    process: int | None = None  # that runs it now
    problems: list[str] = field(default_factory=list)  # what is wrong with its record
    tool: str | None = None  # who drives it
    cleanup: bool = False  # worktree and branch go once it has failed, was cancelled or is accepted
    archive: str | None = None  # has everything that was in the worktree, once that was archived
    left: Left | None = None  # how it left its worktree
    not_saved: list[Skipped] = field(default_factory=list)  # what rollbacks could not save
    last_saved: str | None = None  # the checkpoint from before the last such damage
    last_saved_at: str | None = None  # its time
    here: bool = True  # False: its record came from another repository or user, and can only be read

    @property
    def is_external(self) -> bool:
        """Whether another program than `git agentos run` drives it, through the workspace service."""
        return self.tool is not None and not self.tool.startswith(_KERNEL)


def parse_line(line: bytes) -> dict[str, Any]:
    """The event in a line of `events.jsonl`; ValueError where the line is invalid."""
    try:
        body = json.loads(line)
        if isinstance(body["event"], str) and isinstance(body["at"], str):
            found: dict[str, Any] = body
            return found
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("not an event") from error
    raise ValueError("not an event")


def new_mark(run_id: str) -> str:
    """A mark for the processes of a run, which no other has (`process.marked`)."""
    return f"{run_id}-{os.urandom(8).hex()}"


def renamed(events: Iterable[Event]) -> dict[str, str]:
    """The checkpoints of a run that `forget` has written again: former id -> the id now."""
    found: dict[str, str] = {}
    for event in events:
        if event["event"] == REWRITTEN and isinstance(event.get("renamed"), Mapping):
            later = {str(old): str(new) for old, new in event["renamed"].items()}
            found = {old: later.get(new, new) for old, new in found.items()} | later
    return found


def with_current_ids(events: Sequence[Event]) -> Sequence[Event]:
    """The events, in which checkpoints that were written again have the ids that they have now."""
    now = renamed(events)
    if not now:
        return events
    return [
        {**event, **{key: now.get(event[key], event[key]) for key in _CHECKPOINTS if isinstance(event.get(key), str)}}
        for event in events
    ]


def state_of(run_id: str, events: Sequence[Event]) -> RunState:
    """The state of a run by its events; RunError where they are not the events of a run."""
    state = RunState(run_id)
    for event in with_current_ids(events):
        state.apply(event)
    return state


class RunState:
    """The state of a run: how it is shown, and how far it has come. Events are applied one by one.

    `recorded` is the run as its events have it, without its steps and attempts; `run` adds these, and what can be seen
    from outside. `begun` and `prepared` are those events. `attempt` is the last attempt begun (0: none), `index` the
    position in the spec of the step that is next in it, `count` how many steps were begun in the whole run; `numbers`
    tells which step each one of the spec became in this attempt. `under_way` is the `step-begun` of a step that has not
    ended, `failed` the `step-ended` of this attempt that is not `ok`; `outcome` and `why` are the attempt's, where it
    has ended. `ended` is the state that the run ended in. `is_sealed` tells that nothing has happened since the
    evidence was sealed, `is_elsewhere` that the worktree was made anew in another clone, and is at the base.

    `point` is the state of the worktree unless somebody else has changed it: where the step under way began, where the
    last one ended (where it began, if it damaged the worktree so that its end could not be saved), or where an attempt
    begins.
    """

    def __init__(self, run_id: str) -> None:
        self.recorded = Run(run_id, RUNNING)
        self.begun: Event | None = None
        self.prepared: Event | None = None
        self.attempt = self.index = self.count = 0
        self.numbers: dict[int, int] = {}
        self.points: dict[int, str] = {}
        self.under_way: Event | None = None
        self.failed: Event | None = None
        self.outcome: str | None = None
        self.why: str | None = None
        self.point = PRE_RUN
        self.ended: str | None = None
        self.is_sealed = False
        self.is_elsewhere = False
        self.files: dict[str, str] = {}
        self._steps: dict[int, Step] = {}
        self._attempts: dict[int, Attempt] = {}

    def apply(self, event: Event) -> None:
        """Apply one event; RunError where it is not an event of a run."""
        try:
            self._apply(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            id_ = self.recorded.run_id
            raise RunError(f"the record of run '{id_}' is damaged", f"git agentos run verify {id_}") from error

    def _apply(self, event: Event) -> None:
        kind, at = event["event"], event["at"]
        if not self.recorded.started_at:
            self._record(started_at=at)
        self.is_sealed = kind == "sealed" or (kind == REWRITTEN and self.is_sealed)
        self.is_elsewhere = kind == ADOPTED or (self.is_elsewhere and kind != "rolled-back")
        match kind:
            case "begun":
                self._run_begun(event)
            case "prepared":
                context = WorkspaceContext.from_fields(event["context"], "an event")
                known = self.recorded.task_id
                self._record(context=context, task_id=known if known is not None else context.task_id)
                self.prepared = event
            case "attempt":
                self._attempt_begun(event)
            case "step-begun":
                self._step_begun(event, at)
            case "step-ended":
                self._step_ended(event, at)
            case "marked":
                self.points[event["n"]] = event["checkpoint"]
            case "attempt-ended":
                number = event["number"]
                ended = self._attempts.get(number) or Attempt(number, None, None, [])
                self.outcome, self.why = event["outcome"], event.get("reason")
                self._attempts[number] = replace(ended, outcome=self.outcome, reason=self.why)
            case "rolled-back":
                self._rolled_back(event)
            case "sealed":
                self._record(final_checkpoint=event["checkpoint"])
            case "interrupted" | "resumed" | "ended" | "accepted" | "tampered" if self.ended != TAMPERED:
                self._change_state(event, kind, at)
        self.files |= event.get("files") or {}

    def _record(self, **fields: Any) -> None:
        self.recorded = replace(self.recorded, **fields)

    def _run_begun(self, event: Event) -> None:
        self.begun = event
        self._record(
            task_id=event.get("task"),
            max_attempts=event.get("max_attempts", 1),
            on_failure=event.get("on_failure", "keep"),
            guarded=bool(event.get("guard", True)),
            protected=list(event.get("protected") or ()),
            tool=event.get("tool"),
            cleanup=bool(event.get("cleanup", False)),
        )

    def _change_state(self, event: Event, kind: str, at: str) -> None:
        if kind == "interrupted" and self.ended is None:
            why = event.get("error") or event.get("signal")
            by = ": " if event.get("error") else " by "
            self._record(state=INTERRUPTED, reason=f"interrupted{by}{why}" if why else "interrupted")
        elif kind == "resumed" and self.ended is None:
            self._record(state=RUNNING, reason=None, ended_at=None)
        elif kind == "ended":
            self.ended = event["state"]
            left = Left(**event["left"]) if event.get("left") is not None else None
            self._record(state=self.ended, reason=event.get("reason"), ended_at=at, left=left)
            if self.ended == PASSED and left is not None:
                self._record(rolled_back_to=None)  # it was resumed, and its work is in the worktree again
        elif kind == "tampered":
            self.ended = TAMPERED
            self._record(state=TAMPERED, reason=event["reason"], ended_at=at)
        elif kind == "accepted":
            into, commit = event["into"], event["merge_commit"]
            self._record(state=ACCEPTED, rolled_back_to=None, accepted_into=into, merge_commit=commit)

    def _rolled_back(self, event: Event) -> None:
        self._record(rolled_back_to=event["point"], left=None)
        lost = [Skipped(str(each["path"]), str(each["reason"])) for each in event.get("not_saved") or ()]
        if lost:
            last = {key: event.get(key) for key in ("last_saved", "last_saved_at")}
            self._record(not_saved=[*self.recorded.not_saved, *lost], **last)

    def _attempt_begun(self, event: Event) -> None:
        number = event["number"]
        known = self._attempts.get(number)
        self._attempts[number] = Attempt(number, None, None, known.steps if known is not None else [])
        self.attempt, self.index, self.numbers = number, 0, {}
        self.failed = self.outcome = self.why = None
        self.point = event.get("point") or self.point
        self._record(rolled_back_to=None)

    def _step_begun(self, event: Event, at: str) -> None:
        n, number = event["n"], event["attempt"]
        given = {key: event.get(key) for key in ("command", "stdout", "stderr")}
        before = event.get("checkpoint")
        self._steps[n] = Step(
            n, event["kind"], number, **given, started_at=at, checkpoint_before=before, moved=None, moved_refs=None
        )
        attempt = self._attempts.setdefault(number, Attempt(number, None, None, []))
        if n not in attempt.steps:
            self._attempts[number] = replace(attempt, steps=[*attempt.steps, n])
        self._record(rolled_back_to=None)  # something is done since
        self.under_way, self.count = event, max(self.count, n)
        folder = f"steps/{n:03d}-{event['kind']}/"  # if a step runs again, its former files are moved aside
        self.files = {name: code for name, code in self.files.items() if not name.startswith(folder)}
        self.index = event.get("index", self.index)  # an orchestrator's steps have no place in a spec
        self.numbers[self.index], self.point = n, f"step:{n}"
        if before is not None:
            self.points[n] = before

    def _step_ended(self, event: Event, at: str) -> None:
        step = self._steps[event["n"]]
        given: dict[str, Any] = {
            key: event.get(key) for key in ("exit_code", "seconds", "changed", "detail", "moved", "moved_refs")
        }
        given |= {key: event[key] for key in ("stdout", "stderr") if key in event}
        after = event.get("checkpoint")
        self._steps[step.n] = replace(step, outcome=event["outcome"], ended_at=at, checkpoint_after=after, **given)
        self.under_way, self.index = None, self.index + 1
        self.point = after or self.point
        if event["outcome"] != OK:
            self.failed = event

    def run(self, evidence: str, *, alive: bool) -> Run:
        """The run, whose evidence is in the folder `evidence`. `alive` says whether a process has it: else one that did
        not end was interrupted, or is open where an orchestrator drives it, from one call to the next."""
        recorded = self.recorded
        if not recorded.started_at:
            raise RunError(f"run '{recorded.run_id}' was never begun", f"remove '{evidence}' to use its id again")
        steps = [self._steps[n] for n in sorted(self._steps)]
        attempts = [self._attempts[number] for number in sorted(self._attempts)]
        run = replace(recorded, evidence=evidence, steps=steps, attempts=attempts)
        if run.state not in (RUNNING, INTERRUPTED):
            return run
        if alive:
            return replace(run, state=RUNNING, reason=None)
        if run.is_external:
            return replace(run, state=OPEN)
        return replace(run, state=INTERRUPTED, reason=run.reason or "its process is gone")

    def step(self, n: int) -> Step:
        """A step that was begun."""
        return self._steps[n]
