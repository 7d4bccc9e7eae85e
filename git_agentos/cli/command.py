"""The decorators that make a function a command of `git agentos`, and the call of that function.

A command's function takes the `Invocation` and its own options, which `parameters` describes. The options that every
command has are declared once, here, and accepted at every level of the command line, before and after the subcommand's
name. No module of a command imports typer: a plain command line is bound to the functions without it (`direct`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar

from git_agentos.cli import parameters
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Option, Signature

P = ParamSpec("P")
Function = Callable[Concatenate[Invocation, P], None]
Kind = TypeVar("Kind", bound="Command")

# In the order in which help lists them.
COMMANDS = (
    "init", "checkpoint", "restore", "undo", "recover", "pick", "forget", "worktree", "run", "fleet", "rollback", "tdd",
    "log", "turns", "revert", "why", "memory", "guard", "approvals", "hooks", "hook", "watch", "sync", "storage",
    "report", "ui", "mcp", "db", "status", "doctor", "completion",
)  # fmt: skip

# What all commands take besides their own options; `-h` and `--help` are the parser's.
DIRECTORY = Option("-C", metavar="PATH", help="Work as if started in PATH.")
AGENT = Option("--as", metavar="ID", help="Act as agent ID.")
JSON = Option("--json", help="Print one JSON document.")
QUIET = Option("-q", "--quiet", help="Print only ids.")


# Commands of which not all words are their own: those after `--` are not, or all from the first operand on.
AFTER_DASHES, COMMAND_LINE = "after dashes", "command line"


class Exit(Exception):
    """The command has done its work and ends with this exit code."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class HelpRequested(Exception):
    """`--help` was given for the command at `command_path` (`git agentos checkpoint list`)."""

    def __init__(self, command_path: str) -> None:
        super().__init__(command_path)
        self.command_path = command_path


class NoCommand(Exception):
    """No command was given."""


class Command:
    """One command without subcommands.

    `rest` is AFTER_DASHES or COMMAND_LINE if these words are not its own; they are in `Invocation.after_dashes`.
    """

    def __init__(self, function: Function[P], *, hidden: bool = False, rest: str | None = None) -> None:
        self.name = function.__name__.strip("_")
        self.hidden = hidden
        self.rest = rest
        self._function: Callable[..., None] = function

    @property
    def help(self) -> str | None:
        return self._function.__doc__

    @cached_property
    def signature(self) -> Signature:
        """Its own options and arguments."""
        return parameters.read(self._function)

    def call(self, invocation: Invocation, path: Sequence[str], values: Mapping[str, Any]) -> None:
        """Call the function with the values of its parameters, by name, if the guard allows it.

        `path` are the words of the command's name. A group whose subcommand follows does not need to be allowed.
        """
        arguments = self.signature.arguments(values)
        if invocation.subcommand is not None:
            self._function(invocation, **arguments)
            return
        from git_agentos.cli import authorization

        with authorization.authorized(invocation, path, self.signature.parameters, values):
            self._function(invocation, **arguments)


class Group(Command):
    """A command with subcommands; with `runs_alone` it can be called without one."""

    def __init__(self, function: Function[P], *, runs_alone: bool = False) -> None:
        super().__init__(function)
        self.runs_alone = runs_alone
        self.subcommands: dict[str, Command] = {}

    def command(self, *, hidden: bool = False, rest: str | None = None) -> Callable[[Function[P]], Command]:
        """Make a function a subcommand."""

        def decorate(function: Function[P]) -> Command:
            return self._add(Command(function, hidden=hidden, rest=rest))

        return decorate

    def group(self) -> Callable[[Function[P]], Group]:
        """Make a function a subcommand that has subcommands itself."""

        def decorate(function: Function[P]) -> Group:
            return self._add(Group(function))

        return decorate

    def _add(self, subcommand: Kind) -> Kind:
        self.subcommands[subcommand.name] = subcommand
        return subcommand


def command(*, hidden: bool = False) -> Callable[[Function[P]], Command]:
    """Make a function a command of `git agentos`; its name is the function's."""
    return lambda function: Command(function, hidden=hidden)


def group(*, runs_alone: bool = False) -> Callable[[Function[P]], Group]:
    """Make a function a command of `git agentos` that has subcommands."""
    return lambda function: Group(function, runs_alone=runs_alone)


def load(name: str) -> Command:
    """The command of this name, which is in a variable of the same name in `commands/NAME.py`."""
    found: Command = getattr(importlib.import_module(f"git_agentos.cli.commands.{name}"), name)
    return found


def apply_common(
    invocation: Invocation,
    *,
    directories: Sequence[str] | None,
    agent: str | None,
    json: bool,
    quiet: bool,
) -> None:
    """Apply the common options of one level of the command line: the inner level wins, but `-C` add up."""
    invocation.directories += directories or ()
    if agent is not None:
        invocation.agent = agent
    invocation.output.json = invocation.output.json or json
    invocation.output.quiet = invocation.output.quiet or quiet
