"""A review as one HTML page; see `html`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from git_agentos.cli.render.html import page as html
from git_agentos.cli.render.html.page import Section, Tile
from git_agentos.cli.render.text import layout as text
from git_agentos.cli.render.text.layout import duration
from git_agentos.cli.render.text.log import plain

if TYPE_CHECKING:
    from git_agentos.history import Event
    from git_agentos.log import Entry
    from git_agentos.review import Decision, Patterns, Review

_MOST_FILES = 48
_WIDTH, _HEIGHT = 1000, 64
_LANES = ("commit", "checkpoint", "restore", "entry")


def review(found: Review) -> str:
    """The page."""
    counts = found.counts
    seen = found.patterns
    stands_out = len(seen.repeated_errors) + len(seen.churn) + len(seen.restores) + len(seen.silences)
    nouns = (
        ("commits", "commit"),
        ("checkpoints", "checkpoint"),
        ("restores", "restore"),
        ("entries", "log entry"),
        ("decisions", "decision"),
        ("errors", "error"),
    )
    return html.page(
        title=f"Review of {found.agent}",
        eyebrow="Review of an agent's work",
        heading=found.agent,
        when=html.span(found.begin, found.end),
        tiles=[
            Tile(
                str(counts[key]),
                noun if counts[key] == 1 else _plural(noun),
                hot=key == "errors" and counts[key] > 0,
            )
            for key, noun in nouns
        ],
        strip=_strip(found.events),
        sections=(
            Section("errors", "Errors", len(found.errors), _errors(found.errors)),
            Section("decisions", "Decisions", len(found.decisions), _decisions(found.decisions)),
            Section("patterns", "What stands out", stands_out, _patterns(seen)),
            Section("timeline", "Timeline", len(found.events), _stream(found.events)),
        ),
    )


def _plural(noun: str) -> str:
    return noun.removesuffix("y") + "ies" if noun.endswith("y") else noun + "s"


def _strip(events: Sequence[Event]) -> str:
    """Everything along one line of time, a lane for each kind."""
    times = [(found.timestamp(), event) for event in events if (found := html.parse(event.time)) is not None]
    if len(times) < 2:
        return ""
    first, last = min(each[0] for each in times), max(each[0] for each in times)
    span = (last - first) or 1.0
    step = _HEIGHT / len(_LANES)
    marks = []
    drawn: set[tuple[int, str, str]] = set()
    for seconds, event in times:
        x = round(6 + (seconds - first) / span * (_WIDTH - 12))
        name = _kind_class(event)
        if (x, event.kind, name) in drawn:
            continue  # a thousand on one spot are one
        drawn.add((x, event.kind, name))
        y = round(step * (_LANES.index(event.kind) + 0.5), 1)
        marks.append(f'<line x1="{x}" x2="{x}" y1="{y - step * 0.36:.1f}" y2="{y + step * 0.36:.1f}" class="{name}"/>')
    lanes = "".join(
        f'<line x1="0" x2="{_WIDTH}" y1="{step * (n + 0.5):.1f}" y2="{step * (n + 0.5):.1f}" class="lane"/>'
        for n in range(len(_LANES))
    )
    legend = "".join(
        f'<li><i style="background:var(--{name})"></i>{label}</li>'
        for name, label in (
            ("commit", "commits"),
            ("checkpoint", "checkpoints"),
            ("restore", "restores"),
            ("entry", "log entries"),
            ("decision", "decisions"),
            ("error", "errors"),
        )
    )
    return (
        f'<figure><ul class="legend">{legend}</ul>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="When it happened">'
        f"{lanes}{''.join(marks)}</svg>"
        f"<figcaption><span>{html.moment(events[-1].time)}</span><span>{html.moment(events[0].time)}</span></figcaption></figure>"
    )


def _kind_class(event: Event) -> str:
    special = event.kind == "entry" and event.type in ("error", "decision", "nudge")
    return f"{event.kind} is-{event.type}" if special else event.kind


def _errors(errors: Sequence[Entry]) -> str:
    if not errors:
        return '<p class="empty">No errors were logged.</p>'
    cards = []
    for entry in reversed(errors):
        facts = html.facts(
            [
                *((html.line(str(key)), html.block(plain(value))) for key, value in entry.details.items()),
                ("files", html.files(entry.files_changed)),
                *_marks(entry),
            ]
        )
        cards.append(
            f'<article class="card error"><p class="what">{html.block(entry.summary)}</p>'
            f'<p class="meta">{html.stamp(entry.timestamp)} by {html.line(entry.agent_id)}</p>{facts}</article>'
        )
    return "\n".join(cards)


def _decisions(decisions: Sequence[Decision]) -> str:
    if not decisions:
        return '<p class="empty">No decisions were logged.</p>'
    cards = []
    for each in reversed(decisions):
        others = "".join(f"<li>{html.block(other)}</li>" for other in each.alternatives)
        facts = html.facts(
            [
                ("because", html.block(each.rationale) if each.rationale else ""),
                ("instead of", f"<ul>{others}</ul>" if others else ""),
                *((html.line(str(key)), html.block(plain(value))) for key, value in each.details.items()),
                ("files", html.files(each.files_changed)),
                *_marks(each),
            ]
        )
        cards.append(
            f'<article class="card decision"><p class="what">{html.block(each.summary)}</p>'
            f'<p class="meta">{html.stamp(each.timestamp)} by {html.line(each.agent_id)}</p>{facts}</article>'
        )
    return "\n".join(cards)


def _marks(one: Entry | Decision) -> list[tuple[str, str]]:
    return [
        ("commit", html.short(one.commit) if one.commit else ""),
        ("checkpoint", html.short(one.checkpoint_id) if one.checkpoint_id else ""),
        ("task", html.line(one.task_id) if one.task_id else ""),
    ]


def _patterns(seen: Patterns) -> str:
    groups = (
        (
            "Errors that came again",
            [(html.block(each.summary), f"{each.count}\N{MULTIPLICATION SIGN}") for each in seen.repeated_errors],
        ),
        (
            "Files touched again and again",
            [(html.path(each.path), f"{each.touches}\N{MULTIPLICATION SIGN}") for each in seen.churn],
        ),
        (
            "Restores",
            [
                (
                    f"{html.short(each.checkpoint_id)} restored; before it: {html.short(each.saved)}",
                    html.stamp(each.time),
                )
                for each in seen.restores
            ],
        ),
        (
            "Long silences",
            [(f"{html.stamp(each.begin)} to {html.stamp(each.end)}", duration(each.seconds)) for each in seen.silences],
        ),
    )
    shown = [
        f'<h3>{title}</h3><ul class="rows">'
        + "".join(f"<li><span>{what}</span><b>{how}</b></li>" for what, how in rows)
        + "</ul>"
        for title, rows in groups
        if rows
    ]
    return "\n".join(shown) or '<p class="empty">Nothing stands out.</p>'


def _stream(events: Sequence[Event]) -> str:
    if not events:
        return '<p class="empty">Nothing has happened yet.</p>'
    parts = []
    day = None
    for event in events:
        found = html.parse(event.time)
        today = f"{found:%A, %d %B %Y}" if found is not None else html.line(event.time)
        if today != day:
            parts.append(f'{"</ol>" if day is not None else ""}<h3 class="day">{today}</h3><ol class="stream">')
            day = today
        parts.append(_event(event, found))
    return "\n".join([*parts, "</ol>"])


def _event(event: Event, found: datetime | None) -> str:
    clock = f"{found:%H:%M}" if found is not None else ""
    name = html.line((event.type if event.kind == "entry" else event.kind) or event.kind)
    identifier = f" {html.short(event.id)}" if event.kind in ("commit", "checkpoint") else ""
    summary = html.block(event.summary.split("\n", 1)[0]) if event.summary else ""
    if event.kind == "checkpoint" and event.type:
        summary = f'{summary} <span class="meta">({html.line(event.type.replace("_", " "))})</span>'
    files = ""
    if event.files:
        rows = "".join(f"<li>{html.path(path)}</li>" for path in event.files[:_MOST_FILES])
        left = len(event.files) - _MOST_FILES
        rows += f"<li>and {left} more</li>" if left > 0 else ""
        files = f"<details><summary>{text.count(len(event.files), 'file')}</summary><ul>{rows}</ul></details>"
    return (
        f'<li class="{_kind_class(event)}"><time datetime="{html.line(event.time)}">{clock}</time>'
        f'<span class="tag">{name}</span>{summary}{identifier}{files}</li>'
    )
