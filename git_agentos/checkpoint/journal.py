"""The journal of a restore: what a killed one leaves, so that `recover` can finish it or go back.

It names two checkpoints, and together they hold every byte: `saved` (before) and `target` (after). So it needs no
list of steps: recovery looks at what is there and plans anew. One JSON file, `<git dir>/agentos/journal.json`,
written beside, fsynced and renamed before the first change, and removed after the last.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from git_agentos.errors import DamagedFile, LockedError, RepositoryError
from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.util import directories, files

_T = TypeVar("_T")
_VERSION = 1
_JOURNAL = "journal.json"
_LAST = "last-restore.json"
_LIMIT = 64 << 20
_MEND = "git agentos doctor --fix moves it away; git agentos checkpoint list shows the states that can be restored"
_OID = re.compile(r"[0-9a-f]{40}")
_UNFINISHED = re.compile(r"\.json\.(new|\d+)\Z|\A\.\d+-[0-9a-f]{12}\.tmp\Z")


@dataclass(frozen=True)
class Journal:
    """A restore under way.

    `command` is what the user ran; `head_ref` and `head_commit` are HEAD afterwards, `create` a branch to make at
    `head_commit`; `paths` are the narrowing paths (text), None for all; `original` is the saved state that `undo`
    shall go back to (that of the first attempt, where this one is a recovery's); `by` is who restores; `shifts` are
    branches that move (ref, from, to), `exact`, `thorough` and `trigger` as in `goal.Goal`.
    """

    command: str
    saved: str
    target: str
    head_ref: str | None
    head_commit: str | None
    create: bool
    paths: list[str] | None
    keep_new: bool
    with_operation: bool
    original: str
    stamp: str
    by: str = ""
    shifts: list[list[str | None]] = field(default_factory=list)
    exact: bool = False
    thorough: bool = False
    trigger: str = "before_restore"

    @property
    def version(self) -> int:
        return _VERSION


@dataclass(frozen=True)
class LastRestore:
    """The last finished restore: what `undo` goes back to, who made it (empty where that was not recorded), and which
    branches it moved (ref, from, to)."""

    command: str
    saved: str
    target: str
    by: str = ""
    shifts: list[list[str | None]] = field(default_factory=list)


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
    """A file of the state folder; DamagedFile where it cannot be read or is not what was written."""
    folder = location.state_dir
    path = os.path.join(folder, name)
    if os.path.islink(folder):
        raise RepositoryError(f"'{folder}' is a symbolic link", "remove it: git-agentos does not follow it")
    try:
        data = json.loads(files.read(path, limit=_LIMIT))
        version = data.pop("version")
        wrong = sorted(key for key, value in data.items() if key in fields and not fields[key](value))
        if version == _VERSION and not wrong and data.keys() <= fields.keys():
            return dict(data)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except files.NotRegularError as error:
        what = "it is a symbolic link" if os.path.islink(path) else "it is not a regular file"
        raise DamagedFile(path, what, _MEND) from error
    except OSError as error:
        raise DamagedFile(path, os.strerror(error.errno or 0).lower(), _MEND) from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedFile(path, "it is not what was written", _MEND) from error
    if isinstance(version, int) and version > _VERSION:
        raise RepositoryError(f"'{path}' was written by another version of git-agentos", "use that version to recover")
    raise DamagedFile(path, f"bad value of '{wrong[0]}'" if wrong else "it is not what was written", _MEND)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_oid(value: Any) -> bool:
    return isinstance(value, str) and _OID.fullmatch(value) is not None


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
}


def write(location: Location, journal: Journal) -> None:
    """Put the journal on disk; from here on a killed restore can be recovered. If it cannot be, there is none."""
    try:
        _write(location, _JOURNAL, asdict(journal))
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
        raise DamagedFile(path, "something of it is missing", _MEND) from error


def exists(location: Location) -> bool:
    """Whether a restore was interrupted, whatever its journal says."""
    return os.path.lexists(os.path.join(location.state_dir, _JOURNAL))


def interrupted_command(location: Location) -> str | None:
    """The command that was killed and left a journal; None where there is none, or where it is still at work.

    RepositoryError where the journal cannot be read.
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
    """Move a damaged file away, beside where it was; its new path."""
    for number in itertools.count(1):
        aside = f"{path}.damaged-{number}"
        if not os.path.lexists(aside):
            os.rename(path, aside)
            return aside
    raise AssertionError("the loop returns")


def remove(location: Location) -> None:
    """The restore is finished, or taken back."""
    os.unlink(os.path.join(location.state_dir, _JOURNAL))


def remove_unfinished(location: Location) -> list[str]:
    """Remove what processes that were killed while they wrote a file of the state folder left beside it; the paths.

    Whoever writes there has its turn; it is for the one to call this who has it alone.
    """
    with contextlib.suppress(FileNotFoundError):
        names = [name for name in os.listdir(location.state_dir) if _UNFINISHED.search(name)]
        return [path for path in (os.path.join(location.state_dir, name) for name in names) if _forget(path)]
    return []


def write_last(location: Location, last: LastRestore) -> None:
    _write(location, _LAST, asdict(last))


def forget_last(location: Location) -> None:
    """There is nothing to undo any more."""
    _forget(os.path.join(location.state_dir, _LAST))


def read_last(location: Location) -> LastRestore | None:
    """The last finished restore of this worktree; None where there was none."""
    return _read_as(LastRestore, location, _LAST, _LAST_FIELDS)
