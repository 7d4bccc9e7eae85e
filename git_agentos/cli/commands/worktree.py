"""`git agentos worktree`: agents' worktrees, from their making to their end."""

import typer

from git_agentos.cli.commands import worktree_end, worktree_make, worktree_merge
from git_agentos.cli.invocation import Invocation, command


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="worktree", rich_markup_mode=None)
    group.callback()(worktree)
    for module in (worktree_make, worktree_end, worktree_merge):
        module.register(group)
    app.add_typer(group)


@command
def worktree(run: Invocation) -> None:
    """Give every agent a worktree of its own.

    It is made ready for work, and ended without losing anything.
    """
