"""Ignored files that a shell command names: which of them are saved before it runs.

No other checkpoint holds them. Files up to `agentos.maxFileSize` are saved, and at most `MOST_FILES` files and
`MOST_BYTES` for one command, the small ones first: before `rm -rf .env node_modules` the guard saves `.env`, and does
not copy a gigabyte.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence

from git_agentos import config
from git_agentos.errors import AgentosError
from git_agentos.git import process
from git_agentos.guard.decision import SaveScope
from git_agentos.guard.shell.file_programs import is_called

MOST_FILES = 2000
MOST_BYTES = 64 << 20
_SHOWN = 3


def save_of(
    root: str,
    paths: Iterable[str],
    names: Sequence[str],
    values: Mapping[str, Sequence[str]],
    *,
    collapse: bool = False,
) -> SaveScope:
    """What to save of the ignored files at and below `paths` (absolute, in the worktree `root`) whose names match one
    of `names`, if there are any. `values` is git's configuration. With `collapse`, folders that are ignored as a whole
    are left out."""
    wanted = sorted({os.path.relpath(path, root) for path in paths if os.path.lexists(path)})
    if not wanted:
        return SaveScope()
    listed = _ignored(root, wanted, collapse)
    found = [path for path in listed if is_called(path, names)]
    repositories = frozenset(path.rstrip(b"/") for path in found if path.endswith(b"/") and not collapse)
    sizes = {path: _size(root, path) for path in found if not path.endswith(b"/")}
    limit = _limit(values)
    ignored: set[bytes] = set()
    left: list[bytes] = []
    total = 0
    for path, size in sorted(sizes.items(), key=lambda each: (each[1], each[0])):
        if (limit and size > limit) or len(ignored) >= MOST_FILES or total + size > MOST_BYTES:
            left.append(path)
        else:
            ignored.add(path)
            total += size
    return SaveScope(frozenset(ignored), repositories=repositories, left_out=_not_saved_note(left, len(sizes)))


def _ignored(root: str, paths: Sequence[str], collapse: bool) -> list[bytes]:
    options = ["--directory"] if collapse else []
    args = ["ls-files", "--others", "--ignored", "--exclude-standard", *options, "-z", "--", *paths]
    try:
        out = process.run(args, cwd=root, env=process.environment())
    except AgentosError:
        return []
    return [path for path in out.split(b"\0") if path and not path.startswith(b".agentos/")]


def _size(root: str, path: bytes) -> int:
    try:
        found = os.lstat(os.path.join(os.fsencode(root), path))
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _limit(values: Mapping[str, Sequence[str]]) -> int:
    try:
        return config.max_file_size(values)
    except AgentosError:
        return config.DEFAULT_MAX_FILE_SIZE


def _not_saved_note(left: Sequence[bytes], total: int) -> str:
    """The part of the message about files that are not saved."""
    if not left:
        return ""
    names = ", ".join(repr(os.fsdecode(path)) for path in left[:_SHOWN]) + (" ..." if len(left) > _SHOWN else "")
    return (
        f"{len(left)} of {total} ignored files are not saved: {names} (the limits are agentos.maxFileSize for each,"
        f" and {MOST_FILES} files and {MOST_BYTES >> 20} MiB for a command)"
    )
