"""`git agentos guard`: enable, disable, status."""

import os

import typer

from git_agentos.cli.commands.worktree_end import OptionalId
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import guard as text_guard


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("enable")(enable)
    group.command("disable")(disable)
    group.command("status")(status)


@command
def enable(run: Invocation, id_: OptionalId = None) -> None:
    """Guard a worktree: git asks before it changes files or refs in it.

    Sets core.hooksPath and core.fsmonitor for this worktree alone; your own hooks and your own fsmonitor are run as
    before. What is set is then tried. 'worktree create' does this. Without ID it is the worktree that you are in.
    """
    from git_agentos.worktree import guarded

    done = guarded.switch_on(run.workspace().context, id_, os.environ)
    run.output.show("guard-status", done, lambda style: text_guard.guard(done, style))


@command
def disable(run: Invocation, id_: OptionalId = None) -> None:
    """Take away exactly what 'enable' has set.

    What all guarded worktrees share goes with the last one. An agent needs approval for this.
    """
    from git_agentos.worktree import guarded

    done = guarded.switch_off(run.workspace().context, id_, os.environ)
    run.output.show("guard-status", done, lambda style: text_guard.guard(done, style))


@command
def status(run: Invocation, id_: OptionalId = None) -> None:
    """Say which layers of the guard act in a worktree, by trying them.

    They are tried in the worktree itself, with its configuration and your environment, and nothing changes. What keeps
    a layer from acting is shown, with what to do, and what was tampered with in any worktree of the repository.
    """
    from git_agentos.worktree import guarded

    found = guarded.status(run.workspace().context, id_, os.environ)
    run.output.show("guard-status", found, lambda style: text_guard.guard(found, style))
