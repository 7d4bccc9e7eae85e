"""What is being done to a managed worktree, written down before it begins: a killed command leaves its intent, and
`worktree repair` leads from it to before or after.

    <common dir>/agentos/worktrees/<id>.json    one operation under way on the worktree <id>
    <common dir>/agentos/worktrees/<id>.owner   flock(2), held for as long as whoever does it lives
    <common dir>/agentos/worktrees.turn         flock(2): who changes worktrees of this repository takes turns

An intent belongs to the process that holds the lock on its `.owner` file. So the long parts of an operation (checking
out files, a set-up command) need not keep others waiting, and who gets that lock knows that the owner is dead. git
commands that change something on the way are given the descriptor (`Intent.owner`): while such a one lives on after
its parent was killed, the intent is not abandoned yet. Fields are the operation's own (paths, oids); each step that
`repair` cannot see on disk is recorded before it is made.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from typing import Any, NamedTuple

from git_agentos.errors import LockedError, WorktreeError
from git_agentos.git.location import Location
from git_agentos.util import directories, files, locks
from git_agentos.worktree import damaged

_FOLDER = "worktrees"
_VERSION = 1
_PATIENCE = 0.3
_LONGEST = 1 << 24
# The operations. DAMAGED stands for one that cannot be read any more.
CREATE, ARCHIVE, REMOVE, COMPLETE, MERGE = "create", "archive", "remove", "complete", "merge"
DAMAGED = "damaged"


class WorktreeJournal(NamedTuple):
    """One operation under way: `operation` is `create`, `archive`, `remove`, `complete` or `merge` (DAMAGED where that
    cannot be read any more); `fields` are JSON values.

    `owner` is the descriptor that proves who it belongs to; -1 where it is not this process's.
    """

    path: str
    id: str
    operation: str
    fields: dict[str, Any]
    owner: int = -1


def start(location: Location, id_: str, operation: str, **fields: Any) -> WorktreeJournal:
    """Write down what is about to be done; the turn must be held.

    LockedError where something is under way on this worktree, WorktreeError where a killed command left its intent.
    """
    folder = directories.make_own(location.shared_state_dir, _FOLDER)
    path = os.path.join(folder, f"{id_}.json")
    owner = _take(path)
    if owner is None:
        raise LockedError(
            f"another git-agentos command is at work on the worktree '{id_}'", "try again when it has finished"
        )
    try:
        if os.path.lexists(path):
            raise WorktreeError(
                f"a command that worked on the worktree '{id_}' was killed", f"git agentos worktree repair {id_}"
            )
        intent = WorktreeJournal(path, id_, operation, fields, owner)
        _write(intent)
    except BaseException:
        _disown(path, owner)
        raise
    return intent


def update(intent: WorktreeJournal, **fields: Any) -> WorktreeJournal:
    """Add to what is written down, durably, before the step that needs it."""
    intent = intent._replace(fields={**intent.fields, **fields})
    _write(intent)
    return intent


def remove(intent: WorktreeJournal) -> None:
    """It is done, or has been taken back."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(intent.path)
    if intent.owner >= 0:
        _disown(intent.path, intent.owner)


def finish(intent: WorktreeJournal) -> None:
    """It is done: `remove`, and where that is not possible, an error that says so."""
    try:
        remove(intent)
    except OSError as error:
        with contextlib.suppress(OSError):
            release(intent)
        raise WorktreeError(
            f"the {intent.operation} of the worktree '{intent.id}' is complete, but that could not be noted:"
            f" {(error.strerror or str(error)).lower()}",
            f"git agentos worktree repair {intent.id}",
        ) from error


def release(intent: WorktreeJournal) -> None:
    """Let go of an intent that stays, for `repair` to find."""
    os.close(intent.owner)


def interrupted(location: Location) -> list[WorktreeJournal]:
    """The intents that killed commands left, by id, damaged ones too; those of living commands are not among them."""
    return [intent for intent in find_all(location) if not owner_is_alive(intent)]


