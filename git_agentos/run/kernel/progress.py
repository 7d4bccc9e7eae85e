"""How far a run has come, as its events tell: what the kernel goes by, whether the run was killed in between or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from git_agentos.run.record.events import OK
from git_agentos.run.rollback.rollback import PRE_RUN

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Progress:
    """`begun` and `prepared` are those events. `attempt` is the last attempt begun (0: none), `index` the position in
    the spec of the step that is next in it, `steps` how many steps were begun in the whole run; `numbers` tells which
    step each one of the spec became in this attempt.

    `under_way` is the `step-begun` of a step that has not ended, and `failed` the `step-ended` of this attempt that is
    not `ok`. `outcome` and `reason` are the attempt's, where it has ended; `ended` is the state that the run ended in.
    `sealed` tells that nothing has happened since the evidence was sealed.

    `point` is where the worktree is when nobody has touched it: where the step under way began, where the last one
    ended (of one whose end could not be saved, since it had wrecked it: where that began), or where an attempt begins.
    """

    begun: Event | None = None
    prepared: Event | None = None
    attempt: int = 0
    index: int = 0
    steps: int = 0
    numbers: Mapping[int, int] = field(default_factory=dict)
    under_way: Event | None = None
    point: str = PRE_RUN
    failed: Event | None = None
    outcome: str | None = None
    reason: str | None = None
    ended: str | None = None
    sealed: bool = False


def of(events: Iterable[Event]) -> Progress:
    """The progress that a run's events tell."""
    told: dict[str, Any] = {"numbers": {}, "steps": 0, "index": 0, "under_way": None, "point": PRE_RUN}
    for event in events:
        kind = event["event"]
        if kind in ("begun", "prepared"):
            told[kind] = event
        elif kind == "attempt":
            told |= {"attempt": event["number"], "index": 0, "numbers": {}, "failed": None}
            told |= {"outcome": None, "reason": None, "point": event.get("point") or told["point"]}
        elif kind == "step-begun":
            index = event.get("index", told["index"])  # an orchestrator's steps have no place in a spec
            told |= {"under_way": event, "index": index, "steps": max(told["steps"], event["n"])}
            told |= {"numbers": {**told["numbers"], index: event["n"]}, "point": f"step:{event['n']}"}
        elif kind == "step-ended":
            told |= {"under_way": None, "index": told["index"] + 1}
            told["point"] = event.get("checkpoint") or told["point"]
            if event["outcome"] != OK:
                told["failed"] = event
        elif kind == "attempt-ended":
            told |= {"outcome": event["outcome"], "reason": event.get("reason")}
        elif kind == "ended":
            told["ended"] = event["state"]
        told["sealed"] = kind == "sealed"
    return Progress(**told)
