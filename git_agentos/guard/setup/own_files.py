"""The guard's own files in the git directory: written and removed whatever is in their place, and signed.

A signed file is a JSON object with one field, and `mac`, the MAC of that field by the user's key (`signing`): an agent
can write to the git directory, but does not have the key.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.git import process
from git_agentos.guard import signing
from git_agentos.util import files


def write(path: str, data: bytes, mode: int) -> None:
    """Replace a file durably. A folder in its place is removed where it is empty, else renamed."""
    if os.path.isdir(path) and not os.path.islink(path):
        remove(path)
    files.replace(path, data, mode=mode)


def remove(path: str) -> None:
    """Remove a file, if it is there. A folder in its place is removed where it is empty, else renamed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        if not os.path.isdir(path):
            raise
        try:
            os.rmdir(path)
        except OSError:
            os.rename(path, f"{path}.aside-{os.urandom(4).hex()}")


def signed_json(field: str, body: Any) -> bytes:
    """The content of a signed file. Its MAC is null where there is no key, as in a sandbox."""
    mac = signing.sign(_canonical(body), process.environment())
    return json.dumps({field: body, "mac": mac}, indent=1).encode("ascii") + b"\n"


def read_signed(path: str, field: str) -> tuple[Any, bool]:
    """The field of a signed file, and whether this user has signed it. OSError, ValueError, KeyError, TypeError or
    RecursionError for a damaged file.

    It counts as signed where that cannot be known: in a file of another user, and where the key is out of reach. It
    does not where the key was removed or damaged.
    """
    document = files.read_object(path)
    return document[field], _is_signed(path, _canonical(document[field]), document["mac"])


def _is_signed(path: str, data: bytes, mac: object) -> bool:
    environment = process.environment()
    with contextlib.suppress(OSError):
        if os.lstat(path).st_uid != os.geteuid():
            return True
    try:
        return signing.is_signed(data, mac, environment) or signing.is_out_of_reach(environment)
    except GuardError:
        return False  # others may write to the key


def _canonical(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True).encode("ascii")
