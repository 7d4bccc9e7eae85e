"""The key by which requests, grants and manifests are known to be ours: a file in the user's configuration folder.

    <configuration folder>/git-agentos/key      32 random bytes; mode 0600, made when it is first needed

Agents can write to the git directory, where these documents lie: without the key they cannot make one up or change one.
The folder is what `XDG_CONFIG_HOME` or `HOME` say. Below `guard exec` it is what they said when that was started: an
agent that sets them anew does not bring a key of its own along.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
from collections.abc import Mapping

from git_agentos.errors import GuardError
from git_agentos.guard import ancestry

_SIZE = 32


def folder(environment: Mapping[str, str]) -> str:
    """The user's configuration folder of ours; it need not be there."""
    trusted = ancestry.environment_of_guard_exec(os.getpid()) or environment
    base = trusted.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        home = trusted.get("HOME") or os.path.expanduser("~")
        base = os.path.join(home, ".config")
    return os.path.join(base, "git-agentos")


def key(environment: Mapping[str, str], *, make: bool = True) -> bytes | None:
    """The key, made where there is none yet; None where it cannot be read or made, as in a sandbox.

    GuardError where others may write to it.
    """
    path = os.path.join(folder(environment), "key")
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                data = file.read(4096)
        except FileNotFoundError:
            if not make or not _make(path):
                return None
            continue
        except OSError:
            return None
        if stat.S_IMODE(found.st_mode) & 0o022 or found.st_uid not in (os.geteuid(), 0):
            raise GuardError(f"others may write to the key '{path}'", "remove it, and grant again what still waits")
        return data if len(data) >= _SIZE else None
    return None


def sign(data: bytes, environment: Mapping[str, str]) -> str | None:
    """A code that only who has the key can make of `data`; None where there is no key."""
    known = key(environment)
    return None if known is None else code(data, known)


def holds(data: bytes, mac: str | None, environment: Mapping[str, str]) -> bool:
    """Whether `mac` is what `sign` makes of `data`; false where there is no key."""
    known = key(environment, make=False)
    return known is not None and is_code(data, mac, known)


def code(data: bytes, known: bytes) -> str:
    """The code of `data` by a key that was read."""
    return hmac.new(known, data, hashlib.sha256).hexdigest()


def is_code(data: bytes, mac: str | None, known: bytes) -> bool:
    """Whether `mac` is the code of `data`."""
    return isinstance(mac, str) and hmac.compare_digest(code(data, known).encode(), mac.encode("utf-8", "replace"))


def _make(path: str) -> bool:
    """Make a key, whole and at once; whether there is one now."""
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, os.urandom(_SIZE))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # who is second takes the first one's
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return True
