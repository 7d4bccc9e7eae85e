"""`info/exclude`: the settings that we write are no files of the project, so git must not add, stash or remove them.

Our lines stand in one block at the end of the file, each with the worktrees that need it in the record of the file
(`backup`). With the last of them the file becomes what it was, to the byte.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence

from git_agentos.git.location import Location
from git_agentos.guard.harness import backup
from git_agentos.guard.harness.backup import Backup
from git_agentos.util import files

_FIRST = b"# git-agentos: settings that 'git agentos guard integrate' wrote\n"
_LAST = b"# git-agentos: end\n"
_BLOCK = re.compile(rb"\n?" + re.escape(_FIRST) + rb"((?:/.*\n)*)" + re.escape(_LAST))
# Separates a pattern from a worktree in `Backup.users`.
_SEPARATOR = "\0"


def add(location: Location, path: str, user: str, environment: Mapping[str, str]) -> None:
    """Have git ignore `path`, a file in the worktree at `location`, for as long as the worktree `user` needs it."""
    pattern = _pattern(location, path)
    if pattern is not None:
        known = _users(location, environment)
        _write(
            location, [*known, entry] if (entry := f"{pattern}{_SEPARATOR}{user}") not in known else known, environment
        )


def remove(location: Location, path: str, user: str, environment: Mapping[str, str]) -> None:
    """Undo `add`."""
    pattern = _pattern(location, path)
    known = _users(location, environment)
    if f"{pattern}{_SEPARATOR}{user}" in known:
        _write(location, [each for each in known if each != f"{pattern}{_SEPARATOR}{user}"], environment)


def _pattern(location: Location, path: str) -> str | None:
    """The line for a file; None for one that no line can name."""
    relative = os.path.relpath(path, location.root)
    if relative.startswith(os.pardir) or not relative.isascii() or "\n" in relative:
        return None
    return f"/{relative}"


def _path(location: Location) -> str:
    return os.path.join(location.common_dir, "info", "exclude")


def _users(location: Location, environment: Mapping[str, str]) -> list[str]:
    """The entries whose worktrees are still there."""
    known = backup.load(_path(location), environment)
    entries = known.users if known is not None else ()
    return [each for each in entries if os.path.isdir(each.partition(_SEPARATOR)[2])]


def _write(location: Location, users: Sequence[str], environment: Mapping[str, str]) -> None:
    path = _path(location)
    before = _content(path)
    known = backup.load(path, environment)
    untouched = known is not None and known.after == backup.digest(before)
    original = known.before if known is not None and untouched else _without_block(before)
    patterns = sorted({each.partition(_SEPARATOR)[0] for each in users})
    after = _with_block(original, patterns) if patterns else original
    if after is None:
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(os.path.dirname(path))  # where it was made for the file
    elif after != before:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.replace(os.path.realpath(path), after)
    if patterns:
        backup.save(path, Backup(original, backup.digest(after), None, tuple(users)), environment)
    else:
        backup.drop(path, environment)


def _with_block(original: bytes | None, patterns: Sequence[str]) -> bytes:
    data = original or b""
    lines = b"".join(f"{each}\n".encode() for each in patterns)
    return data + (b"\n" if data and not data.endswith(b"\n") else b"") + _FIRST + lines + _LAST


def _without_block(data: bytes | None) -> bytes | None:
    """The file without our block, where somebody has edited it since."""
    return None if data is None else _BLOCK.sub(lambda found: b"\n" if found[0].startswith(b"\n") else b"", data)


def _content(path: str) -> bytes | None:
    try:
        return files.read(os.path.realpath(path))
    except FileNotFoundError:
        return None
