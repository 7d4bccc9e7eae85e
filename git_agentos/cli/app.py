"""The commands as one typer application, and usage errors in git's style.

Each command lives in a module of its own, `commands/NAME.py`, in a variable of the command's name. If the command line
names a command for certain, only that module is loaded.
"""

import importlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from git_agentos import __version__
from git_agentos.cli import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.output import Text
from git_agentos.cli.prescan import Prescan
from git_agentos.errors import UsageError

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
        from git_agentos.cli import command_tree

        usage = command_tree.usage(command_tree.root())
        raise UsageError("no command given", f"{usage}\n'git agentos -h' lists the commands")


def execute(argv: Sequence[str], prescan: Prescan, invocation: Invocation) -> int:
    """Parse `argv`, run the command that it names, and return the exit code; errors are AgentosErrors."""
    application = parser(prescan.command, is_plain_checkpoint=prescan.is_plain_checkpoint)
    try:
        # Not `application()`: typer would take a broken pipe anywhere, even in a pipe to git, for a reader that closed
        # stdout.
        with application.make_context("git agentos", list(argv), obj=invocation) as context:
            application.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        raise _usage_error(error, prescan.command) from None
    return 0


def _usage_error(error: typer.TyperException, only: str | None) -> UsageError:
    """typer's message in git's style: lower case, no full stop, and the usage line as the hint."""
    from git_agentos.cli import command_tree

    message = error.format_message().strip().rstrip(".")
    message, _, guess = message.partition(". Did you mean ")
    message, _, options = message.partition(" (Possible options: ")
    context = getattr(error, "ctx", None)
    path = context.command_path.split()[len(command_tree.PROGRAM) :] if context is not None else [only or ""]
    hints = [command_tree.usage(command_tree.find(path))]
    if guess or options:
        hints.append("did you mean " + (guess.rstrip("?") or options.rstrip(")")) + "?")
    return UsageError(message[:1].lower() + message[1:], "\n".join(hints))
