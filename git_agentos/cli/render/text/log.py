"""`log` and `memory` as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text.layout import (
    Cell,
    abbrev,
    duration,
    lines,
    local_time,
    relative_time,
    table,
)
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.history import Event
    from git_agentos.log import Entry, Rebuilt
    from git_agentos.memory import Item
    from git_agentos.review import Review

_TYPE_COLOURS = {"error": "red", "decision": "cyan", "nudge": "yellow"}
_KIND_COLOURS = {"commit": "yellow", "restore": "cyan"}
_MOST_EVENTS = 100


# -- add, list, search, rebuild ----------------------------------------------------------------------------------------


def added(entry: Entry) -> Text:
    """`log add`: only the entry's id on stdout."""
    notes = (f"{count(entry.redacted, 'secret')} removed",) if entry.redacted else ()
    return Text(f"{entry.id}\n", f"{entry.id}\n", notes)


def entries(items: Sequence[Entry], style: Style, *, empty: str = "no entries") -> Text:
    """`log list` and `search`: one line each; ids under -q."""
    if not items:
        return Text(notes=(empty,))
    several = len({(each.agent_id, each.worktree) for each in items}) > 1
    rows = [
        (
            relative_time(each.timestamp, style.now),
            (f"{quote.line(each.type):<10}", _TYPE_COLOURS.get(each.type)),
            quote.line(each.agent_id) if several else "",
            _summary(each),
        )
        for each in items
    ]
    return Text(lines(table(rows, style)), lines(quote.line(each.id) for each in items))


def _summary(entry: Entry) -> str:
    summary = _first_line(entry.summary)
    if entry.type == "checkpoint" and entry.checkpoint_id:
        summary = f"{abbrev(entry.checkpoint_id)} {summary}"
    files = len(entry.files_changed)
    return f"{summary} ({count(files, 'file')})" if files else summary


def _first_line(text: str) -> str:
    return quote.line(text.split("\n", 1)[0])


def rebuilt(result: Rebuilt) -> Text:
    """`log rebuild`."""
    log, memory = count(result.entries, "entry", "entries"), count(result.items, "item")
    rows = [f"Read {count(result.checkpoints, 'checkpoint')}: the log has {log}, the memory {memory}."]
    if result.uncarried:
        rows.append(f"{result.uncarried} of them are in no checkpoint yet.")
    if result.moved_aside is not None:
        rows.append(f"The damaged database was moved to {quote.path(result.moved_aside)}.")
    return Text(lines(rows), "")


# -- memory ------------------------------------------------------------------------------------------------------------


def remembered(item: Item, style: Style) -> Text:
    """`memory artifact` and `memory merge`: only the item's id on stdout."""
    checkpoints = sum(len(each.checkpoints) for each in item.contributions)
    notes = (f"{count(checkpoints, 'checkpoint')} contributed",) if item.kind == "merge" and style.terminal else ()
    return Text(f"{item.id}\n", f"{item.id}\n", notes)


def memory(items: Sequence[Item], style: Style) -> Text:
    """`memory list`: one line each; ids under -q."""
    if not items:
        return Text(notes=("no artifacts or merges are recorded",))
    several = len({each.worktree for each in items}) > 1
    rows = [
        (
            relative_time(each.created_at, style.now),
            f"{quote.line(each.kind):<8}",
            quote.line(each.worktree) if several else "",
            _description(each),
        )
        for each in items
    ]
    return Text(lines(table(rows, style)), lines(quote.line(each.id) for each in items))


def _description(item: Item) -> str:
    commit = f" at commit {abbrev(item.commit)}" if item.commit else ""
    if item.kind == "merge":
        sources = ", ".join(quote.line(each) for each in item.sources)
        return f"{sources} into '{quote.line(item.target or '')}'{commit}"
    return f"{quote.line(item.type or '')} {quote.path(item.path or '')}{commit}: {_first_line(item.description or '')}"


# -- timeline, review --------------------------------------------------------------------------------------------------


def timeline(events: Sequence[Event], style: Style) -> Text:
    """`log timeline`: one line each; ids under -q."""
    if not events:
        return Text(notes=("no events yet",))
    return Text(lines(_events(events, style)), lines(quote.line(each.id) for each in events))


