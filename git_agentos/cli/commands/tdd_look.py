"""`git agentos tdd`: status, show, list, graph."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from git_agentos.cli.commands.tdd_do import WorkflowId, records
from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import tdd as text_tdd
from git_agentos.errors import TddError

if TYPE_CHECKING:
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.tdd.state import Workflow


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("status")(status)
    group.command("show")(show)
    group.command("list")(list_)
    group.command("graph")(graph)


@command
def status(
    run: Invocation, workflow: Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)] = None
) -> None:
    """Show how a workflow stands, and what can be done.

    Without ID it is the only one that has not ended, or else the newest.
    """
    from git_agentos.tdd import workflows

    context = records(run)
    found = workflows.show(context, workflow, os.environ) if workflow is not None else _the_one(context)
    run.output.show("tdd", found, lambda style: text_tdd.status(found, style))


@command
def show(
    run: Invocation,
    workflow: WorkflowId,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="PATH", help="Write it as one HTML page to this file.", show_default=False),
    ] = None,
) -> None:
    """Show everything that a workflow did.

    Each node with its exit code, vetoes, hashes, checkpoints, what was said and what was changed; and the whole change.
    With --html, it is one page that needs no network.
    """
    from git_agentos.tdd import workflows

    context = records(run)
    found = workflows.review(context, workflow, os.environ)
    if html is None:
        run.output.show(
            "tdd", found.workflow, lambda style: text_tdd.details(found, _evidence(context, found.workflow), style)
        )
        return
    from git_agentos.cli.render.html import page
    from git_agentos.cli.render.html import workflow as html_tdd

    written = html_tdd.workflow(workflows.without_secrets(context, found), _evidence(context, found.workflow))
    path = page.write(os.path.join(run.directory, html), written)
    run.output.show("tdd", found.workflow, lambda _: text_tdd.page_written(found.workflow, path))


@command
def list_(
    run: Invocation,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Those too of other clones and machines that share the database.")
    ] = False,
) -> None:
    """List the workflows of the repository, the newest first."""
    context = records(run)
    if run.output.quiet and not run.output.json and not everywhere:
        # Ids alone, for scripts and completion: nobody has to wait for LangGraph. Each is a run of the same id.
        from git_agentos.run import commands

        ids = [each.run_id for each in commands.list_runs(context) if each.tool == "tdd"]
        run.output.show("tdd-list", {}, lambda _: text_tdd.ids(ids))
        return
    from git_agentos.tdd import workflows

    found = workflows.list_(context, os.environ, everywhere=everywhere)
    run.output.show("tdd-list", {"workflows": found}, lambda style: text_tdd.listing(found, style))


@command
def graph(run: Invocation) -> None:
    """Print the graph of a workflow as Mermaid, drawn from the code that is run."""
    from git_agentos.tdd.graph import mermaid

    drawn = mermaid()
    run.output.show("tdd-graph", {"mermaid": drawn}, lambda _: text_tdd.graph(drawn))


def _the_one(context: "OpenWorktree") -> "Workflow":
    """The workflow that is meant where none is named."""
    from git_agentos.tdd import workflows

    found = workflows.list_(context, os.environ)
    if not found:
        raise TddError("there is no workflow", "'git agentos tdd run --issue ID --lld PATH' starts one")
    unfinished = [each for each in found if each.state not in ("merged", "aborted")]
    if len(unfinished) > 1:
        raise TddError(
            f"{len(unfinished)} workflows have not ended", "name one: " + ", ".join(each.id for each in unfinished)
        )
    return unfinished[0] if unfinished else found[0]


def _evidence(context: "OpenWorktree", workflow: "Workflow") -> text_tdd.Evidence:
    """What is kept of the nodes of a workflow."""
    from git_agentos.tdd import workflows

    return text_tdd.Evidence(
        outputs={each["n"]: workflows.output(context, workflow, each) for each in workflow.history},
        patches={each["n"]: workflows.patch(context, workflow, each) for each in workflow.history},
    )
