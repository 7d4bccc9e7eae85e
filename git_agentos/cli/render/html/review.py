"""The review of an agent's work as an HTML page."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from git_agentos.cli.render.html import page
from git_agentos.cli.render.html.page import Section, Tile, parse_time

if TYPE_CHECKING:
    from git_agentos.history import Event
    from git_agentos.review import Review

_WIDTH, _HEIGHT = 1000, 64
_MARGIN = 6
_LANES = ("commit", "checkpoint", "restore", "entry")
_LEGEND = (
    ("commit", "commits"),
    ("checkpoint", "checkpoints"),
    ("restore", "restores"),
    ("entry", "log entries"),
    ("decision", "decisions"),
    ("error", "errors"),
)
_TILES = (
    ("commits", "commit", "commits"),
    ("checkpoints", "checkpoint", "checkpoints"),
    ("restores", "restore", "restores"),
    ("entries", "log entry", "log entries"),
    ("decisions", "decision", "decisions"),
    ("errors", "error", "errors"),
)


@dataclass(frozen=True)
class Mark:
    """One event in the chart."""

    x: int
    top: float
    bottom: float
    css_class: str


@dataclass(frozen=True)
class Chart:
    """All events along one line of time, a lane for each kind; `lanes` are their heights."""

    lanes: Sequence[float]
    marks: Sequence[Mark]
    legend: Sequence[tuple[str, str]] = _LEGEND
    width: int = _WIDTH
    height: int = _HEIGHT


def review(result: Review) -> str:
    """The page."""
    counts, patterns = result.counts, result.patterns
    pattern_count = (
        len(patterns.repeated_errors) + len(patterns.churn) + len(patterns.restores) + len(patterns.silences)
    )
    return page.render(
        "review.html",
        title=f"Review of {result.agent}",
        eyebrow="Review of an agent's work",
        heading=result.agent,
        tiles=[
            Tile(str(counts[key]), one if counts[key] == 1 else many, key == "errors" and counts[key] > 0)
            for key, one, many in _TILES
        ],
        sections=(
            Section("errors", "Errors", len(result.errors)),
            Section("decisions", "Decisions", len(result.decisions)),
            Section("patterns", "Patterns", pattern_count),
            Section("timeline", "Timeline", len(result.events)),
        ),
        review=result,
        pattern_count=pattern_count,
        chart=_chart(result.events),
        days=[(day, list(events)) for day, events in itertools.groupby(result.events, _day)],
        css_class=css_class,
        time_of_day=_time_of_day,
        duration=page.time_between(result.begin, result.end),
    )


def css_class(event: Event) -> str:
    special = event.kind == "entry" and event.type in ("error", "decision", "nudge")
    return f"{event.kind} is-{event.type}" if special else event.kind


def _chart(events: Sequence[Event]) -> Chart | None:
    times = [(found.timestamp(), event) for event in events if (found := parse_time(event.time)) is not None]
    if len(times) < 2:
        return None
    first, last = min(each[0] for each in times), max(each[0] for each in times)
    span = (last - first) or 1.0
    step = _HEIGHT / len(_LANES)
    marks = {}
    for seconds, event in times:
        x = round(_MARGIN + (seconds - first) / span * (_WIDTH - 2 * _MARGIN))
        y = round(step * (_LANES.index(event.kind) + 0.5), 1)
        # A thousand events at one point are one mark.
        name = css_class(event)
        marks[x, name] = Mark(x, round(y - step * 0.36, 1), round(y + step * 0.36, 1), name)
    return Chart([round(step * (n + 0.5), 1) for n in range(len(_LANES))], list(marks.values()))


def _day(event: Event) -> str:
    found = parse_time(event.time)
    return f"{found:%A, %d %B %Y}" if found is not None else event.time


def _time_of_day(event: Event) -> str:
    found = parse_time(event.time)
    return f"{found:%H:%M}" if found is not None else ""
