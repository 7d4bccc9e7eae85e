"""`git agentos status`: who, where, what is dirty, what was saved last, what was interrupted."""

import typer

from git_agentos.cli import text
from git_agentos.cli.common import Invocation, command, has_runs


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
    fields = {**vars(now), "interrupted_runs": runs, "open_workflows": workflows}
    run.output.show("status", fields, lambda style: text.status(now, style, runs, workflows))
