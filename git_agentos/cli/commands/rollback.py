"""`git agentos rollback`: take a run back to where it began, or to a point on its way."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import DryRun, Invocation, command
from git_agentos.cli.render.text import rollback as text_rollback


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rollback")(rollback)


@command
def rollback(
    run: Invocation,
    run_id: Annotated[str | None, typer.Argument(metavar="[RUN]", show_default=False)] = None,
    to: Annotated[
        str,
        typer.Option("--to", metavar="POINT", help="'pre_run', 'step:N', or a checkpoint.", show_default=False),
    ] = "pre_run",
    dry_run: DryRun = False,
) -> None:
    """Take a run back to where it began, or to a point of it.

    Its worktree becomes what it was at that point, ignored files and its branch included; 'pre_run' is what a new
    worktree at the run's base would be. Everything that was there is saved first, and 'git agentos undo' in that
    worktree brings it back. A worktree that is damaged, or gone, is made again.

    POINT is 'pre_run', the default; 'step:N', where step N of the run began; or a checkpoint of the run. Without RUN it
    is the run whose worktree you are in.
    """
    from git_agentos.cli.commands.run_do import records
    from git_agentos.run import commands

    context = run.workspace().context if dry_run else records(run)
    done = commands.rollback(context, run_id, to, dry_run=dry_run)
    run.output.show("rollback", done, lambda _: text_rollback.rolled_back(done))
