"""`git agentos log`: write to the agents' log, and read it."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from git_agentos.cli.commands import log_review
from git_agentos.cli.invocation import Invocation, command, number
from git_agentos.cli.render.text import log as text_log
from git_agentos.errors import UsageError

if TYPE_CHECKING:
    from git_agentos.workspace import Workspace

Agent = Annotated[
    str | None,
    typer.Option("--agent", metavar="ID", help="Only what agent ID wrote, or its worktree tells.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="Everybody's, archived worktrees included.")]
Limit = Annotated[
    str | None, typer.Option("-n", "--max-count", metavar="N", help="Show at most N entries.", show_default=False)
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="T", help="Only those since T: ISO 8601, or '2 hours ago'.", show_default=False),
]
Type = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only those of TYPE; may be repeated.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="log", rich_markup_mode=None)
    group.callback()(log)
    group.command("add")(add)
    group.command("list")(list_)
    group.command("search")(search)
    group.command("export")(export)
    group.command("rebuild")(rebuild)
    log_review.register(group)
    app.add_typer(group)


@command
def log(run: Invocation) -> None:
    """Write to the agents' log, and read it."""


@command
def add(
    run: Invocation,
    type_: Annotated[str, typer.Argument(metavar="TYPE")],
    summary: Annotated[str, typer.Argument(metavar="SUMMARY")],
    detail: Annotated[
        list[str] | None,
        typer.Option("--detail", metavar="K=V", help="A key and a value; may be repeated.", show_default=False),
    ] = None,
    json_details: Annotated[
        str | None,
        typer.Option("--json-details", metavar="JSON", help="Details as one JSON object.", show_default=False),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="PATH", help="A file that it is about; may be repeated.", show_default=False),
    ] = None,
    commit: Annotated[
        str | None, typer.Option("--commit", metavar="COMMIT", help="The commit that it is about.", show_default=False)
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="The task that it belongs to.", show_default=False)
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="ID", help="The checkpoint that it is about.", show_default=False),
    ] = None,
) -> None:
    """Write an entry to the log.

    TYPE is action, decision, error, checkpoint or nudge. Secrets are taken out before anything is written.
    """
    from git_agentos import log as domain

    details = {**_object(json_details), **_pairs(detail or [])}
    workspace = run.workspace()
    entry = domain.add(
        workspace.context,
        type_,
        summary,
        details=details,
        files=workspace.relative(file or []),
        commit=commit,
        task_id=task,
        checkpoint_id=checkpoint,
    )
    run.output.show("log-entry", entry, lambda _: text_log.added(entry))


@command
def list_(
    run: Invocation,
    agent: Agent = None,
    everywhere: All = False,
    limit: Limit = None,
    since: Since = None,
    type_: Type = None,
    follow: Annotated[bool, typer.Option("--follow", help="The oldest first, and then new ones as they come.")] = False,
) -> None:
    """List entries, the newest first.

    Those of this worktree, unless --agent or --all says otherwise. With --follow and --json, each is a document on a
    line of its own.
    """
    most = number(limit)
    workspace = run.workspace()
    chosen = _chosen(workspace, agent, everywhere, since, type_)
    if follow:
        raise typer.Exit(_follow(run, workspace, chosen, most))
    from git_agentos import log as domain

    found = domain.read(workspace.context, limit=most, **chosen)
    found.tell(empty=not found.entries and most != 0)
    fields = {"entries": found.entries, "complete": found.complete}
    run.output.show("log-list", fields, lambda style: text_log.entries(found.entries, style))


@command
def search(
    run: Invocation,
    words: Annotated[str, typer.Argument(metavar="TEXT")],
    agent: Agent = None,
    everywhere: All = False,
    limit: Limit = None,
    since: Since = None,
    type_: Type = None,
) -> None:
    """Find entries in which TEXT occurs.

    It is looked for in summaries, details, files, tasks and ids; upper and lower case are the same.
    """
    from git_agentos import log as domain

    most = number(limit)
    workspace = run.workspace()
    chosen = _chosen(workspace, agent, everywhere, since, type_)
    found = domain.read(workspace.context, limit=most, text=words, **chosen)
    found.tell(empty=not found.entries and most != 0)
    run.output.show(
        "log-list",
        {"entries": found.entries, "complete": found.complete},
        lambda style: text_log.entries(found.entries, style, nothing="no entry matches"),
    )


@command
def export(
    run: Invocation, agent: Agent = None, everywhere: All = False, since: Since = None, type_: Type = None
) -> None:
    """Print entries as JSON lines, the oldest first.

    Each line is a document as 'log list --follow --json' prints it.
    """
    from git_agentos import log as domain

    workspace = run.workspace()
    chosen = _chosen(workspace, agent, everywhere, since, type_)
    run.output.json = True
    for entry in domain.entries(workspace.context, newest_first=False, **chosen):
        run.output.show("log-entry", entry, lambda _: text_log.added(entry))  # noqa: B023 (used at once)
        if not run.output.is_read():
            return


@command
def rebuild(run: Invocation) -> None:
    """Make the log's database again from what checkpoints carry.

    A damaged one is moved aside first, and what no checkpoint carries yet is read out of it as far as possible.
    """
    from git_agentos import log as domain

    done = domain.rebuild(run.workspace().context)
    run.output.show("log-rebuild", done, lambda _: text_log.rebuilt(done))


def _follow(run: Invocation, workspace: "Workspace", chosen: dict[str, Any], most: int | None) -> int:
    """Print entries until nobody reads them or the user has had enough; the exit code."""
    from git_agentos import log as domain

    try:
        for entry in domain.follow(workspace.context, limit=most, stop=lambda: not run.output.is_read(), **chosen):
            run.output.show("log-entry", entry, lambda style: text_log.entries([entry], style))  # noqa: B023 (at once)
    except KeyboardInterrupt:
        return 130
    return 0


def _chosen(
    workspace: "Workspace", agent: str | None, everywhere: bool, since: str | None, types: list[str] | None
) -> dict[str, Any]:
    return {
        "agent": agent,
        "every": everywhere,
        "since": workspace.moment(since) if since is not None else None,
        "kinds": types or None,
    }


def _pairs(details: list[str]) -> dict[str, str]:
    pairs = {}
    for each in details:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise UsageError(f"--detail takes K=V, not '{each}'")
        pairs[key] = value
    return pairs


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
