"""`git agentos log`: write and read the log; timeline and review of an agent's work."""

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from git_agentos.cli.command import Exit, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import Html, Since, number, pairs
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import log as render
from git_agentos.errors import UsageError

if TYPE_CHECKING:
    from git_agentos.workspace import Workspace

Limit = Annotated[str | None, Option("-n", "--max-count", metavar="N", help="Show at most N entries.")]
Agent = Annotated[str | None, Argument(metavar="[AGENT]")]


class Filter(NamedTuple):
    """Which entries a command reads; by default those of this worktree."""

    agent: Annotated[str | None, Option("--agent", metavar="ID", help="Only entries of agent or worktree ID.")] = None
    all_worktrees: Annotated[bool, Option("--all", help="Entries of all worktrees, archived ones included.")] = False
    since: Since = None
    types: Annotated[list[str] | None, Option("--type", metavar="TYPE", help="Only entries of TYPE; repeatable.")] = (
        None
    )

    def query(self, workspace: "Workspace") -> dict[str, Any]:
        """The filter as arguments of `log.read` and `log.entries`."""
        return {
            "agent": self.agent,
            "every": self.all_worktrees,
            "since": workspace.moment(self.since) if self.since is not None else None,
            "kinds": self.types or None,
        }


class NewEntry(NamedTuple):
    """What an entry records besides its type and summary."""

    detail: Annotated[list[str] | None, Option("--detail", metavar="K=V", help="Detail; repeatable.")] = None
    json_details: Annotated[
        str | None, Option("--json-details", metavar="JSON", help="Details as one JSON object.")
    ] = None
    file: Annotated[list[str] | None, Option("--file", metavar="PATH", help="Related file; repeatable.")] = None
    commit: Annotated[str | None, Option("--commit", metavar="COMMIT", help="Related commit.")] = None
    task: Annotated[str | None, Option("--task", metavar="ID", help="Related task ID.")] = None
    checkpoint: Annotated[str | None, Option("--checkpoint", metavar="ID", help="Related checkpoint.")] = None


@group()
def log(ctx: Invocation) -> None:
    """Write and read the agents' log."""


@log.command()
def add(
    ctx: Invocation,
    type_: Annotated[str, Argument(metavar="TYPE")],
    summary: Annotated[str, Argument(metavar="SUMMARY")],
    options: NewEntry,
) -> None:
    """Add an entry to the log.

    TYPE is action, decision, error, checkpoint or nudge. Secrets are removed before anything is written.
    """
    from git_agentos import log as domain

    details = {**_object(options.json_details), **pairs(options.detail, "--detail", "K=V")}
    workspace = ctx.workspace()
    entry = domain.add(
        workspace.context,
        type_,
        summary,
        details=details,
        files=workspace.relative(options.file or []),
        commit=options.commit,
        task_id=options.task,
        checkpoint_id=options.checkpoint,
    )
    ctx.output.show("log-entry", entry, lambda _: render.added(entry))


@log.command()
def list_(
    ctx: Invocation,
    limit: Limit = None,
    follow: Annotated[bool, Option("--follow", help="Print entries, then follow new ones.")] = False,
    *,
    filter_: Filter,
) -> None:
    """List entries, newest first.

    Lists those of this worktree unless --agent or --all is given. --follow prints the oldest first; with --json, one
    document per line.
    """
    workspace = ctx.workspace()
    query = filter_.query(workspace) | {"limit": number(limit)}
    if follow:
        raise Exit(_follow(ctx, workspace, query))
    _show(ctx, workspace, query, empty="no entries")


@log.command()
def search(
    ctx: Invocation,
    text: Annotated[str, Argument(metavar="TEXT")],
    limit: Limit = None,
    *,
    filter_: Filter,
) -> None:
    """Find entries that contain TEXT.

    Searches summaries, details, files, tasks and ids, ignoring case.
    """
    workspace = ctx.workspace()
    query = filter_.query(workspace) | {"limit": number(limit), "text": text}
    _show(ctx, workspace, query, empty="no entry matches")


@log.command()
def export(ctx: Invocation, filter_: Filter) -> None:
    """Print entries as JSON lines, oldest first.

    Each line is a document as 'log list --follow --json' prints it.
    """
    from git_agentos import log as domain

    workspace = ctx.workspace()
    query = filter_.query(workspace)
    ctx.output.json = True
    for entry in domain.entries(workspace.context, newest_first=False, **query):
        ctx.output.show("log-entry", entry, lambda _: render.added(entry))  # noqa: B023 (used at once)
        if not ctx.output.stdout_is_open():
            return


@log.command()
def rebuild(ctx: Invocation) -> None:
    """Rebuild the log database from checkpoints.

    A damaged database is moved aside first; entries in it that no checkpoint carries yet are read as far as possible.
    """
    from git_agentos import log as domain

    result = domain.rebuild(ctx.workspace().context)
    ctx.output.show("log-rebuild", result, lambda _: render.rebuilt(result))


@log.command()
def timeline(
    ctx: Invocation,
    agent: Agent = None,
    limit: Annotated[str, Option("-n", "--max-count", metavar="N", help="Show at most N events.")] = "50",
) -> None:
    """Show commits, checkpoints, restores and log entries by time.

    Newest first. AGENT is an agent or a worktree, which may be archived; without it, shows this worktree's timeline.
    """
    from git_agentos import history

    result = history.timeline_of(ctx.workspace().context, agent, limit=number(limit))
    ctx.output.show("log-timeline", result, lambda style: render.timeline(result.events, style))


@log.command()
def review(ctx: Invocation, agent: Agent = None, html: Html = None) -> None:
    """Review an agent's work: errors, decisions, patterns, timeline.

    Decisions are shown with their alternatives and rationale. Patterns are repeated errors, files that were changed
    again and again, restores, and long silences. With --html, writes one page that needs no network.
    """
    from git_agentos import review as domain

    result = domain.review(ctx.workspace().context, agent)
    path = None
    if html is not None:
        from git_agentos.cli.render.html import page
        from git_agentos.cli.render.html import review as pages

        path = page.write(ctx.path(html), pages.review(result))
    ctx.output.show("log-review", {**vars(result), "html": path}, lambda style: render.review(result, style, path))


def _show(ctx: Invocation, workspace: "Workspace", query: dict[str, Any], *, empty: str) -> None:
    """Print the entries that match; `empty` if there are none."""
    from git_agentos import log as domain

    result = domain.read(workspace.context, **query)
    result.report(empty=not result.rows and query["limit"] != 0)
    fields = {"entries": result.rows, "complete": result.complete}
    ctx.output.show("log-list", fields, lambda style: render.entries(result.rows, style, empty=empty))


def _follow(ctx: Invocation, workspace: "Workspace", query: dict[str, Any]) -> int:
    """Print entries until the reader is gone or the user interrupts; returns the exit code."""
    from git_agentos import log as domain

    entries = domain.follow(workspace.context, stop=lambda: not ctx.output.stdout_is_open(), **query)
    try:
        for entry in entries:
            ctx.output.show("log-entry", entry, lambda style: render.entries([entry], style))  # noqa: B023 (at once)
    except KeyboardInterrupt:
        return 130
    return 0


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--json-details takes JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("--json-details takes a JSON object")
    return value
