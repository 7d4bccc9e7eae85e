"""`git agentos revert`: take back what one turn changed."""

from typing import Annotated

from git_agentos.cli.command import Exit, command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import turns as render


@command()
def revert(
    ctx: Invocation,
    turn: Annotated[str, Argument(metavar="TURN")],
    conflict: Annotated[
        str | None, Option("--conflict", metavar="HOW", help="'markers': write conflict markers into the files.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Take back what one turn changed, and keep later edits.

    Saves the current state first, then merges: what the turn changed is changed back, also where later edits have moved
    it. If later edits conflict with that, nothing is changed. No commit is made. 'git agentos undo' undoes it.

    TURN is at least four digits of a turn's id, as 'git agentos turns' shows it.
    """
    from git_agentos.turns import revert as domain

    result = domain.revert(ctx.workspace().context, turn, conflict=conflict, dry_run=dry_run)
    ctx.output.show("revert", result, lambda _: render.reverted(result, markers=conflict is not None))
    if result.conflicts:
        raise Exit(4)
