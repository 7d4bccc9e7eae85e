"""What a hook says: on stderr, beside what git itself says there. On stdout it answers the script that started it."""

from __future__ import annotations

import contextlib
import os
import sys


def tell(text: str) -> None:
    """Say it on stderr; nobody may be listening any more."""
    if text:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def answer(text: str) -> None:
    """Answer the script."""
    sys.stdout.buffer.write(os.fsencode(text))
    sys.stdout.flush()


def warn_once(folder: str, text: str) -> None:
    """Say it, unless the guard's `folder` notes that something was said since `forget`."""
    path = os.path.join(folder, "warned")
    if not os.path.lexists(path):
        tell(f"git-agentos: warning: {text} (see: git agentos doctor; said once)")
        with contextlib.suppress(OSError), open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text + "\n")


def warn_later(folder: str, text: str) -> None:
    """As `warn_once`, by the next hook (`guard.sh`): nobody reads what is said here."""
    path = os.path.join(folder, "warned")
    if not os.path.lexists(path):
        for each in (path, os.path.join(folder, "unsaid")):
            with contextlib.suppress(OSError), open(each, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text + "\n")


def forget(folder: str) -> None:
    """All is well again: the next warning is said."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "warned"))
