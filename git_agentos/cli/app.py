"""The commands as one typer application.

Each command lives in a module of its own, `commands/NAME.py`, in a variable of the command's name. If the command line
names a command for certain, only that module is loaded.
"""

import importlib
from typing import Annotated, Any

import typer
from typer.main import get_command

from git_agentos import __version__
from git_agentos.cli import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.text import Text

# In the order in which help lists them.
COMMANDS = (
    "checkpoint", "restore", "undo", "recover", "pick", "worktree", "run", "rollback", "tdd", "log", "memory", "guard",
    "approvals", "hooks", "hook", "db", "status", "doctor", "completion",
)  # fmt: skip


def build(only: str | None = None, *, is_plain_checkpoint: bool = False) -> typer.Typer:
    """The application with all commands, or with `only` that one if there is such a command.

    For a plain checkpoint the subcommands are left out: typer takes longer to prepare them than to parse the line.
    """
    app = typer.Typer(
        add_completion=False,
        add_help_option=False,
        invoke_without_command=True,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(root)
    for name in (only,) if only in COMMANDS else COMMANDS:
        entry = getattr(importlib.import_module(f"git_agentos.cli.commands.{name}"), str(name))
        if is_plain_checkpoint:
            entry.add_to(app, with_subcommands=False)
        else:
            entry.add_to(app)
    return app


def parser(only: str | None = None, *, is_plain_checkpoint: bool = False) -> Any:
    """The application as click's group; `Any`, since typer carries its own copy of click and exports no type of it."""
    group = get_command(build(only, is_plain_checkpoint=is_plain_checkpoint))
    _keep_words_as_they_are(group)
    return group


class _Word:
    """Converts a word of the command line to what it is already: a string."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002 (typer's names)
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return value


def _keep_words_as_they_are(command_: Any) -> None:
    """Replace typer's conversion of words by pydantic (0.29).

    pydantic refuses the surrogates that stand for bytes that are not UTF-8, so not every file could be named, and
    importing it takes longer than a checkpoint. `tests/cli/test_startup.py` fails if a newer typer ignores this.
    """
    for parameter in command_.params:
        parameter.get_runtime_param = _Word
    for subcommand in getattr(command_, "commands", {}).values():
        _keep_words_as_they_are(subcommand)


@command.root
def root(
    ctx: Invocation,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Save and restore the complete state of a Git worktree.

    A checkpoint saves HEAD, the index, the files, the untracked files and an operation in progress without
    changing any of them. Every restore can be undone: 'git agentos undo'.
    """
    if version:
        ctx.output.show("version", {"version": __version__}, lambda _: Text(f"git-agentos version {__version__}\n"))
        raise typer.Exit
    if ctx.subcommand is None:
        raise command.NoCommand
