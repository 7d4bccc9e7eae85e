"""Runs a plain command line without typer, which takes longer to import than most commands take to run.

Plain is a line whose options are all known, complete and after the command's name, and whose operands the command
takes. Its words are bound to the command's own declarations (`parameters`), as typer would bind them. Any other line
(help, errors, `--` where it has a meaning of its own) is left to typer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from git_agentos.cli import command as commands
from git_agentos.cli.command import AGENT, COMMAND_LINE, DIRECTORY, JSON, QUIET, Command, Group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument, Option, Parameter
from git_agentos.guard.policy.command_table import Line
from git_agentos.util.named_tuple import NamedTuple

_COMMON = frozenset(name for option in (DIRECTORY, AGENT, JSON, QUIET) for name in option.names)


class Call(NamedTuple):
    """A command, and the values of its parameters by name."""

    command: Command
    line: Line
    values: dict[str, Any]

    def run(self, invocation: Invocation) -> None:
        """Run the command, with the common options of the line."""
        given = dict(self.line.options)
        commands.apply_common(
            invocation,
            directories=self.line.request.folders,
            agent=given.get(AGENT.names[0]),
            json=any(name in given for name in JSON.names),
            quiet=any(name in given for name in QUIET.names),
        )
        self.command.call(invocation, self.line.request.path, self.values)


def find(line: Line) -> Call | None:
    """What a plain command line calls; None for any other line."""
    if not line.is_valid or line.asks_help or not line.request.path:
        return None
    command = commands.load(line.request.path[0])
    for word in line.request.path[1:]:
        if not isinstance(command, Group):
            return None
        command = command.subcommands[word]
    if isinstance(command, Group) and not _can_run(command, line):
        return None
    if command.rest is not None and (_has_dashes(line) or (command.rest == COMMAND_LINE and line.request.operands)):
        return None
    values = _values(command.signature.parameters, line)
    return None if values is None else Call(command, line, values)


def _has_dashes(line: Line) -> bool:
    """Whether `--` is among the words, as the value of an option too: such a command ends its own words there."""
    return line.has_dashes or any(value == "--" for _, value in line.options)


def _can_run(group: Group, line: Line) -> bool:
    """Whether a group runs without a subcommand; its operands are its own only if it takes some."""
    own = any(isinstance(each.declaration, Argument) for each in group.signature.parameters)
    return group.runs_alone and not line.has_dashes and (own or not line.request.operands)


def _values(parameters: Sequence[Parameter], line: Line) -> dict[str, Any] | None:
    """The values of all parameters; None if the line does not fit them."""
    values = {each.name: each.default for each in parameters}
    by_name: dict[str, Parameter] = {}
    for each in parameters:
        if isinstance(each.declaration, Option):
            by_name |= dict.fromkeys((*each.declaration.names, *each.declaration.opposites), each)
    for name, value in line.options:
        if name in _COMMON:
            continue
        option = by_name[name]
        if option.is_list:
            values[option.name] = [*(values[option.name] or ()), value]
        else:
            values[option.name] = option.switched_on_by(name) if option.is_flag else value
    operands = list(line.request.operands)
    for each in parameters:
        if not isinstance(each.declaration, Argument):
            continue
        if not operands:
            if each.is_required:
                return None
        elif each.is_list:
            values[each.name], operands = operands, []
        else:
            values[each.name] = operands.pop(0)
    return None if operands else values
