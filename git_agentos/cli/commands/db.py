"""`git agentos db`: print the path of the workflow database."""

import os

from git_agentos.cli.command import group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.text import Text
from git_agentos.util import quote


@group()
def db(ctx: Invocation) -> None:
    """Print the path of the workflow database."""


@db.command()
def path(ctx: Invocation) -> None:
    """Print the workflow database's path.

    It is AGENTOS_WORKFLOW_DB if that is set, else the file '.agentos/issue_workflow.db' of this worktree. Its folder is
    created if it does not exist.
    """
    from git_agentos.store import database_path

    found = database_path.from_environment(ctx.directory, os.environ)
    # Only text mentions it, and only once.
    ctx.output.show("db", {"path": found}, lambda _: Text(f"{found}\n", f"{found}\n", notes=_older_database(found)))


def _older_database(path: str) -> tuple[str, ...]:
    """Mention once that older tools have a database in the home folder, and how to use it."""
    from git_agentos.store import database_path

    older = database_path.mention_global_database(path, os.path.expanduser("~"))
    if older is None:
        return ()
    return (
        f"there is a database of older tools, '{quote.path(older)}'; it is not used, since this worktree has its own",
        f"to use it: export {database_path.VARIABLE}=~/{database_path.FOLDER}/{database_path.NAME}",
    )
