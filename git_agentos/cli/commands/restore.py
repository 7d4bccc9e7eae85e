"""`git agentos restore`: bring a checkpoint back."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Agent, All, DryRun, Id, Invocation, command
from git_agentos.cli.render.text import checkpoint as text
from git_agentos.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("restore")(restore)


@command
def restore(
    run: Invocation,
    spec: Id,
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH...]", show_default=False)] = None,
    no_branch: Annotated[bool, typer.Option("--no-branch", help="Leave HEAD where it is.")] = False,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Name the new branch that is checked out.", show_default=False),
    ] = None,
    worktree: Annotated[
        str | None,
        typer.Option(
            "--worktree", metavar="NAME", help="Restore into a new worktree; this one stays.", show_default=False
        ),
    ] = None,
    keep_new: Annotated[
        bool, typer.Option("--keep-new", help="Leave files in place that were made since the checkpoint.")
    ] = False,
    dry_run: DryRun = False,
    agent: Agent = None,
    everywhere: All = False,
) -> None:
    """Bring a checkpoint back exactly, on a new branch.

    The state now is saved first. Then the index, files, untracked files and an operation in progress become
    the checkpoint's. No existing branch moves. With PATH..., only these paths are restored, and HEAD stays.
    'git agentos undo' takes it back.

    ID is at least four digits of a checkpoint's id, 'latest', or '@{N}' for the N-th newest, 0 being the latest.
    """
    if no_branch and branch is not None:
        raise UsageError("--branch and --no-branch cannot be used together")
    if paths and branch is not None:
        raise UsageError("--branch and PATH cannot be used together: HEAD stays where it is for paths")
    done = run.workspace().restore(
        spec,
        paths or (),
        branch=branch,
        no_branch=no_branch,
        worktree=worktree,
        keep_new=keep_new,
        dry_run=dry_run,
        agent=agent,
        all_timelines=everywhere,
    )
    run.output.show(
        "restore",
        done,
        lambda _: text.restored(done, kept_branch=no_branch or bool(paths), elsewhere=worktree is not None),
    )
