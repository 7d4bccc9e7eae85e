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
import fcntl
import json
import os
import time
from typing import Any, NamedTuple

from git_agentos.errors import LockedError, WorktreeError
from git_agentos.git import locks, worktrees
from git_agentos.git.location import Location

_FOLDER = "worktrees"
_VERSION = 1
_PATIENCE = 0.3

turn = worktrees.turn


class Intent(NamedTuple):
    """One operation under way: `operation` is `create`, `archive`, `remove` or `merge`; `fields` are JSON values.

    `owner` is the descriptor that proves who it belongs to; -1 where it is not this process's.
    """

    path: str
    id: str
    operation: str
    fields: dict[str, Any]
    owner: int = -1


def begin(location: Location, id_: str, operation: str, **fields: Any) -> Intent:
    """Write down what is about to be done; the turn must be held.

    LockedError where something is under way on this worktree, WorktreeError where a killed command left its intent.
    """
    folder = locks.own_folder(os.path.join(locks.own_folder(location.shared_state_dir), _FOLDER))
    path = os.path.join(folder, f"{id_}.json")
    owner = _own(path)
    deadline = time.monotonic() + _PATIENCE  # whoever asks if an owner is alive has the lock for a moment
    while owner is None and time.monotonic() < deadline:
        time.sleep(0.01)
        owner = _own(path)
    if owner is None:
        raise LockedError(
            f"another git-agentos command is at work on the worktree '{id_}'", "try again when it has finished"
        )
    try:
        if os.path.lexists(path):
            raise WorktreeError(
                f"a command that worked on the worktree '{id_}' was killed", f"git agentos worktree repair {id_}"
            )
        intent = Intent(path, id_, operation, fields, owner)
        _write(intent)
    except BaseException:
        _disown(path, owner)
        raise
    return intent


def note(intent: Intent, **fields: Any) -> Intent:
    """Add to what is written down, durably, before the step that needs it."""
    intent = intent._replace(fields={**intent.fields, **fields})
    _write(intent)
    return intent


def end(intent: Intent) -> None:
    """It is done, or has been taken back."""
    for path in (intent.path, intent.path + ".new"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    if intent.owner >= 0:
        _disown(intent.path, intent.owner)


def finish(intent: Intent) -> None:
    """It is done: `end`, and where that is not possible, an error that says so."""
    try:
        end(intent)
    except OSError as error:
        with contextlib.suppress(OSError):
            leave(intent)
        raise WorktreeError(
            f"the {intent.operation} of the worktree '{intent.id}' is complete, but that could not be noted:"
            f" {(error.strerror or str(error)).lower()}",
            f"git agentos worktree repair {intent.id}",
        ) from error


def leave(intent: Intent) -> None:
    """Let go of an intent that stays, for `repair` to find."""
    os.close(intent.owner)


def pending(location: Location) -> list[Intent]:
    """The intents that killed commands left, by id; those of living ones are not among them."""
    return [intent for intent in everything(location) if not alive(intent)]


def everything(location: Location) -> list[Intent]:
    """All intents that are there, by id."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.name.endswith(".json"):
                with contextlib.suppress(FileNotFoundError):
                    found.append(_read(entry.path))
    return found


def alive(intent: Intent) -> bool:
    """Whether the one who wrote this intent, or a git command that it started, still works on it."""
    descriptor = _own(intent.path, make=False)
    if descriptor is None:
        return os.path.lexists(_owner_path(intent.path))
    os.close(descriptor)
    return False


def adopt(intent: Intent) -> Intent | None:
    """Take over the intent of a killed command, as it is now; None where its owner lives, or where it has ended."""
    descriptor = _own(intent.path)
    if descriptor is None:
        return None
    try:
        return _read(intent.path)._replace(owner=descriptor)
    except FileNotFoundError:
        _disown(intent.path, descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise


def _owner_path(path: str) -> str:
    return path.removesuffix(".json") + ".owner"


def _own(path: str, *, make: bool = True) -> int | None:
    """The lock on the owner's file of the intent at `path`; None where somebody has it (or it is not there)."""
    owner = _owner_path(path)
    while True:
        try:
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
            descriptor = os.open(owner, flags, 0o644)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        os.close(descriptor)  # its owner removed it between the two calls


def _disown(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(_owner_path(path))
    os.close(descriptor)


def _read(path: str) -> Intent:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            body = json.load(file)
        return Intent(path, body["id"], body["operation"], body["fields"])
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorktreeError(f"the record of an interrupted command '{path}' is damaged", "remove it") from error


def _write(intent: Intent) -> None:
    temporary = intent.path + ".new"
    body = {"version": _VERSION, "id": intent.id, "operation": intent.operation, "fields": intent.fields}
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(body, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, intent.path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
