"""Stores the traceback of a bug: in the worktree's own state folder if that is known, else in a temporary file."""

from __future__ import annotations

import os
import sys
import traceback

from git_agentos import __version__
from git_agentos.util import files, times


def record(error: BaseException, state_dir: str | None) -> str:
    """Write `error`'s traceback to a new file that only its owner can read, and return the file's path."""
    lines = [f"git-agentos {__version__}, Python {sys.version}\n", f"arguments: {sys.argv[1:]!r}\n\n"]
    data = "".join([*lines, *traceback.format_exception(error)]).encode("utf-8", "backslashreplace")
    name = f"crash-{times.name_stamp()}-{os.getpid()}.txt"
    # A folder that is a link could lead anywhere; the file is created exclusively, so no link at its name is followed.
    if state_dir is not None and not os.path.islink(state_dir):
        path = os.path.join(state_dir, name)
        try:
            os.makedirs(state_dir, exist_ok=True)
            if files.create(path, data, mode=0o600):
                return path
        except OSError:
            pass
    import tempfile

    try:
        descriptor, path = tempfile.mkstemp(prefix="git-agentos-", suffix=f"-{name}")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path
    except OSError as failure:
        return f"(not written: {failure.strerror})"
