"""`git agentos recover`: finish what was interrupted, or go back."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import checkpoint as text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recover")(recover)


@command
def recover(
    run: Invocation,
    abort: Annotated[bool, typer.Option("--abort", help="Go back to the state before, do not finish.")] = False,
) -> None:
    """Finish an interrupted restore, or go back.

    Says which of the two it did. Afterwards the worktree is exactly as it was before the restore or undo, or
    exactly as that would have left it. Locks that a killed command of ours left behind are removed; nobody else's are.
    """
    done = run.workspace().recover(abort=abort)
    run.output.show("recover", done, lambda _: text.recovered(done))
