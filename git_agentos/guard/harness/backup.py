"""What a settings file was before we wrote to it, so that it can come back byte for byte.

One JSON file for each, `<the user's configuration folder of ours>/integrations/<hash of its path>.json`:

    path      the settings file
    before    its bytes, Base64; null where it was not there
    after     the SHA-256 of what we wrote; null where that is not known
    harness   whose settings it is; null for `info/exclude`
    users     the worktrees (or home folder) that were integrated by it
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from git_agentos.git import gitfile
from git_agentos.guard import signing
from git_agentos.guard.setup import scripts
from git_agentos.util import files


class Backup(NamedTuple):
    """The record of one file; see the module for its fields."""

    before: bytes | None
    after: str | None
    harness: str | None = None
    users: tuple[str, ...] = ()


def folder(environment: Mapping[str, str]) -> str:
    return os.path.join(signing.folder(environment), "integrations")


def digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def load(path: str, environment: Mapping[str, str]) -> Backup | None:
    """The record of a file; None where there is none, or it is damaged."""
    try:
        found = json.loads(files.read(record_path(path, environment)))
        before, after = found["before"], found["after"]
        name, users = found.get("harness"), found.get("users", [])
        if not isinstance(after, str | None) or not isinstance(name, str | None) or not isinstance(users, list):
            return None
        data = base64.b64decode(before) if before is not None else None
        return Backup(data, after, name, tuple(each for each in users if isinstance(each, str)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
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
    scripts.write(record_path(path, environment), text.encode("utf-8", "surrogatepass"), 0o600)


def drop(path: str, environment: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.unlink(record_path(path, environment))


def is_of_this_worktree(path: str, root: str, environment: Mapping[str, str]) -> bool:
    """Whether the record of `path` is younger than the worktree at `root`: another one may have been there before."""
    found = gitfile.find(root)
    try:
        made = os.stat(os.path.join(found[1], "commondir")).st_mtime_ns if found is not None else 0
    except OSError:
        made = 0  # the main checkout
    try:
        return os.stat(record_path(path, environment)).st_mtime_ns >= made
    except OSError:
        return False


def record_path(path: str, environment: Mapping[str, str]) -> str:
    """Where the record of a file is."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    return os.path.join(folder(environment), f"{name}.json")
