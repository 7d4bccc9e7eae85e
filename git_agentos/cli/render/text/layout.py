"""What all text renderers share: lines, facts, tables and lists, and how values are written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

# A cell of a table: its text, and the colour of it.
Cell = str | tuple[str, str | None]

_AGES = (
    (31_536_000, "year"),
    (2_592_000, "month"),
    (604_800, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
)
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_ABBREVIATED = 8  # digits, as in the names of restore branches


# -- lines, facts, tables, lists ---------------------------------------------------------------------------------------


def lines(rows: Iterable[str]) -> str:
    """Each row as a line."""
    return "".join(f"{row}\n" for row in rows)


def ids(values: Iterable[str]) -> Text:
    """Ids, one per line; what commands print under -q."""
    text = lines(values)
    return Text(text, text)


def facts(rows: Sequence[tuple[str, str | None]]) -> list[str]:
    """Names and values in two columns; rows without a value are left out."""
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name + ':' if name else '':<{width}}{value}" for name, value in rows if value]


def table(rows: Sequence[Sequence[Cell]], style: Style, head: Sequence[str] | None = None) -> list[str]:
    """Rows as aligned columns; a column in which every cell is empty is left out."""
    cells = [[cell if isinstance(cell, tuple) else (cell, None) for cell in row] for row in rows]
    if head is not None:
        cells.insert(0, [(name, "bold") for name in head])
    widths = [max(len(text) for text, _ in column) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            (style.paint(colour, text) if colour else text) + " " * (width - len(text))
            for (text, colour), width in zip(row, widths, strict=True)
            if width
        ).rstrip()
        for row in cells
    ]


def limited(paths: Sequence[str], most: int) -> list[str]:
    """At most `most` paths, one per line and indented, and how many are left out."""
    rows = [f"    {quote.path(path)}" for path in paths[:most]]
    return rows if len(paths) <= most else [*rows, f"    and {len(paths) - most} more"]


def joined(values: Sequence[str], most: int) -> str:
    """At most `most` values on one line, and how many are left out."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(values[:most]) + more


# -- values ------------------------------------------------------------------------------------------------------------


def abbrev(identifier: str | None) -> str:
    """An id, abbreviated."""
    return (identifier or "")[:_ABBREVIATED]


def counts(numbers: Iterable[tuple[int, str]]) -> str:
    """The numbers that are not 0, each with its label."""
    return ", ".join(f"{number} {label}" for number, label in numbers if number)


def path_changes(changed: Sequence[str], removed: Sequence[str]) -> str:
    """How many files were written and removed."""
    parts = [f"{count(len(changed), 'path')} written"] if changed else []
    parts += [f"{len(removed)} removed"] if removed else []
    return ", ".join(parts) or "no file had to change"


def relative_time(created_at: str, now: float) -> str:
    """How long ago an ISO 8601 time was, in git's words; other text and times in the future are shown unchanged."""
    try:
        seconds = now - datetime.fromisoformat(created_at).timestamp()
    except ValueError:
        return quote.line(created_at)
    if seconds < -60:
        return quote.line(created_at)
    for length, unit in _AGES:
        if seconds >= length:
            return f"{count(int(seconds // length), unit)} ago"
    return "just now" if seconds < 2 else f"{int(seconds)} seconds ago"


def local_time(created_at: str) -> str:
    """An ISO 8601 time in the local time zone."""
    try:
        moment = datetime.fromisoformat(created_at)
    except ValueError:
        return created_at
    local = time.localtime(moment.astimezone(UTC).timestamp())
    return time.strftime("%Y-%m-%d %H:%M:%S %z", local)


def time_and_age(created_at: str, style: Style) -> str:
    return f"{local_time(created_at)} ({relative_time(created_at, style.now)})"


def clock(seconds: float) -> str:
    """A duration as `0:42` or `1:02:03`."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def duration(seconds: int) -> str:
    """A duration in its two largest units."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "day"), (hours, "hour"), (minutes, "minute"), (rest, "second")]
    shown = [count(number, unit) for number, unit in parts if number]
    return " ".join(shown[:2]) or "0 seconds"


def size(number: int | None) -> str:
    """A number of bytes."""
    if number is None:
        return "-"
    value = float(number)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{int(value)} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def not_saved(skipped: Iterable[tuple[str, str]], label: str = "not saved") -> list[str]:
    """A warning for each path that was skipped, with the reason."""
    return [f"{label}: {quote.path(path)} ({quote.line(reason)})" for path, reason in skipped]
