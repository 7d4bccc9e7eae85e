"""The files of approval requests and of decisions about them. A file is complete or not there, and never changes.

Every file is written under another name and linked to its own, so the first of two writers wins, and a process that is
killed leaves nothing half done. A file holds a JSON object with a MAC by the user's key (`guard.signing`), since agents
can write to the git directory. `approvals` says what is in the objects.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from git_agentos.errors import AgentosWarning, GuardError
from git_agentos.guard import signing
from git_agentos.guard.configuration.strictness import DEFAULT_EXPIRY
from git_agentos.process import mounts, table
from git_agentos.process.table import Process
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

LIMIT = 1 << 20  # bytes of a document
FOLDERS = ("requests", "grants", "used", "running")
_MAX_AGE = 30 * 86400  # seconds; older files are removed when a request is filed
_MAX_AGE_UNFINISHED = 3600


class Store(NamedTuple):
    """The documents of a repository: their folder, and the key for their MACs, None where there is none.

    `expiry` is in seconds; `clock` tells the time.
    """

    folder: str
    key: bytes | None
    expiry: float = DEFAULT_EXPIRY
    clock: Callable[[], float] = time.time


def open_store(
    common_dir: str, environment: Mapping[str, str], *, expiry: float = DEFAULT_EXPIRY, create: bool = True
) -> Store:
    """The store of a repository; `create` makes its folders, and the key where that is possible."""
    folder = os.path.join(common_dir, "agentos", "approvals")
    if create:
        directories.make_own(os.path.dirname(folder))
        directories.make_own(folder)
        for name in FOLDERS:
            directories.make_own(os.path.join(folder, name))
    try:
        return Store(folder, signing.key(environment, make=create), expiry)
    except GuardError as error:
        if create:
            raise
        warnings.warn(AgentosWarning(f"{error.message}: what it signs does not count"), stacklevel=2)
        return Store(folder, None, expiry)


def path(store: Store, kind: str, name: str, suffix: str = ".json") -> str:
    return os.path.join(store.folder, kind, name + suffix)


def create(store: Store, kind: str, name: str, body: Mapping[str, Any], *, suffix: str = ".json") -> bool:
    """Write a document, durably; false where there is one already."""
    document = signing.sign_document(kind, name, body, store.key)
    return files.create(path(store, kind, name, suffix), json.dumps(document).encode("ascii"))


def read(store: Store, kind: str, name: str, *, require_mac: bool = True) -> dict[str, Any] | None:
    """A document with the expected form and our MAC; None for any other. `mac` is its MAC.

    Without `require_mac`, one that has no MAC is returned as well: the id of a request proves its content.
    """
    source = path(store, kind, name)
    try:
        body = files.read_object(source, limit=LIMIT)
    except (OSError, ValueError):
        return None
    if store.key is None:
        return body if kind != "grants" or mounts.is_read_only(os.path.dirname(source)) else None
    if body.get("mac") is None:
        return None if require_mac else body
    try:
        return body if signing.verify_document(kind, name, body, store.key) else None
    except (ValueError, RecursionError):
        return None


def process_name(process: Process) -> str:
    """The name of the document of a running process."""
    return f"{process.pid}-{''.join(c for c in process.start if c.isalnum())}"


# -- damaged and old files ---------------------------------------------------------------------------------------------


def damaged_files(common_dir: str) -> list[str]:
    """The paths in the store that are not a folder or a JSON object where one has to be."""
    top = os.path.join(common_dir, "agentos", "approvals")
    folders = (top, *(os.path.join(top, kind) for kind in FOLDERS))
    damaged = [each for each in folders if os.path.lexists(each) and (os.path.islink(each) or not os.path.isdir(each))]
    if top in damaged:
        return damaged
    for kind in ("requests", "grants", "running"):
        if os.path.join(top, kind) not in damaged:
            entries = _entries(Store(top, None), kind)
            damaged += [each.path for each in entries if each.name.endswith(".json") and not _is_object(each.path)]
    return damaged


def prune_ended(store: Store) -> None:
    """Remove the documents of processes that have ended."""
    for entry in _entries(store, "running"):
        if entry.name.startswith("."):
            continue  # being written
        pid = entry.name.partition("-")[0]
        process = table.identify(int(pid)) if pid.isdigit() else None
        if process is None or entry.name != f"{process_name(process)}.json":
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def prune(store: Store) -> None:
    """Remove old documents, and files that killed processes were writing."""
    now = time.time()
    for kind in FOLDERS:
        for entry in _entries(store, kind):
            with contextlib.suppress(OSError):
                age = now - entry.stat(follow_symlinks=False).st_mtime
                if age > (_MAX_AGE_UNFINISHED if entry.name.startswith(".") else _MAX_AGE):
                    os.unlink(entry.path)


def _entries(store: Store, kind: str) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(os.path.join(store.folder, kind)) as entries:
        yield from entries


def _is_object(path: str) -> bool:
    try:
        files.read_object(path, limit=LIMIT)
    except (PermissionError, FileNotFoundError):
        return True  # it cannot be known
    except (OSError, ValueError):
        return False
    return True
