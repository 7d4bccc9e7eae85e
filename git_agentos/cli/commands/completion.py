"""`git agentos completion`: print a completion script."""

from typing import Annotated

import typer

from git_agentos.cli import completion as scripts
from git_agentos.cli.invocation import Invocation, command
from git_agentos.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("completion", hidden=True)(completion)


@command
def completion(run: Invocation, shell: Annotated[str, typer.Argument(metavar="SHELL")]) -> None:
    """Print the completion script for SHELL: bash, zsh or fish."""
    if shell not in scripts.SHELLS:
        raise UsageError(f"no completion for '{shell}'", f"one of {', '.join(scripts.SHELLS)}")
    if run.output.json:
        raise UsageError("a completion script has no JSON form", "leave --json out")
    run.output.print(scripts.script(shell))
