"""The content of a settings file before we changed it, so that it can be restored byte for byte.

One JSON file for each, `<our folder in the user's configuration>/integrations/<hash of the path>.json`:

    path      the settings file
    before    its bytes, Base64; null where there was no file
    after     the SHA-256 of what we wrote; null where that is not known, and for a file in which we
              have added a block of lines (`own_block`)
    harness   the harness that reads it; null for a file with such a block
    users     the worktrees (or the home folder) that need our hooks in it
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping

from git_agentos.git import gitfile
from git_agentos.guard import signing
from git_agentos.guard.setup import own_files
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple


class Backup(NamedTuple):
    """The backup of one file; the module describes the fields."""

    before: bytes | None
    after: str | None = None
    harness: str | None = None
    users: tuple[str, ...] = ()


def folder(environment: Mapping[str, str]) -> str:
    return os.path.join(signing.folder(environment), "integrations")


def digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def load(path: str, environment: Mapping[str, str]) -> Backup | None:
    """The backup of a file; None where there is none, or it is damaged."""
    try:
        body = files.read_object(record_path(path, environment))
        before, after = body["before"], body["after"]
        name, users = body.get("harness"), body.get("users", [])
        if not isinstance(after, str | None) or not isinstance(name, str | None) or not isinstance(users, list):
            return None
        data = base64.b64decode(before) if before is not None else None
        return Backup(data, after, name, tuple(each for each in users if isinstance(each, str)))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: str, backup: Backup, environment: Mapping[str, str]) -> None:
    os.makedirs(folder(environment), mode=0o700, exist_ok=True)
    body = {
        "path": path,
        "before": base64.b64encode(backup.before).decode() if backup.before is not None else None,
        "after": backup.after,
        "harness": backup.harness,
        "users": list(backup.users),
    }
    text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    own_files.write(record_path(path, environment), text.encode("utf-8", "surrogatepass"), 0o600)


def drop(path: str, environment: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.unlink(record_path(path, environment))


def is_younger_than_worktree(path: str, root: str, environment: Mapping[str, str]) -> bool:
    """Whether the backup of `path` is younger than the worktree at `root`: it may be of an earlier one at this path."""
    worktree = gitfile.find(root)
    try:
        created = os.stat(os.path.join(worktree[1], "commondir")).st_mtime_ns if worktree is not None else 0
    except OSError:
        created = 0  # the main checkout
    try:
        return os.stat(record_path(path, environment)).st_mtime_ns >= created
    except OSError:
        return False


def record_path(path: str, environment: Mapping[str, str]) -> str:
    """Where the backup of a file is."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    return os.path.join(folder(environment), f"{name}.json")