def _events(events: Sequence[Event], style: Style) -> list[str]:
    return table([_event(each, style) for each in events], style) if events else []


def _event(event: Event, style: Style) -> tuple[Cell, ...]:
    is_entry = event.kind == "entry"
    name = quote.line((event.type or event.kind) if is_entry else event.kind)
    summary = _first_line(event.summary)
    if event.kind == "checkpoint":
        summary = f"{summary} ({event.type})" if summary else f"({event.type})"
    return (
        relative_time(event.time, style.now),
        (f"{name:<10}", _KIND_COLOURS.get(event.kind) or _TYPE_COLOURS.get(event.type or "")),
        f"{'' if is_entry else abbrev(event.id):<8}",
        summary,
    )


def review(result: Review, style: Style, page: str | None) -> Text:
    """`log review`; with --html, the path of the page."""
    agent = quote.line(result.agent)
    if page is not None:
        return Text(f"Wrote the review of {agent} to {quote.path(page)}\n", f"{quote.path(page)}\n")
    if not result.events:
        return Text(notes=(f"no events of {agent} are known",))
    rows = [style.paint("bold", f"Review of {agent}"), *_overview(result)]
    sections = (
        ("Errors", _errors(result, style)),
        ("Decisions", _decisions(result, style)),
        ("Patterns", _patterns(result)),
    )
    for title, section in sections:
        rows += ["", style.paint("bold", title), *(f"  {row}".rstrip() for row in section or ["none"])]
    rows += ["", style.paint("bold", "Timeline")]
    rows += [f"  {row}" for row in _events(result.events[:_MOST_EVENTS], style)]
    if len(result.events) > _MOST_EVENTS:
        rows.append(f"  and {count(len(result.events) - _MOST_EVENTS, 'earlier event')}")
    hints = (f"'git agentos log review {agent} --html FILE' writes an HTML page",) if style.terminal else ()
    return Text(lines(rows), lines(_first_line(each.summary) for each in result.errors), hints=hints)


def _overview(result: Review) -> list[str]:
    numbers = result.counts
    parts = [
        count(numbers["commits"], "commit"),
        count(numbers["checkpoints"], "checkpoint"),
        count(numbers["restores"], "restore"),
        count(numbers["entries"], "entry", "entries"),
    ]
    return [f"{local_time(result.begin or '')} to {local_time(result.end or '')}", ", ".join(parts)]


def _errors(result: Review, style: Style) -> list[str]:
    rows = []
    for each in result.errors:
        rows.append(f"{local_time(each.timestamp)}  {style.paint('red', quote.line(each.summary))}")
        rows += _details(each.details)
    return rows


def _decisions(result: Review, style: Style) -> list[str]:
    rows = []
    for each in result.decisions:
        rows.append(f"{local_time(each.timestamp)}  {style.paint('cyan', quote.line(each.summary))}")
        if each.rationale:
            rows.append(f"    because: {quote.line(each.rationale)}")
        rows += [f"    instead of: {quote.line(other)}" for other in each.alternatives]
        rows += _details(each.details)
    return rows


def _details(details: Mapping[str, object]) -> list[str]:
    """One detail per line; a value of several lines goes below its name."""
    rows = []
    for key, value in details.items():
        first, *more = quote.block(plain(value)).rstrip("\n").split("\n")
        rows.append(f"    {quote.line(str(key))}: {'' if more else first}")
        rows += [f"      {line}" for line in (first, *more)] if more else []
    return rows


def _patterns(result: Review) -> list[str]:
    patterns = result.patterns
    rows = [
        f"{each.count} times the error '{quote.line(each.summary)}', last {local_time(each.last)}"
        for each in patterns.repeated_errors
    ]
    rows += [f"{quote.path(each.path)} was changed {count(each.touches, 'time')}" for each in patterns.churn]
    rows += [
        f"restored {abbrev(each.checkpoint_id)} {local_time(each.time)}; the state before: {abbrev(each.saved)}"
        for each in patterns.restores
    ]
    rows += [
        f"silent for {duration(each.seconds)} from {local_time(each.begin)} to {local_time(each.end)}"
        for each in patterns.silences
    ]
    return rows


def plain(value: object) -> str:
    """A value of an entry's details as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
