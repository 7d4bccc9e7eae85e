"""What is kept of a run: canonical, complete, and outside of the worktree that may be discarded.

    <repository root>/.agentos/runs/<run id>/
      workspace_context.json   the context, written once, at set-up (role `workspace_context`)
      spec.json                what the run was to do (role `spec`)
      environment.json         fingerprint of the machine and tools, without values of variables (role `environment`)
      events.jsonl             everything that happened (`events`; role `events`)
      steps/<nnn>-<kind>/      stdout, stderr, exit_code, snapshot.json, diff.patch (roles `stdout` …)
      manifest.json            of every file above: role, sha256, size; written by `seal` (see there)

One process at a time writes (`lock`). Agents have the rights to do so as well: so nothing in it is believed that our
code is not on (`journal`). Links are never followed (`folder`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from git_agentos.checkpoint import take
from git_agentos.checkpoint.context import Context
from git_agentos.errors import AgentosError, AgentosWarning, RepositoryError, RunError
from git_agentos.git.location import Location
from git_agentos.process import deletion
from git_agentos.redact import redact, redact_value
from git_agentos.run.context import CONTEXT, WorkspaceContext, check_id, is_id
from git_agentos.run.record import journal, saved, sealing
from git_agentos.run.record.events import EVENTS, TAMPERED, Event, Run, RunState, state_of
from git_agentos.run.record.fingerprint import fingerprint
from git_agentos.run.record.folder import Folder
from git_agentos.run.record.journal import Journal, NoKey, Record, Tampered
from git_agentos.run.record.sealing import META_MANIFEST, Verification
from git_agentos.store import database_path
from git_agentos.util import files, times
from git_agentos.worktree import layout as worktrees

__all__ = [
    "CONTEXT", "EVENTS", "META_MANIFEST", "Evidence", "NoKey", "Record", "Tampered", "Verification", "begun_at",
    "carried_events", "context_of", "file_context", "find", "fingerprint", "folder_of", "ids", "make", "remove", "seal",
    "verify",
]  # fmt: skip

_NEW = ".new"
_CHUNK = 1 << 20


class Evidence:
    """The folder of one run. One that is pinned belongs to the process that goes on with the run: see `journal`."""

    def __init__(self, folder: str, run_id: str, location: Location | None = None, files: Folder | None = None) -> None:
        """`location` is the repository's, where the evidence is to be copied to git; `files` the copy to read."""
        self.folder = folder
        self.run_id = run_id
        self._location = location
        self._files = files or Folder(folder)
        self._copy = saved.Copy(location, run_id) if location is not None else None
        self.is_copy = files is not None
        self._journal = Journal(self._files, run_id, self._save)
        self._pinned: RunState | None = None
        self._written: dict[str, str] = {}  # since the last event: name -> SHA-256

    # -- the record ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """It is the record of a new run: another one's of this id, which was removed, is forgotten."""
        self._journal.begin()

    def pin(self, is_ours: Callable[[], bool] = lambda: True) -> None:
        """Go by memory from here on: the run's lock is held, and `is_ours` tells whether it still is. Tampered where
        the record cannot be believed."""
        self._files.pin()
        self._journal.pin(is_ours)
        self._pinned = state_of(self.run_id, self._journal.read().events)

    def record(self) -> Record:
        """What is known to be true of the run, and why its record says something else, if it does."""
        return self._journal.read()

    def events(self) -> list[dict[str, Any]]:
        """All of them; a torn last line is left out. Tampered where they cannot be believed, or one is damaged."""
        found = self._journal.read()
        if found.problem is not None:
            raise Tampered(self.run_id, found.problem)
        return found.events

    def vouched(self) -> str | None:
        """Why nothing vouches for the record; None where the user's key does."""
        return self._journal.vouched()

    def is_anothers(self) -> bool:
        """Whether the record was written with another key than this user's, who can tell nothing of it."""
        return self._journal.is_anothers()

    def state(self) -> RunState:
        """What the events lead to; of a record that cannot be believed, those that can: it has ended by that."""
        if self._pinned is not None:
            return self._pinned
        found = self._journal.read()
        state = state_of(self.run_id, found.events)
        if found.problem is not None and state.ended != TAMPERED:
            state.apply(_tampered(found.problem))
        return state

    def run(self, *, alive: bool = False) -> Run:
        """The run as it is shown."""
        return self.state().run(self.folder, alive=alive)

    def check(self) -> None:
        """Tampered where the record of a pinned run is not as this process left it."""
        with _writing():
            self._journal.check()

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append one event, durably; the time is added, and what was written since the last one, and secrets are taken
        out."""
        kept = {key: value if key == "context" else redact_value(value)[0] for key, value in fields.items()}
        if self._written:
            kept["files"] = self._written
        body = {"event": kind, "at": times.now_text(), **kept}
        with _writing():
            body = self._journal.append(body)
        self._written = {}
        if self._pinned is not None:
            self._pinned.apply(body)

    def end_as_tampered(self, reason: str) -> None:
        """The run has ended by that; what is there instead of its record is put aside."""
        with _writing():
            body = self._journal.end_as_tampered(_tampered(redact(reason)[0]))
        if self._location is not None:
            saved.complete(self._location, self.run_id, self.folder)
        if self._pinned is not None:
            self._pinned.apply(body)

    def _save(self) -> None:
        """Copy the evidence to git. The event is on record all the same where that fails, and the next one is copied
        with it."""
        if self._copy is None:
            return
        named = dict(self._written)
        with contextlib.suppress(RunError):
            named = self.state().files | named
        try:
            self._copy.save(self._files, named, sealing.MANIFEST)
        except (AgentosError, OSError) as error:
            text = f"the evidence of run '{self.run_id}' was not copied to git: {error}"
            warnings.warn(AgentosWarning(text), stacklevel=2)

    def check_files(self) -> None:
        """Tampered where a file that the record names is another by now, or something that is no file lies here."""
        for name, expected in (self.state().files | self._written).items():
            try:
                if self.digest(name) == expected:
                    continue
            except (OSError, RunError):
                pass
            raise Tampered(self.run_id, f"'{name}' was changed or removed")
        for name, regular in self.files():
            if not regular:
                raise Tampered(self.run_id, f"'{name}' is a link, or no file at all: git-agentos did not make it")

    # -- files ---------------------------------------------------------------------------------------------------------

    def write_once(self, name: str, text: str) -> None:
        """A file that is never changed again; RunError where it is there with other contents."""
        data = text.encode("utf-8", "surrogateescape")
        present = self.read(name)
        if present is None:
            self.put(name, data)
        elif present != data:
            raise RunError(f"'{self._path(name)}' is there already, and is never written again")
        else:
            self._written[name] = hashlib.sha256(data).hexdigest()

    def step_folder(self, n: int, kind: str) -> str:
        """The folder of a step, made; relative to `folder`. Of a step that is done again, what was there is kept under
        another name. Tampered where a link lies there, or anything else that git-agentos does not make."""
        name = f"steps/{n:03d}-{kind}"
        with _writing():
            for each in ("steps", name):
                if self._files.kind(each) not in (None, stat.S_IFDIR):
                    raise Tampered(self.run_id, f"'{each}' is not a folder: git-agentos did not make it")
            if self._files.kind(name) is not None and not self._files.is_empty(name):
                self._files.set_aside(name)
            self._files.make(name)
        self._written = {each: code for each, code in self._written.items() if not each.startswith(f"{name}/")}
        return name

    def create(self, name: str) -> BinaryIO:
        """A new file below the folder, to be written; `wrote` tells that it is complete."""
        with self._placing(name):
            return self._files.create(self._name(name))

    def wrote(self, name: str) -> None:
        """A file is complete: the next event has its hash."""
        with self._placing(name):
            self._written[name] = self.digest(name)

    def put(self, name: str, data: bytes, *, vouched: bool = True) -> None:
        """Write a file below the folder, whole or not at all; the next event has its hash, if it is to be `vouched`
        for."""
        name = self._name(name)
        with self._placing(name):
            self._files.replace(name, data, name.rpartition("/")[2] + _NEW)
        if vouched and not name.endswith(_NEW):
            self._written[name] = hashlib.sha256(data).hexdigest()

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
            return os.fdopen(self._files.open(self._name(name)), "rb")
        except OSError as error:
            if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and os.path.islink(os.path.dirname(path))):
                raise RunError(f"'{path}' is a symbolic link", "git-agentos did not make it") from None
            raise

    def chunks(self, name: str) -> Iterator[bytes]:
        """The contents of a file, piece by piece."""
        with self.open(name) as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def digest(self, name: str) -> str:
        """The SHA-256 of a file's contents."""
        digest = hashlib.sha256()
        for chunk in self.chunks(name):
            digest.update(chunk)
        return digest.hexdigest()

    def files(self) -> Iterator[tuple[str, bool]]:
        """Everything in the folder that is no folder, by path, and whether it is a regular file."""
        yield from sorted(self._files.walk())

    def tidy(self) -> None:
        """Remove what a killed `put` left."""
        for name, regular in self.files():
            if regular and name.endswith(_NEW):
                self._files.remove(name)

    def remove(self, name: str) -> None:
        """Take back a file that has just been written."""
        self._files.remove(self._name(name))
        self._written.pop(name, None)

    def clear(self, name: str) -> None:
        """Put aside what has a file's name and is none."""
        if self._files.kind(name) not in (None, stat.S_IFREG):
            self._files.set_aside(name)

    @contextlib.contextmanager
    def _placing(self, name: str) -> Iterator[None]:
        """Tampered where a file cannot be reached, or is there already, since somebody else was here."""
        with _writing():
            try:
                yield
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
                    raise
                raise Tampered(self.run_id, f"'{name}': {(error.strerror or '').lower()}") from error

    def _name(self, name: str) -> str:
        return os.path.relpath(self._path(name), self.folder)

    def _path(self, name: str) -> str:
        path = os.path.normpath(os.path.join(self.folder, name))
        if not path.startswith(os.path.join(self.folder, "")):
            raise RunError(f"'{name}' is not in the evidence of run '{self.run_id}'")
        return path


