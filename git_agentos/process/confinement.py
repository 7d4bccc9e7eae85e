"""Whether another process may do exactly what this one may, so that one can do the work of the other.

From proc(5); where there is no /proc, nothing is known. What it does not show: rules of Landlock that a process with
CAP_SYS_ADMIN has given itself (any other has to set `NoNewPrivs` for them), and limits of control groups.
"""

from __future__ import annotations

import os

from git_agentos.process import table

# Users, groups, capabilities, and what a sandbox cannot set without one of these.
_FIELDS = (b"Uid", b"Gid", b"Groups", b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb", b"NoNewPrivs", b"Seccomp")
_NAMESPACES = ("mnt", "user", "pid", "net")


def has_own_rights(pid: int) -> bool:
    """Whether the process `pid` has the users, the groups, the capabilities, the filters of system calls, the
    namespaces, the root folder and the security label of this one. False where that cannot be found out."""
    own, other = _status("self"), _status(pid)
    if not own or own != other:
        return False
    try:
        if not os.path.samefile("/proc/self/root", f"/proc/{pid}/root"):
            return False
        for name in _NAMESPACES:
            if os.readlink(f"/proc/self/ns/{name}") != os.readlink(f"/proc/{pid}/ns/{name}"):
                return False
    except OSError:
        return False
    return _label("self") == _label(pid)


def umask(pid: int) -> int | None:
    """The file mode creation mask of a process; None where it is not known."""
    found = table.field(pid, "status", "Umask")
    return None if found is None else int(found, 8)


def _status(pid: int | str) -> list[bytes]:
    data = _read(pid, "status") or b""
    return [line for line in data.splitlines() if line.partition(b":")[0] in _FIELDS]


def _label(pid: int | str) -> bytes | None:
    return _read(pid, "attr/current")


def _read(pid: int | str, file: str) -> bytes | None:
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return None
