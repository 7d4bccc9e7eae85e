"""`git agentos status`: who, where, what is dirty, what was saved last, what was interrupted."""

import typer

from git_agentos.cli import text
from git_agentos.cli.common import Invocation, command


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


@command
def status(run: Invocation) -> None:
    """Show what is here, saved and interrupted.

    The agent, the branch, how much is changed, the last checkpoint, and whether anything waits to be finished.
    """
    now = run.workspace().status()
    run.output.show("status", now, lambda style: text.status(now, style))
