"""Notes of how long each run's record is, kept where agents do not work:

    <configuration folder>/git-agentos/runs/<SHA-256 of the evidence folder's path>.json

A note is a signed document (`guard.signing`): `evidence` is the folder, `events` the number of events, `last` the code
of the last one, `prepared` the event of that name, `origin` the SHA-256 of the path at which the record began, and
`git` the device and inode of the repository's `.git`. By `git` a record is found again after its repository was moved:
nothing else has these numbers while that exists. A copy of a record does not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Any

from git_agentos.guard import signing
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_END = ".json"
_LIMIT = 1 << 16


class Note(NamedTuple):
    """How many events there are, the code of the last, and the event `prepared`."""

    number: int
    last: str
    prepared: dict[str, Any] | None


class NoteFile:
    """The note of the record in the folder `evidence`; `origin` is what the first event's code continues."""

    def __init__(self, evidence: str) -> None:
        self._evidence = evidence
        self._name = hashlib.sha256(os.fsencode(os.path.realpath(evidence))).hexdigest()
        self._moved_from: str | None = None
        self.origin = self._name

    def read(self, known: bytes | None) -> Note | None:
        """The note, by the user's key; None where there is none that was signed with it."""
        if known is None:
            return None
        with contextlib.suppress(KeyError, TypeError, ValueError):
            body = _load(self._name, known) or self._find_moved(known)
            if body is not None:
                self.origin = str(body["origin"])
                return Note(int(body["events"]), str(body["last"]), body["prepared"])
        return None

    def write(self, note: Note, known: bytes) -> None:
        """Write the note, durably. That of a moved repository is written for the new path, and goes from the old."""
        body = {
            "evidence": self._evidence,
            "origin": self.origin,
            "git": _git(self._evidence),
            "events": note.number,
            "last": note.last,
            "prepared": note.prepared,
        }
        os.makedirs(_folder(), mode=0o700, exist_ok=True)
        document = signing.sign_document("run-note", self._name, body, known)
        files.replace(_path(self._name), json.dumps(document).encode("ascii") + b"\n", mode=0o600)
        if self._moved_from is not None:
            with contextlib.suppress(OSError):
                os.unlink(_path(self._moved_from))
            self._moved_from = None

    def remove(self) -> None:
        """Remove the note."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(self._name))

    def _find_moved(self, known: bytes) -> dict[str, Any] | None:
        """The note of the same folder at the path that it had before its repository was moved."""
        git = _git(self._evidence)
        try:
            names = sorted(os.listdir(_folder())) if git is not None else []
        except OSError:
            return None
        for name in names:
            body = _load(name.removesuffix(_END), known) if name.endswith(_END) else None
            if body is None or body.get("git") != git:
                continue
            before = str(body["evidence"])
            if os.path.basename(before) == os.path.basename(self._evidence) and not os.path.lexists(before):
                self._moved_from = name.removesuffix(_END)
                return body
        return None


def _load(name: str, known: bytes) -> dict[str, Any] | None:
    """A note that is whole, and signed."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        body = files.read_object(_path(name), limit=_LIMIT)
        if signing.verify_document("run-note", name, body, known):
            return body
    return None


def _git(evidence: str) -> list[int] | None:
    """Device and inode of what is named `.git` beside `.agentos/runs/<run id>`; of the folder itself where none is."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(evidence))))
    for path in (os.path.join(top, ".git"), top):
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            return [found.st_dev, found.st_ino]
    return None


def _folder() -> str:
    return os.path.join(signing.folder(os.environ), "runs")


def _path(name: str) -> str:
    return os.path.join(_folder(), name + _END)
