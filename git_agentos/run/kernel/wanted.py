"""What is still wanted of a run, beside its evidence: in the repository's git directory, until the run has ended.

<common dir>/agentos/runs/<run id>.json     what it is to do, word for word: the evidence has it without secrets, and
                                            nobody else may read this one
<common dir>/agentos/runs/<run id>.cancel   it is to end: whoever is at work on it looks for this
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.git import locks
from git_agentos.git.location import Location

_FOLDER = "runs"


def put(location: Location, run_id: str, text: str) -> None:
    """Keep what a run is to do."""
    path = _made(location, run_id, "json")
    temporary = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of one that was killed: it may have another mode
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def get(location: Location, run_id: str) -> str | None:
    """What a run is to do; None where that is not kept (it has ended, or was begun on another machine)."""
    try:
        with open(_path(location, run_id, "json"), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def ask_to_end(location: Location, run_id: str) -> None:
    """Tell whoever is at work on a run that it is to be cancelled."""
    with open(_made(location, run_id, "cancel"), "wb"):
        pass


def is_to_end(location: Location, run_id: str) -> bool:
    """Whether the run is to be cancelled."""
    return os.path.lexists(_path(location, run_id, "cancel"))


def do_go_on(location: Location, run_id: str) -> None:
    """It is not to be cancelled after all: whoever wanted that is gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(location, run_id, "cancel"))


def forget(location: Location, run_id: str) -> None:
    """Nothing is wanted of the run any more."""
    for end in ("json", "json.new", "cancel"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(location, run_id, end))


def _made(location: Location, run_id: str, end: str) -> str:
    locks.own_folder(locks.own_folder(location.shared_state_dir) + os.sep + _FOLDER)
    return _path(location, run_id, end)


def _path(location: Location, run_id: str, end: str) -> str:
    return os.path.join(location.shared_state_dir, _FOLDER, f"{run_id}.{end}")
