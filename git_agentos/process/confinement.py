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
    own = _rights(os.getpid())
    return own is not None and own == _rights(pid)


def umask(pid: int) -> int | None:
    """The file mode creation mask of a process; None where it is not known."""
    found = table.field(pid, "status", "Umask")
    return None if found is None else int(found, 8)


def _rights(pid: int) -> tuple[object, ...] | None:
    status = table.read(pid, "status")
    spaces = [table.link(pid, f"ns/{name}") for name in _NAMESPACES]
    try:
        root = os.stat(f"/proc/{pid}/root")
    except OSError:
        return None
    if status is None or None in spaces:
        return None
    fields = [line for line in status.splitlines() if line.partition(b":")[0] in _FIELDS]
    return (fields, spaces, root.st_dev, root.st_ino, table.read(pid, "attr/current"))
