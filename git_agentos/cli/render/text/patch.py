"""Patches as text: made safe and coloured on a terminal, or as statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from git_agentos.cli.render.text.layout import lines
from git_agentos.cli.text import Style, Text
from git_agentos.util import quote
from git_agentos.util.values import count

_COLOURS = {"del": "red", "add": "green", "hunk": "cyan", "head": "bold"}


def patch(data: bytes, style: Style, *, stat: bool, numbered: bool = False) -> Text:
    """A patch, unchanged if it does not go to a terminal; or its statistics. With `numbered`, a terminal shows the
    numbers of hunks, where `git apply` does not read them."""
    if stat:
        return Text(statistics(data), None)
    return Text(coloured(data, style, numbered=numbered), None) if style.terminal else Text(data, None)


def coloured(data: bytes, style: Style, *, numbered: bool = False) -> str:
    """A patch for a terminal, in git's colours."""
    rows = patch_lines(quote.contents(data).split("\n"))
    if numbered:
        rows = _numbered(rows)
    return "\n".join(style.paint(_COLOURS[kind], row) if kind else row for kind, row in rows)


def _numbered(rows: Iterable[tuple[str | None, str]]) -> Iterator[tuple[str | None, str]]:
    """The lines, with the number of each hunk behind its first line."""
    number = 0
    for kind, row in rows:
        if kind == "head" and row.startswith("diff --git "):
            number = 0
        begins = kind == "hunk" or (kind == "head" and row.startswith(("old mode ", "GIT binary patch")))
        number += begins
        yield kind, f"{row}  (hunk {number})" if begins else row


def patch_lines(rows: Iterable[str]) -> Iterator[tuple[str | None, str]]:
    """The lines of a patch with the kind of each: `add`, `del`, `hunk`, `head`, or None.

    The counts in a hunk's header decide that, not the beginning of a line.
    """
    old = new = 0
    for row in rows:
        if old > 0 or new > 0:
            old -= row[:1] in ("-", " ", "")
            new -= row[:1] in ("+", " ", "")
            yield {"-": "del", "+": "add"}.get(row[:1]), row
        elif row.startswith("@@ "):
            old, new = _hunk_counts(row)
            yield "hunk", row
        else:
            yield ("head" if row and not row.startswith("\\") else None), row


def statistics(data: bytes) -> str:
    """What `--stat` prints: each path with its added and removed lines, and the sums."""
    files: list[tuple[str, int, int, bool]] = []
    name, added, removed, binary = "", 0, 0, False
    for kind, row in patch_lines(data.decode("utf-8", "surrogateescape").split("\n")):
        added += kind == "add"
        removed += kind == "del"
        if kind != "head":
            continue
        if row.startswith("diff --git "):
            if name:
                files.append((name, added, removed, binary))
            added, removed, binary = 0, 0, False
            name = _path_in_header(row)
        elif row.startswith(("+++ ", "--- ")) and not row.endswith(" /dev/null"):
            name = _without_side(row[4:])
        elif row.startswith(("Binary files ", "GIT binary patch")):
            binary = True
    if name:
        files.append((name, added, removed, binary))
    if not files:
        return ""
    width = max(len(each[0]) for each in files)
    rows = [f" {path:<{width}} | {'Bin' if is_bin else f'+{plus} -{minus}'}" for path, plus, minus, is_bin in files]
    plus, minus = sum(each[1] for each in files), sum(each[2] for each in files)
    return lines([*rows, f" {count(len(files), 'path')} changed, {plus} added, {minus} removed lines"])


def _hunk_counts(header: str) -> tuple[int, int]:
    """The line counts in `@@ -a,b +c,d @@`."""
    counts = [int(word.partition(",")[2] or "1") for word in header.split(" ")[1:3]]
    return counts[0], counts[1]


def _path_in_header(row: str) -> str:
    """The path in `diff --git a/PATH b/PATH`, for a file that no other line names."""
    both = row.removeprefix("diff --git ")
    return _without_side(both[len(both) // 2 + 1 :])


def _without_side(name: str) -> str:
    """A name as the patch has it, without the `a/` or `b/`; a name that git quoted stays quoted."""
    name = name.rstrip("\t")
    if name.startswith('"') and name.endswith('"'):
        return '"' + quote.line(name[1:])[2:]
    return quote.path(name[2:])
