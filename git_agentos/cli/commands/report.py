"""`git agentos report`: all agents of the repository on one page."""

from typing import Annotated

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import Html
from git_agentos.cli.parameters import Option
from git_agentos.cli.render.text import report as render


@command()
def report(
    ctx: Invocation,
    html: Html = None,
    since: Annotated[
        str | None,
        Option("--since", metavar="TIME", help="Leave out what happened before TIME: ISO 8601 or '2 days ago'."),
    ] = None,
    agents: Annotated[list[str] | None, Option("--agent", metavar="ID", help="Only agent ID; repeatable.")] = None,
) -> None:
    """Show what all agents did, who conflicts, storage, runs.

    An agent is a worktree that 'git agentos worktree list' lists. With --html, writes one page that needs no network:
    what each agent did by time, which branches conflict, what checkpoints take on disk, and the runs. --agent and
    --since are about what agents did: conflicts, storage and runs are those of all.
    """
    from git_agentos.report import collection

    workspace = ctx.workspace()
    moment = workspace.moment(since) if since is not None else None
    result = collection.collect(workspace.context, agents or (), since=moment)
    path = None
    if html is not None:
        from git_agentos.cli.render.html import page
        from git_agentos.cli.render.html import report as pages

        path = page.write(ctx.path(html), pages.report(result))
    ctx.output.show("report", {**result._asdict(), "html": path}, lambda style: render.report(result, style, path))
