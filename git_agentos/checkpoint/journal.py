"""The journal of a restore: what a killed one leaves, so that `recover` can finish it or go back.

It names two checkpoints, and together they hold every byte: `saved` (before) and `target` (after). So it needs no
list of steps: recovery looks at what is there and plans anew. One JSON file, `<git dir>/agentos/journal.json`,
written beside, fsynced and renamed before the first change, and removed after the last.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from git_agentos.errors import RepositoryError
from git_agentos.git import locks
from git_agentos.git.location import Location

_VERSION = 1
_JOURNAL = "journal.json"
_LAST = "last-restore.json"
_NEW = ".new"
_UNFINISHED = re.compile(r"\.json\.(new|\d+)\Z")


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
class Last:
    """The last finished restore: what `undo` goes back to, who made it (empty where that was not recorded), and which
    branches it moved (ref, from, to)."""

    command: str
    saved: str
    target: str
    by: str = ""
    shifts: list[list[str | None]] = field(default_factory=list)


def _path(location: Location, name: str) -> str:
    return os.path.join(locks.own_folder(location.state_dir), name)


def _write(location: Location, name: str, data: dict[str, Any]) -> None:
    path = _path(location, name)
    temporary = path + _NEW
    _forget(temporary)  # restores take turns: it is a killed one's
    try:
        with open(temporary, "x", encoding="ascii") as file:
            json.dump({"version": _VERSION, **data}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _forget(path: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False


def _read(location: Location, name: str) -> dict[str, Any] | None:
    folder = location.state_dir
    path = os.path.join(folder, name)
    if os.path.islink(folder) or os.path.islink(path):
        raise RepositoryError(f"'{path}' is a symbolic link", "remove it: git-agentos does not follow it")
    try:
        with open(path, encoding="ascii") as file:
            data = json.load(file)
        if data.pop("version") == _VERSION:
            return dict(data)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise RepositoryError(
            f"'{path}' is damaged", "look at git agentos checkpoint list, restore by hand, then remove the file"
        ) from error
    raise RepositoryError(f"'{path}' was written by another version of git-agentos", "use that version to recover")


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
    data = _read(location, _JOURNAL)
    try:
        return Journal(**data) if data is not None else None
    except TypeError as error:
        raise RepositoryError(f"'{_path(location, _JOURNAL)}' is damaged") from error


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


def write_last(location: Location, last: Last) -> None:
    _write(location, _LAST, asdict(last))


def forget_last(location: Location) -> None:
    """There is nothing to undo any more."""
    _forget(os.path.join(location.state_dir, _LAST))


def read_last(location: Location) -> Last | None:
    """The last finished restore of this worktree; None where there was none."""
    data = _read(location, _LAST)
    try:
        return Last(**data) if data is not None else None
    except TypeError as error:
        raise RepositoryError(f"'{_path(location, _LAST)}' is damaged") from error
