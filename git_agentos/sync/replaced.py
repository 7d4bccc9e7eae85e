"""Chains on remotes that the next push replaces as a whole: checkpoints of them were written again.

    agentos/sync/replaced    one line for each: the ref that it had here (`refs/agentos/remotes/…`), space, its commit

The commits themselves are not here any more, and are not fetched again.
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.git.location import Location
from git_agentos.sync import host
from git_agentos.util import files, locks

_NAME = "replaced"


def note(location: Location, ref: str, oid: str) -> None:
    """Note durably that a chain is to be replaced."""
    path = _path(location)
    with locks.hold(path + ".turn"):
        lines = [*_read(location), f"{ref} {oid}"]
        files.replace(path, "".join(f"{line}\n" for line in dict.fromkeys(lines)).encode("utf-8"))


def is_noted(location: Location, ref: str, oid: str) -> bool:
    """Whether the chain at `oid` is to be replaced."""
    return f"{ref} {oid}" in _read(location)


def _read(location: Location) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return files.read(_path(location)).decode("utf-8", "replace").splitlines()
    return []


def _path(location: Location) -> str:
    return os.path.join(host.folder(location), _NAME)
