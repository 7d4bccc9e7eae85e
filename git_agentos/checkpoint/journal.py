"""The journal of a restore, by which `recover` finishes or aborts one that was killed.

It names two checkpoints, `saved` (before) and `target` (after), which together hold every byte. So it needs no list of
steps: recovery captures the current state and plans again. It is one JSON file, `<git dir>/agentos/journal.json`,
written durably before the first change and removed after the last.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from git_agentos.errors import DamagedFile, LockedError, RepositoryError
from git_agentos.git import state_dir
from git_agentos.git.hash_algorithm import is_any_oid
from git_agentos.git.location import Location
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

_T = TypeVar("_T")
_VERSION = 1
_JOURNAL = "journal.json"
_LAST = "last-restore.json"
_LIMIT = 64 << 20
_FIX = "git agentos doctor --fix moves it away; git agentos checkpoint list shows the states that can be restored"
_UNFINISHED = r"\.json\.(new|\d+)\Z|\A\.\d+-[0-9a-f]{12}\.tmp\Z"


class Journal(NamedTuple):
    """A restore in progress. Its fields are those of the file."""

    command: str  # what the user ran
    saved: str  # the checkpoint of the state before
    target: str  # the checkpoint that is restored
    head_ref: str | None  # HEAD afterwards: its branch; None for a detached one
    head_commit: str | None  # HEAD afterwards: its commit
    create: bool  # `head_ref` is to be created at `head_commit`
    paths: list[str] | None  # what limits the restore (text); None: nothing
    keep_new: bool  # files that the target does not have are kept
    with_operation: bool  # the operation in progress is restored too
    original: str  # the state that `undo` restores: the first attempt's, if this one is a recovery
    stamp: str  # names the branches that the restore creates
    by: str = ""  # the agent
    shifts: Sequence[Sequence[str | None]] = ()  # branches that move: ref, from, to
    exact: bool = False  # as in `RestoreRequest`
    thorough: bool = False  # `save_everything` of `RestoreRequest`
    trigger: str = "before_restore"  # of the checkpoint before
    call: Sequence[str] | None = None  # an idempotency key, and the hash of the arguments of the call

    @property
    def version(self) -> int:
        return _VERSION


class LastRestore(NamedTuple):
    """The last finished restore: the state that `undo` restores, the agent that made it (empty if that was not
    recorded), and the branches that it moved (ref, from, to)."""

    command: str
    saved: str
    target: str
    by: str = ""
    shifts: Sequence[Sequence[str | None]] = ()


def _path(location: Location, name: str) -> str:
    return os.path.join(directories.make_own(location.state_dir), name)


def _write(location: Location, name: str, data: dict[str, Any]) -> None:
    text = json.dumps({"version": _VERSION, **data}, indent=1)
    files.replace(_path(location, name), text.encode("ascii"), mode=0o644)


def _forget(path: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False


def _read(location: Location, name: str, fields: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any] | None:
    """A file of the state folder. DamagedFile if it cannot be read, or does not have the form in which it is
    written."""
    folder = location.state_dir
    path = os.path.join(folder, name)
    if os.path.islink(folder):
        raise RepositoryError(f"'{folder}' is a symbolic link", "remove it: git-agentos does not follow it")
    try:
        data = files.read_object(path, limit=_LIMIT)
        version = data.pop("version")
        wrong = sorted(key for key, value in data.items() if key in fields and not fields[key](value))
        if version == _VERSION and not wrong and data.keys() <= fields.keys():
            return dict(data)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except files.NotRegularError as error:
        what = "it is a symbolic link" if os.path.islink(path) else "it is not a regular file"
        raise DamagedFile(path, what, _FIX) from error
    except OSError as error:
        raise DamagedFile(path, os.strerror(error.errno or 0).lower(), _FIX) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(path, "it is not valid", _FIX) from error
    if isinstance(version, int) and version > _VERSION:
        raise RepositoryError(f"'{path}' was written by another version of git-agentos", "use that version to recover")
    raise DamagedFile(path, f"bad value of '{wrong[0]}'" if wrong else "it is not valid", _FIX)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_oid(value: Any) -> bool:
    return isinstance(value, str) and is_any_oid(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is_shift(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and _is_text(value[0])
        and all(each is None or _is_oid(each) for each in value[1:])
    )


_LAST_FIELDS = {
    "command": _is_text,
    "saved": _is_oid,
    "target": _is_oid,
    "by": _is_text,
    "shifts": _list_of(_is_shift),
}
_JOURNAL_FIELDS = _LAST_FIELDS | {
    "head_ref": _or_none(_is_text),
    "head_commit": _or_none(_is_oid),
    "create": _is_flag,
    "paths": _or_none(_list_of(_is_text)),
    "keep_new": _is_flag,
    "with_operation": _is_flag,
    "original": _is_oid,
    "stamp": _is_text,
    "exact": _is_flag,
    "thorough": _is_flag,
    "trigger": _is_text,
    "call": lambda value: value is None or (_list_of(_is_text)(value) and len(value) == 2),
}


def write(location: Location, journal: Journal) -> None:
    """Write the journal durably: from here on, a killed restore can be recovered. After an error, there is none."""
    try:
        fields = journal._asdict()
        if journal.call is None:
            del fields["call"]  # older versions do not know it
        _write(location, _JOURNAL, fields)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(location)
        raise


def read(location: Location) -> Journal | None:
    """The journal of an interrupted restore; None where there is none."""
    return _read_as(Journal, location, _JOURNAL, _JOURNAL_FIELDS)


def _read_as(kind: type[_T], location: Location, name: str, fields: Mapping[str, Callable[[Any], bool]]) -> _T | None:
    data = _read(location, name, fields)
    try:
        return kind(**data) if data is not None else None
    except TypeError as error:
        path = os.path.join(location.state_dir, name)
        raise DamagedFile(path, "a field is missing", _FIX) from error


def exists(location: Location) -> bool:
    """Whether a restore was interrupted, whatever its journal says."""
    return os.path.lexists(os.path.join(location.state_dir, _JOURNAL))


def interrupted_command(location: Location) -> str | None:
    """The command that was killed and left a journal; None if there is no journal, or the command is still running.

    RepositoryError if the journal cannot be read.
    """
    if not exists(location):
        return None
    try:
        with state_dir.lock(location, "worktree", shared=True, wait=False):
            found = read(location)
    except LockedError:
        return None
    return found.command if found is not None else None


def set_aside(path: str) -> str:
    """Rename a damaged file in its folder; its new path."""
    for number in itertools.count(1):
        aside = f"{path}.damaged-{number}"
        if not os.path.lexists(aside):
            os.rename(path, aside)
            return aside
    raise AssertionError("the loop returns")


def remove(location: Location) -> None:
    """Remove the journal: the restore is finished, or was reverted."""
    os.unlink(os.path.join(location.state_dir, _JOURNAL))


def remove_unfinished(location: Location) -> list[str]:
    """Remove the temporary files of killed processes in the state folder; their paths.

    Call this only with the worktree's lock held exclusively: processes that write there hold it.
    """
    with contextlib.suppress(FileNotFoundError):
        names = [name for name in os.listdir(location.state_dir) if re.search(_UNFINISHED, name)]
        return [path for path in (os.path.join(location.state_dir, name) for name in names) if _forget(path)]
    return []


def write_last(location: Location, last: LastRestore) -> None:
    _write(location, _LAST, last._asdict())


def forget_last(location: Location) -> None:
    """Remove the record of the last restore: there is nothing to undo."""
    _forget(os.path.join(location.state_dir, _LAST))


def read_last(location: Location) -> LastRestore | None:
    """The last finished restore of this worktree; None where there was none."""
    return _read_as(LastRestore, location, _LAST, _LAST_FIELDS)
