"""Small files of this tool without secrets: notes, journals, requests for approval, what was remembered of a hook.

They are in `agentos/` of the git directories, in `.agentos/` of the worktrees, and beside the worktrees (the trash).
Databases, evidence and objects are not among them. A file of text is written again; one that is signed is removed, as
it would not be believed any more; folders that were moved aside are the user's, and only named.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.retention.progress import Progress
from git_agentos.retention.redaction import Redaction
from git_agentos.store import database_path
from git_agentos.util import files
from git_agentos.worktree import trash

_LARGEST = 256 << 20
_ASIDE = ("kept", "trash")  # folders of the user's that were moved here
_SIGNED = ("approvals",)
_LOCK = ".turn"


def rewrite(context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
    """Remove secrets from all these files; what cannot be changed is said."""
    if not redaction.secrets:
        return
    for top in _tops(context):
        for path in _below(top):
            _rewrite_one(redaction, progress, top, path)


def _tops(context: OpenWorktree) -> Iterator[str]:
    found = [context.location.shared_state_dir]
    for where in context.all_worktrees():
        found += [where.state_dir, os.path.join(where.root, database_path.FOLDER)]
        found.append(os.path.join(os.path.dirname(where.root), trash.FOLDER))
    yield from (top for top in dict.fromkeys(found) if os.path.isdir(top) and not os.path.islink(top))


def _below(top: str) -> Iterator[str]:
    """The regular files below a folder; evidence has been written again."""
    runs = os.path.join(top, "runs") if os.path.basename(top) == database_path.FOLDER else None
    for folder, names, found in os.walk(top):
        names[:] = sorted(name for name in names if os.path.join(folder, name) != runs)
        for name in sorted(found):
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.path.isfile(path) and not name.endswith(_LOCK):
                yield path


def _rewrite_one(redaction: Redaction, progress: Progress, top: str, path: str) -> None:
    first = os.path.relpath(path, top).split(os.sep)[0]
    try:
        data = files.read(path, limit=_LARGEST)
    except (OSError, ValueError):
        return
    if not redaction.secrets.is_in(data):
        return
    if first in _ASIDE or os.path.basename(top) == trash.FOLDER or _is_database(path):
        progress.unreachable.append(f"'{path}', which was moved aside: delete it when you need it no more")
        return
    with contextlib.suppress(OSError):
        if first in _SIGNED or b"\0" in data:
            os.unlink(path)
        else:
            files.replace(path, redaction.secrets.replace(data))
        return
    progress.unreachable.append(f"'{path}', which cannot be written")


def _is_database(path: str) -> bool:
    """Whether a file is a workflow database, or one that was damaged and moved aside."""
    return os.path.basename(path).startswith(database_path.NAME)
