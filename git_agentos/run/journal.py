"""The record of a run on disk: `events.jsonl`, which is appended to; only events with a valid MAC count.

Each line has the `mac` of its event and of the `mac` before it, by the user's key (`guard.signing`): the first one
continues a MAC of the folder's path, so that no record can take another run's place. A note (`journal_note`), kept
where agents do not work, has the number of events and the last `mac`, so that a record that was cut off shows as well.
It is one event behind at most, where a process was killed between the two; a torn last line is no event. It has the
event `prepared` too: where a run began is known also when everything in the repository was destroyed.

A process that continues a run has its record in memory (`Journal.pin`). It reads the file only to check that it is what
it wrote last: the same bytes in the same file in the same folder, the run's lock still in place, the note unchanged.
Else `end_as_tampered` sets the files aside and writes the verified record.

Without a key (in a sandbox) events have no `mac`; such a record cannot be verified.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from git_agentos.errors import RunError
from git_agentos.guard import signing
from git_agentos.run.events import EVENTS, parse_line
from git_agentos.run.evidence_folder import Folder
from git_agentos.run.journal_note import Note, NoteFile
from git_agentos.util import files, locks, times
from git_agentos.util.named_tuple import NamedTuple

_LIMIT = 256 << 20
_ATTEMPTS = 50
NO_KEY = "nothing vouches for it: the user's key cannot be read"


class Tampered(RunError):
    """The record of a run is not what was written last; `reason` says in what."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(
            f"the record of run '{run_id}' is damaged or was tampered with: {reason}",
            f"git agentos run verify {run_id} shows details, git agentos rollback {run_id} resets its worktree",
        )
        self.reason = reason


