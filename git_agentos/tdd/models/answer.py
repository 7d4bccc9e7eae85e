"""The form of an answer of a chat model, and its parser.

Blocks begin and end with lines that carry a mark, which is made from the prompt and does not occur in it: so a file may
contain any text, this module's too. Text outside of blocks is ignored.

    [MARK] file PATH     the whole file, line by line, up to the end
    [MARK] end
    [MARK] edit PATH     any number of pairs of
    [MARK] search        lines that occur exactly once, and
    [MARK] replace       the lines in their place
    [MARK] end
    [MARK] delete PATH
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from git_agentos.tdd.models.edits import Edit

MAX_LENGTH = 4 << 20  # characters of an answer
MAX_WHOLE_LINES = 400  # an existing file that is longer has to be edited
_FENCE = re.compile(r"\s*(```+|~~~+)[\w.+-]*\s*\Z")
_MAY_BE_FENCED = (".md", ".markdown", ".mdx", ".rst", ".txt", ".qmd")


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
            self._edits.append(([], []))
            self._part = self._edits[-1][0]
        elif not self._edits or self._part is not self._edits[-1][0]:
            self._problem(number, f"'{self._path}' has a 'replace' without a 'search' before it")
        else:
            self._part = self._edits[-1][1]

    def _close(self, number: int) -> None:
        if not self._verb:
            self._problem(number, "'end' without a block")
            return
        if self._verb == "file":
            self._put(Change(self._path, lines=_unfenced(self._path, self._part or [])))
        elif not self._edits:
            self._problem(number, f"'{self._path}' is to be edited, but there is nothing to search for")
        elif self._part is self._edits[-1][0]:
            self._problem(number, f"'{self._path}' has a 'search' without a 'replace' after it")
        else:
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
