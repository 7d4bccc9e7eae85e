"""What the results of log and memory say to a person; see `text`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.cli import quote
from git_agentos.cli.output import Style, Text
from git_agentos.cli.render.text import checkpoint as text

if TYPE_CHECKING:
    from git_agentos.history import Event
    from git_agentos.log import Entry, Rebuilt
    from git_agentos.memory import Item
    from git_agentos.review import Review

_COLOURS = {"error": "red", "decision": "cyan", "nudge": "yellow"}


def added(entry: Entry) -> Text:
    """After `log add`: the entry's id alone on stdout."""
    notes = (f"{text.count(entry.redacted, 'secret')} taken out",) if entry.redacted else ()
    return Text(f"{entry.id}\n", f"{entry.id}\n", notes)


def entries(found: Sequence[Entry], style: Style, *, nothing: str = "no entries") -> Text:
    """`log list` and `search`: a line each; ids alone under -q."""
    if not found:
        return Text(notes=(nothing,))
    ages = [text.age(each.timestamp, style.now) for each in found]
    several = len({(each.agent_id, each.worktree) for each in found}) > 1
    agents = [quote.line(each.agent_id) if several else "" for each in found]
    widths = [max(map(len, column)) for column in (ages, agents)]
    lines = []
    for each, when, agent in zip(found, ages, agents, strict=True):
        kind = f"{quote.line(each.type):<10}"
        columns = [f"{when:<{widths[0]}}", style.paint(_COLOURS[each.type], kind) if each.type in _COLOURS else kind]
        if several:
            columns.append(f"{agent:<{widths[1]}}")
        lines.append("  ".join([*columns, _summary(each)]).rstrip())
    return Text(_lines(lines), _lines([quote.line(each.id) for each in found]))


def rebuilt(done: Rebuilt) -> Text:
    """After `log rebuild`."""
    log, memory = text.count(done.entries, "entry", "entries"), text.count(done.items, "item")
    lines = [f"Read {text.count(done.checkpoints, 'checkpoint')}: the log has {log}, the memory {memory}."]
    if done.uncarried:
        lines.append(f"{done.uncarried} of them are in no checkpoint yet.")
    if done.moved_aside is not None:
        lines.append(f"The damaged database is kept as {quote.path(done.moved_aside)}.")
    return Text(_lines(lines), "")


def remembered(item: Item, style: Style) -> Text:
    """After `memory artifact` and `memory merge`: the item's id alone on stdout."""
    checkpoints = sum(len(each.checkpoints) for each in item.contributions)
    notes = (f"{text.count(checkpoints, 'checkpoint')} contributed",) if item.kind == "merge" and style.terminal else ()
    return Text(f"{item.id}\n", f"{item.id}\n", notes)


def memory(found: Sequence[Item], style: Style) -> Text:
    """`memory list`: a line each; ids alone under -q."""
    if not found:
        return Text(notes=("nothing is remembered",))
    ages = [text.age(each.created_at, style.now) for each in found]
    width = max(map(len, ages))
    several = len({each.worktree for each in found}) > 1
    lines = []
    for each, when in zip(found, ages, strict=True):
        who = f"{quote.line(each.worktree)}  " if several else ""
        lines.append(f"{when:<{width}}  {quote.line(each.kind):<8}  {who}{_what(each)}")
    return Text(_lines(lines), _lines([quote.line(each.id) for each in found]))


def _what(item: Item) -> str:
    at = f" at commit {text.short(item.commit)}" if item.commit else ""
    if item.kind == "merge":
        sources = ", ".join(quote.line(each) for each in item.sources)
        return f"{sources} into '{quote.line(item.target or '')}'{at}"
    description = quote.line((item.description or "").split("\n", 1)[0])
    return f"{quote.line(item.type or '')} {quote.path(item.path or '')}{at}: {description}"


def _summary(entry: Entry) -> str:
    summary = quote.line(entry.summary.split("\n", 1)[0])
    if entry.type == "checkpoint" and entry.checkpoint_id:
        summary = f"{text.short(entry.checkpoint_id)} {summary}"
    files = len(entry.files_changed)
    return f"{summary} ({text.count(files, 'file')})" if files else summary


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# -- timeline, review --------------------------------------------------------------------------------------------------

_KINDS = {"commit": "yellow", "restore": "cyan"}
_SHOWN = 100


def stream(events: Sequence[Event], style: Style) -> Text:
    """`log timeline`: a line each; ids alone under -q."""
    if not events:
        return Text(notes=("nothing has happened yet",))
    return Text(_lines(_stream(events, style)), _lines([quote.line(each.id) for each in events]))


