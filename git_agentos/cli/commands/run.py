"""`git agentos run`: an agent and the validation of its work, in a worktree that can always be taken back."""

import typer

from git_agentos.cli.commands import run_do, run_look
from git_agentos.cli.invocation import Invocation, command


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="run", rich_markup_mode=None)
    group.callback()(run_)
    for module in (run_do, run_look):
        module.register(group)
    app.add_typer(group)


@command
def run_(run: Invocation) -> None:
    """Run an agent, validate its work, keep it or take it back.

    Each run has a worktree and a branch of its own, and everything that happens in it is saved.
    """
