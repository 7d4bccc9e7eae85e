"""`git agentos worktree`: create, list, show, path."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Id, Invocation, command
from git_agentos.cli.render.text import worktree as text_worktree


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("create")(create)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("path")(path)
    group.command("refill", hidden=True)(refill)


@command
def create(
    run: Invocation,
    id_: Id,
    from_ref: Annotated[
        str | None,
        typer.Option("--from", metavar="REF", help="Begin at this commit, not at HEAD.", show_default=False),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="What it is for, in your tracker.", show_default=False)
    ] = None,
    sparse: Annotated[
        list[str] | None,
        typer.Option("--sparse", metavar="PATH", help="Check out this folder, not everything.", show_default=False),
    ] = None,
    lock: Annotated[bool, typer.Option("--lock", help="Lock it, so that nobody removes it.")] = False,
    revive: Annotated[bool, typer.Option("--revive", help="Bring the archived worktree ID back.")] = False,
    guard: Annotated[bool, typer.Option("--guard/--no-guard", help="Guard it: see guard enable.")] = True,
) -> None:
    """Make a worktree for the agent ID, on its own branch 'agent/ID'.

    It begins at a commit: HEAD, or what --from names; uncommitted changes stay where they are. Ignored files that
    '.worktreeinclude' lists are copied into it, then the command in agentos.setup is run. The guard is switched on in
    it, unless --no-guard is given. If anything fails, nothing is left.
    """
    from git_agentos.worktree import creation as making

    context = run.workspace().context
    made = making.create(
        context, id_, from_ref=from_ref, task=task, sparse=sparse or (), lock=lock, revive=revive, guard=guard
    )
    run.output.show("worktree", made, lambda style: text_worktree.created(made, style, revived=revive))


@command
def list_(run: Invocation) -> None:
    """List the agents' worktrees: active, complete, archived and broken ones."""
    from git_agentos.worktree import status

    context = run.workspace().context
    if run.output.quiet and not run.output.json:
        # Ids alone, for scripts and completion: nobody has to wait for how each of them stands.
        ids = status.ids(context)
        run.output.show("worktree-list", {}, lambda _: text_worktree.ids(ids))
        return
    found = status.list_worktrees(context)
    run.output.show("worktree-list", found, lambda style: text_worktree.listing(found.worktrees, style))


@command
def show(run: Invocation, id_: Id) -> None:
    """Show how one worktree stands."""
    from git_agentos.worktree import status

    found = status.show(run.workspace().context, id_)
    run.output.show("worktree", found, lambda style: text_worktree.details(found, style))


@command
def path(run: Invocation, id_: Id) -> None:
    """Print the path of a worktree: cd "$(git agentos worktree path ID)"."""
    from git_agentos.worktree import status

    found = status.path(run.workspace().context, id_)
    run.output.show("worktree-path", {"id": id_, "path": found}, lambda _: text_worktree.raw_path(found))


@command
def refill(run: Invocation) -> None:
    """Fill the pool of prepared worktrees.

    'create' starts this in the background; it prepares as many as agentos.pool says.
    """
    from git_agentos.worktree import pool_filling as filling

    filled = filling.fill(run.workspace().context)
    run.output.show("worktree-pool", {"prepared": filled}, lambda _: text_worktree.refilled(filled))
