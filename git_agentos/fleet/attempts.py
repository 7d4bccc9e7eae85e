"""What workers of this clone have begun: a small file for each task, until its worker is done with it.

    <common dir>/agentos/fleet/<run id>.json     an `Attempt`: which task it is, and what its worker says on the remote
    <common dir>/agentos/fleet/<run id>.turn     flock(2), held by its worker for as long as that lives

So what a killed worker has left is found, and is continued by the next worker of the task, or removed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from git_agentos.errors import LockedError
from git_agentos.fleet import names
from git_agentos.git.location import Location
from git_agentos.util import directories, files, locks
from git_agentos.util.values import is_of_type

_FOLDER = "fleet"
_LONGEST = 1 << 16
_MOMENT = 0.3  # seconds: who removes what is left has the lock for less


@dataclass(frozen=True)
class Attempt:
    """What a worker has begun: `number` counts workers of the task, from 1, and `started_at` is when the first began
    (ISO 8601, UTC). `is_workflow` tells that there may be a workflow's state beside the run."""

    fleet: str
    task: str
    number: int
    started_at: str
    is_workflow: bool = False

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return names.run_id(self.fleet, self.task)


@contextlib.contextmanager
def working(location: Location, fleet: str, task: str) -> Iterator[None]:
    """Be the worker of a task in this clone; LockedError where another process is that."""
    run_id = names.run_id(fleet, task)
    path = _path(location, run_id, "turn")
    descriptor = _take(path)
    if descriptor is None:
        raise LockedError(
            f"another worker of this machine has task '{task}' of fleet '{fleet}'", "wait for it, or end it"
        )
    try:
        yield
    finally:
        if not os.path.lexists(_path(location, run_id, "json")):
            with contextlib.suppress(OSError):
                os.unlink(path)
        os.close(descriptor)


def is_taken(location: Location, fleet: str, task: str) -> bool:
    """Whether a process is the worker of a task in this clone."""
    try:
        descriptor = locks.try_open(_path(location, names.run_id(fleet, task), "turn"))
    except FileNotFoundError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _take(path: str) -> int | None:
    """The lock on a file; None where another process has it. One that its holder removes is made again."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        if not locks.try_acquire(descriptor, patience=_MOMENT):
            os.close(descriptor)
            return None
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def read(location: Location, fleet: str, task: str) -> Attempt | None:
    """What was begun with a task here; None where nothing was, or it cannot be read."""
    return _read(_path(location, names.run_id(fleet, task), "json"))


def write(location: Location, attempt: Attempt) -> None:
    """Note what is about to begin."""
    data = json.dumps(asdict(attempt)).encode("ascii") + b"\n"
    files.replace(_path(location, attempt.run_id, "json"), data)


def remove(location: Location, attempt: Attempt) -> None:
    """Nothing of it is left."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(location, attempt.run_id, "json"))


def listed(location: Location) -> list[Attempt]:
    """Everything that was begun and not done with, whether its worker lives or not."""
    folder = _folder(location)
    found = (_read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".json"))
    return [each for each in found if each is not None]


def remove_unused(location: Location) -> None:
    """Remove the locks that were left by workers which were killed before they began, or after they were done."""
    folder = _folder(location)
    names_there = set(os.listdir(folder))
    for name in names_there:
        run_id = name.removesuffix(".turn")
        if run_id == name or f"{run_id}.json" in names_there:
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            descriptor = locks.try_open(path)
            if descriptor is not None:
                os.unlink(path)
                os.close(descriptor)


def _read(path: str) -> Attempt | None:
    try:
        body = files.read_object(path, limit=_LONGEST)
        found = Attempt(
            body["fleet"], body["task"], body["number"], body["started_at"], body.get("is_workflow") is True
        )
        names.check_fleet_id(found.fleet)
        names.check_task_id(found.task)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    plain = all(is_of_type(getattr(found, key), "str") for key in ("fleet", "task", "started_at"))
    return found if plain and is_of_type(found.number, "int") else None


def _path(location: Location, run_id: str, end: str) -> str:
    return os.path.join(_folder(location), f"{run_id}.{end}")


def _folder(location: Location) -> str:
    return directories.make_own(location.shared_state_dir, _FOLDER)
