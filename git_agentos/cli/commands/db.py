"""`git agentos db`: where the workflow database is."""

import os

import typer

from git_agentos.cli import quote
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.output import Text


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="db", rich_markup_mode=None)
    group.callback()(db)
    group.command("path")(path)
    app.add_typer(group)


@command
def db(run: Invocation) -> None:
    """Say where the workflow database is."""


@command
def path(run: Invocation) -> None:
    """Print the workflow database's path.

    It is AGENTOS_WORKFLOW_DB where that is set, else the file '.agentos/issue_workflow.db' of this worktree; its folder
    is made if need be.
    """
    from git_agentos.store import database_path

    found = database_path.from_environment(run.directory, os.environ)
    run.output.show("db", {"path": found}, lambda _: Text(f"{found}\n", f"{found}\n", notes=_older(found)))


def _older(found: str) -> tuple[str, ...]:
    """Say once that older tools have a database in the home folder, and how to use it."""
    from git_agentos.store import database_path

    old = database_path.mention_global_database(found, os.path.expanduser("~"))
    if old is None:
        return ()
    return (
        f"there is a database of older tools, '{quote.path(old)}'; it is not used, since this worktree has its own",
        f"to use it all the same: export {database_path.VARIABLE}=~/{database_path.FOLDER}/{database_path.NAME}",
    )
