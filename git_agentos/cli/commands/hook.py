"""`git agentos hook`: what the placed scripts call where the Python that they were placed with is gone."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Invocation, command


def register(app: typer.Typer) -> None:
    """Add the command. `entry.run` has it before this is loaded, unless help is wanted."""
    app.command("hook", hidden=True)(hook)


@command
def hook(
    run: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARG...]", show_default=False)] = None,
) -> None:
    """Do what the git hook NAME is placed for.

    Called by the scripts that 'git agentos hooks install' and 'git agentos guard enable' place.
    """
    from git_agentos.hooks import entry

    raise typer.Exit(entry.main([name, *(arguments or ()), *run.after_dashes]))
