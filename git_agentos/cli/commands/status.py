"""`git agentos status`: who, where, what is dirty, what was saved last, what was interrupted."""

import os
from typing import TYPE_CHECKING

import typer

from git_agentos.cli.invocation import Invocation, command, has_runs
from git_agentos.cli.render.text import checkpoint as text

if TYPE_CHECKING:
    from git_agentos.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


@command
def status(run: Invocation) -> None:
    """Show what is here, saved and interrupted.

    The agent, the branch, how much is changed, the last checkpoint, and whether anything waits to be finished.
    """
    workspace = run.workspace()
    now = workspace.status()
    runs: list[str] = []
    workflows: list[str] = []
    if has_runs(workspace):
        from git_agentos.run import doctor

        runs = doctor.interrupted(workspace.context)
        workflows = doctor.open_(workspace.context)
    guard = _guard_problems(workspace)
    fields = {**vars(now), "interrupted_runs": runs, "open_workflows": workflows, "guard_problems": guard}
    run.output.show("status", fields, lambda style: text.status(now, style, runs, workflows, guard))


def _guard_problems(workspace: "Workspace") -> list[str]:
    """What of the guard of any worktree is not as it was set up; only where there may be one."""
    location = workspace.context.location
    if not os.path.lexists(os.path.join(location.common_dir, "agentos")):
        return []
    from git_agentos.guard import tampering

    return tampering.in_repository(location)
