"""`git agentos status`: changes, last checkpoint, interrupted work."""

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.render.text import status as render


@command()
def status(ctx: Invocation) -> None:
    """Show changes, last checkpoint, interrupted work.

    Also shows the agent, the branch, pending approval requests, and tampering with the guard.
    """
    from git_agentos import overview

    result = overview.status(ctx.workspace())
    ctx.output.show("status", result.fields(), lambda style: render.status(result, style))
