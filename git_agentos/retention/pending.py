"""Notes of what is to be deleted, so that a deletion that was killed is finished by the next `forget`.

    <common dir>/agentos/forgotten/<time in ns, 20 digits>.<pid>

The first line is `roots`, `objects`, `written`, or `evidence`, a run and a MAC; then comes one id on each line.

A note of `roots` is written before a timeline moves: what these objects reach may be deleted where nothing needs it (if
the timeline did not move, everything is still needed, and nothing is). One of `objects` is written before the first of
them is deleted, when the rest can no longer be found from the roots. One of `written` names what `forget`
itself is about to write, until a timeline moves to it. One of `evidence` names the tree that the copy of a run's
evidence in git becomes when the run's timeline has the checkpoint that comes next (if there is none: at once).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator

from git_agentos.git.location import Location
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

ROOTS, OBJECTS, WRITTEN, EVIDENCE = "roots", "objects", "written", "evidence"
_FOLDER = "forgotten"
_LARGEST = 1 << 30
_NAME = r"[0-9]{20}\.[0-9]+"


class Pending(NamedTuple):
    """What all notes name: `paths` are their files, `objects` has those that are `written`, too."""

    paths: list[str]
    roots: set[str]
    objects: set[str]
    written: set[str]


def note(location: Location, kind: str, oids: Iterable[str]) -> str:
    """Write a note durably; its path. OSError if that fails."""
    folder = directories.make_own(directories.make_own(location.shared_state_dir), _FOLDER)
    files.sync_directory(location.shared_state_dir)
    data = "".join(f"{line}\n" for line in (kind, *oids)).encode("ascii")
    while True:
        path = os.path.join(folder, f"{time.time_ns():020d}.{os.getpid()}")
        if files.create(path, data, mode=0o600):
            return path


def read(location: Location) -> Pending:
    """All notes of what is to be deleted. What is no id in them is left out."""
    found: dict[str, set[str]] = {ROOTS: set(), OBJECTS: set(), WRITTEN: set()}
    paths = []
    for path, kind, oids in _read_all(location):
        if not kind.startswith(EVIDENCE):
            paths.append(path)
        if kind in found:
            found[kind].update(oids)
    return Pending(paths, found[ROOTS], found[OBJECTS] | found[WRITTEN], found[WRITTEN])


def of_evidence(location: Location) -> list[tuple[str, str, list[str]]]:
    """The notes of evidence: path, first line, ids."""
    return [each for each in _read_all(location) if each[1].startswith(EVIDENCE)]


def _read_all(location: Location) -> Iterator[tuple[str, str, list[str]]]:
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    paths: list[str] = []
    with contextlib.suppress(OSError):
        paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if re.fullmatch(_NAME, name))
    for path in paths:
        kind, lines = "", [""]
        with contextlib.suppress(OSError):
            kind, *lines = files.read(path, limit=_LARGEST).decode("ascii", "replace").split("\n")
        yield path, kind, [line for line in lines if location.hash.is_oid(line)]


def remove(paths: Iterable[str]) -> None:
    """Remove notes: nothing is left to delete."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
