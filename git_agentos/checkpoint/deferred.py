"""Notes of checkpoints that are not on their timeline yet: a hook created them while git had locked all refs.

Where refs are in reftables, git holds one lock for all of them when it calls `reference-transaction` (`prepared`). A
checkpoint that is created then is written, synced, and noted here before git goes on. `timeline.publish` appends it
when git has ended its transaction: in the hook that git calls then (`committed`, `aborted`), and, if that was killed,
before anybody appends to the timeline or reads it.

    <state dir>/deferred/<time in ns, 20 digits>.<pid>    a JSON object, created as a whole; in the order of the names
        timeline     the name of the timeline
        commit       the timeline commit, on top of the newest one at that time
        committer    `Name <email>`, who writes it again if the timeline has moved
        keep         the keep files of the packs that hold its objects, names in `objects/pack`: no ref reaches them
                     yet, and `git gc --prune=now` would delete them

No lock is needed to write a note: who holds the lock of the timeline may be waiting for git's.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence

from git_agentos.git.location import Location
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

FOLDER = "deferred"
_KEYS = {"timeline": str, "commit": str, "committer": str, "keep": list}


class Append(NamedTuple):
    """A note: a commit that shall be appended to a timeline."""

    path: str
    timeline: str
    commit: str
    committer: str
    keep: tuple[str, ...]


def note(location: Location, timeline: str, commit: str, committer: bytes, keeps: Sequence[str]) -> None:
    """Write a note durably. OSError if that fails."""
    folder = directories.make_own(directories.make_own(location.state_dir), FOLDER)
    body = {
        "timeline": timeline,
        "commit": commit,
        "committer": os.fsdecode(committer),
        "keep": [os.path.basename(path) for path in keeps],
    }
    data = json.dumps(body).encode("ascii")
    for each in (location.git_dir, location.state_dir):
        files.sync_directory(each)  # the folders may be new
    while not files.create(os.path.join(folder, f"{time.time_ns():020d}.{os.getpid()}"), data, mode=0o600):
        pass


def paths(location: Location) -> list[str]:
    """The files of a worktree's notes, oldest first."""
    folder = os.path.join(location.state_dir, FOLDER)
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names]


def read(path: str) -> Append:
    """One note. OSError if it cannot be read, ValueError if it is damaged."""
    body = files.read_object(path, limit=1 << 16)
    for key, kind in _KEYS.items():
        if not isinstance(body.get(key), kind):
            raise ValueError(f"it has no {key}")
    keep = tuple(name for name in body["keep"] if isinstance(name, str))
    return Append(path, body["timeline"], body["commit"], body["committer"], keep)


def kept_packs(location: Location) -> set[str]:
    """The names of the keep files that the notes of a worktree need."""
    found: set[str] = set()
    for path in paths(location):
        with contextlib.suppress(OSError, ValueError):
            found.update(read(path).keep)
    return found
