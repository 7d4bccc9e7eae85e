"""The audit after green: tampering, compilation and lint of what was written.

Every Python file that changed has to compile with the project's interpreter. Lint is the command in agentos.tdd.lint,
which judges by its own rules; without it ruff, if the project configures it and has it. Only what is new is
reported: of ruff, findings on lines that the base does not have.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import trees
from git_agentos.process import programs
from git_agentos.redact import redact
from git_agentos.tdd.gate import frozen_files, pytest_config, tamper
from git_agentos.tdd.gate.setup import PytestSetup
from git_agentos.util import files

TAMPER, LINT = "tamper", "lint"
_TIMEOUT = 600.0  # seconds for a command of the project's
_MAX_ARGUMENTS = 200  # files on one command line
_MAX_OUTPUT = 4000
_RUFF_FILES = ("ruff.toml", ".ruff.toml", "pyproject.toml")
_COMPILE = """\
import json, sys
errors = []
for path in sys.argv[1:]:
    try:
        with open(path, "rb") as file:
            compile(file.read(), path, "exec", dont_inherit=True)
    except SyntaxError as error:
        errors.append([path, error.lineno or 0, "%s: %s" % (type(error).__name__, error.msg)])
    except Exception as error:
        errors.append([path, 0, "%s: %s" % (type(error).__name__, error)])
print(json.dumps(errors))
"""
# Modules of the standard library that pytest needs: one of the project in their place changes the outcome of tests.
_NEEDED_BY_PYTEST = frozenset(
    """unittest traceback inspect ast warnings contextlib os sys io re json xml importlib runpy atexit faulthandler
    types typing functools pathlib tempfile argparse logging dataclasses collections enum abc builtins site linecache
    fnmatch glob itertools operator platform shlex shutil signal subprocess textwrap threading time tokenize
    weakref""".split()
)


@dataclass(frozen=True)
class Finding:
    """A finding: `kind` is `tamper` or `lint`; `line` counts from 1, 0 for the whole file."""

    kind: str
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        location = f"{self.path}:{self.line}" if self.line else self.path
        return f"{location}: {self.message}" if location else self.message


def audit(context: OpenWorktree, setup: PytestSetup, base: str, changed: Sequence[str]) -> Sequence[Finding]:
    """The findings in the files `changed` (relative paths), compared with the commit `base`."""
    changes = _Changes(context, setup, base, changed)
    return [*_find_tampering(changes), *_compile(changes), *_lint(changes)]


class _Changes:
    """The files that changed, as they are (`now`) and as they were (`before`)."""

    def __init__(self, context: OpenWorktree, setup: PytestSetup, base: str, changed: Sequence[str]) -> None:
        self.setup = setup
        self.root = setup.location.root
        self.lint_command = config.tdd_lint(context.settings.values)
        self._repository = context.repository
        self._tree = context.repository.commit_tree(base)
        self.now: Mapping[str, bytes] = {
            path: data for path in sorted(set(changed)) if (data := self.read(path)) is not None
        }
        self.python = [path for path in self.now if path.endswith((".py", ".pyi"))]

    def read(self, path: str) -> bytes | None:
        """The content of a regular file of the worktree."""
        try:
            return files.read(os.path.join(self.root, path))
        except OSError:
            return None

    def before(self, path: str) -> bytes | None:
        entry = trees.find(self._repository, self._tree, os.fsencode(path))
        is_file = entry is not None and entry[0] in (trees.REGULAR, trees.EXECUTABLE)
        return self._repository.blob(entry[1]) if entry is not None and is_file else None

    def run(self, argv: Sequence[str]) -> programs.Ended:
        return programs.run(argv, cwd=self.root, env=self.setup.environment, timeout=_TIMEOUT)


# -- tampering ---------------------------------------------------------------------------------------------------------


def _find_tampering(changes: _Changes) -> Iterable[Finding]:
    patterns = frozen_files.test_patterns(pytest_config.read_options(changes.root))
    for path, data in changes.now.items():
        if frozen_files.is_test(path, patterns):
            continue
        before, name = changes.before(path), os.path.basename(path)
        if before is None and (frozen_files.comes_first(path) or frozen_files.shadows(path, _NEEDED_BY_PYTEST)):
            yield Finding(TAMPER, path, 0, "replaces a module that Python or pytest would load")
        sections = [pytest_config.section(name, each) for each in (data, before or b"")]
        if name in pytest_config.SHARED_FILES and sections[0] != sections[1]:
            yield Finding(TAMPER, path, 0, "changes what pytest reads of it")
        if path.endswith(".py"):
            yield from _find_new_tampering(path, data, before)


def _find_new_tampering(path: str, data: bytes, before: bytes | None) -> Iterable[Finding]:
    try:
        found = tamper.scan(data, path)
    except tamper.UNREADABLE as error:
        yield Finding(TAMPER, path, 0, f"it cannot be audited: {error}")
        return
    known: Counter[str] = Counter()
    if before is not None and found:
        try:
            known = Counter(message for _, message in tamper.scan(before, path))
        except tamper.UNREADABLE:
            pass
    for line, message in found:
        if known[message] > 0:
            known[message] -= 1
        else:
            yield Finding(TAMPER, path, line, message)


# -- compilation and lint ----------------------------------------------------------------------------------------------


def _compile(changes: _Changes) -> Iterable[Finding]:
    """The files that the project's interpreter cannot compile."""
    python = changes.setup.interpreter.path
    for portion in _portions([path for path in changes.python if path.endswith(".py")]):
        absolute = [os.path.join(changes.root, path) for path in portion]
        ended = changes.run((python, "-I", "-W", "ignore", "-c", _COMPILE, *absolute))
        errors = _find_json_list(ended.output)
        if errors is None:
            why = f"'{python}' could not compile the changed files (exit {ended.code}): {_tail(ended)}"
            yield Finding(LINT, "", 0, why)
        for path, line, message in errors or ():
            yield Finding(LINT, os.path.relpath(str(path), changes.root), int(line), str(message))