def find_all(location: Location) -> list[WorktreeJournal]:
    """All intents that are there, by id. One that cannot be read has the operation DAMAGED and no fields."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".json"):
                continue
            path = os.path.join(folder, name)
            try:
                found.append(_read(path))
            except FileNotFoundError:
                continue
            except WorktreeError:
                found.append(WorktreeJournal(path, name.removesuffix(".json"), DAMAGED, {}))
    return found


def owner_is_alive(intent: WorktreeJournal) -> bool:
    """Whether the one who wrote this intent, or a git command that it started, still works on it.

    The lock is asked for as a shared one: those who only look do not take each other for the owner.
    """
    while True:
        try:
            descriptor = locks.try_open(_owner_path(intent.path), shared=True)
        except PermissionError:
            return True  # it cannot be told: nothing is taken from whoever it is
        except OSError:
            return False  # there is none, or what is there is no file that somebody could hold
        if descriptor is None:
            return True
        try:
            if os.fstat(descriptor).st_nlink:
                return False
        finally:
            os.close(descriptor)


def take_over(intent: WorktreeJournal) -> WorktreeJournal | None:
    """Take over the intent of a killed command, as it is now; None where its owner lives, or where it has ended. The
    turn must be held."""
    descriptor = _take(intent.path)
    if descriptor is None:
        return None
    try:
        return _read(intent.path)._replace(owner=descriptor)
    except FileNotFoundError:
        _disown(intent.path, descriptor)
        return None
    except WorktreeError:
        return WorktreeJournal(intent.path, intent.id, DAMAGED, {}, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def set_damaged_aside(location: Location, intent: WorktreeJournal) -> str | None:
    """Put a damaged intent that was adopted out of the way, and let go of it; where it is kept, None where nothing was
    in it. WorktreeError where it may be whole, but is closed to us."""
    try:
        files.read(intent.path, limit=_LONGEST)
    except PermissionError as error:
        raise WorktreeError(
            f"'{intent.path}' cannot be read: permission denied", "make it readable, then try again"
        ) from error
    except OSError:
        pass  # a folder, a link, or larger than what is written there: no intent
    kept = damaged.set_aside(location, intent.path)
    remove(intent)
    return kept


def _owner_path(path: str) -> str:
    return path.removesuffix(".json") + ".owner"


def _take(path: str) -> int | None:
    """`_own`, with some patience: who asks whether an owner is alive has the lock for a moment."""
    deadline = time.monotonic() + _PATIENCE
    while (owner := _own(path)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return owner


def _own(path: str) -> int | None:
    """The lock on the owner's file of the intent at `path`; None where somebody has it. The turn must be held."""
    owner = _owner_path(path)
    while True:
        try:
            descriptor = os.open(owner, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP, errno.ENXIO):
                # Nobody can hold a lock on a folder or a link that has taken the file's place.
                os.rename(owner, f"{owner}.{os.urandom(4).hex()}.damaged")
                continue
            raise
        try:
            if not locks.try_acquire(descriptor):
                os.close(descriptor)
                return None
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner removed it between the two calls


def _disown(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(_owner_path(path))
    os.close(descriptor)


def _read(path: str) -> WorktreeJournal:
    try:
        body = json.loads(files.read(path, limit=_LONGEST).decode("utf-8", "surrogateescape"))
        id_, operation, fields = body["id"], body["operation"], body["fields"]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if id_ != os.path.basename(path).removesuffix(".json") or not isinstance(operation, str):
        raise _damaged(path)
    if not isinstance(fields, dict):
        raise _damaged(path)
    return WorktreeJournal(path, id_, operation, fields)


def _damaged(path: str) -> WorktreeError:
    return WorktreeError(f"the record of an interrupted command '{path}' is damaged", "git agentos worktree repair")


def _write(intent: WorktreeJournal) -> None:
    body = {"version": _VERSION, "id": intent.id, "operation": intent.operation, "fields": intent.fields}
    files.replace(intent.path, json.dumps(body, indent=1).encode("utf-8", "surrogateescape"))
