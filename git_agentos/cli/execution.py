"""Running one command line: parsing it, help, and usage errors in git's style."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from git_agentos.cli.app import parser
from git_agentos.cli.command import HelpRequested, NoCommand
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.prescan import Prescan
from git_agentos.errors import UsageError


def execute(argv: Sequence[str], prescan: Prescan, invocation: Invocation) -> None:
    """Parse `argv` and run the command that it names; errors are AgentosErrors."""
    application = parser(prescan.command)
    try:
        # Not `application()`: typer would take a broken pipe anywhere, even in a pipe to git, for a reader that closed
        # stdout.
        with application.make_context("git agentos", list(argv), obj=invocation) as context:
            application.invoke(context)
    except HelpRequested as request:
        invocation.output.print(_help(request.command_path))
    except NoCommand:
        raise _no_command() from None
    except typer.TyperException as error:
        raise _usage_error(error, prescan.command) from None


def _help(command_path: str) -> str:
    from git_agentos.cli import command_tree  # loads all commands

    return command_tree.help_text(command_tree.find(command_path.split()[len(command_tree.PROGRAM) :]))


def _no_command() -> UsageError:
    from git_agentos.cli import command_tree  # loads all commands

    usage = command_tree.usage(command_tree.root())
    return UsageError("no command given", f"{usage}\n'git agentos -h' lists the commands")


def _usage_error(error: typer.TyperException, only: str | None) -> UsageError:
    """typer's message in git's style: lower case, no full stop, and the usage line as the hint."""
    from git_agentos.cli import command_tree  # loads all commands

    message = error.format_message().strip().rstrip(".")
    message, _, guess = message.partition(". Did you mean ")
    message, _, options = message.partition(" (Possible options: ")
    context = getattr(error, "ctx", None)
    path = context.command_path.split()[len(command_tree.PROGRAM) :] if context is not None else [only or ""]
    hints = [command_tree.usage(command_tree.find(path))]
    if guess or options:
        hints.append("did you mean " + (guess.rstrip("?") or options.rstrip(")")) + "?")
    if message == "Missing command":
        hints.append(f"'git agentos {' '.join(path)} -h' lists the commands")
    return UsageError(message[:1].lower() + message[1:], "\n".join(hints))
