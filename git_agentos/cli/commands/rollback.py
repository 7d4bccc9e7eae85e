"""`git agentos rollback`: reset a run to its base or an earlier step."""

from typing import Annotated

from git_agentos.cli.command import command
from git_agentos.cli.commands.run import runs_context
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import run_end as render


@command()
def rollback(
    ctx: Invocation,
    run_id: Annotated[str | None, Argument(metavar="[RUN]")] = None,
    to: Annotated[
        str, Option("--to", metavar="POINT", help="'pre_run' (default), 'step:N', or a checkpoint.")
    ] = "pre_run",
    dry_run: DryRun = False,
) -> None:
    """Reset a run to its base or an earlier step.

    Saves its worktree first, then resets it to POINT, its branch and ignored files included. 'git agentos undo' in that
    worktree undoes it. A damaged or missing worktree is rebuilt.

    POINT is 'pre_run', the state of a new worktree at the run's base; 'step:N', the state at the start of step N; or a
    checkpoint of the run. Without RUN, resets the run of the current worktree.
    """
    from git_agentos.run import commands

    context = ctx.workspace().context if dry_run else runs_context(ctx)
    result = commands.rollback(context, run_id, to, dry_run=dry_run)
    ctx.output.show("rollback", result, lambda _: render.rolled_back(result))
