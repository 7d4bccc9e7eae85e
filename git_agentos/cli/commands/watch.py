"""`git agentos watch`: start, stop, status."""

from typing import TYPE_CHECKING, Annotated

from git_agentos.cli.command import group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Option
from git_agentos.cli.render.text import watch as render

if TYPE_CHECKING:
    from git_agentos.watch.control import WatchStatus


@group()
def watch(ctx: Invocation) -> None:
    """Know at any time what has changed.

    A daemon watches the worktrees of the repository, so that git need not look at every file in guarded ones. Nothing
    depends on it: without it, everything works as before.
    """


@watch.command()
def start(
    ctx: Invocation,
    foreground: Annotated[bool, Option("--foreground", help="Serve in this process, until it is ended.")] = False,
    print_unit: Annotated[
        bool, Option("--print-unit", help="Print a service file for systemd; start nothing.")
    ] = False,
) -> None:
    """Start the daemon of this repository, and watch this worktree.

    Returns once the daemon serves. One that runs already goes on.
    """
    from git_agentos.watch import control

    location = ctx.workspace().context.location
    if print_unit:
        ctx.output.print(render.unit(location.root))
    elif foreground:
        from git_agentos.cli import served

        control.serve(location, served.load(), lambda: ctx.output.print("Watching.\n"))
    else:
        _show(ctx, control.start(location))


@watch.command()
def stop(ctx: Invocation) -> None:
    """End the daemon of this repository.

    One that does not answer is killed, which loses nothing.
    """
    from git_agentos.watch import control

    location = ctx.workspace().context.location
    control.stop(location)
    _show(ctx, control.status(location))


@watch.command()
def status(ctx: Invocation) -> None:
    """Show whether a daemon runs, and what it watches.

    Says of each worktree how many folders are watched, or why it cannot be.
    """
    from git_agentos.watch import control

    _show(ctx, control.status(ctx.workspace().context.location))


def _show(ctx: Invocation, found: "WatchStatus") -> None:
    ctx.output.show("watch", found._asdict(), lambda style: render.status(found, style))
