"""Documents that only this user can have written: requests, grants, manifests, records of runs.

    <configuration folder>/git-agentos/key      32 random bytes; mode 0600, made when it is first needed

A document carries a MAC (HMAC-SHA256 by that key, in hexadecimal). Agents can write to the git directory, where these
documents lie: without the key they cannot make one up or change one.
The folder is what `XDG_CONFIG_HOME` or `HOME` say. Below `guard exec` it is what they said when that was started: an
agent that sets them anew does not bring a key of its own along.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.guard import ancestry
from git_agentos.util import files

_SIZE = 32
DAMAGED = "damaged"


def folder(environment: Mapping[str, str]) -> str:
    """The user's configuration folder of ours; it need not be there."""
    trusted = ancestry.environment_of_guard_exec(os.getpid()) or environment
    base = trusted.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        home = trusted.get("HOME") or os.path.expanduser("~")
        base = os.path.join(home, ".config")
    return os.path.join(base, "git-agentos")


def key(environment: Mapping[str, str], *, make: bool = True) -> bytes | None:
    """The key, made where there is none yet; None where it cannot be read or made, as in a sandbox, or is damaged.

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
        if stat.S_IMODE(found.st_mode) & 0o022 or found.st_uid not in (os.geteuid(), 0):
            raise GuardError(
                f"others may write to the key '{path}'",
                f"chmod go-w '{path}' if nobody has; else remove it, and grant again what still waits",
            )
        return data if len(data) == _SIZE else None
    return None


def problem(environment: Mapping[str, str]) -> str | None:
    """What is wrong with the key, in a sentence; None where it is as it should be, or not there."""
    path = os.path.join(folder(environment), "key")
    try:
        data, found = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"the key '{path}' cannot be read: {(error.strerror or str(error)).lower()}"
    if not stat.S_ISREG(found.st_mode):
        return f"the key '{path}' is {DAMAGED}"
    if len(data) != _SIZE:
        return f"the key '{path}' is {DAMAGED}"
    if stat.S_IMODE(found.st_mode) & 0o022 or found.st_uid not in (os.geteuid(), 0):
        return f"others may write to the key '{path}'"
    return None


def is_out_of_reach(environment: Mapping[str, str]) -> bool:
    """Whether there is no key and none can be made, as in a sandbox: nobody can tell then what was signed.

    A key that was removed or damaged where this user can write is not out of reach.
    """
    place = folder(environment)
    if os.path.lexists(os.path.join(place, "key")):
        return False
    while not os.path.lexists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return not os.access(place, os.W_OK)


def sign(data: bytes, environment: Mapping[str, str]) -> str | None:
    """The MAC of `data` by the user's key, which is made where there is none yet; None where it cannot be had."""
    known = key(environment)
    return None if known is None else mac(data, known)


def is_signed(data: bytes, code: object, environment: Mapping[str, str]) -> bool:
    """Whether `code` is the MAC of `data` by the user's key; false where there is no key."""
    known = key(environment, make=False)
    return known is not None and verify(data, code, known)


def mac(data: bytes, known: bytes) -> str:
    """The MAC of `data` by a key that was read."""
    import hashlib  # not loaded by a command for which nothing was ever signed
    import hmac

    return hmac.new(known, data, hashlib.sha256).hexdigest()


def verify(data: bytes, code: object, known: bytes) -> bool:
    """Whether `code` is the MAC of `data`."""
    import hmac

    return isinstance(code, str) and hmac.compare_digest(mac(data, known).encode(), code.encode("utf-8", "replace"))


def document_bytes(kind: str, name: str, body: Mapping[str, Any]) -> bytes:
    """What a document's MAC is made of: its kind and name too, so that none can stand in another one's place."""
    import json

    return f"git-agentos {kind} {name}\0{json.dumps(body, sort_keys=True)}".encode("ascii")


def sign_document(kind: str, name: str, body: Mapping[str, Any], known: bytes | None) -> dict[str, Any]:
    """The JSON object `body` with its `mac`, which is null where there is no key."""
    return {**body, "mac": None if known is None else mac(document_bytes(kind, name, body), known)}


def verify_document(kind: str, name: str, document: Mapping[str, Any], known: bytes) -> bool:
    """Whether a JSON object carries the `mac` of the rest of it."""
    body = {field: value for field, value in document.items() if field != "mac"}
    return verify(document_bytes(kind, name, body), document.get("mac"), known)


def _read(path: str) -> tuple[bytes, os.stat_result]:
    """The content of the key's file (a link is followed, a pipe not waited for), and what it is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        return (os.read(descriptor, _SIZE + 1) if stat.S_ISREG(found.st_mode) else b""), found
    finally:
        os.close(descriptor)


def _make(path: str) -> bool:
    """Create a key, whole and durably; whether there is one now. Of two processes the second takes the first one's."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        files.create(path, os.urandom(_SIZE), mode=0o600)
    except OSError:
        return False
    return True
