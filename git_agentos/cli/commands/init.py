"""`git agentos init`: set up what protects the repository, or take it back."""

import os
from typing import Annotated, NamedTuple

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun
from git_agentos.cli.parameters import Option
from git_agentos.cli.render.text import init as render
from git_agentos.errors import UsageError
from git_agentos.util import quote


class Parts(NamedTuple):
    """What is set up."""

    harness: Annotated[
        list[str] | None,
        Option("--harness", metavar="NAME", help="Integrate this agent program, not those that are found."),
    ] = None
    no_harness: Annotated[bool, Option("--no-harness", help="Integrate no agent program.")] = False
    no_watch: Annotated[bool, Option("--no-watch", help="Do not start the watch daemon.")] = False


@command()
def init(
    ctx: Invocation,
    *,
    parts: Parts,
    yes: Annotated[bool, Option("--yes", help="Do not ask before writing outside of the repository.")] = False,
    remove: Annotated[bool, Option("--remove", help="Remove what init has set up.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Protect this repository from lost work.

    Installs git hooks that save your work before destructive commands, adds hooks to the settings of the agent programs
    on this machine, and starts the watch daemon, for all worktrees, also those created later. Shows what is protected
    from what, and what is not. Run again, it changes nothing. --remove restores every file as it was. Agents need
    approval for this.
    """
    from git_agentos.protection import commands

    if remove and (parts.harness or parts.no_harness or parts.no_watch):
        raise UsageError("--remove cannot be used with other options than --yes and --dry-run")
    if parts.harness and parts.no_harness:
        raise UsageError("--harness and --no-harness cannot be used together")
    context = ctx.workspace().context
    if remove:
        result = commands.take_back(context, os.environ, dry_run=dry_run)
        ctx.output.show("init", result, lambda style: render.taken_back(result, style))
        return

    def consents(path: str, why: str) -> bool:
        if yes or dry_run or not ctx.output.is_interactive():
            return yes
        answer = ctx.output.prompt(f"{why}. Add ours to {quote.path(path)}? [y/N] ")
        return (answer or "").strip().lower() in ("y", "yes")

    names = [] if parts.no_harness else parts.harness
    wishes = commands.Wishes(harnesses=names, watch=not parts.no_watch, consents=consents)
    result = commands.set_up(context, os.environ, wishes, dry_run=dry_run)
    ctx.output.show("init", result, lambda style: render.set_up(result, style))
