"""What is kept of a run: canonical, complete, and outside of the worktree that may be discarded.

    <repository root>/.agentos/runs/<run id>/
      workspace_context.json   the context, written once, at set-up (role `workspace_context`)
      spec.json                what the run was to do (role `spec`)
      environment.json         fingerprint of the machine and tools, without values of variables (role `environment`)
      events.jsonl             everything that happened (`events`; role `events`)
      steps/<nnn>-<kind>/      stdout, stderr, exit_code, snapshot.json, diff.patch (roles `stdout` …)
      manifest.json            of every file above: role, sha256, size; written by `seal` (see there)

One process at a time writes (`lock`). Agents have the rights to do so as well: whether one did is `seal.verify`'s to
see. Links are never followed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import platform
import stat
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

from git_agentos import __version__
from git_agentos.checkpoint import take
from git_agentos.checkpoint.context import Context
from git_agentos.errors import RepositoryError, RunError
from git_agentos.git import moment, process
from git_agentos.git.location import Location
from git_agentos.redact import redact_value
from git_agentos.run.context import CONTEXT, WorkspaceContext, check_id, is_id
from git_agentos.run.record import sealing
from git_agentos.run.record.events import EVENTS, Run, parse
from git_agentos.run.record.sealing import META_MANIFEST, Verification
from git_agentos.store import location as place
from git_agentos.worktree import place as worktrees

__all__ = [
    "CONTEXT", "EVENTS", "META_MANIFEST", "Evidence", "Verification", "carried_events", "context_of", "find",
    "fingerprint", "folder_of", "ids", "make", "seal", "verify",
]  # fmt: skip

_NEW = ".new"
_CHUNK = 1 << 20


class Evidence:
    """The folder of one run."""

    def __init__(self, folder: str, run_id: str) -> None:
        self.folder = folder
        self.run_id = run_id

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append one event, durably; the time is added, and secrets are taken out."""
        kept = {key: value if key == "context" else redact_value(value)[0] for key, value in fields.items()}
        body = {"event": kind, "at": moment.stamp(datetime.now(UTC)), **kept}
        line = json.dumps(body, separators=(",", ":")).encode("ascii") + b"\n"
        with _writing():
            self._append(line)

    def _append(self, line: bytes) -> None:
        path = self._path(EVENTS)
        fresh = not os.path.lexists(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.ftruncate(descriptor, end := _end_of_lines(descriptor))
            while line:
                written = os.pwrite(descriptor, line, end)
                line, end = line[written:], end + written
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            _sync(self.folder)

    def events(self) -> list[dict[str, Any]]:
        """All of them; a torn last line is left out, a damaged one before it is a RunError."""
        return parse(self.read(EVENTS) or b"", self.run_id)

    def write_once(self, name: str, text: str) -> None:
        """A file that is never changed again; RunError where it is there with other contents."""
        data = text.encode("utf-8", "surrogateescape")
        present = self.read(name)
        if present is None:
            self.put(name, data)
        elif present != data:
            raise RunError(f"'{self._path(name)}' is there already, and is never written again")

    def step_folder(self, n: int, kind: str) -> str:
        """The folder of a step, made; relative to `folder`. Of a step that is done again, what was there is kept under
        another name."""
        name = f"steps/{n:03d}-{kind}"
        path = self._path(name)
        with _writing():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.isdir(path) and os.listdir(path):
                os.rename(path, next(each for k in itertools.count(1) if not os.path.lexists(each := f"{path}.{k}")))
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
        return name

    def put(self, name: str, data: bytes) -> None:
        """Write a file below the folder, whole or not at all."""
        path = self._path(name)
        with _writing():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + _NEW)
            descriptor = os.open(path + _NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + _NEW, path)
            _sync(os.path.dirname(path))

    def read(self, name: str) -> bytes | None:
        """A file below the folder; None where there is none."""
        try:
            with self.open(name) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: str) -> BinaryIO:
        """A file below the folder, to be read; never what a link leads to."""
        path = self._path(name)
        try:
            return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise RunError(f"'{path}' is a symbolic link", "git-agentos did not make it") from None
            raise

    def chunks(self, name: str) -> Iterator[bytes]:
        """The contents of a file, piece by piece."""
        with self.open(name) as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def files(self) -> Iterator[tuple[str, bool]]:
        """Everything in the folder that is no folder, by path, and whether it is a regular file."""
        yield from sorted(_below(self.folder, ""))

    def tidy(self) -> None:
        """Remove what a killed `put` left."""
        for name, regular in self.files():
            if regular and name.endswith(_NEW):
                os.unlink(self._path(name))

    def remove(self, name: str) -> None:
        """Take back a file that has just been written."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        path = os.path.normpath(os.path.join(self.folder, name))
        if not path.startswith(os.path.join(self.folder, "")):
            raise RunError(f"'{name}' is not in the evidence of run '{self.run_id}'")
        return path


def folder_of(location: Location) -> str:
    """The folder of all runs of the repository: `<repository root>/.agentos/runs`."""
    return os.path.join(worktrees.top_of(location), place.FOLDER, "runs")


def make(location: Location, run_id: str) -> Evidence:
    """The folder for a new run, whose lock is held; RunError where the id is taken. An empty one is what a killed
    process left."""
    check_id(run_id)
    top = place.ensure_folder(worktrees.top_of(location))
    runs = os.path.join(top, "runs")
    path = os.path.join(runs, run_id)
    with _writing():
        with contextlib.suppress(FileExistsError):
            os.mkdir(runs)
        _is_folder(runs)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not _is_folder(path) or os.listdir(path):
                raise taken(run_id) from None
        _sync(runs)
    return Evidence(path, run_id)


def taken(run_id: str) -> RunError:
    """What is to be said where a new run's id is that of another."""
    return RunError(
        f"there is a run '{run_id}' already",
        f"choose another id; git agentos run show {run_id} tells how that one stands",
    )


