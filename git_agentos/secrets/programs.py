"""gitleaks and betterleaks, where one of them is installed: asked about many blobs at once, since a start takes time.

The blobs are written into a scratch folder of the git directory that only the user can read, and the program writes its
report there too: a JSON list of objects, of which RuleID, File, StartLine and Secret are read (gitleaks' README,
"Reports"). It is told to go past comments that exempt a line (`gitleaks:allow`): who writes a file does not decide what
is pushed. So neither a program in a worktree of the repository is used, whatever PATH says, nor a configuration there:
its configuration is its own, or what GITLEAKS_CONFIG of the user's environment names. betterleaks' check whether a
secret is still in use, which asks the network, is off by default.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from git_agentos.errors import AgentosError, converted_storage_errors, system_reason
from git_agentos.git import state_dir, worktrees
from git_agentos.git.location import Location
from git_agentos.process import programs
from git_agentos.secrets.scanner import Finding, Scanner
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

# In this order; one is enough, as the first has the rules of the second and more.
NAMES = ("betterleaks", "gitleaks")
_REPORT = "report.json"
_TIMEOUT = 600.0
_LONGEST_NAME = 200
# Rules that know a secret by its entropy and a word beside it; ours for names are stricter.
_TOO_VAGUE = frozenset(["generic-api-key"])
_CONFIG, _CONFIG_TEXT = "GITLEAKS_CONFIG", "GITLEAKS_CONFIG_TOML"
_HINT = "repair it, or remove it from PATH: git-agentos then scans with its own rules alone"


class Program(NamedTuple):
    """A scanner that is installed: its name, and where it is."""

    name: str
    path: str


def find(environment: Mapping[str, str], location: Location) -> Program | None:
    """The first of them that is on PATH, and not in the repository; None if there is none."""
    folders = [each for each in environment.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    for name in NAMES:
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and _is_outside(path, location):
                return Program(name, path)
    return None


def version(program: Program, environment: Mapping[str, str]) -> str:
    """Changes whenever the program, or the configuration that the environment names, does."""
    config = environment.get(_CONFIG, "")
    parts = [program.name, *_stamp(program.path), config, *(_stamp(config) if config else ())]
    return " ".join(map(str, (*parts, environment.get(_CONFIG_TEXT, ""))))


def _stamp(path: str) -> tuple[int, ...]:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return (found.st_ino, found.st_size, found.st_mtime_ns)
    return ()


def _is_outside(path: str, location: Location) -> bool:
    """Whether an agent that works in the repository does not write a file in its worktrees when it writes this one."""
    for each in (os.path.abspath(path), os.path.realpath(path)):
        if each.startswith(location.common_dir + os.sep):
            return False
        if worktrees.is_in_worktree(each, location.root, location.common_dir):
            return False
    return True


def scan_all(
    program: Program,
    scanner: Scanner,
    blobs: Iterable[tuple[bytes, bytes]],
    location: Location,
    environment: Mapping[str, str],
) -> list[tuple[Finding, ...]]:
    """What the scanner and the program find in each of the blobs (path, data), in their order. AgentosError if the
    program fails."""
    config = environment.get(_CONFIG)
    if config is not None and (not os.path.isabs(config) or not _is_outside(config, location)):
        environment = {key: value for key, value in environment.items() if key != _CONFIG}
    with batch(program, location, environment) as given:

        def added() -> Iterator[tuple[bytes, bytes]]:
            for path, data in blobs:
                given.add(path, data)
                yield path, data

        found = scanner.scan_all(added())
        return [_joined(ours, theirs) for ours, theirs in zip(found, given.findings(scanner), strict=True)]


def _joined(ours: tuple[Finding, ...], theirs: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Both, with what both have found once, under our name."""
    known = {(each.line, each.fingerprint) for each in ours}
    return tuple(sorted((*ours, *(each for each in theirs if (each.line, each.fingerprint) not in known))))


