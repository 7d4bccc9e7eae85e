"""`git agentos guard exec`: run a command, an agent for instance, so that each git below it is decided about first."""

import os
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.prescan import COMMON_VALUES
from git_agentos.errors import UsageError


class _ExecCommand(TyperCommand):
    """Leaves the command alone: our options end at `--`, and at the first word that is none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = 0
        while at < len(args) and args[at] != "--" and args[at].startswith("-") and args[at] != "-":
            at += 2 if args[at] in COMMON_VALUES else 1
        own, words = args[:at], args[at:]
        ctx.obj.after_dashes = words[1:] if words[:1] == ["--"] else words
        return super().parse_args(ctx, own)


def register(app: typer.Typer) -> None:
    """Add the command to the group `guard`."""
    app.command("exec", cls=_ExecCommand)(exec_)


@command
def exec_(
    run: Invocation,
    words: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARG...]", show_default=False)] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Let a git command that needs approval wait until it is granted or denied.")
    ] = False,
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Run it where other worktrees and the guard are read-only (needs bubblewrap)."),
    ] = False,
) -> None:
    """Run a command with a git that is decided about first.

    Its exit code is the command's; a git that is stopped ends with 3.
    """
    from git_agentos.guard.configuration import settings
    from git_agentos.guard.shim import shim

    wanted = [*(words or ()), *run.after_dashes]
    if not wanted:
        raise UsageError("no command given", "git agentos guard exec -- COMMAND [ARG...]")
    workspace = run.workspace()
    location = workspace.context.location
    os.chdir(run.directory)
    within: list[str] = []
    if sandbox:
        from git_agentos.guard.shim import sandbox as sandboxes

        key = settings.read(location.root, os.environ).approval_key
        within = sandboxes.within(location, os.environ, key, os.getcwd())
    start = shim.start(location, workspace.agent, wanted, os.environ, wait=wait, within=within)
    os.execve(start.argv[0], start.argv, start.environment)
