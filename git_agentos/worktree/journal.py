"""The journal of an operation on an agent's worktree, written before it begins: after a kill, `worktree repair` has the
operation finished or aborted by what wrote the journal.

    <common dir>/agentos/worktrees/<id>.json    one operation that is going on in the worktree <id>
    <common dir>/agentos/worktrees/<id>.owner   flock(2), held for as long as the process lives that does it
    <common dir>/agentos/worktrees.turn         flock(2): one process at a time changes the worktrees of this repository

A journal belongs to the process that holds the lock on its `.owner` file. So the long parts of an operation (checking
out files, a set-up command) need not keep others waiting, and who gets that lock knows that the owner is dead. git
commands that change something on the way inherit the descriptor (`WorktreeJournal.owner`): while such a command
outlives its killed parent, the journal is not interrupted yet. Fields are the operation's own (paths, oids); each step
that cannot be seen on disk is recorded before it is made.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Any

from git_agentos.errors import LockedError, WorktreeError, system_reason
from git_agentos.git.location import Location
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import damaged

_FOLDER = "worktrees"
_VERSION = 1
_LOCK_TIMEOUT = 0.3
_LONGEST = 1 << 24
# The operations. DAMAGED stands for one that cannot be read any more.
CREATE, ARCHIVE, REMOVE, COMPLETE, MERGE = "create", "archive", "remove", "complete", "merge"
DAMAGED = "damaged"


class WorktreeJournal(NamedTuple):
    """One operation that is going on: `operation` is `create`, `archive`, `remove`, `complete` or `merge` (DAMAGED
    where that cannot be read any more); `fields` are JSON values.

    `owner` is the descriptor that proves whose it is; -1 where it belongs to another process.
    """

    path: str
    id: str
    operation: str
    fields: dict[str, Any]
    owner: int = -1


def start(location: Location, id_: str, operation: str, **fields: Any) -> WorktreeJournal:
    """Write the journal of an operation that is about to begin; the lock on worktrees must be held.

    LockedError where another operation is going on in this worktree, WorktreeError where a killed one left its journal.
    """
    folder = directories.make_own(location.shared_state_dir, _FOLDER)
    path = os.path.join(folder, f"{id_}.json")
    owner = _take_lock(path)
    if owner is None:
        raise LockedError(
            f"another git-agentos command is at work on the worktree '{id_}'", "try again when it has finished"
        )
    try:
        if os.path.lexists(path):
            raise WorktreeError(
                f"a command that worked on the worktree '{id_}' was killed", f"git agentos worktree repair {id_}"
            )
        journal = WorktreeJournal(path, id_, operation, fields, owner)
        _write(journal)
    except BaseException:
        _release(path, owner)
        raise
    return journal


def update(journal: WorktreeJournal, **fields: Any) -> WorktreeJournal:
    """Add fields, durably, before the step that needs them."""
    journal = journal._replace(fields={**journal.fields, **fields})
    _write(journal)
    return journal


def remove(journal: WorktreeJournal) -> None:
    """Remove the journal: the operation is finished or aborted."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(journal.path)
    if journal.owner >= 0:
        _release(journal.path, journal.owner)


def finish(journal: WorktreeJournal) -> None:
    """Remove the journal of an operation that is finished; WorktreeError where that is not possible."""
    try:
        remove(journal)
    except OSError as error:
        with contextlib.suppress(OSError):
            release(journal)
        raise WorktreeError(
            f"{journal.operation} of '{journal.id}' succeeded, but its journal cannot be removed:"
            f" {system_reason(error)}",
            f"git agentos worktree repair {journal.id}",
        ) from error


def release(journal: WorktreeJournal) -> None:
    """Release a journal that stays, for `repair` to find."""
    os.close(journal.owner)


def interrupted(location: Location) -> list[WorktreeJournal]:
    """The journals that killed commands left, by id, damaged ones too."""
    return [journal for journal in find_all(location) if not owner_is_alive(journal)]


def find_all(location: Location) -> list[WorktreeJournal]:
    """All journals, by id. One that cannot be read has the operation DAMAGED and no fields."""
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


