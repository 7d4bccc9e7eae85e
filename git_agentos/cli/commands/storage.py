"""`git agentos storage`: what takes room on disk, and upkeep."""

from git_agentos.cli.command import group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import Timelines
from git_agentos.cli.render.text import retention as render
from git_agentos.errors import UsageError


@group(runs_alone=True)
def storage(ctx: Invocation, timelines: Timelines) -> None:
    """Show what checkpoints take, and what could be freed.

    Measures the timeline of this worktree, or with --agent or --all others, and what else git-agentos keeps in the
    repository. Says what each rule of 'git agentos forget' would free.
    """
    if ctx.subcommand is not None:
        if any(timelines):
            raise UsageError(f"options before '{ctx.subcommand}'", f"'{ctx.subcommand}' is for all timelines")
        return
    from git_agentos.retention import commands

    found = commands.measure(ctx.workspace().context, **timelines._asdict())
    ctx.output.show("storage", found, lambda style: render.storage(found, style))


@storage.command()
def upkeep(ctx: Invocation) -> None:
    """Apply agentos.retention and agentos.diskBudget now.

    This is done in the background once an hour while checkpoints are created.
    """
    from git_agentos.retention import automatic

    done = automatic.apply(ctx.workspace().context)
    ctx.output.show("forget", done, lambda _: render.forgotten(done))
