"""`git agentos worktree`: merge, conflicts."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import DryRun, Invocation, command
from git_agentos.cli.render.text import worktree as text_worktree
from git_agentos.errors import ConflictError


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("merge")(merge)
    group.command("conflicts")(conflicts)


@command
def merge(
    run: Invocation,
    ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="BRANCH", help="Merge into this branch.", show_default=False),
    ] = None,
    squash: Annotated[bool, typer.Option("--squash", help="Make one commit of everything.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Merge what agents have committed into a branch: all of them, or nothing.

    The branch is the one that is checked out here, or --into BRANCH; in the worktree of one of the agents it is the
    branch that the worktree was made from. Everything is merged in memory first, as your git merges: with a conflict,
    the exit code is 4 and nothing was changed. Where the branch is checked out, the state there is saved, and its files
    come along; local changes are kept, or it refuses before anything moves.
    """
    from git_agentos.worktree import agent_merge as merging

    done = merging.merge(run.workspace().context, ids, into=into, squash=squash, dry_run=dry_run)
    run.output.show("merge", done, lambda style: text_worktree.merged(done, style))
    if done.conflicts:
        raise typer.Exit(ConflictError.exit_code)


@command
def conflicts(
    run: Invocation,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", show_default=False)] = None,
    dirty: Annotated[
        bool, typer.Option("--dirty", help="Take what the latest checkpoints hold, not only what is committed.")
    ] = False,
) -> None:
    """Tell which agents' work would conflict with whose.

    And in which order to merge it.

    Every two of the agents (of all that have a worktree, if none is named) are merged in memory; nothing is changed.
    The order begins with the one that conflicts with the fewest others, and goes on like that.
    """
    from git_agentos.worktree import conflicts as comparing

    found = comparing.conflicts(run.workspace().context, ids or (), dirty=dirty)
    run.output.show("conflicts", found, lambda style: text_worktree.conflicts(found, style))
