"""Output of a hook: messages on stderr, like git's own, and the result for the script on stdout."""

from __future__ import annotations

import contextlib
import os
import sys


def to_stderr(text: str) -> None:
    """Print a message on stderr; nothing happens if stderr is closed."""
    if text:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def to_stdout(text: str) -> None:
    """Print the result for the script."""
    sys.stdout.buffer.write(os.fsencode(text))
    sys.stdout.flush()


def warn_once(folder: str, text: str) -> None:
    """Print a warning, unless one was printed since `forget_warning`; that is recorded in the guard's `folder`."""
    path = os.path.join(folder, "warned")
    if not os.path.lexists(path):
        to_stderr(f"git-agentos: warning: {text} (see: git agentos doctor; said once)")
        with contextlib.suppress(OSError), open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text + "\n")


def warn_later(folder: str, text: str) -> None:
    """As `warn_once`, but the next hook prints it (`guard.sh`), because nobody reads stderr of a background process."""
    path = os.path.join(folder, "warned")
    if not os.path.lexists(path):
        for each in (path, os.path.join(folder, "unsaid")):
            with contextlib.suppress(OSError), open(each, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text + "\n")


def forget_warning(folder: str) -> None:
    """Let `warn_once` print the next warning."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "warned"))