def owner_is_alive(journal: WorktreeJournal) -> bool:
    """Whether the process that wrote this journal, or a git command that it started, is still at work.

    The lock is probed as a shared one: so two probes do not take each other for the owner.
    """
    while True:
        try:
            descriptor = locks.try_open(_owner_path(journal.path), shared=True)
        except PermissionError:
            return True  # it is unknown: nothing is taken from that process
        except OSError:
            return False  # it is missing, or is no file that a process could lock
        if descriptor is None:
            return True
        try:
            if os.fstat(descriptor).st_nlink:
                return False
        finally:
            os.close(descriptor)


def take_over(journal: WorktreeJournal) -> WorktreeJournal | None:
    """Take over the journal of a killed command, as it is now; None where its owner is alive, or where it has ended.
    The lock on worktrees must be held."""
    descriptor = _take_lock(journal.path)
    if descriptor is None:
        return None
    try:
        return _read(journal.path)._replace(owner=descriptor)
    except FileNotFoundError:
        _release(journal.path, descriptor)
        return None
    except WorktreeError:
        return WorktreeJournal(journal.path, journal.id, DAMAGED, {}, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def without_journal(location: Location) -> list[str]:
    """The ids of operations whose lock has a file, and that have no journal: they are about to begin or have just
    ended, or were killed then."""
    folder = os.path.join(location.shared_state_dir, _FOLDER)
    try:
        there = set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    ids = sorted(name.removesuffix(".owner") for name in there if name.endswith(".owner"))
    return [
        each for each in ids if f"{each}.json" not in there and os.path.isfile(os.path.join(folder, f"{each}.owner"))
    ]


def remove_unused(location: Location) -> None:
    """Remove the files of locks that killed processes have left, without a journal. The lock on worktrees must be
    held."""
    for id_ in without_journal(location):
        path = os.path.join(location.shared_state_dir, _FOLDER, f"{id_}.json")
        descriptor = _take_lock(path)
        if descriptor is not None:
            _release(path, descriptor)


def set_damaged_aside(location: Location, journal: WorktreeJournal) -> str | None:
    """Move a damaged journal that was taken over away, and release it; where it is kept, None where it was empty.
    WorktreeError where it may be whole, but cannot be read."""
    try:
        files.read(journal.path, limit=_LONGEST)
    except PermissionError as error:
        raise WorktreeError(
            f"'{journal.path}' cannot be read: permission denied", "make it readable, then try again"
        ) from error
    except OSError:
        pass  # a folder, a link, or larger than any journal
    kept = damaged.set_aside(location, journal.path)
    remove(journal)
    return kept


def _owner_path(path: str) -> str:
    return path.removesuffix(".json") + ".owner"


def _take_lock(path: str) -> int | None:
    """The lock on the owner file of the journal at `path`; None where another process has it for more than the moment
    in which one probes whether an owner is alive. The lock on worktrees must be held."""
    owner = _owner_path(path)
    while True:
        try:
            descriptor = os.open(owner, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP, errno.ENXIO):
                # No process can have locked a folder or a link that stands in the file's place.
                os.rename(owner, f"{owner}.{os.urandom(4).hex()}.damaged")
                continue
            raise
        try:
            if not locks.try_acquire(descriptor, patience=_LOCK_TIMEOUT):
                os.close(descriptor)
                return None
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner removed it between the two calls


def _release(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(_owner_path(path))
    os.close(descriptor)


def _read(path: str) -> WorktreeJournal:
    try:
        body = files.read_object(path, limit=_LONGEST)
        id_, operation, fields = body["id"], body["operation"], body["fields"]
        if id_ != os.path.basename(path).removesuffix(".json") or not isinstance(operation, str):
            raise ValueError("it is another journal's")
        if not isinstance(fields, dict):
            raise TypeError("its fields are no object")
        return WorktreeJournal(path, id_, operation, fields)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorktreeError(
            f"the record of an interrupted command '{path}' is damaged", "git agentos worktree repair"
        ) from error


def _write(journal: WorktreeJournal) -> None:
    body = {"version": _VERSION, "id": journal.id, "operation": journal.operation, "fields": journal.fields}
    files.replace(journal.path, json.dumps(body, indent=1).encode("utf-8", "surrogateescape"))
