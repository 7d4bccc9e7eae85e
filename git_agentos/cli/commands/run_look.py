"""`git agentos run`: list, show, logs, diff, verify."""

import contextlib
from typing import Annotated

import typer

from git_agentos.cli.commands.run_do import RunId, records
from git_agentos.cli.invocation import Invocation, command, number
from git_agentos.cli.render.text import run as text_run
from git_agentos.errors import AgentosError


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("list")(list_)
    group.command("show")(show)
    group.command("logs")(logs)
    group.command("diff")(diff)
    group.command("verify")(verify)


@command
def list_(run: Invocation) -> None:
    """List the runs of the repository, the newest first."""
    context = records(run)
    if run.output.quiet and not run.output.json:
        # Ids alone, for scripts and completion: nobody has to wait for how each of them went.
        from git_agentos.run import query as known

        found = known.ids(context)
        run.output.show("run-list", {}, lambda _: text_run.ids(found))
        return
    from git_agentos.run import commands

    runs = commands.list_runs(context)
    run.output.show("run-list", {"runs": runs}, lambda style: text_run.listing(runs, style))


@command
def show(run: Invocation, run_id: RunId) -> None:
    """Show how a run stands, and what it did step by step."""
    from git_agentos.run import commands

    found = commands.show(records(run), run_id)
    run.output.show("run", found, lambda style: text_run.details(found, style))


@command
def logs(
    run: Invocation,
    run_id: RunId,
    step: Annotated[
        str | None, typer.Option("--step", metavar="N", help="Only what step N said.", show_default=False)
    ] = None,
) -> None:
    """Print what the agent and the validations of a run said.

    Secrets were taken out before it was written down. Each step's standard output comes before its standard error.
    """
    from git_agentos.cli.render import json as documents
    from git_agentos.run import commands

    found = commands.logs(records(run), run_id, number(step, "--step"))
    run.output.show(
        "run-logs",
        {"run_id": run_id, "logs": [documents.step_log(*each) for each in found]},
        lambda style: text_run.logs(found, style),
    )


@command
def diff(
    run: Invocation,
    run_id: RunId,
    stat: Annotated[bool, typer.Option("--stat", help="Only the paths, and how many lines changed.")] = False,
) -> None:
    """Print what a run changed, as a patch.

    From its base to how its worktree stands; of a run that was taken back, to how it stood before that.
    """
    from git_agentos.run import commands

    found = commands.diff(records(run), run_id)
    fields = {"run_id": run_id, "patch": None if stat else found.decode("utf-8", "surrogateescape")}
    run.output.show("run-diff", fields, lambda style: text_run.difference(found, style, stat=stat))


@command
def verify(run: Invocation, run_id: RunId) -> None:
    """Check that the evidence of a run is whole, and was not changed.

    The codes of its events are checked, every file against them and the manifest, the manifest against the run's last
    checkpoint, and the commits that are named have to exist. The exit code is 1 where something is wrong.
    """
    from git_agentos.run import evidence_store

    context = records(run)
    with contextlib.suppress(AgentosError):  # `verify` says what is wrong
        evidence_store.open_or_rebuild(context.location, run_id)
    found = evidence_store.verify(context, run_id)
    run.output.show("run-verify", found, lambda style: text_run.verified(found, style))
    if not found.ok:
        raise typer.Exit(1)
