"""A look at the raw command line before typer is imported.

It decides three things that cannot wait for the parser: whether git's scan may start at once (a plain
`checkpoint` creation), which command's module has to be loaded, and whether a usage error is to be told
as JSON. It never decides what a command does: where it does not understand, it says so and the parser,
which comes after, has the word. `tests/cli/test_argv.py` holds the option names here against the parser's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

COMMON_VALUES = frozenset({"-C", "--as"})
COMMON_FLAGS = frozenset({"--json", "-q", "--quiet"})
CREATE_VALUES = frozenset({"-m", "--message", "--trigger", "--task", "--meta", "--run", "--session"})


@dataclass(frozen=True)
class Look:
    """What the raw words show: `command` is the first word that is no option, if one was found for certain.

    `creates` is true only where the line is understood to its end and makes a checkpoint; `directory` is
    then where it is made (all `-C` joined, as git does).
    """

    command: str | None
    creates: bool
    json: bool
    directory: str


def look(argv: Sequence[str]) -> Look:
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
    return Look(
        command=command,
        creates=understood and command == "checkpoint",
        json=json or "--json" in words[: words.index("--") if "--" in words else None],
        directory=join(directories),
    )


def join(directories: Sequence[str]) -> str:
    """Several `-C` as git reads them: each relative to the one before, an empty one without effect."""
    path = "."
    for directory in directories:
        if directory:
            path = os.path.join(path, directory) if path != "." else directory
    return path


def _option(word: str, values: frozenset[str]) -> tuple[str, str | None, str | None]:
    """Split one option word into its name, the value joined to it, and what is left of a cluster (`-qm`)."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None, None
    name, tail = word[:2], word[2:]
    if not tail:
        return name, None, None
    if name in values:
        return name, tail, None
    return name, None, "-" + tail
