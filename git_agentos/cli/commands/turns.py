"""`git agentos turns`: what each turn changed."""

from typing import Annotated

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import number
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import turns as render


@command()
def turns(
    ctx: Invocation,
    session: Annotated[str | None, Argument(metavar="[SESSION]")] = None,
    limit: Annotated[str | None, Option("-n", "--max-count", metavar="N", help="Show at most N turns.")] = None,
    all_worktrees: Annotated[bool, Option("--all", help="Turns of all worktrees, archived ones included.")] = False,
) -> None:
    """Show what each turn of an agent changed, newest first.

    A turn begins with a prompt and ends when the agent stops, with the next prompt, or with the session. Turns are
    recorded by the hooks that 'git agentos guard integrate' adds to a harness. Lists those of this worktree; with
    SESSION, at least four characters of a session's id, those of this session in any worktree.
    """
    from git_agentos.turns import listing

    result = listing.list_turns(ctx.workspace().context, session, every=all_worktrees, limit=number(limit))
    ctx.output.show("turns", result, lambda style: render.listed(result.turns, style))
