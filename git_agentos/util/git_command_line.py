"""git's own command line: its global options, the subcommand, and the subcommand's arguments.

git's global options come before the subcommand, whole and in order (git(1)); `git-NAME` is `git NAME`. This is the only
place that knows which of them take a value. Standard library only: hooks and error messages need it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from git_agentos.util.named_tuple import NamedTuple

# Each takes its value from the next word, or after `=`, apart from `-C` and `-c`, whose value is always the next word.
VALUED = frozenset(
    "-C -c --git-dir --work-tree --namespace --super-prefix --shallow-file --attr-source --list-cmds "
    "--config-env".split()
)
# These make git answer about itself and run no subcommand.
ANSWERS = frozenset("-h --help -v --version --html-path --man-path --info-path --exec-path --build-options".split())
_WORD_ONLY = frozenset({"-C", "-c"})


class GlobalOption(NamedTuple):
    """One of git's own options: `--name=value` and `--name value` both have name and value; `value` is None where there
    is none."""

    name: str
    value: str | None = None


class CommandLine(NamedTuple):
    """A git command line; `command` is None where there is no subcommand."""

    options: tuple[GlobalOption, ...]
    command: str | None
    args: tuple[str, ...]


def parse(argv: Sequence[str]) -> CommandLine:
    """Take apart a command line whose first word is the program: `git`, a path of it, or `git-NAME`."""
    program = os.path.basename(argv[0]) if argv else ""
    if program.startswith("git-"):
        return CommandLine((), program.removeprefix("git-"), tuple(argv[1:]))
    options = []
    position = 1
    while position < len(argv) and argv[position].startswith("-"):
        word = argv[position]
        position += 1
        name, equals, value = word.partition("=")
        if equals and name not in _WORD_ONLY and name.startswith("--"):
            options.append(GlobalOption(name, value))
        elif word in VALUED:
            options.append(GlobalOption(word, argv[position] if position < len(argv) else ""))
            position += 1
        else:
            options.append(GlobalOption(word))
            if word in ANSWERS:
                return CommandLine(tuple(options), None, ())
    if position >= len(argv):
        return CommandLine(tuple(options), None, ())
    return CommandLine(tuple(options), argv[position], tuple(argv[position + 1 :]))


def words(options: Iterable[GlobalOption]) -> list[str]:
    """Options as they are written on a command line."""
    found: list[str] = []
    for name, value in options:
        if value is None:
            found.append(name)
        else:
            found += [name, value] if name in _WORD_ONLY else [f"{name}={value}"]
    return found


def join(program: str, options: Iterable[GlobalOption], line: CommandLine) -> tuple[str, ...]:
    """The words of `line` with `options` in place of its own; `git-NAME` takes none."""
    if os.path.basename(program).startswith("git-"):
        return (program, *line.args)
    return (program, *words(options), *(() if line.command is None else (line.command,)), *line.args)
