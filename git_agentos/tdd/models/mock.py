"""A deterministic script in place of a model: offline, for tests and trials.

Without a script it walks the happy path of any issue: it writes a test that calls a stub in a package of its own, and
then the code. It remembers nothing between two calls, so that a workflow that is resumed gets the same answers.

A script is a JSON document:

    {"scaffold": [ENTRY, …], "implement": [ENTRY, …]}

The first attempt takes the first entry, the next one the next; the last is repeated. A node that is missing gets the
mock's own answer. All keys of an entry are done, in this order:

    say        text to write to the transcript
    write      {PATH: TEXT}: whole files
    edit       [{"path": PATH, "search": TEXT, "replace": TEXT}]: whole lines that occur exactly once
    delete     [PATH]
    answer     text that is read as the answer of a chat model; `[MARK]` stands for the mark of the prompt
    run        shell text, run in the worktree like an agent's command
    unusable   the reason why there is nothing usable
    fail       "rate-limit": the error of a model that was asked too often
    tokens     [IN, OUT]: the tokens that it reports
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.errors import TddError
from git_agentos.tdd.models import answer, file_changes, transcript
from git_agentos.tdd.models.answer import Change, Edit, InvalidAnswer
from git_agentos.tdd.models.model import IMPLEMENT, MOCK, SCAFFOLD, ModelResult, Request
from git_agentos.tdd.models.transcript import Transcript

_RATE_LIMIT = "rate-limit"
_HINT = "docs/tdd.md describes the script"
_TEXT_KEYS = ("say", "answer", "run", "unusable", "fail")
_KEYS = (*_TEXT_KEYS, "write", "edit", "delete", "tokens")

_INIT = '"""Made by the mock of git-agentos."""\n'
_STUB = '''\
"""Made by the mock of git-agentos."""


def add(one: int, other: int) -> int:
    """The sum of two numbers."""
    raise NotImplementedError
'''
_CODE = _STUB.replace("raise NotImplementedError", "return one + other")
_TEST = '''\
"""Made by the mock of git-agentos."""

from {package}.adding import add


def test_{package}_adds() -> None:
    assert add(2, 3) == 5


def test_{package}_adds_what_is_negative() -> None:
    assert add(2, -3) == -1
'''


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


class MockLLM:
    """A model that follows a script: `document` is its JSON value, decoded."""

    recipient = "nobody: it is a script on this machine"

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        self.name = MOCK
        self._script = _read_script(document, "script") if document is not None else {}
        self._environment: Mapping[str, str] = {}

    @classmethod
    def load(cls, path: str, environment: Mapping[str, str]) -> MockLLM:
        """The mock of a script in a file, whose path is part of its name; TddError if it cannot be read."""
        try:
            with open(path, "rb") as file:
                document = json.loads(file.read())
        except OSError as error:
            raise TddError(f"cannot read the mock's script '{path}': {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise TddError(f"the mock's script '{path}' is not JSON: {error}", _HINT) from error
        mock = cls()
        mock.name = f"{MOCK}:{path}"
        mock._script = _read_script(document, path)
        return mock.within(environment)

    def within(self, environment: Mapping[str, str]) -> MockLLM:
        """This mock, with the environment for its shell text."""
        self._environment = environment
        return self

    def work(self, request: Request) -> ModelResult:
        transcript.write_file(request.folder, transcript.PROMPT, request.prompt, self._environment)
        entries = self._script.get(request.node)
        entry = entries[min(request.attempt, len(entries) - 1)] if entries else _happy_path(request)
        with Transcript(request.folder, request.show, self._environment) as log:
            error, code, interrupted = self._follow(entry, request, log)
        tokens_in, tokens_out = entry.tokens or (None, None)
        clean = transcript.without_secrets(error, self._environment) if error is not None else None
        return ModelResult(clean, code, tokens_in, tokens_out, interrupted)

    def _follow(self, entry: Entry, request: Request, log: Transcript) -> tuple[str | None, int | None, bool]:
        """Follow an entry: the reason if there is nothing usable, the exit code of its command, whether that was
        interrupted."""
        if entry.say is not None:
            log.write(entry.say)
        if entry.fail is not None:
            return "the mock was asked too often (rate limit)", None, False
        try:
            changes = list(entry.changes)
            if entry.answer is not None:
                mark = answer.mark_for(request.prompt)
                changes += answer.parse(entry.answer.replace("[MARK]", f"[{mark}]"), mark)
            if changes:
                file_changes.apply(changes, request.worktree)
        except InvalidAnswer as error:
            return f"the mock's answer cannot be used: {error}", None, False
        if entry.run is None:
            return entry.unusable, None, False
        from git_agentos.tdd.models import command

        ended = command.run(request, entry.run, command.environment_of(request, self._environment), log)
        return entry.unusable, ended.exit_code, ended.interrupted


# -- reading a script --------------------------------------------------------------------------------------------------


def _read_script(document: Any, source: str) -> Mapping[str, Sequence[Entry]]:
    """The script in a JSON value; TddError, naming `source` and the value, if it is malformed."""

    def check(valid: bool, where: str, problem: str) -> None:
        if not valid:
            raise TddError(f"'{where}' in the mock's script '{source}' {problem}", _HINT)

    def mapping(value: Any, where: str, keys: Sequence[str] | None = None) -> Mapping[str, Any]:
        check(isinstance(value, dict), where, "is no object")
        unknown = next((key for key in sorted(value) if keys is not None and key not in keys), None)
        check(unknown is None, where, f"has '{unknown}', which is none of {', '.join(sorted(keys or ()))}")
        return dict(value)

    def text(value: Any, where: str) -> str:
        check(isinstance(value, str), where, "is no text")
        return str(value)

    def items(value: Any, where: str) -> list[Any]:
        check(isinstance(value, list), where, "is no list")
        return list(value)

    def entry(value: Any, where: str) -> Entry:
        fields = mapping(value, where, _KEYS)
        texts = {key: text(fields[key], f"{where}.{key}") for key in _TEXT_KEYS if key in fields}
        check(texts.get("fail", _RATE_LIMIT) == _RATE_LIMIT, f"{where}.fail", f"is not '{_RATE_LIMIT}'")
        changes = [
            Change(path, lines=_lines(text(content, f"{where}.write['{path}']")))
            for path, content in mapping(fields.get("write", {}), f"{where}.write").items()
        ]
        edits: dict[str, list[Edit]] = {}
        for n, each in enumerate(items(fields.get("edit", []), f"{where}.edit")):
            name = f"{where}.edit[{n}]"
            edit = mapping(each, name, ("path", "search", "replace"))
            path, search, replace = (text(edit.get(key), f"{name}.{key}") for key in ("path", "search", "replace"))
            edits.setdefault(path, []).append(Edit(_lines(search), _lines(replace)))
        changes += [Change(path, edits=tuple(each)) for path, each in edits.items()]
        deleted = items(fields.get("delete", []), f"{where}.delete")
        changes += [Change(text(each, f"{where}.delete"), delete=True) for each in deleted]
        tokens = items(fields["tokens"], f"{where}.tokens") if "tokens" in fields else None
        is_pair = tokens is None or (len(tokens) == 2 and all(isinstance(each, int) and each >= 0 for each in tokens))
        check(is_pair, f"{where}.tokens", "is not two numbers")
        return Entry(**texts, changes=tuple(changes), tokens=(tokens[0], tokens[1]) if tokens is not None else None)

    script = {}
    for node, entries in mapping(document, "the script", (SCAFFOLD, IMPLEMENT)).items():
        listed = entries if isinstance(entries, list) else [entries]
        check(bool(listed), node, "has no entry")
        script[node] = tuple(entry(each, f"{node}[{n}]") for n, each in enumerate(listed))
    return script


def _lines(text: str) -> tuple[str, ...]:
    lines = text.split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


# -- the mock's own answers --------------------------------------------------------------------------------------------


def _happy_path(request: Request) -> Entry:
    package = _package(request)
    code = f"{package}/adding.py"
    if request.node == SCAFFOLD:
        files = {f"{package}/__init__.py": _INIT, code: _STUB}
        files[f"tests/test_{package}.py"] = _TEST.format(package=package)
        return Entry(say=f"the mock writes a test of {code}, and a stub", changes=_whole_files(files))
    return Entry(say=f"the mock writes {code}", changes=_whole_files({code: _CODE}))


def _whole_files(texts: Mapping[str, str]) -> tuple[Change, ...]:
    return tuple(Change(path, lines=tuple(text.splitlines())) for path, text in texts.items())


def _package(request: Request) -> str:
    """The package for an issue: that of a stub; else for tests the first that does not exist yet (earlier workflows
    have left others), and for code the last that exists."""
    slug = re.sub(r"[^a-z0-9]+", "_", request.issue_id.lower()).strip("_")[:40]
    if slug != request.issue_id:
        slug = f"{slug}_{hashlib.sha256(request.issue_id.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}".strip("_")
    last = package = f"mock_{slug}"
    for n in itertools.count(2):
        folder = os.path.join(request.worktree.location.root, package)
        if _is_stub(os.path.join(folder, "adding.py")):
            return package
        if not os.path.lexists(folder):
            break
        last, package = package, f"mock_{slug}_{n}"
    return package if request.node == SCAFFOLD else last


def _is_stub(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == _STUB
    except (OSError, ValueError):
        return False
