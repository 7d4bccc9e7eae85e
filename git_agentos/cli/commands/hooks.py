"""`git agentos hooks`: install, uninstall, status."""

import os
from typing import Annotated

import typer

from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import guard as text_guard


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="hooks", rich_markup_mode=None)
    group.callback()(hooks)
    group.command("install")(install)
    group.command("uninstall")(uninstall)
    group.command("status")(status)
    app.add_typer(group)


@command
def hooks(run: Invocation) -> None:
    """Have git itself take checkpoints, in your repository.

    After commits, checkouts, merges and rebases, and before commits. Your own hooks, and those of a hook manager, are
    run as before.
    """


@command
def install(
    run: Invocation,
    save: Annotated[
        bool, typer.Option("--save", help="Save people's work before a git command that loses some.")
    ] = False,
) -> None:
    """Install the hooks in this repository, for all its worktrees.

    Git finds them by core.hooksPath, in a file that the repository's configuration includes; no file of yours is
    moved or changed, and your own hooks are run by them. Nothing that fails in them ever stops your command. An agent
    needs approval for this.
    """
    from git_agentos.guard.setup import checks
    from git_agentos.guard.setup import repository_hooks as installing

    location = run.workspace().context.location
    installing.install(location, save=save)
    found = checks.hooks_status(location, os.environ)
    run.output.show("hooks-status", found, lambda style: text_guard.hooks(found, style))


@command
def uninstall(run: Invocation) -> None:
    """Take away exactly what 'install' has added.

    The repository's configuration is then what it was, byte for byte. An agent needs approval for this.
    """
    from git_agentos.guard.setup import checks
    from git_agentos.guard.setup import repository_hooks as installing

    location = run.workspace().context.location
    installing.uninstall(location)
    found = checks.hooks_status(location, os.environ)
    run.output.show("hooks-status", found, lambda style: text_guard.hooks(found, style))


@command
def status(run: Invocation) -> None:
    """Say whose hooks git runs here, and whether ours act.

    That is found out by trying them; nothing changes by it.
    """
    from git_agentos.guard.setup import checks

    found = checks.hooks_status(run.workspace().context.location, os.environ)
    run.output.show("hooks-status", found, lambda style: text_guard.hooks(found, style))
