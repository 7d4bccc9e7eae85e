"""Living beside `git gc --prune=now`, which removes objects that had no ref when it looked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from git_agentos.git import gitfile
from git_agentos.git.location import Location
from git_agentos.util import files

_PATIENCE = 10.0
_AT_ONCE = (b"--prune=now", b"--prune=all", b"--prune=0")


def outlast(location: Location, assure: Callable[[], None]) -> None:
    """Call `assure` until no gc that prunes at once is running, or for ten seconds.

    Such a gc may have looked at the refs just before ours moved, and delete just after. git's default, a grace of two
    weeks, needs none of this.
    """
    deadline = time.monotonic() + _PATIENCE
    while at_once(location) and time.monotonic() < deadline:
        time.sleep(0.02)
        assure()


def at_once(location: Location) -> bool:
    """Whether a gc is running that prunes without a grace."""
    try:
        pid = int(files.read(os.path.join(location.common_dir, "gc.pid"), limit=gitfile.LONGEST).split()[0])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return any(word in _AT_ONCE for word in file.read().split(b"\0"))
    except (OSError, ValueError, IndexError):
        return False
