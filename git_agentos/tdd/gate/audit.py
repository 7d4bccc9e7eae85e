"""After green: lint, and a look for tampering in what was written.

Lint is that every Python file that changed can be compiled by the project's interpreter, and what the project itself
asks for: the command in agentos.tdd.lint; without it ruff, where the project configures it and it can be run. Only what
was not there before is found; a command of the project's own answers for itself.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos import config
from git_agentos.git import trees
from git_agentos.process import programs
from git_agentos.redact import redact
from git_agentos.tdd.gate import frozen_files, pytest_config, tamper
from git_agentos.tdd.gate.setup import Ground

TAMPER, LINT = "tamper", "lint"
_PATIENCE = 600.0  # seconds for a command of the project's
_AT_ONCE = 200  # files on one command line
_MOST_SAID = 4000
_RUFF_FILES = ("ruff.toml", ".ruff.toml", "pyproject.toml")
_COMPILE = """\
import json, sys
said = []
for path in sys.argv[1:]:
    try:
        with open(path, "rb") as file:
            compile(file.read(), path, "exec", dont_inherit=True)
    except SyntaxError as error:
        said.append([path, error.lineno or 0, "%s: %s" % (type(error).__name__, error.msg)])
    except Exception as error:
        said.append([path, 0, "%s: %s" % (type(error).__name__, error)])
