"""The evidence of a run: complete, and outside of the worktree that may be discarded.

    <repository root>/.agentos/runs/<run id>/
      workspace_context.json   the context, written once, at set-up (role `workspace_context`)
      spec.json                what the run was to do (role `spec`)
      environment.json         fingerprint of the machine and tools, without values of variables (role `environment`)
      events.jsonl             everything that happened (`events`; role `events`)
      steps/<nnn>-<kind>/      stdout, stderr, exit_code, snapshot.json, diff.patch (roles `stdout` …)
      manifest.json            of every file above: role, sha256, size; written by `seal` (see there)

One process at a time writes (`lock`). Agents have the rights to do so as well: so only what has a valid MAC counts
(`journal`). Links are never followed (`evidence_folder`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from git_agentos.errors import AgentosError, AgentosWarning, RunError, converted_storage_errors, system_reason
from git_agentos.git.location import Location
from git_agentos.redact import redact, redact_value
from git_agentos.run import evidence_copy
from git_agentos.run.events import TAMPERED, Run, RunState, state_of
from git_agentos.run.evidence_folder import UNFINISHED, Folder
from git_agentos.run.journal import Journal, Record, Tampered
from git_agentos.util import times

_CHUNK = 1 << 20


class Evidence:
    """The folder of one run. The process that continues a run pins it: see `journal`."""

    def __init__(self, folder: str, run_id: str, location: Location | None = None, files: Folder | None = None) -> None:
        """`location` is the repository's, where the evidence is to be copied to git; `files` the copy to read."""
        self.folder = folder
        self.run_id = run_id
        self._location = location
        self._files = files or Folder(folder)
        self._copy = evidence_copy.Copy(location, run_id) if location is not None else None
        self.is_copy = files is not None
        self._journal = Journal(self._files, run_id, self._save)
        self._pinned: RunState | None = None
        self._written: dict[str, str] = {}  # since the last event: name -> SHA-256

    # -- the record ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the record of a new run: the note of an earlier run of this id, which was removed, is replaced."""
        self._journal.begin()

    def begin_with(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Begin the record with the events of another one, in which the run was until now."""
        self._journal.begin_with(events)

    def pin(self, is_ours: Callable[[], bool] = lambda: True) -> None:
        """Keep the record in memory from here on: the run's lock is held, and `is_ours` says whether it still is.
        Tampered where the record cannot be verified."""
        self._files.pin()
        self._journal.pin(is_ours)
        self._pinned = state_of(self.run_id, self._journal.read().events)

    def record(self) -> Record:
        """The verified part of the record, and what is wrong with the rest."""
        return self._journal.read()

    def events(self) -> list[dict[str, Any]]:
        """All events; a torn last line is left out. Tampered where one is damaged or cannot be verified."""
        found = self._journal.read()
        if found.problem is not None:
            raise Tampered(self.run_id, found.problem)
        return found.events

    def why_unverified(self) -> str | None:
        """Why the record cannot be verified; None where the user's key verifies it."""
        return self._journal.why_unverified()

    def is_foreign(self) -> bool:
        """Whether the record was written with another key than this user's."""
        return self._journal.is_foreign()

    def state(self) -> RunState:
        """The state by the events; where the record was tampered with, by the verified ones, and the run has ended by
        that."""
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
        with converted_storage_errors():
            self._journal.check()

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append one event, durably. The time and the hashes of files written since the last event are added; secrets
        are redacted."""
        kept = {key: value if key == "context" else redact_value(value)[0] for key, value in fields.items()}
        if self._written:
            kept["files"] = self._written
        body = {"event": kind, "at": times.now_text(), **kept}
        with converted_storage_errors():
            body = self._journal.append(body)
        self._written = {}
        if self._pinned is not None:
            self._pinned.apply(body)
        if kind == "ended":
            self._tell_end(str(kept.get("state")), kept.get("reason"))

    def end_as_tampered(self, reason: str) -> None:
        """End the run as tampered; what is in the place of its record is set aside."""
        with converted_storage_errors():
            body = self._journal.end_as_tampered(_tampered(redact(reason)[0]))
        if self._location is not None:
            with contextlib.suppress(AgentosError, OSError):
                evidence_copy.write_missing(self._location, self.run_id)
        if self._pinned is not None:
            self._pinned.apply(body)
        self._tell_end(TAMPERED, reason)

    def _tell_end(self, state: str, reason: str | None) -> None:
        """Tell the user's own command that the run has ended."""
        if self._location is None:
            return
        from git_agentos import notification

        known = None
        with contextlib.suppress(AgentosError, OSError):
            known = self.state().recorded.context
        message = f"run {self.run_id} {state}" + (f": {reason}" if reason else "")
        where, agent = (None, None) if known is None else (known.worktree_path, known.agent_id)
        details = {"state": state, "reason": reason}
        what = notification.Notification(notification.RUN_ENDED, self.run_id, message, where, agent, details)
        notification.send(self._location, what)

    def _save(self) -> None:
        """Copy the evidence to git. The event is on record all the same where that fails, and the next one is copied
        with it."""
        if self._copy is None:
            return
        named = dict(self._written)
        with contextlib.suppress(RunError):
            named = self.state().files | named
        try:
            self._copy.save(self._files, named)
        except (AgentosError, OSError) as error:
            reason = system_reason(error) if isinstance(error, OSError) else error
            text = f"the evidence of run '{self.run_id}' was not copied to git: {reason}"
            warnings.warn(AgentosWarning(text), stacklevel=2)

    def check_files(self) -> None:
        """Tampered where a file that the record names has changed, or something in the folder is no regular file."""
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
        """Write a file that is never changed again; RunError where it exists with other contents."""
        data = text.encode("utf-8", "surrogateescape")
        present = self.read(name)
        if present is None:
            self.put(name, data)
        elif present != data:
            raise RunError(f"'{self._path(name)}' is there already, and is never written again")
        else:
            self._written[name] = hashlib.sha256(data).hexdigest()

    def step_folder(self, n: int, kind: str) -> str:
        """Make the folder of a step; its path relative to `folder`. Where a step runs again, its old folder is renamed.
        Tampered where a link is there, or anything else that git-agentos does not make."""
        name = f"steps/{n:03d}-{kind}"
        with converted_storage_errors():
            for each in ("steps", name):
                if self._files.kind(each) not in (None, stat.S_IFDIR):
                    raise Tampered(self.run_id, f"'{each}' is not a folder: git-agentos did not make it")
            if self._files.kind(name) is not None and not self._files.is_empty(name):
                self._files.set_aside(name)
            self._files.make(name)
        self._written = {each: code for each, code in self._written.items() if not each.startswith(f"{name}/")}
        return name

    def create(self, name: str) -> BinaryIO:
        """A new file below the folder, to be written; `add_file` says that it is complete."""
        with self._placing(name):
            return self._files.create(self._name(name))

    def add_file(self, name: str) -> None:
        """Add the hash of a complete file to the next event."""
        with self._placing(name):
            self._written[name] = self.digest(name)

    def put(self, name: str, data: bytes, *, vouched: bool = True) -> None:
        """Write a file below the folder, whole or not at all; the next event has its hash, if it is to be `vouched`
        for."""
        name = self._name(name)
        with self._placing(name):
            self._files.replace(name, data)
        if vouched and not name.endswith(UNFINISHED):
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

    def measure(self, name: str, limit: int | None = None) -> tuple[str, int]:
        """SHA-256 and size of a file's contents, or of its first `limit` bytes."""
        digest, size = hashlib.sha256(), 0
        with self.open(name) as file:
            while chunk := file.read(_CHUNK if limit is None else min(_CHUNK, limit - size)):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def digest(self, name: str) -> str:
        """The SHA-256 of a file's contents."""
        return self.measure(name)[0]

    def files(self) -> Iterator[tuple[str, bool]]:
        """Everything in the folder that is no folder, by path, and whether it is a regular file."""
        yield from sorted(self._files.walk())

    def tidy(self) -> None:
        """Remove what a killed `put` left."""
        for name, regular in self.files():
            if regular and name.endswith(UNFINISHED):
                self._files.remove(name)

    def remove(self, name: str) -> None:
        """Remove a file that has just been written."""
        self._files.remove(self._name(name))
        self._written.pop(name, None)

    def clear(self, name: str) -> None:
        """Set aside what has the name of a file and is no regular file."""
        if self._files.kind(name) not in (None, stat.S_IFREG):
            self._files.set_aside(name)

    @contextlib.contextmanager
    def _placing(self, name: str) -> Iterator[None]:
        """Tampered where a file cannot be reached, or exists already: another program made it."""
        with converted_storage_errors():
            try:
                yield
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
                    raise
                if self._pinned is not None:
                    self._journal.check()  # it says so where the whole folder was replaced
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
