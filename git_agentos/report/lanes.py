"""What agents did, as marks by time: a lane for each agent.

A mark is an event of `log timeline` (`history`), and has the id of that; or a turn, a run or a merge. The other entries
of the log (actions, nudges, the beginnings of sessions) are no marks: they accompany something else that is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from git_agentos import history
from git_agentos.history import Event, History
from git_agentos.log import Entry
from git_agentos.run import context as run_context
from git_agentos.run.events import Run
from git_agentos.turns import record
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree.status import Worktree

CHECKPOINT, COMMIT, RESTORE, MERGE = "checkpoint", "commit", "restore", "merge"
ERROR, DECISION, RUN, TURN = "error", "decision", "run", "turn"
KINDS = (CHECKPOINT, COMMIT, RESTORE, MERGE, ERROR, DECISION, RUN, TURN)
# An entry of type `checkpoint` is only an event if no checkpoint is left that it is about.
_ENTRIES = (ERROR, DECISION, CHECKPOINT)


class Mark(NamedTuple):
    """One moment: `kind` is one of KINDS; `id` that of the event in `log timeline`, of the turn, the run or the merge
    commit; `text` one line about it."""

    at: str
    kind: str
    id: str
    text: str


class Lane(NamedTuple):
    """An agent and its marks, oldest first; `first_at` and `last_at` are the times of the first and the last of them,
    None where there are none. `branch` and `state` are those of its worktree, as `worktree list` has them."""

    id: str
    branch: str | None
    state: str
    first_at: str | None
    last_at: str | None
    marks: tuple[Mark, ...]


def lane(worktree: Worktree, marks: Sequence[Mark], since: datetime | None) -> Lane:
    """The lane of an agent, with those of its marks that are not older than `since`."""
    least = "" if since is None else times.to_text(since)
    # Stable: marks of one moment stay in their order.
    shown = tuple(sorted((each for each in marks if each.at >= least), key=lambda mark: mark.at))
    first, last = (shown[0].at, shown[-1].at) if shown else (None, None)
    return Lane(worktree.id, worktree.branch, worktree.state, first, last, shown)


def of_history(found: History) -> Iterator[Mark]:
    """The marks of what an agent did."""
    for event in reversed(found.events()):
        kind = event.type if event.kind == history.ENTRY and event.type in _ENTRIES else event.kind
        if kind in KINDS:
            yield Mark(event.time, kind, event.id, _line(event.summary) or _without_text(event))
    turns = {mark.id: mark for entry in reversed(found.entries) for mark in _of_turn(entry)}
    yield from turns.values()


def _of_turn(entry: Entry) -> Iterator[Mark]:
    id_ = entry.details.get("turn")
    if entry.type == record.TYPE and entry.details.get("event") == record.BEGAN and isinstance(id_, str):
        yield Mark(entry.timestamp, TURN, id_, _line(entry.summary))


def _without_text(event: Event) -> str:
    return (event.type or "").replace("_", " ")


def of_runs(runs: Sequence[Run]) -> Mapping[str, list[Mark]]:
    """The marks of runs by agent: by the worktree in which they are, and by the agent that works there."""
    found: dict[str, list[Mark]] = {}
    for run in runs:
        if not run.started_at:
            continue
        text = _line(run.state if not run.reason else f"{run.state}: {run.reason}")
        agents = {run_context.worktree_id(run.run_id), *([run.context.agent_id] if run.context is not None else [])}
        for agent in agents:
            found.setdefault(agent, []).append(Mark(run.started_at, RUN, run.run_id, text))
    return found


def _line(text: str) -> str:
    return text.split("\n", 1)[0]
