"""MACs of what only this user can have written: requests, grants, manifests, records of runs.

    <configuration folder>/git-agentos/key      32 random bytes; mode 0600, created when it is first needed

A MAC is HMAC-SHA256 by that key, in hexadecimal. Agents can write to the git directory, where these files are: without
the key they can neither forge nor change one. The folder is named by `XDG_CONFIG_HOME` or `HOME`. Below `guard exec`
their values are those with which it was started, so that an agent cannot use a key of its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from git_agentos.errors import GuardError, system_reason
from git_agentos.guard import ancestry
from git_agentos.process import table
from git_agentos.util import files

_SIZE = 32
DAMAGED = "damaged"


def folder(environment: Mapping[str, str]) -> str:
    """Our folder in the user's configuration; it need not exist."""
    trusted = ancestry.environment_of_guard_exec(table.own_pid()) or environment
    base = trusted.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        home = trusted.get("HOME") or os.path.expanduser("~")
        base = os.path.join(home, ".config")
    return os.path.join(base, "git-agentos")


def key(environment: Mapping[str, str], *, make: bool = True) -> bytes | None:
    """The key, with `make` created where there is none; None where it cannot be read or created, as in a sandbox, or is
    damaged.

    GuardError where others may write to it.
    """
    path = os.path.join(folder(environment), "key")
    for _ in range(2):
        try:
            data, found = _read(path)
        except FileNotFoundError:
            if not make or not _make(path):
                return None
            continue
        except OSError:
            return None
        if _others_may_write(found):
            raise GuardError(
                f"others may write to the key '{path}'",
                f"chmod go-w '{path}' if nobody has; else remove it, and grant pending requests again",
            )
        return data if len(data) == _SIZE else None
    return None


def problem(environment: Mapping[str, str]) -> str | None:
    """What is wrong with the key, in a sentence; None where it is as it should be, or there is none."""
    path = os.path.join(folder(environment), "key")
    try:
        data, found = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"the key '{path}' cannot be read: {system_reason(error)}"
    if len(data) != _SIZE:
        return f"the key '{path}' is {DAMAGED}"
    if _others_may_write(found):
        return f"others may write to the key '{path}'"
    return None


def is_out_of_reach(environment: Mapping[str, str]) -> bool:
    """Whether there is no key and none can be created, as in a sandbox: no MAC can be checked then.

    A key that was removed or damaged where this user can write is not out of reach.
    """
    above = folder(environment)
    if os.path.lexists(os.path.join(above, "key")):
        return False
    while not os.path.lexists(above) and os.path.dirname(above) != above:
        above = os.path.dirname(above)
    return not os.access(above, os.W_OK)


def sign(data: bytes, environment: Mapping[str, str]) -> str | None:
    """The MAC of `data` by the user's key, which is created where there is none; None where that is not possible."""
    known = key(environment)
    return None if known is None else mac(data, known)


def is_signed(data: bytes, code: object, environment: Mapping[str, str]) -> bool:
    """Whether `code` is the MAC of `data` by the user's key; false where there is no key."""
    known = key(environment, make=False)
    return known is not None and verify(data, code, known)


def mac(data: bytes, known: bytes) -> str:
    """The MAC of `data` by a key that was read."""
    import hashlib  # not loaded where nothing was ever signed
    import hmac

    return hmac.new(known, data, hashlib.sha256).hexdigest()


def verify(data: bytes, code: object, known: bytes) -> bool:
    """Whether `code` is the MAC of `data`."""
    import hmac

    return isinstance(code, str) and hmac.compare_digest(mac(data, known).encode(), code.encode("utf-8", "replace"))


def document_bytes(kind: str, name: str, body: Mapping[str, Any]) -> bytes:
    """The bytes for a document's MAC: with its kind and name, so that no document can replace another one."""
    import json

    return f"git-agentos {kind} {name}\0{json.dumps(body, sort_keys=True)}".encode("ascii")


def sign_document(kind: str, name: str, body: Mapping[str, Any], known: bytes | None) -> dict[str, Any]:
    """The JSON object `body` with its `mac`, which is null where there is no key."""
    return {**body, "mac": None if known is None else mac(document_bytes(kind, name, body), known)}


def verify_document(kind: str, name: str, document: Mapping[str, Any], known: bytes) -> bool:
    """Whether a JSON object carries the `mac` of the rest of it."""
    body = {field: value for field, value in document.items() if field != "mac"}
    return verify(document_bytes(kind, name, body), document.get("mac"), known)


def _others_may_write(found: os.stat_result) -> bool:
    return bool(stat.S_IMODE(found.st_mode) & 0o022) or found.st_uid not in (os.geteuid(), 0)


def _read(path: str) -> tuple[bytes, os.stat_result]:
    """The content of the key file (a link is followed, a pipe is not waited for), and its status."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        return (os.read(descriptor, _SIZE + 1) if stat.S_ISREG(found.st_mode) else b""), found
    finally:
        os.close(descriptor)


def _make(path: str) -> bool:
    """Create a key, durably; whether there is one now. Of two processes, the second uses the first one's key."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        files.create(path, os.urandom(_SIZE), mode=0o600)
    except OSError:
        return False
    return True
