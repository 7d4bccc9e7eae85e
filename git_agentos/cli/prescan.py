"""Reads the command line before typer is imported.

Three things cannot wait for the parser: whether git's scan may start at once (a plain `checkpoint`), which command's
module has to be loaded, and whether a usage error is reported as JSON. The result is a hint only; the parser, which
comes later, decides. `tests/cli/test_prescan.py` compares the option names here with the parser's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

COMMON_VALUES = frozenset({"-C", "--as"})
COMMON_FLAGS = frozenset({"--json", "-q", "--quiet"})
CREATE_VALUES = frozenset({"-m", "--message", "--trigger", "--task", "--meta", "--run", "--session"})


@dataclass(frozen=True)
class Prescan:
    """What the raw words show.

    `command` is the first word that is not an option, or None if that is uncertain. `is_plain_checkpoint` is true only
    if the whole line was understood and creates a checkpoint. `directory` joins all `-C` as git does.
    """

    command: str | None
    is_plain_checkpoint: bool
    json: bool
    directory: str


def prescan(argv: Sequence[str]) -> Prescan:
    """Read `argv` (without the program's name) as far as it can be understood without the parser."""
    words = list(argv)
    command: str | None = None
    json = False
    understood = True
    directories: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            if command is not None:
                understood = False
                break
            command = word
            if word != "checkpoint":
                understood = False
                break
            continue
        values = COMMON_VALUES | CREATE_VALUES if command == "checkpoint" else COMMON_VALUES
        name, value, rest = _option(word, values)
        if rest is not None:
            words.insert(0, rest)
        if name in values:
            if value is None:
                if not words:
                    understood = False
                    break
                value = words.pop(0)
            if name == "-C":
                directories.append(value)
        elif name in COMMON_FLAGS and value is None:
            json = json or name == "--json"
        else:
            understood = False
            break
    return Prescan(
        command=command,
        is_plain_checkpoint=understood and command == "checkpoint",
        json=json or "--json" in words[: words.index("--") if "--" in words else None],
        directory=join(directories),
    )


def join(directories: Sequence[str]) -> str:
    """Join several `-C` as git does: each is relative to the one before, and an empty one has no effect."""
    path = "."
    for directory in directories:
        if directory:
            path = os.path.join(path, directory) if path != "." else directory
    return path


def _option(word: str, values: frozenset[str]) -> tuple[str, str | None, str | None]:
    """Split one option word into its name, the value joined to it, and the rest of a cluster (`-qm`)."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None, None
    name, tail = word[:2], word[2:]
    if not tail:
        return name, None, None
    if name in values:
        return name, tail, None
    return name, None, "-" + tail
