"""Makes files and folders readable that their owner cannot read, so that they can be saved and removed.

The checkpoint records their former permission bits, and they get them back if the restore fails. For root, everything
is readable.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from git_agentos.checkpoint.capture import listing
from git_agentos.checkpoint.capture.listing import Listing
from git_agentos.git.location import Location
from git_agentos.util.named_tuple import NamedTuple


class Opened(NamedTuple):
    """The listing, with the former permission bits of folders; and those of files."""

    walked: Listing
    bits: Mapping[bytes, int]


@contextlib.contextmanager
def made_readable(location: Location, walked: Listing, touched: Iterable[bytes]) -> Iterator[Opened]:
    """Make everything readable; after an error, restore the bits. `touched` are tracked files that may be
    unreadable."""
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
            walked = walked._replace(folders=before)
        yield Opened(walked, files)
    except BaseException:
        for path, bits in sorted([*folders.items(), *files.items()], reverse=True):
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(root, path), bits)
        raise


def _open(path: bytes, more: int) -> int:
    """Add permission bits; returns the former ones."""
    bits = stat.S_IMODE(os.lstat(path).st_mode)
    os.chmod(path, bits | more)
    return bits
