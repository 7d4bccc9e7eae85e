"""`git agentos guard`: what an agent's commands may do, and where that is looked at."""

import typer

from git_agentos.cli.commands import guard_check, guard_confirm, guard_exec, guard_harness, guard_set
from git_agentos.cli.invocation import Invocation, command


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="guard", rich_markup_mode=None)
    group.callback()(guard)
    for part in (guard_check, guard_set, guard_confirm, guard_exec, guard_harness):
        part.register(group)
    app.add_typer(group)


@command
def guard(run: Invocation) -> None:
    """Save what agents' git commands would lose, or stop them.

    Policy decides, in four places: before git changes files, in git's hooks, in a git that comes first on PATH, and in
    the hooks of agent programs. 'git agentos approvals' has what waits for a decision.
    """
