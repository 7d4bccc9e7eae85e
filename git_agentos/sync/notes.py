"""What this clone remembers of each remote, in `agentos/sync/` in the common git directory.

remote-NAME.json  of each timeline: how far it was synchronised, and what was held back. It saves work: without it,
                  everything is found out again
remote-NAME.bundles  of encrypted timelines (`encrypted`)
remote-NAME.turn  the lock of a `sync` with it
allowed           the fingerprints of findings that a person has allowed, one a line
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from git_agentos.errors import UsageError
from git_agentos.git.location import Location
from git_agentos.sync import host
from git_agentos.sync.scan import HeldBack
from git_agentos.util import files, locks
from git_agentos.util.named_tuple import NamedTuple

_ALLOWED = "allowed"
_FINGERPRINT = r"[\x21-\x7e]{1,200}"


class Note(NamedTuple):
    """How far a timeline is synchronised: its own commit, that of the chain on the remote, by which rules (`rules`) the
    checkpoints in `held_back` are missing there, and whether others were left out, too."""

    tip: str
    remote_tip: str | None
    rules: str
    held_back: tuple[HeldBack, ...] = ()
    is_partial: bool = False

    def holds(self, tip: str, remote_tip: str | None, rules: str) -> bool:
        """Whether nothing has to be done for a timeline that is in this state."""
        same_rules = not self.held_back or rules == self.rules
        return (self.tip, self.remote_tip) == (tip, remote_tip) and same_rules and not self.is_partial


def rules(scanner_version: str, allowed: Iterable[str]) -> str:
    """A digest of what decides which checkpoints are held back."""
    return hashlib.sha256("\n".join([scanner_version, *sorted(allowed)]).encode()).hexdigest()


@contextlib.contextmanager
def lock(location: Location, remote: str) -> Iterator[None]:
    """Hold the lock on what this clone does with a remote."""
    with locks.hold(path(location, remote, "turn")):
        yield


def read(location: Location, remote: str) -> dict[str, Note]:
    """The notes of a remote, by timeline; empty where there are none that can be read."""
    try:
        body = files.read_object(path(location, remote, "json"))
        return {name: _note(fields) for name, fields in body["timelines"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write(location: Location, remote: str, notes: Mapping[str, Note]) -> None:
    """Replace the notes of a remote."""
    body = {"timelines": {name: note._asdict() for name, note in sorted(notes.items())}}
    files.replace(path(location, remote, "json"), json.dumps(body, indent=1).encode("ascii") + b"\n")


def allowed(location: Location) -> frozenset[str]:
    """The fingerprints that were allowed."""
    try:
        text = files.read(os.path.join(host.folder(location), _ALLOWED)).decode("ascii", "replace")
    except FileNotFoundError:
        return frozenset()
    return frozenset(text.split())


def check_fingerprints(fingerprints: Iterable[str]) -> None:
    """UsageError for what cannot be a fingerprint."""
    for each in fingerprints:
        if not re.fullmatch(_FINGERPRINT, each):
            raise UsageError(f"'{each}' is not a fingerprint", "'git agentos sync' prints those of what is held back")


def allow(location: Location, fingerprints: Iterable[str]) -> None:
    """Remember fingerprints as allowed."""
    file = os.path.join(host.folder(location), _ALLOWED)
    with locks.hold(file + ".turn"):
        known = allowed(location)
        files.replace(file, "".join(f"{each}\n" for each in sorted(known.union(fingerprints))).encode("ascii"))


def path(location: Location, remote: str, kind: str) -> str:
    """A file about a remote."""
    name = remote.replace("%", "%25").replace("/", "%2F")
    return os.path.join(host.folder(location), f"remote-{name}.{kind}")


def _note(fields: Mapping[str, Any]) -> Note:
    held = tuple(HeldBack(*each) for each in fields["held_back"])
    return Note(fields["tip"], fields["remote_tip"], fields["rules"], held, bool(fields["is_partial"]))
