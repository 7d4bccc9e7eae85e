"""The form of an answer of a chat model, its parser, and the text of a file with its edits.

Blocks begin and end with lines that carry a mark, which is made from the prompt and does not occur in it: so a file may
contain any text, this module's too. Text outside of blocks is ignored.

    [MARK] file PATH     the whole file, line by line, up to the end
    [MARK] end
    [MARK] edit PATH     any number of pairs of
    [MARK] search        lines that occur exactly once, and
    [MARK] replace       the lines in their place
    [MARK] end
    [MARK] delete PATH

Lines end as git's do, at a newline; a carriage return before it belongs to the end of the line. What is not replaced
keeps its bytes, and new lines get the line ends of the file, so that a model need not know them.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence

from git_agentos.util.named_tuple import NamedTuple

MAX_LENGTH = 4 << 20  # characters of an answer
MAX_WHOLE_LINES = 400  # an existing file that is longer has to be edited
_FENCE = re.compile(r"\s*(```+|~~~+)[\w.+-]*\s*\Z")
_MAY_BE_FENCED = (".md", ".markdown", ".mdx", ".rst", ".txt", ".qmd")
_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")
BOM = "\ufeff"
_MAX_NEAREST = 8  # lines of the file that are shown if a search does not match
_MAX_MATCHES = 5
_MAX_WIDTH = 160
_MAX_COMPARED = 60  # characters of a line


class Edit(NamedTuple):
    """Replace the lines `search` by the lines `replace`; neither has line ends."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


class Change(NamedTuple):
    """The change of a file: exactly one of the three. `path` is as the model wrote it."""

    path: str
    lines: tuple[str, ...] | None = None
    edits: tuple[Edit, ...] | None = None
    delete: bool = False


class InvalidAnswer(Exception):
    """An answer that cannot be applied; each of `problems` is a sentence for the model."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def mark_for(prompt: str) -> str:
    """The mark for the answer to a prompt: the same for the same prompt, and not contained in it."""
    return next(mark for mark in _marks(prompt) if mark not in prompt)


def _marks(prompt: str) -> Iterator[str]:
    digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
    for number in itertools.count():
        yield hashlib.sha256(f"{digest} {number}".encode()).hexdigest()[:6]


def instructions(mark: str) -> str:
    """The description of the form, for the model."""
    return f"""\
How to answer
-------------
Answer with blocks of the following forms; text outside of blocks is ignored. Each marker with [{mark}] has a line of
its own, without indentation, and without code fences around the contents.
Paths are relative to the project's root, with forward slashes.

A new file, or a file of fewer than {MAX_WHOLE_LINES} lines to be replaced, whole and without omissions:

[{mark}] file path/to/new.py
(every line of the file)
[{mark}] end

A change of an existing file, by any number of search and replace pairs. The lines to search for are whole lines,
exactly as they are in the file (indentation included), and occur there exactly once; pairs are applied one by one:

[{mark}] edit path/to/present.py
[{mark}] search
(lines of the file)
[{mark}] replace
(the lines in their place; none to delete them)
[{mark}] end

A file to delete:

[{mark}] delete path/to/gone.py

