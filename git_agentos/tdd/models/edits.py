"""Search and replace on the text of a file, by whole lines, each exactly once; and what a whole file is written as.

Lines end where git's do, at a newline; a carriage return before it is of the line's end. What is not replaced keeps its
bytes, and what is written gets the ends that the file has, so that a model need not know of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

BOM = "\ufeff"
_SHOWN = 8  # lines of the file that are shown where a search has not matched
_PLACES = 5
_WIDTH = 160
_COMPARED = 60  # characters of a line


class Edit(NamedTuple):
    """Replace the lines `search` by the lines `replace`; neither has line ends."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


def replaced(text: str, edits: Sequence[Edit]) -> tuple[str, Sequence[str]]:
    """The text with all edits done one after the other, and what is wrong with those that cannot be: then nothing is
    to be done."""
    problems = []
    for number, edit in enumerate(edits, 1):
        lines = _lines(text)
        problem = _replace(lines, edit)
        if problem is None:
            text = "".join(line + end for line, end in lines)
        else:
            problems.append(f"search block {number} {problem}" if len(edits) > 1 else f"its search block {problem}")
    return text, problems


def whole(lines: Sequence[str], present: str | None) -> str:
    """A file of these lines in the place of `present` (None: there is none yet)."""
    end = _end_of(_lines(present)) if present else "\n"
    begin = BOM if present is not None and present.startswith(BOM) and lines and not lines[0].startswith(BOM) else ""
    return begin + "".join(line + end for line in lines)


def _lines(text: str) -> list[tuple[str, str]]:
    """Every line and its end; that of the last may be empty."""
    found = []
    for line in text.split("\n"):
        bare = line.removesuffix("\r")
        found.append((bare, line[len(bare) :] + "\n"))
    last, end = found.pop()
    # A carriage return without a newline is of the line.
    last += end[:-1]
    return [*found, (last, "")] if last else found


def _end_of(lines: Sequence[tuple[str, str]]) -> str:
    """The end that most lines have."""
    ends = [end for _, end in lines if end]
    return max(sorted(set(ends)), key=ends.count, default="\n")


def _replace(lines: list[tuple[str, str]], edit: Edit) -> str | None:
    """Do one edit in place; what is wrong with it otherwise."""
    if not any(line.strip() for line in edit.search):
        return "is empty: repeat the lines that are to be replaced"
    mark = BOM if lines and lines[0][0].startswith(BOM) and not edit.search[0].startswith(BOM) else ""
    bare = [line for line, _ in lines]
    if mark:
        bare[0] = bare[0].removeprefix(mark)
    places = _places(bare, edit.search)
    if not places:
        return f"matches nothing in the file{_nearest(bare, edit.search)}"
    if len(places) > 1:
        shown = ", ".join(str(at + 1) for at in places[:_PLACES]) + (" …" if len(places) > _PLACES else "")
        return f"matches {len(places)} times, at lines {shown}: add lines around it until it matches once"
    at, count = places[0], len(edit.search)
    usual = _end_of(lines[at : at + count]) if any(end for _, end in lines[at : at + count]) else _end_of(lines)
    new = [(line, usual) for line in edit.replace]
    if new and at + count == len(lines):
        new[-1] = (new[-1][0], lines[-1][1])
    if at == 0 and mark and new:
        new[0] = (mark + new[0][0], new[0][1])
    lines[at : at + count] = new
    return None


def _places(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where the wanted lines are, overlaps counted."""
    first, count = wanted[0], len(wanted)
    return [
        at
        for at in range(len(lines) - count + 1)
        if lines[at] == first and list(lines[at : at + count]) == list(wanted)
    ]


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The lines of the file that are most like the wanted ones, to be told."""
    anchor = next(line for line in wanted if line.strip())
    offset = list(wanted).index(anchor)
    known = {line.strip(): at for at, line in reversed(list(enumerate(lines))) if line.strip()}
    like = difflib.get_close_matches(anchor.strip()[:_COMPARED], {each[:_COMPARED] for each in known}, 1, 0.5)
    found = min((at for line, at in known.items() if like and line[:_COMPARED] == like[0]), default=None)
    if found is None:
        return f" (of {len(lines)} lines), nor anything like its line {_cut(anchor)}"
    at = max(0, found - offset - 1)
    end = at + min(len(wanted), _SHOWN) + 2
    shown = [f"  {n:>5}  {_cut(line)}" for n, line in enumerate(lines[at:end], at + 1)]
    return "; the nearest lines are\n" + "\n".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[:_WIDTH] + " …"