def _stream(events: Sequence[Event], style: Style) -> list[str]:
    ages = [text.age(each.time, style.now) for each in events]
    width = max(map(len, ages), default=0)
    lines = []
    for each, when in zip(events, ages, strict=True):
        name = quote.line((each.type or each.kind) if each.kind == "entry" else each.kind)
        colour = _KINDS.get(each.kind) or _COLOURS.get(each.type or "")
        shown = f"{name:<10}"
        identifier = f"{text.short(each.id) if each.kind != 'entry' else '':<8}"
        summary = quote.line(each.summary.split("\n", 1)[0])
        if each.kind == "checkpoint":
            summary = f"{summary} ({each.type})" if summary else f"({each.type})"
        columns = (f"{when:<{width}}", style.paint(colour, shown) if colour else shown, identifier, summary)
        lines.append("  ".join(columns).rstrip())
    return lines


def review(found: Review, style: Style, page: str | None) -> Text:
    """`log review`; with --html, where the page is."""
    if page is not None:
        return Text(f"Wrote the review of {quote.line(found.agent)} to {quote.path(page)}\n", f"{quote.path(page)}\n")
    if not found.events:
        return Text(notes=(f"nothing is known of what {quote.line(found.agent)} did",))
    lines = [style.paint("bold", f"Review of {quote.line(found.agent)}"), *_overview(found)]
    sections = (
        ("Errors", _errors(found, style)),
        ("Decisions", _decisions(found, style)),
        ("What stands out", _patterns(found)),
    )
    for title, rows in sections:
        lines += ["", style.paint("bold", title), *(f"  {row}".rstrip() for row in rows or ["none"])]
    lines += ["", style.paint("bold", "Timeline")]
    lines += [f"  {row}" for row in _stream(found.events[:_SHOWN], style)]
    hints = [f"'git agentos log review {quote.line(found.agent)} --html FILE' makes a page of it"]
    if len(found.events) > _SHOWN:
        lines.append(f"  and {text.count(len(found.events) - _SHOWN, 'earlier moment')}")
    brief = _lines([quote.line(each.summary.split("\n", 1)[0]) for each in found.errors])
    return Text(_lines(lines), brief, hints=tuple(hints) if style.terminal else ())


def _overview(found: Review) -> list[str]:
    counts = found.counts
    parts = [
        text.count(counts["commits"], "commit"),
        text.count(counts["checkpoints"], "checkpoint"),
        text.count(counts["restores"], "restore"),
        text.count(counts["entries"], "entry", "entries"),
    ]
    begin, end = text.local(found.begin or ""), text.local(found.end or "")
    return [f"{begin} to {end}", ", ".join(parts)]


def _errors(found: Review, style: Style) -> list[str]:
    rows = []
    for each in found.errors:
        rows.append(f"{text.local(each.timestamp)}  {style.paint('red', quote.line(each.summary))}")
        rows += _details(each.details)
    return rows


def _decisions(found: Review, style: Style) -> list[str]:
    rows = []
    for each in found.decisions:
        rows.append(f"{text.local(each.timestamp)}  {style.paint('cyan', quote.line(each.summary))}")
        if each.rationale:
            rows.append(f"    because: {quote.line(each.rationale)}")
        rows += [f"    instead of: {quote.line(other)}" for other in each.alternatives]
        rows += _details(each.details)
    return rows


def _details(details: Mapping[str, object]) -> list[str]:
    """One on each line; what has several lines, below its name."""
    rows = []
    for key, value in details.items():
        first, *more = quote.block(plain(value)).rstrip("\n").split("\n")
        rows.append(f"    {quote.line(str(key))}: {'' if more else first}")
        rows += [f"      {line}" for line in (first, *more)] if more else []
    return rows


def _patterns(found: Review) -> list[str]:
    seen = found.patterns
    rows = [
        f"{each.count} times the error '{quote.line(each.summary)}', the last {text.local(each.last)}"
        for each in seen.repeated_errors
    ]
    rows += [f"{quote.path(each.path)} was touched {text.count(each.touches, 'time')}" for each in seen.churn]
    rows += [
        f"restored {text.short(each.checkpoint_id)} {text.local(each.time)}; before it: {text.short(each.saved)}"
        for each in seen.restores
    ]
    rows += [
        f"silent for {duration(each.seconds)} from {text.local(each.begin)} to {text.local(each.end)}"
        for each in seen.silences
    ]
    return rows


def plain(value: object) -> str:
    """A value of an entry's details in words."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def duration(seconds: int) -> str:
    """How long, in the two largest units."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "day"), (hours, "hour"), (minutes, "minute"), (rest, "second")]
    told = [text.count(number, unit) for number, unit in parts if number]
    return " ".join(told[:2]) or "0 seconds"
