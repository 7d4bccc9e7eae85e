"""`git agentos completion`: print a completion script."""

from typing import Annotated

from git_agentos.cli import completion as scripts
from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument
from git_agentos.errors import UsageError


@command(hidden=True)
def completion(ctx: Invocation, shell: Annotated[str, Argument(metavar="SHELL")]) -> None:
    """Print the completion script for SHELL: bash, zsh or fish."""
    if shell not in scripts.SHELLS:
        raise UsageError(f"no completion for '{shell}'", f"one of {', '.join(scripts.SHELLS)}")
    if ctx.output.json:
        raise UsageError("a completion script has no JSON form", "remove --json")
    ctx.output.print(scripts.script(shell))
