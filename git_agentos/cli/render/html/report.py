"""The report of all agents as an HTML page.

In a lane, a mark is one element: a tick of the chart, or, once the lane's switch is on, a row of a list. Its text is
there in both. So a page of many marks stays small, and each mark is on it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from git_agentos.cli.render.html import page
from git_agentos.cli.render.html.page import Section, Tile, parse_time
from git_agentos.cli.render.text.layout import size
from git_agentos.cli.render.text.report import KINDS, numbers
from git_agentos.cli.render.text.retention import parts

if TYPE_CHECKING:
    from git_agentos.report.collection import Report
    from git_agentos.report.lanes import Lane
    from git_agentos.retention.storage import Storage
    from git_agentos.run.events import Run
    from git_agentos.worktree.conflicts import Conflict, Conflicts

_TICKS = 4  # into how many parts the axis is divided
_SHORT = timedelta(minutes=2)  # a part that is shorter is labelled with seconds
_GRADES = {"passed": "good", "accepted": "good", "failed": "bad", "tampered": "bad", "interrupted": "back"}


@dataclass(frozen=True)
class Axis:
    """The time from the first to the last mark of all lanes; `ticks` are what is written on it."""

    begin: datetime
    end: datetime
    ticks: Sequence[str]

    def position(self, time: str) -> float:
        """Where a time is, in per cent; at the beginning if it cannot be read."""
        found = parse_time(time)
        whole = (self.end - self.begin).total_seconds()
        if found is None or not whole:
            return 0.0
        return round(100 * (found - self.begin).total_seconds() / whole, 2)


@dataclass(frozen=True)
class Bar:
    """What something takes on disk; `share` of the largest, in per cent."""

    name: str
    size: str
    note: str
    share: float


def report(result: Report) -> str:
    """The page."""
    first = min((each.first_at for each in result.agents if each.first_at is not None), default=None)
    last = max((each.last_at for each in result.agents if each.last_at is not None), default=None)
    conflicts = result.conflicts
    return page.render(
        "report.html",
        title="Report of the agents",
        eyebrow="Report",
        heading="Agents of the repository",
        tiles=_tiles(result),
        sections=(
            Section("agents", "Agents", len(result.agents)),
            Section("conflicts", "Conflicts", len(conflicts.pairs)),
            Section("storage", "Storage", None),
            Section("runs", "Runs", len(result.runs)),
        ),
        report=result,
        first=first,
        last=last,
        duration=page.time_between(first, last),
        axis=_axis(first, last),
        rows=rows,
        grade=grade,
        matrix=_matrix(conflicts),
        heat=heat,
        bars=_bars(result.storage),
        total=size(result.storage.total_bytes),
        size=size,
    )


def _tiles(result: Report) -> list[Tile]:
    # A merge is in the lane of each agent whose work went in.
    marks = {(mark.kind, mark.id, mark.at) for each in result.agents for mark in each.marks}
    found = Counter(kind for kind, _, _ in marks)
    conflicts = len(result.conflicts.pairs)
    number, unit = size(result.storage.total_bytes).split(" ")
    return [
        _tile(len(result.agents), "agent"),
        *(_tile(found[kind], kind) for kind in ("commit", "checkpoint", "merge")),
        _tile(found["error"], "error", alert=True),
        _tile(conflicts, "conflict", alert=True),
        _tile(len(result.runs), "run"),
        Tile(number, f"{unit} on disk"),
    ]


def _tile(number: int, name: str, *, alert: bool = False) -> Tile:
    return Tile(str(number), name if number == 1 else f"{name}s", alert and number > 0)


# -- lanes -----------------------------------------------------------------------------------------------------------


def _axis(first: str | None, last: str | None) -> Axis | None:
    begin, end = parse_time(first or ""), parse_time(last or "")
    if begin is None or end is None:
        return None
    step = (end - begin) / _TICKS
    form = "%Y-%m-%d %H:%M" if step >= _SHORT else "%H:%M:%S"
    return Axis(begin, end, [f"{begin + n * step:{form}}" for n in range(_TICKS + 1)] if step else [])


def rows(lane: Lane) -> Mapping[str, tuple[int, str]]:
    """The lines of a lane's chart: kind -> its number and its label."""
    kinds = [kind for kind in KINDS if any(mark.kind == kind for mark in lane.marks)]
    return {kind: (n, label) for n, (kind, label) in enumerate(zip(kinds, numbers(lane.marks), strict=True))}


# -- conflicts, storage, runs ----------------------------------------------------------------------------------------


def _matrix(conflicts: Conflicts) -> Mapping[tuple[str, str], Conflict]:
    """The pairs that conflict, both ways."""
    pairs = {(each.a, each.b): each for each in conflicts.pairs}
    return pairs | {(b, a): each for (a, b), each in pairs.items()}


def heat(number: int) -> int:
    """How much conflicts, in five grades, by the number of files."""
    return min(4, number.bit_length())


def _bars(storage: Storage) -> list[Bar]:
    found = parts(storage)
    most = max((number for _, number, _ in found), default=0) or 1
    return [Bar(name, size(number), note, round(100 * number / most, 1)) for name, number, note in found]


def grade(run: Run) -> str:
    """The class of a run's card."""
    return _GRADES.get(run.state, "")
