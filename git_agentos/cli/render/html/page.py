"""What the HTML pages share: the environment of their templates, and how a page is written.

A page needs no script, no network and no font, and works on a phone and in the dark. Text that is not ours is first
made safe as for a terminal (`quote`: control characters, marks that turn the direction of writing, bytes that are not
UTF-8), then escaped, both by default; templates isolate it with `bdi`. The page's own policy forbids loading or running
anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from git_agentos.cli.render.text.layout import abbrev, duration
from git_agentos.cli.render.text.log import plain
from git_agentos.errors import StorageError, system_reason
from git_agentos.util import quote
from git_agentos.util.files import replace


@dataclass(frozen=True)
class Section:
    """A part of a page; `number` is how many items it has, None if they are not counted."""

    id: str
    title: str
    number: int | None


@dataclass(frozen=True)
class Tile:
    """One of the numbers at the top; `alert` if it is bad news."""

    number: str
    label: str
    alert: bool = False


def render(template: str, **values: Any) -> str:
    """The page of a template in `templates/`."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    page: str = _environment().get_template(template).render(made=made, **values)
    return page


def write(path: str, page: str) -> str:
    """Write a page to a file, whole or not at all, and return its absolute path; StorageError if it fails."""
    target = os.path.abspath(path)
    try:
        if os.path.isdir(target):
            raise StorageError(f"'{path}' is a directory", "name a file")
        replace(target, page.encode("utf-8"))
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {system_reason(error)}") from error
    return target


def parse_time(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def time_between(begin: str | None, end: str | None) -> str:
    """The duration between two times; empty if there is none, or a time cannot be read."""
    first, last = parse_time(begin or ""), parse_time(end or "")
    seconds = int((last - first).total_seconds()) if first is not None and last is not None else 0
    return duration(seconds) if seconds else ""


def contents(data: bytes) -> Markup:
    """The bytes of a file or an output, for `pre`: only here tabs and line ends stay as they are."""
    return escape(quote.contents(data))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(os.path.dirname(__file__), "templates")),
        autoescape=True,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "abbrev": abbrev,
        "contents": contents,
        "duration": duration,
        "line": quote.line,
        "moment": _moment,
        "path": quote.path,
        "plain": plain,
        "second": _second,
    }
    environment.tests["time"] = lambda value: parse_time(value) is not None
    return environment


def _safe(value: Any) -> Any:
    """What the templates do with each value: text is made safe unless it is HTML already."""
    if value is None:
        return ""
    return quote.block(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _moment(time: str) -> str:
    """A time as `2026-11-22 14:05`."""
    found = parse_time(time)
    return f"{found:%Y-%m-%d %H:%M}" if found is not None else time


def _second(time: str) -> str:
    """A time as `2026-11-22 14:05:07`."""
    found = parse_time(time)
    return f"{found:%Y-%m-%d %H:%M:%S}" if found is not None else time
