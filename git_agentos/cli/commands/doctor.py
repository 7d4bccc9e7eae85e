"""`git agentos doctor`: check the repository and fix problems."""

from typing import Annotated

from git_agentos.cli.command import Exit, command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Option
from git_agentos.cli.render.text import status as render


@command()
def doctor(
    ctx: Invocation,
    fix: Annotated[bool, Option("--fix", help="Fix what can be fixed without losing anything.")] = False,
) -> None:
    """Check the repository and fix problems.

    Prints a hint for each finding; with --fix, fixes those for which nothing can be lost. Also prints on which file
    system the worktree and its git directory are, what does not work there, whether a watch daemon runs, and which
    agent programs of this machine ask the guard here. The exit code is 1 if an error or a warning is left.
    """
    from git_agentos import overview

    found = overview.diagnose(ctx.workspace(), fix=fix)
    ctx.output.show("doctor", found.fields(), lambda style: render.doctor(found, style, fix=fix))
    if any(each.severity in ("error", "warning") and not each.fixed for each in found.findings):
        raise Exit(1)