@contextlib.contextmanager
def batch(program: Program, location: Location, environment: Mapping[str, str]) -> Iterator[Batch]:
    """A batch of blobs for a program; its files are removed at the end."""
    with state_dir.scratch(location) as folder:
        yield Batch(program, folder, environment)


class Batch:
    """Blobs that are given to a program. `folder` is empty, and on a disk with room for them."""

    def __init__(self, program: Program, folder: str, environment: Mapping[str, str]) -> None:
        self._program = program
        self._environment = environment
        self._paths: list[bytes] = []
        self._blobs = os.path.join(folder, "blobs")
        self._report = os.path.join(folder, _REPORT)
        os.mkdir(self._blobs, 0o700)

    def add(self, path: bytes, data: bytes) -> None:
        """Add a blob. Its name is kept: rules go by it. Folders are not: the program leaves out some by their names."""
        folder = os.path.join(os.fsencode(self._blobs), b"%d" % len(self._paths))
        name = path.rpartition(b"/")[2][-_LONGEST_NAME:] or b"file"
        with converted_storage_errors():
            os.mkdir(folder, 0o700)
            with open(os.path.join(folder, name), "xb") as file:
                file.write(data)
        self._paths.append(path)

    def findings(self, scanner: Scanner) -> tuple[tuple[Finding, ...], ...]:
        """What the program finds in each blob, in the order in which they were added; with the scanner's fingerprints,
        and without what it allows. AgentosError if the program fails: that is never taken for nothing found."""
        from git_agentos.secrets import placeholders, rules  # it takes time to compile them

        secrets: list[list[tuple[int, str, bytes]]] = [[] for _ in self._paths]
        for entry in self._run() if self._paths else ():
            number, line, kind, secret = self._read(entry)
            if kind not in _TOO_VAGUE and not placeholders.is_placeholder(secret, secret):
                known, value = rules.normal(secret)
                secrets[number].append((line, known or kind, value))
        return tuple(scanner.findings(path, each) for path, each in zip(self._paths, secrets, strict=True))

    def _run(self) -> list[Any]:
        name = self._program.name
        argv = (self._program.path, "dir", ".", "--report-format", "json", "--report-path", self._report)
        options = ("--exit-code", "0", "--no-banner", "--ignore-gitleaks-allow", "--log-level", "error")
        try:
            ended = programs.run([*argv, *options], cwd=self._blobs, env=self._environment, timeout=_TIMEOUT)
        except OSError as error:
            raise AgentosError(f"'{name}' cannot be started: {system_reason(error)}", _HINT) from error
        if ended.code != 0:
            how = "ran out of time" if ended.timed_out else f"ended with {ended.code}"
            raise AgentosError(f"'{name}' {how}, so what is new was not scanned by it", _HINT)
        try:
            found = json.loads(files.read(self._report, limit=1 << 30))
        except (OSError, ValueError, RecursionError) as error:
            raise AgentosError(f"'{name}' wrote no report, so what is new was not scanned by it", _HINT) from error
        if found is None:  # no findings, in some versions
            return []
        if not isinstance(found, list):
            raise self._misunderstood()
        return found

    def _read(self, entry: Any) -> tuple[int, int, str, bytes]:
        """The number of the blob, the line, the rule and the secret of an entry of the report."""
        try:
            path, line, rule, secret = (entry[key] for key in ("File", "StartLine", "RuleID", "Secret"))
            inside = os.path.relpath(os.path.join(self._blobs, path), self._blobs)
            number = int(inside.split(os.sep)[0])
            self._paths[number]
            return number, max(int(line), 1), str(rule), str(secret).encode("utf-8", "surrogatepass")
        except (TypeError, KeyError, ValueError, IndexError) as error:
            raise self._misunderstood() from error

    def _misunderstood(self) -> AgentosError:
        return AgentosError(f"the report of '{self._program.name}' is not understood", _HINT)