print(json.dumps(said))
"""
# Of the standard library, what pytest itself needs: a module of the project in its place changes how tests come out.
_NEEDED = frozenset(
    """unittest traceback inspect ast warnings contextlib os sys io re json xml importlib runpy atexit faulthandler
    types typing functools pathlib tempfile argparse logging dataclasses collections enum abc builtins site linecache
    fnmatch glob itertools operator platform shlex shutil signal subprocess textwrap threading time tokenize
    weakref""".split()
)


@dataclass(frozen=True)
class Finding:
    """One thing that was found: `kind` is `tamper` or `lint`; `line` counts from 1, 0 for the whole file."""

    kind: str
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}" if place else self.message


def audit(ground: Ground, base: str, changed: Sequence[str]) -> Sequence[Finding]:
    """Look at the files that differ from the commit `base` (`changed`, relative paths). What was there before is not
    found."""
    look = _Look(ground, base, changed)
    return [*look.tampering(), *look.compiled(), *look.linted()]


class _Look:
    """The files that changed, as they are and as they were."""

    def __init__(self, ground: Ground, base: str, changed: Sequence[str]) -> None:
        self._ground = ground
        self._root = ground.here.location.root
        self._tree = ground.here.repository.commit_tree(base)
        self._changed = sorted(set(changed))
        self._now: Mapping[str, bytes] = {
            path: data for path in self._changed if (data := _read(os.path.join(self._root, path))) is not None
        }
        self._python = [path for path in self._now if path.endswith((".py", ".pyi"))]

    def tampering(self) -> Iterable[Finding]:
        patterns = frozen_files.patterns(pytest_config.names(self._root))
        for path, data in self._now.items():
            if frozen_files.is_test(path, patterns):
                continue
            before = self._before(path)
            if before is None and (frozen_files.comes_first(path) or frozen_files.shadows(path, _NEEDED)):
                yield Finding(TAMPER, path, 0, "takes a place before what Python or pytest would run")
            name = os.path.basename(path)
            if name in pytest_config.PARTS and pytest_config.part(name, data) != pytest_config.part(
                name, before or b""
            ):
                yield Finding(TAMPER, path, 0, "what pytest reads of it was changed")
            if path.endswith(".py"):
                yield from self._tampered(path, data, before)

    def compiled(self) -> Iterable[Finding]:
        """What the project's interpreter cannot read."""
        wanted = [path for path in self._python if path.endswith(".py")]
        for some in _portions(wanted):
            argv = (
                self._ground.python,
                "-I",
                "-W",
                "ignore",
                "-c",
                _COMPILE,
                *(os.path.join(self._root, path) for path in some),
            )
            ended = programs.run(argv, cwd=self._root, env=self._ground.environment, timeout=_PATIENCE)
            for path, line, message in _decoded(ended, argv[0]):
                yield Finding(LINT, os.path.relpath(path, self._root) if path else "", line, message)

    def linted(self) -> Iterable[Finding]:
        """What the project's own linter says."""
        command = config.tdd_lint(self._ground.here.settings.values)
        if command is not None:
            yield from self._by_command(command)
            return
        ruff = self._ruff()
        if ruff is not None and self._python:
            yield from self._by_ruff(ruff)

    def _before(self, path: str) -> bytes | None:
        repository = self._ground.here.repository
        entry = trees.find(repository, self._tree, os.fsencode(path))
        return (
            repository.blob(entry[1]) if entry is not None and entry[0] in (trees.REGULAR, trees.EXECUTABLE) else None
        )

    def _tampered(self, path: str, data: bytes, before: bytes | None) -> Iterable[Finding]:
        try:
            now = tamper.look(data, path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            yield Finding(TAMPER, path, 0, f"it cannot be looked at: {error}")
            return
        known: Counter[str] = Counter()
        if before is not None and now:
            try:
                known = Counter(message for _, message in tamper.look(before, path))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                pass
        for line, message in now:
            if known[message] > 0:
                known[message] -= 1
            else:
                yield Finding(TAMPER, path, line, message)

    # -- lint --------------------------------------------------------------------------------------------------------

    def _by_command(self, command: str) -> Iterable[Finding]:
        env = self._ground.environment
        ended = programs.run_shell(command, cwd=self._root, env=env, timeout=_PATIENCE)
        if ended.code == 0:
            return
        how = "it took too long" if ended.timed_out else f"exit {ended.code}"
        said = _said(ended)
        yield Finding(LINT, "", 0, f"'{command}' ({how})" + (f":\n{said}" if said else ""))

    def _ruff(self) -> str | None:
        """The path of ruff, where the project configures it and has it."""
        configured = False
        for name in _RUFF_FILES:
            data = _read(os.path.join(self._root, name))
            configured = configured or (data is not None and (name != _RUFF_FILES[2] or b"[tool.ruff" in data))
        if not configured:
            return None
        folders = [os.path.dirname(self._ground.python), *self._ground.environment.get("PATH", "").split(os.pathsep)]
        candidates = (os.path.join(each, "ruff") for each in folders if os.path.isabs(each))
        return next((each for each in candidates if os.path.isfile(each) and os.access(each, os.X_OK)), None)

    def _by_ruff(self, ruff: str) -> Iterable[Finding]:
        now = [each for some in _portions(self._python) for each in self._asked(ruff, self._root, some)]
        if not now:
            return
        known = Counter((path, code, message) for path, _, code, message in self._of_base(ruff))
        for path, line, code, message in now:
            if known[path, code, message] > 0:
                known[path, code, message] -= 1
            else:
                yield Finding(LINT, path, line, f"{code} {message}".strip())

    def _of_base(self, ruff: str) -> Sequence[tuple[str, int, str, str]]:
        """What ruff says, as it is configured now, of the same files as they were."""
        # Not in the git directory: ruff leaves out everything that is in one.
        with tempfile.TemporaryDirectory(prefix="agentos-lint-") as folder:
            files = {path: data for path in self._python if (data := self._before(path)) is not None}
            for path, data in {**files, **self._configuration()}.items():
                target = os.path.join(folder, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(data)
            return [each for some in _portions(list(files)) for each in self._asked(ruff, folder, some)]

    def _configuration(self) -> Mapping[str, bytes]:
        """Every file that may configure ruff for what changed."""
        folders = {""}
        for path in self._python:
            while path := os.path.dirname(path):
                folders.add(path)
        paths = [os.path.join(folder, name) for folder in folders for name in _RUFF_FILES]
        return {path: data for path in paths if (data := _read(os.path.join(self._root, path))) is not None}

    def _asked(self, ruff: str, root: str, paths: Sequence[str]) -> Iterable[tuple[str, int, str, str]]:
        argv = (ruff, "check", "--output-format=json", "--no-cache", "--force-exclude", "--quiet", "--", *paths)
        ended = programs.run(argv, cwd=root, env=self._ground.environment, timeout=_PATIENCE)
        found = _json_in(ended.output)
        if found is None:
            said = _said(ended)
            return [("", 0, "", f"ruff could not be run (exit {ended.code}): {said}")]
        real = os.path.realpath(root)
        return [
            (
                os.path.relpath(os.path.realpath(each["filename"]), real),
                int((each.get("location") or {}).get("row", 0)),
                str(each.get("code") or ""),
                str(each.get("message", "")),
            )
            for each in found
        ]


def _read(path: str) -> bytes | None:
    """A plain file, not by a link; None where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _said(ended: programs.Ended) -> str:
    return redact(ended.output[-_MOST_SAID:].decode("utf-8", "replace"))[0].strip()


def _portions(paths: Sequence[str]) -> Iterable[Sequence[str]]:
    return (paths[at : at + _AT_ONCE] for at in range(0, len(paths), _AT_ONCE))


def _decoded(ended: programs.Ended, python: str) -> Sequence[tuple[str, int, str]]:
    """What the interpreter answered; what it said instead, where it did not."""
    found = _json_in(ended.output)
    if found is None:
        said = _said(ended)
        return [("", 0, f"'{python}' could not compile the files that changed (exit {ended.code}): {said}")]
    return [(str(path), int(line), str(message)) for path, line, message in found]


def _json_in(output: bytes) -> list[Any] | None:
    """The JSON list that a program printed, whatever it said beside that on stderr; None where it printed none."""
    text = output.decode("utf-8", "replace")
    for found in re.finditer(r"^\[", text, re.MULTILINE):
        try:
            body, end = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError:
            continue
        if text[end:].lstrip(" ").startswith("\n") or not text[end:]:
            return list(body)
    return None
