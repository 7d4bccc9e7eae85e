"""`git agentos undo`: undo the last restore or undo."""

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun, Expected, IdempotencyKey
from git_agentos.cli.render.text import restore as render


@command()
def undo(
    ctx: Invocation, dry_run: DryRun = False, expected: Expected = None, idempotency_key: IdempotencyKey = None
) -> None:
    """Undo the last restore or undo.

    Saves the current state first, then restores the state before the last restore, HEAD's branch included. A second
    undo undoes the first.
    """
    result = ctx.workspace().undo(dry_run=dry_run, expected=expected, idempotency_key=idempotency_key)
    ctx.output.show("undo", result, lambda _: render.undone(result))
