"""How a daemon shows that it is the user's own: with the key by which the guard signs (`guard.signing`).

Agents of the same user can put a program of theirs in the place of the socket. It does not know the key, so it cannot
say for a hook that a command may run, or that a checkpoint was created. A client sends random bytes; the daemon answers
with their MAC (BLAKE2b, RFC 7693, with the key).

Standard library only, and nothing that takes time to import: a client imports it. Therefore it finds the key by itself,
in the same place as `guard.signing`, and by the same rule: below `guard exec`, the environment of that decides.
"""

from __future__ import annotations

import _blake2
import os
import stat

_SIZE = 32
_PERSON = b"agentos-watch"
GUARD_EXEC = b"AGENTOS_GUARD"
_MOST_ANCESTORS = 512
_LONGEST = 1 << 21  # bytes of an environment


def challenge() -> bytes:
    """What a daemon has to prove itself with; no byte of it is a NUL."""
    return os.urandom(_SIZE).hex().encode("ascii")


def answer(key: bytes, challenge: bytes) -> bytes:
    """The proof, in hexadecimal."""
    return _blake2.blake2b(challenge, key=key, person=_PERSON, digest_size=_SIZE).hexdigest().encode("ascii")


def find_key() -> bytes | None:
    """The user's key; None where there is none, or it is not safe."""
    base = _folder()
    if base is None:
        return None
    try:
        descriptor = os.open(base + b"/git-agentos/key", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o022 or found.st_uid not in (os.geteuid(), 0):
            return None
        key = os.read(descriptor, _SIZE + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return key if len(key) == _SIZE else None


def _folder() -> bytes | None:
    """The folder of the user's configuration."""
    variables = _of_guard_exec()
    if variables is None:
        return None
    base = variables.get(b"XDG_CONFIG_HOME", b"")
    if base.startswith(b"/"):
        return base
    home = variables.get(b"HOME") or os.path.expanduser(b"~")
    return home + b"/.config"


def _of_guard_exec() -> dict[bytes, bytes] | None:
    """The environment with which the outermost `guard exec` above was started, else our own; None where that is not
    known."""
    found = dict(os.environb)
    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return found
        try:
            above = _read(pid, "environ")
            fields = (_read(pid, "stat") or b"").rpartition(b")")[2].split()
            pid = int(fields[1])
        except (OSError, IndexError):
            return None
        variables = dict(pair.split(b"=", 1) for pair in (above or b"").split(b"\0") if b"=" in pair)
        if GUARD_EXEC in variables:
            found = variables
    return None


def _read(pid: int, file: str) -> bytes | None:
    """A file of a process; None where it may not be read."""
    try:
        descriptor = os.open(f"/proc/{pid}/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return None
    try:
        data = bytearray()
        while len(data) < _LONGEST and (more := os.read(descriptor, _LONGEST)):
            data += more
        return bytes(data)
    except PermissionError:
        return None
    finally:
        os.close(descriptor)
