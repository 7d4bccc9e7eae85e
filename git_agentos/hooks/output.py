"""Output of a hook: messages on stderr, beside those of git itself; on stdout the answer to the script."""

from __future__ import annotations

import contextlib
import os
import sys


def to_stderr(text: str) -> None:
    """Print a message on stderr; nothing happens where stderr is closed."""
    if text:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def to_stdout(text: str) -> None:
    """Print the answer to the script."""
    sys.stdout.buffer.write(os.fsencode(text))
    sys.stdout.flush()


def warn_once(folder: str, text: str) -> None:
    """Print a warning, unless one was printed since `forget_warning`; the guard's `folder` has the note."""
    path = os.path.join(folder, "warned")
    if not os.path.lexists(path):
        to_stderr(f"git-agentos: warning: {text} (see: git agentos doctor; said once)")
        with contextlib.suppress(OSError), open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text + "\n")


def warn_later(folder: str, text: str) -> None:
    """As `warn_once`, but the next hook prints it (`guard.sh`): nobody reads stderr of a background process."""
    path = os.path.join(folder, "warned")
    if not os.path.lexists(path):
        for each in (path, os.path.join(folder, "unsaid")):
            with contextlib.suppress(OSError), open(each, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text + "\n")


def forget_warning(folder: str) -> None:
    """Print the next warning again."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "warned"))