def _tampered(reason: str) -> dict[str, Any]:
    return {"event": "tampered", "at": times.now_text(), "reason": reason}


def folder_of(location: Location) -> str:
    """The folder of all runs of the repository: `<repository root>/.agentos/runs`."""
    return os.path.join(worktrees.main_folder(location), database_path.FOLDER, "runs")


def make(location: Location, run_id: str) -> Evidence:
    """The folder for a new run, whose lock is held; RunError where the id is taken. An empty one is what a killed
    process left."""
    check_id(run_id)
    top = database_path.ensure_folder(worktrees.main_folder(location))
    runs = os.path.join(top, "runs")
    path = os.path.join(runs, run_id)
    if not os.path.lexists(path) and saved.look(location, run_id, path) is not None:
        raise taken(run_id)
    with _writing():
        with contextlib.suppress(FileExistsError):
            os.mkdir(runs)
        _is_folder(runs)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not _is_folder(path) or os.listdir(path):
                raise taken(run_id) from None
        files.sync_directory(runs)
        made = Evidence(path, run_id, location)
        made.begin()
    return made


def remove(location: Location, run_id: str) -> None:
    """Remove the evidence of a run that has come to nothing, and its copy."""
    deletion.remove_folder(os.path.join(folder_of(location), run_id))
    with contextlib.suppress(AgentosError, OSError):
        saved.drop(location, run_id)


