"""The files of requests for approval and of decisions: whole or not there, never changed, known to be ours.

Every file is written under another name and linked into place, so the first of two wins and a process that is killed
leaves nothing half done. It holds one JSON object with a code (`mac`) by the user's key (`guard.signing`), since agents
can write to the git directory. `guard.approvals` says what is in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from git_agentos.errors import AgentosWarning, GuardError
from git_agentos.guard import ancestry, signing
from git_agentos.guard.ancestry import Process
from git_agentos.util import directories, files

DEFAULT_EXPIRY = 3600.0
_FORGET_AFTER = 30 * 86400  # seconds; what is older goes when something new is filed
LIMIT = 1 << 20  # bytes of a document
FOLDERS = ("requests", "grants", "used", "running")


class Store(NamedTuple):
    """Where the documents of a repository are, and by which key they are read and made.

    `key` is None where none can be had. `expiry` is in seconds; `clock` tells the time.
    """

    folder: str
    key: bytes | None
    expiry: float = DEFAULT_EXPIRY
    clock: Callable[[], float] = time.time


def store(
    common_dir: str, environment: Mapping[str, str], *, expiry: float = DEFAULT_EXPIRY, make: bool = True
) -> Store:
    """The store of a repository; with `make` its folders are there afterwards, and the key where it can be had."""
    folder = os.path.join(common_dir, "agentos", "approvals")
    if make:
        directories.make_own(os.path.dirname(folder))
        directories.make_own(folder)
        for name in FOLDERS:
            directories.make_own(os.path.join(folder, name))
    try:
        return Store(folder, signing.key(environment, make=make), expiry)
    except GuardError as error:
        if make:
            raise
        warnings.warn(AgentosWarning(f"{error.message}: what it signs does not count"), stacklevel=2)
        return Store(folder, None, expiry)


def path(place: Store, kind: str, name: str, end: str = ".json") -> str:
    return os.path.join(place.folder, kind, name + end)


def file_name(name: str) -> str:
    return name + ".json"


def put(place: Store, kind: str, name: str, body: Mapping[str, Any], *, end: str = ".json") -> bool:
    """Write a document, durably; false where there is one already."""
    document = signing.sign_document(kind, name, body, place.key)
    return files.create(path(place, kind, name, end), json.dumps(document).encode("ascii"))


def load(place: Store, kind: str, name: str, *, sealed: bool = True) -> dict[str, Any] | None:
    """A document that is whole, and known to be ours by its code; None for any other. `mac` is its code, if any.

    `sealed=False` takes one without a code too: of a request, the id says whether it is what was asked.
    """
    source = path(place, kind, name)
    try:
        body = json.loads(files.read(source, limit=LIMIT))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    if place.key is None:
        return body if kind != "grants" or _cannot_be_written(os.path.dirname(source)) else None
    if body.get("mac") is None:
        return None if sealed else body
    try:
        return body if signing.verify_document(kind, name, body, place.key) else None
    except (ValueError, RecursionError):
        return None


def _cannot_be_written(folder: str) -> bool:
    """Whether a folder is on a read-only mount: what lies in it was not put there from here."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def name(process: Process) -> str:
    return f"{process.pid}-{''.join(c for c in process.start if c.isalnum())}"


def boot() -> str:
    """What tells one run of the system from the next: process numbers and times begin anew with each."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _entries(place: Store, kind: str) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(os.path.join(place.folder, kind)) as found:
        yield from found


def damaged(common_dir: str) -> list[str]:
    """The paths of what lies where a request, a grant or a pass should, and is no JSON object in a file of its own."""
    top = os.path.join(common_dir, "agentos", "approvals")
    folders = (top, *(os.path.join(top, kind) for kind in FOLDERS))
    wrong = [path for path in folders if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path))]
    if top in wrong:
        return wrong
    for kind in ("requests", "grants", "running"):
        if os.path.join(top, kind) not in wrong:
            found = _entries(Store(top, None), kind)
            wrong += [each.path for each in found if each.name.endswith(".json") and not _is_object(each.path)]
    return wrong


def _is_object(path: str) -> bool:
    try:
        return isinstance(json.loads(files.read(path, limit=LIMIT)), dict)
    except (PermissionError, FileNotFoundError):
        return True  # nobody can tell
    except (OSError, ValueError, RecursionError):
        return False


def drop_ended(place: Store) -> None:
    """Remove the passes of processes that have ended."""
    for entry in _entries(place, "running"):
        if entry.name.startswith("."):
            continue  # being written
        pid = entry.name.partition("-")[0]
        process = ancestry.identify(int(pid)) if pid.isdigit() else None
        if process is None or file_name(name(process)) != entry.name:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def forget(place: Store) -> None:
    """Remove what is long over, and what killed processes were writing."""
    now = time.time()
    for kind in FOLDERS:
        for entry in _entries(place, kind):
            with contextlib.suppress(OSError):
                age = now - entry.stat(follow_symlinks=False).st_mtime
                if age > (3600 if entry.name.startswith(".") else _FORGET_AFTER):
                    os.unlink(entry.path)
