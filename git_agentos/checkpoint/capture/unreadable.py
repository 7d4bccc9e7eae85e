"""Files and folders that their owner cannot read: opened, so that they can be saved and taken away.

What their permission bits were goes into the save; where the restore fails, they have them again. To root nothing is
closed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from git_agentos.checkpoint.capture import listing
from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.git.location import Location


class Opened(NamedTuple):
    """The walk, with the bits that folders had, and those that files had."""

    walked: Listing
    bits: Mapping[bytes, int]


@contextlib.contextmanager
def made_readable(location: Location, walked: Listing, touched: Iterable[bytes]) -> Iterator[Opened]:
    """Open what is closed; `touched` are tracked files that may be."""
    root = os.fsencode(location.root)
    if os.geteuid() == 0:
        yield Opened(walked, {})
        return
    folders: dict[bytes, int] = {}
    files: dict[bytes, int] = {}
    try:
        while closed := [path for path in walked.closed if path not in folders]:
            for path in closed:
                folders[path] = _open(os.path.join(root, path), stat.S_IRWXU)
            walked = listing.list_directories(location.root)
        for path in {*walked.names, *touched}:
            full = os.path.join(root, path)
            with contextlib.suppress(OSError):
                found = os.lstat(full)
                if stat.S_ISREG(found.st_mode) and not os.access(full, os.R_OK):
                    files[path] = _open(full, stat.S_IRUSR)
        if folders:
            before = {path: each._replace(mode=folders.get(path, each.mode)) for path, each in walked.folders.items()}
            walked = replace(walked, folders=before)
        yield Opened(walked, files)
    except BaseException:
        for path, bits in sorted([*folders.items(), *files.items()], reverse=True):
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(root, path), bits)
        raise


def _open(path: bytes, more: int) -> int:
    """Add permission bits; those that there were."""
    bits = stat.S_IMODE(os.lstat(path).st_mode)
    os.chmod(path, bits | more)
    return bits
