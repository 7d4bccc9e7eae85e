"""Search and replace in the text of a file, by whole lines that occur exactly once; and the text of a whole file.

Lines end as git's do, at a newline; a carriage return before it belongs to the end of the line. What is not replaced
keeps its bytes, and new lines get the line ends of the file, so that a model need not know them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

BOM = "\ufeff"
_MAX_NEAREST = 8  # lines of the file that are shown if a search does not match
_MAX_MATCHES = 5
_MAX_WIDTH = 160
_MAX_COMPARED = 60  # characters of a line


class Edit(NamedTuple):
    """Replace the lines `search` by the lines `replace`; neither has line ends."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


def apply_edits(text: str, edits: Sequence[Edit]) -> tuple[str, Sequence[str]]:
    """The text with all edits, one after the other, and the problems of those that do not apply: then nothing is to be
    changed."""
    problems = []
    for number, edit in enumerate(edits, 1):
        lines = _lines(text)
        problem = _replace(lines, edit)
        if problem is None:
            text = "".join(line + end for line, end in lines)
        else:
            problems.append(f"search block {number} {problem}" if len(edits) > 1 else f"its search block {problem}")
    return text, problems


def whole_text(lines: Sequence[str], present: str | None) -> str:
    """The text of a file with these lines, in place of `present` (None: there is none yet)."""
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
    """The most frequent line end."""
    ends = [end for _, end in lines if end]
    return max(sorted(set(ends)), key=ends.count, default="\n")


def _replace(lines: list[tuple[str, str]], edit: Edit) -> str | None:
    """Apply an edit in place; the problem if it does not apply."""
    if not any(line.strip() for line in edit.search):
        return "is empty: repeat the lines that are to be replaced"
    mark = BOM if lines and lines[0][0].startswith(BOM) and not edit.search[0].startswith(BOM) else ""
    bare = [line for line, _ in lines]
    if mark:
        bare[0] = bare[0].removeprefix(mark)
    matches = _matches(bare, edit.search)
    if not matches:
        return f"matches nothing in the file{_nearest(bare, edit.search)}"
    if len(matches) > 1:
        shown = ", ".join(str(at + 1) for at in matches[:_MAX_MATCHES]) + (" …" if len(matches) > _MAX_MATCHES else "")
        return f"matches {len(matches)} times, at lines {shown}: add lines around it until it matches once"
    at, count = matches[0], len(edit.search)
    usual = _end_of(lines[at : at + count]) if any(end for _, end in lines[at : at + count]) else _end_of(lines)
    new = [(line, usual) for line in edit.replace]
    if new and at + count == len(lines):
        new[-1] = (new[-1][0], lines[-1][1])
    if at == 0 and mark and new:
        new[0] = (mark + new[0][0], new[0][1])
    lines[at : at + count] = new
    return None


def _matches(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The positions of the wanted lines, overlaps included."""
    first, count = wanted[0], len(wanted)
    return [
        at
        for at in range(len(lines) - count + 1)
        if lines[at] == first and list(lines[at : at + count]) == list(wanted)
    ]


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The lines of the file that are most like the wanted ones, for the problem."""
    anchor = next(line for line in wanted if line.strip())
    offset = list(wanted).index(anchor)
    known = {line.strip(): at for at, line in reversed(list(enumerate(lines))) if line.strip()}
    like = difflib.get_close_matches(anchor.strip()[:_MAX_COMPARED], {each[:_MAX_COMPARED] for each in known}, 1, 0.5)
    found = min((at for line, at in known.items() if like and line[:_MAX_COMPARED] == like[0]), default=None)
    if found is None:
        return f" (of {len(lines)} lines), nor anything like its line {_cut(anchor)}"
    at = max(0, found - offset - 1)
    end = at + min(len(wanted), _MAX_NEAREST) + 2
    shown = [f"  {n:>5}  {_cut(line)}" for n, line in enumerate(lines[at:end], at + 1)]
    return "; the nearest lines are\n" + "\n".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_WIDTH else line[:_MAX_WIDTH] + " …"