def _lint(changes: _Changes) -> Iterable[Finding]:
    """The findings of the project's own linter, or of ruff."""
    command = changes.lint_command
    if command is None:
        ruff = _find_ruff(changes)
        if ruff is not None and changes.python:
            yield from _run_ruff(ruff, changes)
        return
    ended = programs.run_shell(command, cwd=changes.root, env=changes.setup.environment, timeout=_TIMEOUT)
    if ended.code != 0:
        how = "it took too long" if ended.timed_out else f"exit {ended.code}"
        output = _tail(ended)
        yield Finding(LINT, "", 0, f"'{command}' ({how})" + (f":\n{output}" if output else ""))


def _find_ruff(changes: _Changes) -> str | None:
    """The path of ruff, if the project configures it and has it."""
    configured = any(
        data is not None and (name != "pyproject.toml" or b"[tool.ruff" in data)
        for name in _RUFF_FILES
        for data in [changes.read(name)]
    )
    if not configured:
        return None
    path = changes.setup.environment.get("PATH", "").split(os.pathsep)
    folders = [os.path.dirname(changes.setup.interpreter.path), *path]
    candidates = (os.path.join(each, "ruff") for each in folders if os.path.isabs(each))
    return next((each for each in candidates if os.path.isfile(each) and os.access(each, os.X_OK)), None)


def _run_ruff(ruff: str, changes: _Changes) -> Iterable[Finding]:
    options = ("check", "--output-format=json", "--no-cache", "--force-exclude", "--quiet", "--")
    new_lines: dict[str, set[int]] = {}
    for portion in _portions(changes.python):
        ended = changes.run((ruff, *options, *portion))
        found = _find_json_list(ended.output)
        if found is None:
            yield Finding(LINT, "", 0, f"ruff could not be run (exit {ended.code}): {_tail(ended)}")
        for each in found or ():
            path = os.path.relpath(os.path.realpath(each["filename"]), os.path.realpath(changes.root))
            line = int((each.get("location") or {}).get("row", 0))
            if path not in new_lines:
                new_lines[path] = _new_lines(changes.now.get(path, b""), changes.before(path))
            if line in new_lines[path]:
                message = f"{each.get('code') or ''} {each.get('message', '')}".strip()
                yield Finding(LINT, path, line, message)


def _new_lines(data: bytes, before: bytes | None) -> set[int]:
    """The numbers of the lines that `before` does not have; a line that was only moved is not new."""
    known = Counter((before or b"").splitlines())
    found = set()
    for number, line in enumerate(data.splitlines(), 1):
        if known[line] > 0:
            known[line] -= 1
        else:
            found.add(number)
    return found


def _tail(ended: programs.Ended) -> str:
    return redact(ended.output[-_MAX_OUTPUT:].decode("utf-8", "replace"))[0].strip()


def _portions(paths: Sequence[str]) -> Iterable[Sequence[str]]:
    return (paths[start : start + _MAX_ARGUMENTS] for start in range(0, len(paths), _MAX_ARGUMENTS))


def _find_json_list(output: bytes) -> list[Any] | None:
    """The JSON list that a program printed, whatever it printed to stderr besides; None if there is none."""
    text = output.decode("utf-8", "replace")
    for found in re.finditer(r"^\[", text, re.MULTILINE):
        try:
            body, end = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError:
            continue
        if text[end:].lstrip(" ").startswith("\n") or not text[end:]:
            return list(body)
    return None
