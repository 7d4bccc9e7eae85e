"""Hunks: the parts of git's patches, in the order in which git prints them. They can be split, edited and taken back.

A patch leads from an old side to a new one. To take a hunk back is to replace its lines of the new side by those of the
old one; all other bytes of the file stay. git makes the hunks: nothing here compares contents.

Lines are bytes. A hunk's `body` has them as the patch does, each with its mark and without its line end; a line that
begins with a backslash says that the one before it has no line end in the file.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from git_agentos.util.named_tuple import NamedTuple


class HunkKind(enum.StrEnum):
    """What a hunk changes: some lines (`text`), the executable bit (`mode`), or the file as a whole: it was added,
    deleted, is binary, or has become another type of file (a link, for example)."""

    TEXT = "text"
    MODE = "mode"
    ADDITION = "addition"
    DELETION = "deletion"
    BINARY = "binary"
    TYPE = "type"


class Hunk(NamedTuple):
    """One hunk. `header` is its first line (`@@ …`), of a mode both lines; a file as a whole has none. `old` and `new`
    are where the body of a text begins on either side, counted in lines from 0. `is_edited`: a person changed it."""

    kind: HunkKind
    header: bytes
    body: tuple[bytes, ...] = ()
    old: int = 0
    new: int = 0
    is_edited: bool = False


class FilePatch(NamedTuple):
    """The changes of one file: git's letter, the lines before the first hunk, and the hunks. `number` of a hunk is its
    place in `hunks`, counted from 1."""

    path: bytes
    status: str
    head: tuple[bytes, ...]
    hunks: tuple[Hunk, ...]


class NotApplicableError(ValueError):
    """A hunk does not fit the file, or two hunks overlap: only an edited one can do that."""


class _Edit(NamedTuple):
    """Lines to replace: from line `at` of the new side, `removed` by `added`."""

    at: int
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]


_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)
_NO_LINE_END = b"\\"


# -- reading -------------------------------------------------------------------------------------------------------


def parse(patch: bytes, names: Sequence[tuple[bytes, str]]) -> tuple[FilePatch, ...]:
    """The files of a patch as `git diff-tree -p` prints it; `names` are its paths with git's letters, in its order."""
    sections = _sections(patch.split(b"\n"))
    found = []
    for path, status in names:
        head, hunks = next(sections)
        if status == "T":  # git prints it as a deletion and an addition
            more, others = next(sections)
            rows = [row for each in (*hunks, *others) for row in (each.header, *each.body)]
            hunks = [Hunk(HunkKind.TYPE, b"", (*more, *rows))]
        elif status in ("A", "D"):
            kind = HunkKind.ADDITION if status == "A" else HunkKind.DELETION
            hunks = [Hunk(kind, b"", tuple(row for each in hunks for row in (each.header, *each.body)))]
        found.append(FilePatch(path, status, tuple(head), tuple(hunks)))
    return tuple(found)


def _sections(rows: list[bytes]) -> Iterator[tuple[list[bytes], list[Hunk]]]:
    """The parts of a patch that begin with `diff --git`: the lines before the first hunk, and the hunks."""
    at = 0
    while at < len(rows):
        if not rows[at].startswith(b"diff --git "):
            at += 1
            continue
        head, hunks = [rows[at]], []
        at += 1
        while at < len(rows) and not rows[at].startswith(b"diff --git "):
            row = rows[at]
            if row.startswith(b"@@ "):
                hunk, at = _text(rows, at)
                hunks.append(hunk)
            elif row.startswith((b"GIT binary patch", b"Binary files ")):
                hunks.append(Hunk(HunkKind.BINARY, b""))
                at += 1
            elif row.startswith(b"old mode "):
                hunks.append(Hunk(HunkKind.MODE, row + b"\n" + rows[at + 1]))
                at += 2
            else:
                if not any(each.kind is HunkKind.BINARY for each in hunks):
                    head.append(row)
                at += 1
        yield [row for row in head if row], hunks


def _text(rows: list[bytes], at: int) -> tuple[Hunk, int]:
    """The hunk whose header is line `at`, and the line after it."""
    found = _HEADER.fullmatch(rows[at])
    assert found is not None, rows[at]
    old, new = int(found[2] or 1), int(found[4] or 1)
    starts = int(found[1]) - (old > 0), int(found[3]) - (new > 0)
    begin = end = at + 1
    while old > 0 or new > 0 or (end < len(rows) and rows[end].startswith(_NO_LINE_END)):
        mark = rows[end][:1]
        old -= mark in (b"-", b" ", b"")
        new -= mark in (b"+", b" ", b"")
        end += 1
    return Hunk(HunkKind.TEXT, rows[at], tuple(rows[begin:end]), *starts), end


# -- taking back ---------------------------------------------------------------------------------------------------


def take_back(content: bytes, hunks: Sequence[Hunk], on_disk: bytes | None = None) -> bytes:
    """`content`, the new side, with these text hunks taken back. NotApplicableError if one of them does not fit.

    With `on_disk`, which differs from `content` in its line ends alone (`same_lines`), the result is `on_disk` with the
    hunks taken back: lines that return get the line end of the line above, or of the first line.
    """
    lines = _lines(content)
    shown = lines if on_disk is None else _lines(on_disk)
    result: list[bytes] = []
    at = 0
    for edit in _ordered(hunks):
        end = edit.at + len(edit.removed)
        if end > len(lines) or tuple(lines[edit.at : end]) != edit.removed:
            raise NotApplicableError
        result += shown[at : edit.at]
        model = edit.at - 1 if edit.at > 0 else 0
        is_crlf = model < len(lines) and shown[model] != lines[model]
        result += [line[:-1] + b"\r\n" if is_crlf and line.endswith(b"\n") else line for line in edit.added]
        at = end
    result += shown[at:]
    if any(not line.endswith(b"\n") for line in result[:-1]):
        raise NotApplicableError
    return b"".join(result)


