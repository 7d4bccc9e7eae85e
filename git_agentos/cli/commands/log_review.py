"""`git agentos log`: timeline, review."""

import os
from typing import Annotated

import typer

from git_agentos.cli.invocation import Invocation, command, number
from git_agentos.cli.render.text import log as text_log

Agent = Annotated[str | None, typer.Argument(metavar="[AGENT]", show_default=False)]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("timeline")(timeline)
    group.command("review")(review)


@command
def timeline(
    run: Invocation,
    agent: Agent = None,
    limit: Annotated[str, typer.Option("-n", "--max-count", metavar="N", help="Show at most N moments.")] = "50",
) -> None:
    """Show what an agent did, in one stream.

    Commits, checkpoints, restores and log entries, by time.

    The newest comes first. AGENT is an agent or a worktree, live or archived; without it, it is this worktree.
    """
    from git_agentos import history

    found = history.timeline_of(run.workspace().context, agent, limit=number(limit))
    run.output.show("log-timeline", found, lambda style: text_log.stream(found.events, style))


@command
def review(
    run: Invocation,
    agent: Agent = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="PATH", help="Write it as one HTML page to this file.", show_default=False),
    ] = None,
) -> None:
    """Review what an agent did.

    Errors, decisions, what stands out, and the whole timeline.

    Decisions are shown with the alternatives and the rationale in their details. What stands out: errors that came
    again, files touched again and again, restores, long silences. With --html, it is one page that needs no network.
    """
    from git_agentos import review as domain

    found = domain.review(run.workspace().context, agent)
    path = None
    if html is not None:
        from git_agentos.cli.render.html import page
        from git_agentos.cli.render.html import review as html_review

        path = page.write(os.path.join(run.directory, html), html_review.review(found))
    fields = {**vars(found), "html": path}
    run.output.show("log-review", fields, lambda style: text_log.review(found, style, path))
