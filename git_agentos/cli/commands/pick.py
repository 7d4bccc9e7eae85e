"""`git agentos pick`: create a checkpoint, then cherry-pick."""

from typing import Annotated

from git_agentos.cli.command import Exit, command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import restore as render
from git_agentos.errors import ConflictError, UsageError


@command()
def pick(
    ctx: Invocation,
    commits: Annotated[list[str] | None, Argument(metavar="[COMMIT...]")] = None,
    continue_: Annotated[bool, Option("--continue", help="Continue after a conflict was resolved.")] = False,
    abort: Annotated[bool, Option("--abort", help="Abort the pick.")] = False,
) -> None:
    """Create a checkpoint, then cherry-pick.

    Applies the changes of each COMMIT on top of HEAD. A conflict ends the command with exit code 4: resolve it and use
    --continue, or use --abort to return to the state before the pick.
    """
    if [bool(commits), continue_, abort].count(True) != 1:
        raise UsageError("name the commits to pick, or give one of --continue and --abort")
    workspace = ctx.workspace()
    if continue_:
        result = workspace.pick_continue()
    else:
        result = workspace.pick_abort() if abort else workspace.pick(commits or [])
    ctx.output.show("pick", result, lambda _: render.picked(result))
    if result.state == "conflict":
        raise Exit(ConflictError.exit_code)
