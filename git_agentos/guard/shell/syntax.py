"""Shell text -> its syntax tree, by shfmt (docs/decisions/013-shfmt-reads-shell-text.md). Only this module starts it.

shfmt has bash's grammar and says what it cannot parse; its tree comes as JSON. It is the program in the package
`shfmt-py`, beside this Python, or one on PATH.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.process import programs

Node = dict[str, Any]
"""A node of shfmt's tree; its fields are those of Go's package `mvdan.cc/sh/v3/syntax`."""

REQUIREMENT = "shfmt-py>=4.1,<5"
BREAK, PRESENT, OR = "\ufdd0", "\ufdd1", "\ufdd2"
"""Marks. Within an expanded word (`expansion`): the next argument begins; it is there although it may be empty. Within
what a command prints: it may be something else. Unicode keeps these characters for programs; no text may have them."""
BRACE, COMMA, END_BRACE, TILDE = "\ufdd3", "\ufdd4", "\ufdd5", "\ufdd6"
"""Marks within an expanded word: these characters where they are not quoted."""
MARKS = re.compile("[\ufdd0-\ufdd6]")

_MOST_TEXT = 1 << 20
_MOST_TREE = 16 << 20
_MOST_SECONDS = 20
_DEEPEST_JSON = 6000


class ShellError(Exception):
    """A shell text cannot be parsed; the message says why."""


def program() -> str | None:
    """The path of shfmt, None if there is none.

    It is looked for where pip installs it first: beside this Python, or where this package was installed for the user.
    Relative folders on PATH do not count: a program in the current folder must not be the parser.
    """
    name, scripts = ("shfmt.exe", "../../Scripts") if os.name == "nt" else ("shfmt", "../../../bin")
    packages = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    on_path = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    for folder in (os.path.dirname(sys.executable), os.path.normpath(os.path.join(packages, scripts)), *on_path):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def missing() -> GuardError:
    """The error on a system without shfmt."""
    return GuardError(
        "shell text cannot be read: the program 'shfmt' is not installed",
        f"install it with: {sys.executable} -m pip install '{REQUIREMENT}' (or put shfmt 3.14 or later on PATH)",
    )


@functools.lru_cache(maxsize=32)
def parse(text: str) -> list[Node]:
    """The statements of a text. Callers must not change them."""
    if len(text) > _MOST_TEXT:
        raise ShellError("it is too long")
    if MARKS.search(text):
        raise ShellError("it has a character that is no text")
    path = program()
    if path is None:
        raise missing()
    try:
        code, out, errors = programs.feed(
            [path, "-ln", "bash", "--to-json"], text.encode("utf-8", "surrogateescape"), timeout=_MOST_SECONDS
        )
    except UnicodeEncodeError:
        raise ShellError("it has a character that is no text") from None
    except (OSError, programs.TimeoutExpired) as error:
        raise GuardError(f"shell text cannot be read: '{path}' cannot be started: {error}", missing().hint) from error
    if code != 0:
        raise ShellError(errors.decode("utf-8", "replace").strip() or f"shfmt ended with {code}")
    if len(out) > _MOST_TREE:
        raise ShellError("it is too long")
    return _statements(out)


def _statements(tree: bytes) -> list[Node]:
    # A list of commands nests as deep as it is long.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST_JSON))
    try:
        statements: list[Node] = json.loads(tree).get("Stmts") or []
    except (ValueError, AttributeError):
        raise ShellError("shfmt printed no syntax tree (version 3.14 or later is needed)") from None
    finally:
        sys.setrecursionlimit(limit)
    return statements
