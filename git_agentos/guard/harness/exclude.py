"""`info/exclude`: git ignores the settings that we write in a worktree, so it does not add, stash or remove them.

Our patterns are a block at the end of the file. Its backup (`backup`) lists the worktrees that need each pattern; when
the last one no longer does, the file becomes what it was, to the byte.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from git_agentos.git.location import Location
from git_agentos.guard.harness import backup, own_block
from git_agentos.guard.harness.backup import Backup
from git_agentos.guard.harness.own_block import OwnBlock
from git_agentos.util import files

_BLOCK = OwnBlock(b"# git-agentos: settings that 'git agentos guard integrate' wrote\n", b"# git-agentos: end\n")
# Between a pattern and a worktree in `Backup.users`.
_SEPARATOR = "\0"


def add(location: Location, path: str, user: str, environment: Mapping[str, str]) -> None:
    """Have git ignore `path`, a file in the worktree at `location`, for as long as the worktree `user` needs it."""
    entry = _entry(location, path, user)
    entries = _entries(location, environment)
    if entry is not None:
        _write(location, entries if entry in entries else [*entries, entry], environment)


def remove(location: Location, path: str, user: str, environment: Mapping[str, str]) -> None:
    """Undo `add`."""
    entry = _entry(location, path, user)
    entries = _entries(location, environment)
    if entry in entries:
        _write(location, [each for each in entries if each != entry], environment)


def path_of(location: Location) -> str:
    """The file."""
    return os.path.join(location.common_dir, "info", "exclude")


def patterns(location: Location) -> list[bytes]:
    """Our patterns in it."""
    return (_BLOCK.lines(_content(path_of(location))) or b"").splitlines()


def is_edited(location: Location, environment: Mapping[str, str]) -> bool:
    """Whether somebody has edited it since we wrote it."""
    saved = backup.load(path_of(location), environment)
    return saved is None or not _BLOCK.is_unedited(saved, _content(path_of(location)))


def has_pattern(location: Location, path: str) -> bool:
    """Whether git ignores `path` in the worktree at `location` by a pattern of ours, or none can name it."""
    entry = _entry(location, path, "")
    return entry is None or entry.partition(_SEPARATOR)[0].encode() in patterns(location)


def _entry(location: Location, path: str, user: str) -> str | None:
    """The pattern for a file and the worktree that needs it; None for a file that no pattern can name."""
    relative = os.path.relpath(path, location.root)
    if relative.startswith(os.pardir) or not relative.isascii() or "\n" in relative:
        return None
    return f"/{relative}{_SEPARATOR}{user}"


def _entries(location: Location, environment: Mapping[str, str]) -> list[str]:
    """The entries of worktrees that still exist."""
    saved = backup.load(path_of(location), environment)
    entries = saved.users if saved is not None else ()
    return [each for each in entries if os.path.isdir(each.partition(_SEPARATOR)[2])]


def _write(location: Location, entries: Sequence[str], environment: Mapping[str, str]) -> None:
    path = path_of(location)
    before = _content(path)
    original = _BLOCK.original(backup.load(path, environment), before)
    patterns = sorted({each.partition(_SEPARATOR)[0].encode() for each in entries})
    after = _BLOCK.append(original, b"".join(each + b"\n" for each in patterns)) if patterns else original
    kept = Backup(original, users=tuple(entries)) if patterns else None
    if after is None:  # before the backup is dropped, so that it is tried again after a kill
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))  # only where it was created for the file
    own_block.write(path, before, after, kept, environment)


def _content(path: str) -> bytes | None:
    try:
        return files.read(os.path.realpath(path))
    except FileNotFoundError:
        return None
