"""The last time that a harness called our hook in a worktree: the proof that it reads our settings.

    <git directory of the worktree>/agentos/harness/<name>.asked    {"at": seconds, "below_exec": true}

No decision depends on it, so it is neither signed nor written durably.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from git_agentos.guard.ancestry import MARKER
from git_agentos.util import files


class Contact(NamedTuple):
    """A call of the hook: `at` is in seconds since the epoch, `below_exec` whether the harness ran below `guard
    exec`."""

    at: float
    below_exec: bool


def note(name: str, git_dir: str | None, environment: Mapping[str, str]) -> None:
    """Note that harness `name` called the hook in the worktree with this git directory, if we have state there."""
    if git_dir is None or not os.path.isdir(os.path.join(git_dir, "agentos")):
        return
    path = _path(name, git_dir)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        body = {"at": time.time(), "below_exec": MARKER in environment}
        files.replace(path, json.dumps(body).encode("ascii"), mode=0o600, durable=False)


def last(name: str, git_dir: str) -> Contact | None:
    """The last call; None where there was none."""
    try:
        body = files.read_object(_path(name, git_dir), limit=1 << 12)
        return Contact(float(body["at"]), body["below_exec"] is True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(name: str, git_dir: str) -> str:
    return os.path.join(git_dir, "agentos", "harness", f"{name}.asked")
