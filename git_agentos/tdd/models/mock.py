"""A deterministic script in the place of a model: offline, for tests and trials.

Without a script it walks the happy path of any issue: it writes a test that calls a stub in a package of its own, and
then the code. Nothing is remembered between two calls, so a workflow that is gone on with gets the same answers.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from git_agentos.tdd.models import answer, file_changes, script, transcript
from git_agentos.tdd.models.answer import Change, Unusable
from git_agentos.tdd.models.model import MOCK, SCAFFOLD, Request, Work
from git_agentos.tdd.models.script import Entry, Script

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


class MockLLM:
    """A model that does what a script says (see `script`): `document` is its JSON value, decoded."""

    recipient = "nobody: it is a script on this machine"

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        self.name = MOCK
        self._script: Script = script.read(document) if document is not None else {}
        self._environment: Mapping[str, str] = {}

    @classmethod
    def of_file(cls, path: str, environment: Mapping[str, str] | None = None) -> MockLLM:
        """The mock of a script in a file, whose name is a part of its own."""
        made = cls()
        made.name = f"{MOCK}:{path}"
        made._script = script.load(path)
        return made.within(environment or {})

    def within(self, environment: Mapping[str, str]) -> MockLLM:
        """This one, with the environment that its shell text runs in."""
        self._environment = environment
        return self

    def entry(self, node: str, attempt: int) -> Entry | None:
        """What the script says for an attempt; None where it says nothing of the node."""
        entries = self._script.get(node)
        return entries[min(attempt, len(entries) - 1)] if entries is not None else None

    def work(self, request: Request) -> Work:
        began = time.monotonic()
        transcript.write(request.folder, transcript.PROMPT, request.prompt, self._environment)
        entry = self.entry(request.node, request.attempt)
        with transcript.Said(request.folder, request.show, self._environment) as said:
            error, code, interrupted = self._do(entry or _own(request), request, said)
            return Work(
                error=transcript.clean(error, self._environment) if error is not None else None,
                said=said.last(),
                seconds=round(time.monotonic() - began, 3),
                requests=1,
                exit_code=code,
                tokens_in=entry.tokens[0] if entry is not None and entry.tokens is not None else None,
                tokens_out=entry.tokens[1] if entry is not None and entry.tokens is not None else None,
                interrupted=interrupted,
            )

    def _do(self, entry: Entry, request: Request, said: transcript.Said) -> tuple[str | None, int | None, bool]:
        """Do an entry: why there is nothing to be used, the exit code of its command, whether that was interrupted."""
        if entry.say is not None:
            said.say(entry.say)
        if entry.fail is not None:
            return "the mock was asked too often (rate limit)", None, False
        try:
            changes = list(entry.changes)
            if entry.answer is not None:
                mark = answer.mark_for(request.prompt)
                changes += answer.parse(entry.answer.replace("[MARK]", f"[{mark}]"), mark)
            if changes:
                file_changes.apply(changes, request.here)
        except Unusable as error:
            return f"the mock's answer cannot be used: {error}", None, False
        code, interrupted = None, False
        if entry.run is not None:
            from git_agentos.tdd.models import command

            environment = command.environment_of(request, self._environment)
            ended = command.run(request, entry.run, environment, said)
            code, interrupted = ended.exit_code, ended.interrupted
        return entry.unusable, code, interrupted


# -- the mock's own answers --------------------------------------------------------------------------------------------


def _own(request: Request) -> Entry:
    """The happy path."""
    package = _package(request)
    code = f"{package}/adding.py"
    if request.node == SCAFFOLD:
        test = _TEST.format(package=package)
        return Entry(
            say=f"the mock writes a test of {code}, and a stub",
            changes=(_whole(f"{package}/__init__.py", _INIT), _whole(code, _STUB), _whole(_test_of(package), test)),
        )
    return Entry(say=f"the mock writes {code}", changes=(_whole(code, _CODE),))


def _package(request: Request) -> str:
    """The package for an issue: that of a stub, else for a test the first that is not there yet (an earlier workflow
    has left others), and for code the last that is."""
    slug = re.sub(r"[^a-z0-9]+", "_", request.issue_id.lower()).strip("_")[:40]
    if slug != request.issue_id:
        slug = f"{slug}_{hashlib.sha256(request.issue_id.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}".strip("_")
    last = package = f"mock_{slug}"
    for n in itertools.count(2):
        folder = os.path.join(request.here.location.root, package)
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


def _test_of(package: str) -> str:
    return f"tests/test_{package}.py"


def _whole(path: str, text: str) -> Change:
    return Change(path, lines=tuple(text.splitlines()))
