"""`git agentos pick`: cherry-pick with a checkpoint before it."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import checkpoint as text
from git_agentos.errors import ConflictError, UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pick")(pick)


@command
def pick(
    run: Invocation,
    commits: Annotated[list[str] | None, typer.Argument(metavar="[COMMIT...]", show_default=False)] = None,
    go_on: Annotated[bool, typer.Option("--continue", help="Go on after a conflict was resolved.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Have everything as it was before the pick.")] = False,
) -> None:
    """Cherry-pick, after a checkpoint.

    Applies the changes of each COMMIT on top of HEAD; the state before is saved first. A conflict ends with
    exit code 4: resolve it and go on with --continue, or take everything back with --abort.
    """
    if [bool(commits), go_on, abort].count(True) != 1:
        raise UsageError("name the commits to pick, or give one of --continue and --abort")
    workspace = run.workspace()
    done = workspace.pick_continue() if go_on else workspace.pick_abort() if abort else workspace.pick(commits or [])
    run.output.show("pick", done, lambda _: text.picked(done))
    if done.state == "conflict":
        raise typer.Exit(ConflictError.exit_code)