class NoKey(RunError):
    """Nothing can be recorded of a run: its events have MACs of a key that cannot be read here."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"nothing can be recorded of run '{run_id}': the user's key cannot be read",
            f"it is in '{signing.folder(os.environ)}'; call this from outside of the sandbox",
        )


class Record(NamedTuple):
    """The verified record of a run: `lines` of the file, the `events` in them, `last` the last MAC. `problem` says what
    is wrong with the rest of the file."""

    lines: list[bytes]
    events: list[dict[str, Any]]
    last: str | None
    problem: str | None

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)


class Journal:
    """The record of the run whose evidence is in `folder`."""

    def __init__(self, folder: Folder, run_id: str, save: Callable[[], None] = lambda: None) -> None:
        self._folder = folder
        self._run_id = run_id
        self._save = save  # copies the evidence: never later than the note is written
        self._note_file = NoteFile(folder.path)
        self._key: bytes | None = None
        self._pinned: Record | None = None
        self._inode: tuple[int, int] | None = None
        self._notes: tuple[Note | None, ...] = ()  # what the note may be: a write may have failed
        self._is_ours: Callable[[], bool] = lambda: True

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self) -> Record:
        """The record: of a pinned one what is in memory, else what the file has as far as it can be believed."""
        try:
            return self._read()
        except RunError as error:  # something else has its name
            return Record([], [], self._first(), error.message)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            return Record([], [], self._first(), f"'{EVENTS}' or its folder is a symbolic link")

    def pin(self, is_ours: Callable[[], bool]) -> None:
        """Keep the record in memory from here on; `is_ours` tells whether the run's lock is still the one that is held.
        Tampered where it cannot be believed."""
        found = self.read()
        if found.problem is not None:
            raise Tampered(self._run_id, found.problem)
        data, which = self._load()
        if found.lines and data != found.data:
            which = self._write(found.data, b"")  # a line that was torn when its writer was killed
        self._pinned, self._is_ours, self._inode = found, is_ours, which
        self._notes = (self._note(),)

    def signer(self) -> Signer:
        """What signs the events again, from the first on."""
        self._note()  # where the record began
        return Signer(self._read_key(), self._first())

    def note_again(self) -> None:
        """Note how long the record is that is there now, of which all events are this user's."""
        note = self._note()
        data, key = self._load()[0], self._read_key()
        if data is None or key is None or note is None:
            return
        lines = data.split(b"\n")[:-1]
        with contextlib.suppress(ValueError):
            bodies = [parse_line(line) for line in lines]
            codes = [body.pop("mac", None) for body in bodies]
            if codes and isinstance(codes[-1], str):
                self._put_note(bodies, codes[-1])

    def why_unverified(self) -> str | None:
        """Why nothing vouches for the record; None where the user's key does."""
        if self._read_key() is None:
            return NO_KEY
        return self.read().problem

    def is_foreign(self) -> bool:
        """Whether it was written with another key than this user's: no line is ours, and none was ever noted."""
        known = self._read_key()
        if known is None or self._pinned is not None or self._note() is not None:
            return False
        with contextlib.suppress(RunError, OSError, ValueError):
            first = parse_line((self._load()[0] or b"").partition(b"\n")[0])
            return isinstance(first.get("mac"), str) and not self.read().lines
        return False

    def _read(self) -> Record:
        if self._pinned is not None:
            return self._pinned
        for _ in range(_ATTEMPTS):
            note = self._note()
            found = self._checked(self._load()[0], note)
            if found.problem is None or self._note() == note:
                break  # else its process has just put something on record
        return found

    def _checked(self, data: bytes | None, note: Note | None) -> Record:
        """As much of the file as is ours; `data` is None where it is missing."""
        known, last = self._read_key(), self._first()
        lines: list[bytes] = []
        events: list[dict[str, Any]] = []
        codes: list[str] = []
        problem = f"'{EVENTS}' is missing" if data is None and note is not None and note.number else None
        for number, line in enumerate((data or b"").split(b"\n")[:-1], 1):
            try:
                body = parse_line(line)
            except ValueError:
                problem = f"line {number} of '{EVENTS}' is invalid"
                break
            code = body.pop("mac", None)
            if known is not None and not signing.verify(_event_bytes(last, body), code, known):
                problem = f"line {number} of '{EVENTS}' was not written by git-agentos with your key"
                break
            last = code if isinstance(code, str) else None
            lines.append(line + b"\n")
            events.append(body)
            codes.append(last or "")
        if problem is None and known is not None:
            problem = _differs_from_note(codes, note)
        return Record(lines, events, last, problem)

    def begin(self) -> None:
        """Note that nothing is on record yet."""
        self._put_note([], self._first())

    def forget(self) -> None:
        """Remove the note: there is no such record any more."""
        self._note_file.remove()

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Append one event, durably; as it can be read again. Tampered where the record is not what was written
        last."""
        found = self._read()
        if found.problem is not None:
            raise Tampered(self._run_id, found.problem)
        if self._pinned is not None:
            self.check()
        known = self._read_key()
        if known is None and found.last is not None:
            raise NoKey(self._run_id)
        line, body, code = _line(event, found.last, known)
        if not found.lines:
            self._put_note([], found.last)
        which = self._write(found.data, line)
        grown = Record([*found.lines, line], [*found.events, body], code, None)
        if self._pinned is not None:
            self._pinned, self._inode = grown, which
        self._save()
        self._put_note(grown.events, code)
        return body

    def begin_with(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Make these events, signed, the record of a run that has none."""
        known, last, data = self._read_key(), self._first(), b""
        bodies = []
        for event in events:
            line, body, last = _line(event, last, known)
            data += line
            bodies.append(body)
        self._write(b"", data)
        self._save()
        self._put_note(bodies, last)

    def check(self) -> None:
        """Tampered where a pinned record, its folder, its note or the run's lock is not as this process left it."""
        problem = self._why_changed()
        if problem is not None:
            raise Tampered(self._run_id, problem)

    def _why_changed(self) -> str | None:
        found = self._pinned
        assert found is not None
        if not self._folder.is_in_place():
            return f"the folder '{self._folder.path}' was replaced"
        if not self._is_ours():
            return "the file of the run's lock was replaced"
        try:
            data, which = self._load(len(found.data) + 1)
        except (RunError, OSError) as error:
            return str(error)
        if data is None and found.lines:
            return f"'{EVENTS}' was removed"
        if which != self._inode:
            return f"'{EVENTS}' was replaced"
        if (data or b"") != found.data:
            return f"'{EVENTS}' was changed by another process"
        if found.lines and self._read_key() is not None and self._note() not in self._notes:
            return "the note of how long the record is was changed"
        return None

    def end_as_tampered(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """End the run as tampered: what is there is put aside, and the record is what is known to be true, with
        `event`."""
        found = self.read()
        if not self._folder.is_in_place() or not os.path.isdir(self._folder.path) or os.path.islink(self._folder.path):
            clear_path(self._folder.path)
            pinned = self._pinned is not None
            self._folder.unpin()
            os.makedirs(self._folder.path)
            if pinned:
                self._folder.pin()
        if self._folder.kind(EVENTS) is not None:
            self._folder.set_aside(EVENTS)
        known = self._read_key()
        code = found.last if known is not None else None
        lines, events = list(found.lines), list(found.events)
        for each in (self.prepared(), event):
            if each is not None and each not in events:
                line, body, code = _line(each, code, known)
                lines.append(line)
                events.append(body)
        grown = Record(lines, events, code, None)
        self._folder.replace(EVENTS, grown.data)
        if self._pinned is not None:
            self._pinned, self._inode = grown, None
            with contextlib.suppress(RunError, OSError):
                self._inode = self._load(0)[1]
        self._save()
        self._put_note(events, code)
        return body

    def prepared(self) -> dict[str, Any] | None:
        """The event `prepared`, as the note has it."""
        note = self._note()
        return None if note is None else note.prepared

    def _write(self, before: bytes, line: bytes) -> tuple[int, int]:
        """Put a line behind the last whole one; device and inode of the file."""
        descriptor = self._folder.open(EVENTS, os.O_RDWR | os.O_CREAT)
        try:
            locks.acquire(descriptor)
            os.ftruncate(descriptor, end := len(before))  # what is behind it was torn when its writer was killed
            while line:
                written = os.pwrite(descriptor, line, end)
                line, end = line[written:], end + written
            os.fsync(descriptor)
            which = _identify(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, len(before))
            raise
        finally:
            os.close(descriptor)
        if not before:
            files.sync_directory(self._folder.path)
        return which

    def _load(self, limit: int = _LIMIT) -> tuple[bytes | None, tuple[int, int] | None]:
        """The first bytes of the file, with its device and inode; None where there is none."""
        try:
            descriptor = self._folder.open(EVENTS)
        except (FileNotFoundError, NotADirectoryError):
            return None, None
        with open(descriptor, "rb") as file:
            return file.read(limit), _identify(descriptor)

    # -- the key, and the note -----------------------------------------------------------------------------------------

    def _read_key(self) -> bytes | None:
        if self._key is None:
            self._key = signing.key(os.environ)
        return self._key

    def _first(self) -> str | None:
        """What the first event continues."""
        known = self._read_key()
        if known is None:
            return None
        origin = signing.document_bytes("run", self._note_file.origin, {"run_id": self._run_id})
        return signing.mac(origin, known)

    def _note(self) -> Note | None:
        return self._note_file.read(self._read_key())

    def _put_note(self, events: list[dict[str, Any]], last: str | None) -> None:
        known = self._read_key()
        if known is None or last is None:
            return
        note = Note(len(events), last, next((each for each in events if each["event"] == "prepared"), None))
        self._notes = (*self._notes[-1:], note)
        self._note_file.write(note, known)
        self._notes = self._notes[-1:]


class Signer:
    """Signs the events of a record again, one after the other. An event that was not this user's keeps its MAC."""

    def __init__(self, known: bytes | None, first: str | None) -> None:
        self._known = known
        self._before = self._now = first

    def again(self, line: bytes, changed: bytes) -> bytes:
        """A line of the record as it has to be in the place of `line`, with the text of `changed`."""
        try:
            former, body = parse_line(line), parse_line(changed)
        except ValueError:
            return changed
        code = former.pop("mac", None)
        body.pop("mac", None)
        is_ours = self._known is not None and signing.verify(_event_bytes(self._before, former), code, self._known)
        is_same = changed == line and self._before == self._now
        self._before = code if isinstance(code, str) else None
        if is_same or not is_ours or self._known is None:
            self._now = self._before
            return line if is_same else _with_code(body, code)
        self._now = signing.mac(_event_bytes(self._now, body), self._known)
        return _with_code(body, self._now)

    def added(self, event: Mapping[str, Any]) -> bytes:
        """One more line."""
        line, _, self._now = _line(event, self._now, self._known)
        return line


def _with_code(body: Mapping[str, Any], code: object) -> bytes:
    return json.dumps({**body, "mac": code}, separators=(",", ":")).encode("ascii") + b"\n"


def _identify(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _differs_from_note(codes: list[str], note: Note | None) -> str | None:
    """In what a record differs from the note of it."""
    if note is None:
        return "the note of how long it is is missing" if codes else None
    if len(codes) < note.number:
        return f"'{EVENTS}' was cut off: it has {len(codes)} of {note.number} events"
    if note.number and codes[note.number - 1] != note.last:
        return f"'{EVENTS}' is not the one that was written last"
    if len(codes) > note.number + 1:
        return f"'{EVENTS}' has {len(codes)} events, and {note.number} were written"
    return None


def parse_events(data: bytes, run_id: str) -> list[dict[str, Any]]:
    """The events in a copy of a record, which nothing vouches for here."""
    found = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            body = parse_line(line)
        except ValueError as error:
            raise RunError(
                f"the record of run '{run_id}' is damaged: line {number} of '{EVENTS}' is invalid",
                f"git agentos run verify {run_id} shows details",
            ) from error
        body.pop("mac", None)
        found.append(body)
    return found


def _line(event: Mapping[str, Any], last: str | None, known: bytes | None) -> tuple[bytes, dict[str, Any], str | None]:
    """An event as a line, as it will be read, and its code."""
    body = json.loads(json.dumps(event))
    code = signing.mac(_event_bytes(last, body), known) if known is not None else None
    line = json.dumps({**body, "mac": code}, separators=(",", ":")).encode("ascii") + b"\n"
    return line, body, code


def _event_bytes(last: str | None, body: Mapping[str, Any]) -> bytes:
    return signing.document_bytes("run-event", last or "", body)


def clear_path(path: str) -> None:
    """Put aside what stands in the place of a run's folder, or of the folders of git-agentos above it."""
    runs = os.path.dirname(path)
    for each in (os.path.dirname(runs), runs, path) if os.path.basename(runs) == "runs" else (path,):
        if os.path.lexists(each) and (each == path or os.path.islink(each) or not os.path.isdir(each)):
            os.rename(each, f"{each}~aside-{times.name_stamp()}-{os.urandom(2).hex()}")
            files.sync_directory(os.path.dirname(each))