def end_destroyed(location: Location, run_id: str) -> Evidence:
    """The folder of a run whose own was removed or replaced, with the run on record as tampered."""
    with _writing():
        journal.clear_way(os.path.join(folder_of(location), run_id))
    database_path.ensure_folder(worktrees.main_folder(location))
    found = Evidence(os.path.join(folder_of(location), run_id), run_id, location)
    found.end_as_tampered("its evidence was removed or replaced")
    return found


def noted(location: Location, run_id: str) -> Event | None:
    """The event `prepared` of a run, as it is noted outside of the repository; None where it is not."""
    return Journal(Folder(os.path.join(folder_of(location), run_id)), run_id).prepared()


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
    return Evidence(path, run_id, location)


def ids(location: Location) -> list[str]:
    """The ids of all runs that have a folder, oldest first."""
    runs = folder_of(location)
    if not (_is_folder(os.path.dirname(runs)) and _is_folder(runs)):
        return []
    folders = [each for each in os.scandir(runs) if each.is_dir(follow_symlinks=False) and is_id(each.name)]
    found = [(begun_at(each.path), each.name) for each in folders]
    return [name for _, name in sorted(found)]


def context_of(evidence: Evidence) -> WorkspaceContext:
    """The recorded context, as the events have it, or else the file; RunError where it is missing or damaged. Paths are
    those of when it was made: `located.now` has those of now."""
    known = evidence.state().context
    return known if known is not None else file_context(evidence)


def file_context(evidence: Evidence) -> WorkspaceContext:
    """The context as its file has it, which anybody can write; RunError where it is missing or damaged."""
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


def seal(inner: Context, evidence: Evidence, run: Run, *, again: bool = False) -> str:
    """Write the manifest, take the final checkpoint (in the run's worktree, `inner`) and note both; the id.

    Where the worktree is gone or too damaged to be looked at, any other of the repository does for `inner`: the
    checkpoint then holds the last state that is known of the run's. `again` puts aside what has the name of the
    manifest and is no file.
    """
    return sealing.seal(inner, evidence, run, again=again)


def verify(context: Context, run_id: str) -> Verification:
    """Whether the evidence of a run is complete and as it was sealed, and the commits that it names exist.

    RunError where there is no such run.
    """
    try:
        evidence = find(context.location, run_id)
    except RunError:
        path = os.path.join(folder_of(context.location), run_id)
        if sealing.last(context.repository, run_id) is None and saved.look(context.location, run_id, path) is None:
            raise
        evidence = Evidence(os.path.join(folder_of(context.location), run_id), run_id)
    return sealing.verify(context, evidence)


def carried_events(context: Context, run_id: str) -> list[dict[str, Any]] | None:
    """The events of a run whose folder is gone, as its final checkpoint has them; None where it has none."""
    found = sealing.carried(context.repository, run_id, EVENTS)
    return None if found is None else journal.parse(found, run_id)


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


def begun_at(folder: str) -> str:
    """When a run was begun, by its first event; what has none counts as older."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        descriptor = os.open(os.path.join(folder, EVENTS), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return str(json.loads(file.readline(1 << 20))["at"])
    return ""
