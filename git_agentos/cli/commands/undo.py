"""`git agentos undo`: undo the last restore or undo."""

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun
from git_agentos.cli.render.text import restore as render


@command()
def undo(ctx: Invocation, dry_run: DryRun = False) -> None:
    """Undo the last restore or undo.

    Saves the current state first, then restores the state before the last restore, HEAD's branch included. A second
    undo undoes the first.
    """
    result = ctx.workspace().undo(dry_run=dry_run)
    ctx.output.show("undo", result, lambda _: render.undone(result))