All blocks are applied, or none, if one of them is wrong.
"""


def correction(mark: str, problems: Sequence[str]) -> str:
    """The message to the model about an answer that could not be used."""
    listed = "\n".join(f"- {each}" for each in problems)
    return (
        f"That answer could not be used, and nothing of it was applied:\n\n{listed}\n\n"
        f"Give the complete answer again, with every block that is needed, in the form that was described ([{mark}] …)."
    )


def parse(text: str, mark: str) -> tuple[Change, ...]:
    """The changes of an answer; InvalidAnswer with everything that is wrong with its form."""
    if len(text) > MAX_LENGTH:
        raise InvalidAnswer([f"the answer has {len(text)} characters; at most {MAX_LENGTH} are read"])
    reader = _Reader(mark)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        reader.line(number, line)
    return reader.end()


class _Reader:
    """Reads an answer line by line."""

    def __init__(self, mark: str) -> None:
        self._mark = f"[{mark}]"
        self._files: dict[str, Change] = {}
        self._problems: list[str] = []
        self._began = 0
        self._verb = self._path = ""
        self._part: list[str] | None = None
        self._edits: list[tuple[list[str], list[str]]] = []

    def line(self, number: int, line: str) -> None:
        words = line.strip()
        if not words.startswith(self._mark):
            if self._part is not None:
                self._part.append(line)
            elif self._verb == "edit" and words and _FENCE.match(words) is None:
                self._problem(number, f"'{self._path}' has text before its first 'search'")
            return
        verb, _, path = words.removeprefix(self._mark).strip().partition(" ")
        path = path.strip().strip("`'\"")
        if verb in ("file", "edit", "delete"):
            self._begin(number, verb, path)
        elif verb in ("search", "replace"):
            self._open_part(number, verb)
        elif verb == "end":
            self._close(number)
        else:
            self._problem(number, f"'{verb}' is none of file, edit, search, replace, delete, end")

    def end(self) -> tuple[Change, ...]:
        if self._verb:
            self._add_unended()
        if not self._files and not self._problems:
            self._problems.append(f"the answer has no block: no line begins with {self._mark}")
        if self._problems:
            raise InvalidAnswer(self._problems)
        return tuple(self._files.values())

    def _begin(self, number: int, verb: str, path: str) -> None:
        if self._verb:
            self._add_unended()
        if not path:
            self._problem(number, f"'{verb}' without a path")
        if verb == "delete":
            self._put(Change(path, delete=True))
            return
        self._began, self._verb, self._path = number, verb, path
        self._part = [] if verb == "file" else None
        self._edits = []

    def _open_part(self, number: int, verb: str) -> None:
        if self._verb != "edit":
            self._problem(number, f"'{verb}' outside of an edit")
        elif verb == "search":
            self._check_replaced(number)
            self._edits.append(([], []))
            self._part = self._edits[-1][0]
        elif not self._edits or self._part is not self._edits[-1][0]:
            self._problem(number, f"'{self._path}' has a 'replace' without a 'search' before it")
        else:
            self._part = self._edits[-1][1]

    def _check_replaced(self, number: int) -> bool:
        """Whether each search has its replacement: one that has none would delete its lines."""
        if self._edits and self._part is self._edits[-1][0]:
            self._problem(number, f"'{self._path}' has a 'search' without a 'replace' after it")
            return False
        return True

    def _close(self, number: int) -> None:
        if not self._verb:
            self._problem(number, "'end' without a block")
            return
        if self._verb == "file":
            self._put(Change(self._path, lines=_unfenced(self._path, self._part or [])))
        elif not self._edits:
            self._problem(number, f"'{self._path}' is to be edited, but there is nothing to search for")
        elif self._check_replaced(number):
            self._put(Change(self._path, edits=tuple(Edit(tuple(one), tuple(other)) for one, other in self._edits)))
        self._verb, self._part = "", None

    def _put(self, change: Change) -> None:
        present = self._files.get(change.path)
        if present is not None and present.edits is not None and change.edits is not None:
            change = present._replace(edits=(*present.edits, *change.edits))
        elif present is not None:
            self._problems.append(f"'{change.path}' has two blocks that do not go together")
        self._files[change.path] = change

    def _add_unended(self) -> None:
        self._problem(self._began, f"the block of '{self._path}' has no end: the answer may have been cut off")
        self._verb, self._part = "", None

    def _problem(self, number: int, text: str) -> None:
        self._problems.append(f"line {number} of the answer: {text}")


def _unfenced(path: str, lines: list[str]) -> tuple[str, ...]:
    """The lines of a file without the code fence that models like to put around it."""
    if path.lower().endswith(_MAY_BE_FENCED):
        return tuple(lines)
    inner = list(lines)
    while inner and not inner[-1].strip():
        inner.pop()
    opening = _FENCE.match(inner[0]) if len(inner) > 1 else None
    if opening is None or inner[-1].strip() != opening[1]:
        return tuple(lines)
    return tuple(inner[1:-1])


# -- the text of a file with its edits ---------------------------------------------------------------------------------


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
    return [(line, end) for line, end in _LINE.findall(text) if line or end]


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
