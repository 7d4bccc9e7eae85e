"""Runs a user's command in the background, with data on its standard input, and ends it after a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from git_agentos.process import programs

_TIMEOUT = 30.0  # seconds
_MOST = 60_000  # bytes: a pipe holds them without anybody reading


def start(command: str, data: bytes, *, env: Mapping[str, str]) -> None:
    """Start `command` by `sh -c`, in `/`; its output is discarded. ValueError if there is too much data."""
    if len(data) > _MOST:
        raise ValueError("too much to deliver")
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        writing = -1
        words = [sys.executable, "-P", "-m", "git_agentos.process.delivery", command]
        programs.start_in_background(words, env=env, stdin=reading)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def _main(command: str) -> None:
    # What it writes may have no end.
    argv = ["/bin/sh", "-c", 'exec /bin/sh -c "$1" >/dev/null 2>&1', "sh", command]
    programs.run(argv, cwd=os.sep, env=os.environ, timeout=_TIMEOUT, stdin=0)


if __name__ == "__main__":
    _main(sys.argv[1])