def find(location: Location, run_id: str) -> Evidence:
    """That of a run; RunError where there is none."""
    check_id(run_id)
    runs = folder_of(location)
    path = os.path.join(runs, run_id)
    if not all(_is_folder(each) for each in (os.path.dirname(runs), runs, path)):
        raise RunError(f"there is no run '{run_id}'", "git agentos run list shows the runs")
    return Evidence(path, run_id)


def ids(location: Location) -> list[str]:
    """The ids of all runs that have a folder, oldest first."""
    runs = folder_of(location)
    if not (_is_folder(os.path.dirname(runs)) and _is_folder(runs)):
        return []
    folders = [each for each in os.scandir(runs) if each.is_dir(follow_symlinks=False) and is_id(each.name)]
    found = [(_begun_at(each.path), each.name) for each in folders]
    return [name for _, name in sorted(found)]


def fingerprint() -> Mapping[str, Any]:
    """What a run depends on beside its commit: the system, versions of git, Python and this tool, and which variables
    are set."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "encoding": sys.getfilesystemencoding(),
        "git": process.run(["--version"]).decode("utf-8", "replace").strip().removeprefix("git version "),
        "tool": f"git-agentos {__version__}",
        "variables": sorted(os.environ),
    }


def context_of(evidence: Evidence) -> WorkspaceContext:
    """The recorded context; RunError where it is missing or damaged."""
    data = evidence.read(CONTEXT)
    if data is None:
        raise RunError(
            f"run '{evidence.run_id}' has no workspace: '{CONTEXT}' is missing",
            f"git agentos run verify {evidence.run_id} tells more",
        )
    try:
        return WorkspaceContext.from_json(data)
    except RunError as error:
        raise RunError(f"'{os.path.join(evidence.folder, CONTEXT)}' is damaged", error.hint) from error


def seal(inner: Context, evidence: Evidence, run: Run) -> str:
    """Write the manifest, take the final checkpoint (in the run's worktree, `inner`) and note both; the id.

    Where the worktree is gone or too damaged to be looked at, any other of the repository does for `inner`: the
    checkpoint then holds the last state that is known of the run's.
    """
    return sealing.seal(inner, evidence, run)


def verify(context: Context, run_id: str) -> Verification:
    """Whether the evidence of a run is complete and as it was sealed, and the commits that it names exist.

    RunError where there is no such run.
    """
    try:
        evidence = find(context.location, run_id)
    except RunError:
        if sealing.last(context.repository, run_id) is None:
            raise
        evidence = Evidence(os.path.join(folder_of(context.location), run_id), run_id)
    return sealing.verify(context, evidence)


def carried_events(context: Context, run_id: str) -> list[dict[str, Any]] | None:
    """The events of a run whose folder is gone, as its final checkpoint has them; None where it has none."""
    found = sealing.carried(context.repository, run_id, EVENTS)
    return None if found is None else parse(found, run_id)


# -- inside ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise take.storage_error(error) from error


def _is_folder(path: str) -> bool:
    """Whether a folder of ours is there; RepositoryError for anything else in its place."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISDIR(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "not a directory"
        raise RepositoryError(f"'{path}' is {what}", "remove it: git-agentos did not make it and does not follow it")
    return True


def _below(folder: str, prefix: str) -> Iterator[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry.is_file(follow_symlinks=False)


def _end_of_lines(descriptor: int) -> int:
    """Where the last whole line of a file ends: what is behind it was torn when its writer was killed."""
    position = os.fstat(descriptor).st_size
    while position > 0:
        start = max(0, position - _CHUNK)
        found = os.pread(descriptor, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def _begun_at(folder: str) -> str:
    """When a run was begun, by its first event; what has none counts as older."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        descriptor = os.open(os.path.join(folder, EVENTS), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            return str(json.loads(file.readline())["at"])
    return ""


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