def same_lines(content: bytes, on_disk: bytes) -> bool:
    """Whether `on_disk` has the lines of `content`, each of them as it is or with CRLF in place of LF."""
    if content == on_disk:
        return True
    one, other = _lines(content), _lines(on_disk)
    return len(one) == len(other) and all(
        a == b or (a.endswith(b"\n") and a[:-1] + b"\r\n" == b) for a, b in zip(one, other, strict=True)
    )


def _lines(content: bytes) -> list[bytes]:
    """The lines with their ends; a line feed alone ends a line."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _ordered(hunks: Sequence[Hunk]) -> list[_Edit]:
    """The edits of all hunks by line; NotApplicableError if two overlap."""
    edits = sorted((edit for hunk in hunks for edit in _edits(hunk)), key=lambda edit: edit.at)
    for one, other in pairwise(edits):
        if other.at < one.at + len(one.removed) or other.at == one.at:
            raise NotApplicableError
    return edits


def _edits(hunk: Hunk) -> Iterator[_Edit]:
    at = hunk.new
    removed: list[bytes] = []
    added: list[bytes] = []
    for mark, line in _marked(hunk.body):
        if mark == b"+":
            removed.append(line)
        elif mark == b"-":
            added.append(line)
        else:
            if removed or added:
                yield _Edit(at, tuple(removed), tuple(added))
            at += len(removed) + 1
            removed, added = [], []
    if removed or added:
        yield _Edit(at, tuple(removed), tuple(added))


def _marked(body: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The lines of a body with their marks. git leaves out that of an empty context line if it is told to
    (`diff.suppressBlankEmpty`)."""
    for number, row in enumerate(body):
        if row.startswith(_NO_LINE_END):
            continue
        ended = not (number + 1 < len(body) and body[number + 1].startswith(_NO_LINE_END))
        yield row[:1] or b" ", row[1:] + (b"\n" if ended else b"")


# -- splitting and editing -----------------------------------------------------------------------------------------


def split(hunk: Hunk) -> list[Hunk]:
    """The hunk cut at the context between its changes, as git cuts it: both parts have that context."""
    runs = _runs(hunk.body)
    parts = [runs[n : n + 3] for n in range(0, max(len(runs) - 2, 1), 2)]
    if hunk.kind is not HunkKind.TEXT or len(parts) < 2:
        return [hunk]
    found = []
    old, new = hunk.old, hunk.new
    heading = _HEADER.fullmatch(hunk.header)
    for number, part in enumerate(parts):
        body = tuple(row for run in part for row in run)
        extra = heading[5] if heading is not None and number == 0 else b""
        found.append(_with_counts(hunk._replace(body=body, old=old, new=new), extra))
        # The next part begins with the context that ends this one.
        before = [row for run in part[:2] for row in run]
        old += _count(before, b"- ")
        new += _count(before, b"+ ")
    return found


def _runs(body: Sequence[bytes]) -> list[list[bytes]]:
    """The body as context, changes, context, changes …, context; the first and the last may be empty."""
    runs: list[list[bytes]] = [[]]
    for row in body:
        mark = row[:1] or b" "
        is_context = len(runs) % 2 == 1
        if mark != _NO_LINE_END and (mark == b" ") != is_context:
            runs.append([])
        runs[-1].append(row)
    return runs if len(runs) % 2 == 1 else [*runs, []]


def edited(hunk: Hunk, text: bytes, comment: bytes = b"#") -> Hunk | None:
    """The hunk with the body that a person has written; None if nothing is left of it.

    Lines that begin with `comment` and headers do not count. NotApplicableError for a line without a mark. Whether it
    still fits the file, `take_back` says.
    """
    rows = [row for row in text.removesuffix(b"\n").split(b"\n") if not row.startswith((comment, b"@@ "))]
    if not any(rows):
        return None
    if any(row[:1] not in (b"", b" ", b"+", b"-", _NO_LINE_END) for row in rows):
        raise NotApplicableError
    heading = _HEADER.fullmatch(hunk.header)
    return _with_counts(hunk._replace(body=tuple(rows), is_edited=True), heading[5] if heading is not None else b"")


def fits(content: bytes, hunk: Hunk) -> bool:
    """Whether the lines of the new side in a hunk, context included, are those of `content`."""
    lines = [line for mark, line in _marked(hunk.body) if mark != b"-"]
    return _lines(content)[hunk.new : hunk.new + len(lines)] == lines


def _with_counts(hunk: Hunk, extra: bytes) -> Hunk:
    old, new = _count(hunk.body, b"- "), _count(hunk.body, b"+ ")
    numbers = (hunk.old + (old > 0), old, hunk.new + (new > 0), new)
    return hunk._replace(header=b"@@ -%d,%d +%d,%d @@%b" % (*numbers, extra))


def _count(rows: Sequence[bytes], marks: bytes) -> int:
    return sum((row[:1] or b" ") in marks for row in rows if not row.startswith(_NO_LINE_END))
