"""A review of what an agent did (`history`): errors, decisions, a timeline, and patterns in it.

A review reads the decisions' `details`: `rationale` (text) is the reason, `alternatives` what else was considered: a
list, an object of names and objections, or a text with one on each line or between semicolons.

The patterns:

    repeated errors   errors that occurred at least twice, ignoring numbers, ids, quoted names and paths
    churn             files that have changed at least three times, from checkpoint to checkpoint or in commits
    silences          half an hour or more without an event, and ten times the usual pause
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos import history, log
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import trees
from git_agentos.history import Event, Restored
from git_agentos.log import Entry
from git_agentos.util import times

_LEAST_TOUCHES = 3
_MOST_PATTERNS = 20
_SILENCE = 30 * 60
_QUIET_FACTOR = 10


@dataclass(frozen=True)
class Decision:
    """A decision, the alternatives that were considered, and the reason."""

    timestamp: str
    summary: str
    rationale: str | None
    alternatives: list[str]
    details: dict[str, Any]
    agent_id: str
    commit: str | None
    checkpoint_id: str | None
    task_id: str | None
    files_changed: list[str]


@dataclass(frozen=True)
class Repeated:
    """An error that occurred more than once: `summary` is that of the last time."""

    summary: str
    count: int
    first: str
    last: str


@dataclass(frozen=True)
class Churn:
    """A file that changed many times: how often from checkpoint to checkpoint, and in commits."""

    path: str
    touches: int
    checkpoints: int
    commits: int


@dataclass(frozen=True)
class Silence:
    """A long time without an event: `seconds` between two."""

    begin: str
    end: str
    seconds: int


@dataclass(frozen=True)
class Patterns:
    """The patterns of a review."""

    repeated_errors: list[Repeated]
    churn: list[Churn]
    restores: list[Restored]
    silences: list[Silence]


@dataclass(frozen=True)
class Review:
    """The JSON kind `log-review`. `errors` and `decisions` begin with the oldest, `events` with the newest; `begin` and
    `end` are the times of the first and the last event (None where there is none); `counts` are numbers of events by
    kind, and of errors and decisions. `complete` is false where entries could not be read."""

    agent: str
    begin: str | None
    end: str | None
    counts: dict[str, int]
    errors: list[Entry]
    decisions: list[Decision]
    patterns: Patterns
    events: list[Event]
    complete: bool = True


def review(context: OpenWorktree, agent: str | None = None) -> Review:
    """Review what an agent did (that of this worktree by default)."""
    found = history.collect(context, agent, history.MOST)
    events = [history.with_files(context, event) for event in found.events()]
    oldest_first = sorted(found.entries, key=lambda entry: (entry.timestamp, entry.id))
    errors = [entry for entry in oldest_first if entry.type == "error"]
    decisions = [_decision(entry) for entry in oldest_first if entry.type == "decision" and not log.is_by_guard(entry)]
    counts = Counter(event.kind for event in events)
    return Review(
        agent=agent or context.worktree_id,
        begin=events[-1].time if events else None,
        end=events[0].time if events else None,
        counts={
            "commits": counts[history.COMMIT],
            "checkpoints": counts[history.CHECKPOINT],
            "restores": counts[history.RESTORE],
            "entries": counts[history.ENTRY],
            "errors": len(errors),
            "decisions": len(decisions),
        },
        errors=errors,
        decisions=decisions,
        patterns=Patterns(
            repeated_errors=repeated(errors),
            churn=_churn(context, found, events),
            restores=[each.restored for each in found.checkpoints if each.restored is not None][::-1],
            silences=silences([event.time for event in events]),
        ),
        events=events,
        complete=found.complete,
    )


# -- patterns --------------------------------------------------------------------------------------------------------


def _decision(entry: Entry) -> Decision:
    rationale = entry.details.get("rationale")
    return Decision(
        timestamp=entry.timestamp,
        summary=entry.summary,
        rationale=None if rationale is None else _text(rationale),
        alternatives=alternatives(entry.details.get("alternatives")),
        details={key: value for key, value in entry.details.items() if key not in ("rationale", "alternatives")},
        agent_id=entry.agent_id,
        commit=entry.commit,
        checkpoint_id=entry.checkpoint_id,
        task_id=entry.task_id,
        files_changed=entry.files_changed,
    )


def alternatives(value: Any) -> list[str]:
    """The alternatives, in whichever form they were written."""
    if isinstance(value, Mapping):
        return [f"{name}: {_text(why)}" if why not in (None, "") else str(name) for name, why in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_text(each) for each in value]
    if value is None:
        return []
    return [part.strip() for part in re.split(r"[;\n]", str(value)) if part.strip()]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(each) for each in value)
    return str(value)


_VARIABLE = (
    (re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "#"),
    (re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`"), "…"),
    (re.compile(r"(?:[\w.~-]*/)+[\w.-]*"), "/"),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"\s+"), " "),
)


def normal(text: str) -> str:
    """The text of an error without the parts that vary: numbers, ids, quoted names, paths."""
    found = text.split("\n", 1)[0].casefold().strip()
    for pattern, instead in _VARIABLE:
        found = pattern.sub(instead, found)
    return found


def repeated(errors: Iterable[Entry]) -> list[Repeated]:
    """Errors that occurred at least twice, the most frequent first; `errors` begin with the oldest."""
    groups: dict[str, list[Entry]] = {}
    for entry in errors:
        groups.setdefault(normal(entry.summary), []).append(entry)
    found = [
        Repeated(group[-1].summary, len(group), group[0].timestamp, group[-1].timestamp)
        for group in groups.values()
        if len(group) > 1
    ]
    return sorted(found, key=lambda each: (-each.count, each.first))[:_MOST_PATTERNS]


def _churn(context: OpenWorktree, found: history.History, events: Sequence[Event]) -> list[Churn]:
    in_checkpoints: Counter[str] = Counter()
    trees_by_time = [each.visible_tree for each in sorted(found.checkpoints, key=lambda each: each.event.time)]
    for before, after in itertools.pairwise(trees_by_time):
        with contextlib.suppress(AgentosError):
            in_checkpoints.update(os.fsdecode(path) for path in trees.diff(context.repository, before, after))
    in_commits = Counter(path for event in events if event.kind == history.COMMIT for path in event.files)
    churn = [
        Churn(path, max(in_checkpoints[path], in_commits[path]), in_checkpoints[path], in_commits[path])
        for path in in_checkpoints.keys() | in_commits.keys()
    ]
    kept = [each for each in churn if each.touches >= _LEAST_TOUCHES]
    return sorted(kept, key=lambda each: (-each.touches, each.path))[:_MOST_PATTERNS]


def silences(times: Iterable[str]) -> list[Silence]:
    """Long pauses between events, the longest first."""
    moments = sorted(_seconds(time) for time in times)
    pauses = [(later - earlier, earlier, later) for earlier, later in itertools.pairwise(moments)]
    if not pauses:
        return []
    usual = statistics.median(pause for pause, _, _ in pauses)
    long = [each for each in pauses if each[0] >= _SILENCE and (each[0] > _QUIET_FACTOR * usual or len(pauses) == 1)]
    return [
        Silence(_stamp(earlier), _stamp(later), round(pause))
        for pause, earlier, later in sorted(long, reverse=True)[:_MOST_PATTERNS]
    ]


def _seconds(time: str) -> float:
    try:
        return times.to_seconds(time)
    except ValueError:
        return 0.0


def _stamp(seconds: float) -> str:
    return times.seconds_to_text(seconds)
