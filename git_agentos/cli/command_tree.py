"""The commands as plain data, read from the typer application.

Help, completion and tests all use this one description, so none of them can contradict the parser. The metavar of an
option or argument says what kind of value it takes: `ID` of an argument is a checkpoint, `COMMIT` any commit, `PATH` a
path.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from git_agentos.cli.app import COMMON_NAMES, parser
from git_agentos.cli.command import COMMANDS

PROGRAM = ("git", "agentos")
_WIDTH = 80
_COLUMN = 25


@dataclass(frozen=True)
class Option:
    """`names` as typed (`-n`, `--max-count`); `metavar` None for a flag."""

    names: tuple[str, ...]
    metavar: str | None
    help: str
    common: bool

    @property
    def summary(self) -> str:
        return self.help.split(". ", 1)[0].rstrip(".")


@dataclass(frozen=True)
class Argument:
    """`usage` is how the usage line shows it: `ID`, `[PATH...]`."""

    usage: str
    required: bool

    @property
    def metavar(self) -> str:
        return self.usage.strip("[]").removeprefix("-- ").removesuffix("...")


@dataclass(frozen=True)
class Command:
    """`path` are the words after `git agentos`; the root has none."""

    path: tuple[str, ...]
    help: str
    hidden: bool
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    subcommands: tuple[Command, ...]
    runs_alone: bool

    @property
    def summary(self) -> str:
        return self.help.split("\n", 1)[0].rstrip(".")

    def walk(self) -> Iterator[Command]:
        """This command and all its subcommands."""
        yield self
        for each in self.subcommands:
            yield from each.walk()


@cache
def root() -> Command:
    """All commands."""
    return _read(parser(), ())


def find(path: Sequence[str]) -> Command:
    """The command at `path`, or the deepest one that exists."""
    command = root()
    for word in path:
        command = next((each for each in command.subcommands if each.path[-1] == word), command)
    return command


def usage(command: Command) -> str:
    """The usage line, `usage: ` first."""
    parts = [*PROGRAM, *command.path, "[options]", *(each.usage for each in command.arguments)]
    if command.subcommands:
        parts.append("[COMMAND ...]" if command.runs_alone else "COMMAND ...")
    return "usage: " + " ".join(parts)


def help_text(command: Command) -> str:
    """What `--help` prints."""
    paragraphs = [usage(command)]
    paragraphs += [textwrap.fill(each, _WIDTH) for each in command.help.split("\n\n")]
    shown = [each for each in command.subcommands if not each.hidden]
    if shown:
        paragraphs.append("Commands:\n" + _table((each.path[-1], each.summary) for each in shown))
    own = [each for each in command.options if not each.common]
    common = [each for each in command.options if each.common]
    if own:
        paragraphs.append("Options:\n" + _table(map(_option_row, own)))
    paragraphs.append("Common options:\n" + _table(map(_option_row, common)))
    manual = " ".join([*PROGRAM, *command.path[:1]])
    paragraphs.append(f"The manual: '{manual.replace(' ', '-').replace('git-', 'git help ', 1)}'.")
    return "\n\n".join(paragraphs) + "\n"


def _option_row(option: Option) -> tuple[str, str]:
    names = ", ".join(option.names)
    return (f"{names} {option.metavar}" if option.metavar else names), option.help


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = []
    for left, right in rows:
        wrapped = textwrap.wrap(right, _WIDTH - _COLUMN)
        if len(left) <= _COLUMN - 4:
            lines.append(f"  {left:<{_COLUMN - 2}}{wrapped.pop(0) if wrapped else ''}".rstrip())
        else:
            lines.append(f"  {left}")
        lines += [" " * _COLUMN + part for part in wrapped]
    return "\n".join(lines)


def _read(command: Any, path: tuple[str, ...]) -> Command:
    """`command` is click's object as typer builds it; only attributes that click documents are read."""
    options, arguments = [], []
    for each in command.params:
        if each.hidden:
            continue
        if each.param_type_name == "argument":
            # The parser does not require words after `--`: an argument shown without brackets is required.
            arguments.append(Argument(each.metavar, not each.metavar.startswith("[")))
            continue
        options.append(
            Option(
                names=(*each.opts, *each.secondary_opts),
                metavar=None if each.is_flag else each.metavar,
                help=each.help or "",
                common=each.name in COMMON_NAMES,
            )
        )
    subcommands = getattr(command, "commands", {})
    names = list(subcommands) if path else [name for name in COMMANDS if name in subcommands]
    return Command(
        path=path,
        help=command.help or "",
        hidden=bool(command.hidden),
        options=tuple(options),
        arguments=tuple(arguments),
        subcommands=tuple(_read(subcommands[name], (*path, name)) for name in names),
        runs_alone=bool(getattr(command, "invoke_without_command", False)) and bool(path),
    )
