"""A comparison as lines, which are coloured when they are drawn: git's colours for the marks, syntax colours for the
content of files."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSISyntaxTheme

from git_agentos.checkpoint.queries import Comparison
from git_agentos.git.hunks import FilePatch
from git_agentos.util import quote
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import count

MOST = 40
"""Files whose patches are made; of others the names are shown."""

_MOST_LINES = 20_000
_LONGEST = 400  # characters of a line that get syntax colours
_STATUS = {"A": ("new", "green"), "M": ("changed", "yellow"), "D": ("removed", "red"), "T": ("changed", "yellow")}
_THEME = ANSISyntaxTheme(ANSI_DARK)


class Line(NamedTuple):
    """A line of a patch: `kind` is `head`, `hunk`, `add`, `del`, `same` or `text`; `name` is that of its file."""

    kind: str
    text: str
    name: str = ""
    style: str = ""


def comparison(found: Comparison) -> list[Line]:
    """What differs: the names first, then the patches."""
    names = [*((each.path, each.status) for each in found.files), *found.others]
    if not names:
        return [Line("text", "no file differs")]
    lines = [Line("text", count(len(names), "file"))]
    for path, status in names:
        word, style = _STATUS.get(status, (status, ""))
        lines.append(Line("text", f"  {word:<8} {quote.path(os.fsdecode(path))}", style=style))
    for each in found.files:
        lines += [Line("text", ""), *file_lines(each)]
        if len(lines) > _MOST_LINES:
            return [*lines[:_MOST_LINES], Line("text", "… more is not shown here")]
    if found.others:
        lines += [Line("text", ""), Line("text", f"… {count(len(found.others), 'more file')}, by their names above")]
    return lines


def file_lines(file: FilePatch) -> Iterator[Line]:
    """The patch of a file, its hunks with their numbers."""
    name = os.fsdecode(file.path)
    for row in file.head:
        yield Line("head", _text(row))
    for number, hunk in enumerate(file.hunks, 1):
        if hunk.header:
            header = _text(hunk.header.partition(b"\n")[0])
            yield Line("hunk", f"{header}  (hunk {number})")
        elif str(hunk.kind) == "binary":
            yield Line("text", f"binary  (hunk {number})")
        for row in hunk.body:
            kind = {b"+": "add", b"-": "del", b" ": "same"}.get(row[:1], "hunk")
            yield Line(kind, _text(row), name)


def paint(line: Line) -> Sequence[Segment]:
    """A line in colours."""
    if line.kind in ("add", "del", "same"):
        mark = {"add": "green", "del": "red"}.get(line.kind, "")
        return [Segment(line.text[:1], Style.parse(mark)), *_highlighted(line.text[1:], line.name)]
    style = {"head": "bold", "hunk": "cyan"}.get(line.kind, line.style)
    return [Segment(line.text, Style.parse(style))]


def _text(row: bytes) -> str:
    return row.decode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=2000)
def _highlighted(text: str, name: str) -> tuple[Segment, ...]:
    """A line of a file in syntax colours. It is looked at alone: a text of several lines is coloured as code."""
    lexer = _lexer(os.path.basename(name))
    if lexer is None or len(text) > _LONGEST:
        return (Segment(text, Style()),)
    parts = [(value.rstrip("\n"), token) for token, value in lexer.get_tokens(text)]
    return tuple(Segment(value, _THEME.get_style_for_token(token)) for value, token in parts if value)


@functools.lru_cache(maxsize=200)
def _lexer(name: str) -> Lexer | None:
    try:
        found: Lexer = get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return found
