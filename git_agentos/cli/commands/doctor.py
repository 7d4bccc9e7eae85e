"""`git agentos doctor`."""

import itertools
import os
from typing import Annotated

import typer

from git_agentos import findings
from git_agentos.cli.invocation import Invocation, command, has_runs
from git_agentos.cli.render.text import checkpoint as text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


@command
def doctor(
    run: Invocation,
    fix: Annotated[bool, typer.Option("--fix", help="Fix what can be fixed without losing anything.")] = False,
) -> None:
    """Find what is wrong with the set-up, and fix it.

    Each finding says what to do; --fix does it where nothing can be lost. The exit code is 1 if an error or a
    warning remains.
    """
    workspace = run.workspace()
    found = workspace.doctor(fix=fix)
    if has_runs(workspace):
        from git_agentos.run import doctor as runs
        from git_agentos.tdd import doctor as workflows

        checks = itertools.chain(runs.examine(workspace.context), workflows.examine(workspace.context, os.environ))
        found = (*found, *findings.report(checks, fix=fix))
    run.output.show("doctor", {"findings": found}, lambda style: text.findings(found, style, fix=fix))
    if any(each.severity in ("error", "warning") and not each.fixed for each in found):
        raise typer.Exit(1)
