"""Records which git processes were allowed, in one small file each, so that scripts start Python once per command.

`<common dir>/agentos/guard/passed/<pid>.<start time>` contains `all`, or `files` if the decision covers only changes of
files, and changes of refs are still decided. Pid and start time identify a process until the next boot. The file is
neither secret nor a proof: a process that can write it can edit the hooks as well (docs/security.md).
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.guard.setup import scripts
from git_agentos.process import table
from git_agentos.util import directories

ALL, FILES = "all", "files"


def record(common_dir: str, pid: int, what: str) -> None:
    """Record that the git process `pid` was allowed. If that cannot be written, the next hook decides again."""
    process = table.identify(pid)
    if process is None or not table.has_proc():
        return
    with contextlib.suppress(OSError):
        folder = directories.make_own(os.path.join(scripts.folder(common_dir), "passed"))
        _drop_ended(folder)
        path = os.path.join(folder, f"{process.pid}.{process.start}")
        with open(path, "w", encoding="ascii", opener=_no_link) as file:
            file.write(what + "\n")


def is_recorded(common_dir: str, pid: int) -> bool:
    """Whether an earlier hook of the git process `pid` allowed it."""
    process = table.identify(pid)
    folder = os.path.join(scripts.folder(common_dir), "passed")
    return process is not None and os.path.lexists(os.path.join(folder, f"{process.pid}.{process.start}"))


def _drop_ended(folder: str) -> None:
    for entry in os.scandir(folder):
        pid, _, start = entry.name.partition(".")
        found = table.identify(int(pid)) if pid.isdigit() else None
        if found is None or found.start != start:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
