"""The script of a mock: what it answers in each node, attempt by attempt. It is a JSON document:

    {"scaffold": [ENTRY, …], "implement": [ENTRY, …]}

The first attempt takes the first entry, the next one the next; the last is repeated. A node that is left out gets the
mock's own answer. Of an entry, all that is given is done in the order of this list, and nothing where it is `{}`:

    say        text that it says
    write      {PATH: TEXT}: whole files
    edit       [{"path": PATH, "search": TEXT, "replace": TEXT}]: whole lines, there exactly once
    delete     [PATH]
    answer     text that is taken for the answer of a text model; `[MARK]` stands for the mark of the prompt
    run        shell text, run in the worktree as an agent's command is
    unusable   why there is nothing that could be used
    fail       "rate-limit": as a model that was asked too often
    tokens     [IN, OUT]: what it says that it has cost
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.errors import TddError
from git_agentos.tdd.models.answer import Change
from git_agentos.tdd.models.edits import Edit
from git_agentos.tdd.models.model import IMPLEMENT, SCAFFOLD

RATE_LIMIT = "rate-limit"
_HINT = "the docstring of git_agentos.tdd.models.script, and docs/tdd.md, say what a script may have"


@dataclass(frozen=True)
class Entry:
    """One answer."""

    say: str | None = None
    changes: tuple[Change, ...] = ()
    answer: str | None = None
    run: str | None = None
    unusable: str | None = None
    fail: str | None = None
    tokens: tuple[int, int] | None = None


Script = Mapping[str, Sequence[Entry]]


def load(path: str) -> Script:
    """The script in a file; TddError where there is none."""
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
    except OSError as error:
        raise TddError(f"cannot read the mock's script '{path}': {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TddError(f"the mock's script '{path}' is not JSON: {error}", _HINT) from error
    return read(document, path)


def read(document: Any, source: str = "script") -> Script:
    """The script in a JSON value; TddError, naming `source`, where it is none."""
    reader = _Reader(source)
    script = reader.mapping(document, "the script", {SCAFFOLD, IMPLEMENT})
    found = {}
    for node, entries in script.items():
        listed = entries if isinstance(entries, list) else [entries]
        if not listed:
            raise reader.wrong(node, "has no entry")
        found[node] = tuple(reader.entry(each, f"{node}[{n}]") for n, each in enumerate(listed))
    return found


class _Reader:
    """Reads values, and tells where one is wrong."""

    def __init__(self, source: str) -> None:
        self._source = source

    def wrong(self, where: str, what: str) -> TddError:
        return TddError(f"'{where}' in the mock's script '{self._source}' {what}", _HINT)

    def mapping(self, value: Any, where: str, keys: set[str] | None = None) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(where, "is no object")
        unknown = sorted(set(value) - keys) if keys is not None else []
        if unknown:
            raise self.wrong(where, f"has '{unknown[0]}', which is none of {', '.join(sorted(keys or ()))}")
        return value

    def text(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise self.wrong(where, "is no text")
        return value

    def list(self, value: Any, where: str) -> Sequence[Any]:
        if not isinstance(value, list):
            raise self.wrong(where, "is no list")
        return value

    def entry(self, value: Any, where: str) -> Entry:
        keys = {"say", "write", "edit", "delete", "answer", "run", "unusable", "fail", "tokens"}
        fields = self.mapping(value, where, keys)
        plain = {
            key: self.text(fields[key], f"{where}.{key}")
            for key in ("say", "answer", "run", "unusable", "fail")
            if key in fields
        }
        if plain.get("fail", RATE_LIMIT) != RATE_LIMIT:
            raise self.wrong(f"{where}.fail", f"is not '{RATE_LIMIT}'")
        tokens = self._tokens(fields["tokens"], f"{where}.tokens") if "tokens" in fields else None
        return Entry(**plain, changes=self._changes(fields, where), tokens=tokens)

    def _tokens(self, value: Any, where: str) -> tuple[int, int]:
        listed = self.list(value, where)
        if len(listed) != 2 or not all(isinstance(each, int) and each >= 0 for each in listed):
            raise self.wrong(where, "is not two numbers")
        return listed[0], listed[1]

    def _changes(self, fields: Mapping[str, Any], where: str) -> tuple[Change, ...]:
        found = [
            Change(path, lines=_lines(self.text(text, f"{where}.write['{path}']")))
            for path, text in self.mapping(fields.get("write", {}), f"{where}.write").items()
        ]
        edits: dict[str, list[Edit]] = {}
        for n, each in enumerate(self.list(fields.get("edit", []), f"{where}.edit")):
            at = f"{where}.edit[{n}]"
            edit = self.mapping(each, at, {"path", "search", "replace"})
            path, search, replace = (self.text(edit.get(key), f"{at}.{key}") for key in ("path", "search", "replace"))
            edits.setdefault(path, []).append(Edit(_lines(search), _lines(replace)))
        found += [Change(path, edits=tuple(each)) for path, each in edits.items()]
        deleted = self.list(fields.get("delete", []), f"{where}.delete")
        found += [Change(self.text(each, f"{where}.delete"), delete=True) for each in deleted]
        return tuple(found)


def _lines(text: str) -> tuple[str, ...]:
    lines = text.split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)
