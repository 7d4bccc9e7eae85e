"""`git agentos hooks`: install, uninstall, status."""

import os
from typing import Annotated

from git_agentos.cli.command import group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Option
from git_agentos.cli.render.text import guard as render


@group()
def hooks(ctx: Invocation) -> None:
    """Create checkpoints from git hooks.

    After commits, checkouts, merges and rebases, and before commits. Your own hooks and those of a hook manager still
    run.
    """


@hooks.command()
def install(
    ctx: Invocation,
    save: Annotated[bool, Option("--save", help="Also save your work before destructive commands.")] = False,
) -> None:
    """Install the hooks in this repository, for all its worktrees.

    git finds them by core.hooksPath, in a file that the repository's configuration includes. No file of yours is moved
    or changed, and your own hooks still run. An error in our hooks never stops your command. Agents need approval for
    this.
    """
    from git_agentos.guard.setup import repository_hooks

    repository_hooks.install(ctx.workspace().context.location, save=save)
    _show_status(ctx)


@hooks.command()
def uninstall(ctx: Invocation) -> None:
    """Remove exactly what 'install' has added.

    Restores the repository's configuration byte for byte. Agents need approval for this.
    """
    from git_agentos.guard.setup import repository_hooks

    repository_hooks.uninstall(ctx.workspace().context.location)
    _show_status(ctx)


@hooks.command()
def status(ctx: Invocation) -> None:
    """Show whose hooks git runs here, and whether ours act.

    Tests them; nothing is changed.
    """
    _show_status(ctx)


def _show_status(ctx: Invocation) -> None:
    from git_agentos.guard.diagnosis import checks

    result = checks.hooks_status(ctx.workspace().context.location, os.environ)
    ctx.output.show("hooks-status", result, lambda style: render.hooks(result, style))
