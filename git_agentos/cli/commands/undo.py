"""`git agentos undo`: go back to the state before the last restore or undo."""

import typer

from git_agentos.cli.invocation import DryRun, Invocation, command
from git_agentos.cli.render.text import checkpoint as text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("undo")(undo)


@command
def undo(run: Invocation, dry_run: DryRun = False) -> None:
    """Go back to the state before the last restore.

    Or before the last undo, so undo twice is redo. HEAD's branch is brought back too. The state now is saved first.
    """
    done = run.workspace().undo(dry_run=dry_run)
    run.output.show("undo", done, lambda _: text.undone(done))
