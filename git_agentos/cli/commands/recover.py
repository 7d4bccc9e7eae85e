"""`git agentos recover`: finish or abort an interrupted restore."""

from typing import Annotated

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Option
from git_agentos.cli.render.text import restore as render


@command()
def recover(
    ctx: Invocation,
    abort: Annotated[bool, Option("--abort", help="Return to the state before the restore.")] = False,
) -> None:
    """Finish or abort an interrupted restore.

    Afterwards the worktree is exactly as the restore or undo would have left it, or exactly as it was before; the
    output says which. Locks left behind by killed git-agentos commands are removed, but no other locks.
    """
    result = ctx.workspace().recover(abort=abort)
    ctx.output.show("recover", result, lambda _: render.recovered(result))
