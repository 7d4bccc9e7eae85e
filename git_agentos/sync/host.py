"""The name by which other clones know this one: `agentos.sync.host`, else the machine's name and 8 random digits.

The digits are kept in `agentos/sync/host` in the common git directory, with the machine and the folder: a clone that
was copied with its git directory gets digits of its own, so that two never push to the same refs.
"""

from __future__ import annotations

import json
import os
import re
import secrets

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import ConfigurationError
from git_agentos.git.location import Location
from git_agentos.sync import names
from git_agentos.util import directories, files

_FOLDER = "sync"
_FILE = "host"
_LONGEST_MACHINE = 48
_LONGEST = 1 << 16


def folder(location: Location) -> str:
    """The folder of everything that `sync` keeps in this clone; it is created."""
    return directories.make_own(location.shared_state_dir, _FOLDER)


def name(context: OpenWorktree) -> str:
    """This clone's name among the hosts; the first call creates it."""
    configured = config.sync_host(context.settings.values)
    if configured is not None:
        if not names.is_host(configured):
            raise ConfigurationError(
                f"bad value '{configured}' for 'agentos.sync.host'",
                "use up to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit",
            )
        return configured
    location = context.location
    path = os.path.join(folder(location), _FILE)
    known = _read(path, location)
    if known is not None:
        return known
    machine = re.sub(r"[^A-Za-z0-9_-]+", "-", os.uname().nodename.partition(".")[0]).strip("-_")
    made = f"{machine[:_LONGEST_MACHINE] or 'host'}-{secrets.randbelow(10**8):08d}"
    body = json.dumps({"host": made, **_identity(location)}).encode("ascii") + b"\n"
    if not os.path.lexists(path) and not files.create(path, body):
        return _read(path, location) or made  # another process was faster
    if _read(path, location) != made:
        files.replace(path, body)
    return made


def _identity(location: Location) -> dict[str, object]:
    """What tells this clone from a copy of it."""
    found = os.stat(location.common_dir)
    return {
        "machine": os.uname().nodename,
        "path": os.path.realpath(location.common_dir),
        "inode": [found.st_dev, found.st_ino],
    }


def _read(path: str, location: Location) -> str | None:
    """The name that was kept; None if there is none, or if it is that of another clone. One that was moved keeps it."""
    try:
        body = files.read_object(path, limit=_LONGEST)
    except (OSError, ValueError):
        return None
    here = _identity(location)
    is_here = body.get("path") == here["path"] or body.get("inode") == here["inode"]
    found = body.get("host")
    return (
        found
        if isinstance(found, str) and names.is_host(found) and is_here and body.get("machine") == here["machine"]
        else None
    )
