"""`git agentos memory`: artifacts, and what went into which merge."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Invocation, command
from git_agentos.cli.render.text import log as text_log
from git_agentos.errors import UsageError

Agent = Annotated[
    str | None,
    typer.Option("--agent", metavar="ID", help="Only what agent ID recorded, in any worktree.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="Those of all worktrees, archived ones too.")]


def register(app: typer.Typer) -> None:
    """Add the command and what is below it."""
    group = typer.Typer(name="memory", rich_markup_mode=None)
    group.callback()(memory)
    group.command("artifact")(artifact)
    group.command("merge")(merge)
    group.command("list")(list_)
    app.add_typer(group)


@command
def memory(run: Invocation) -> None:
    """Remember artifacts, and which work went into which merge."""


@command
def artifact(
    run: Invocation,
    type_: Annotated[
        str | None,
        typer.Option("--type", metavar="T", help="What it is: code, test, document, data.", show_default=False),
    ] = None,
    path: Annotated[str | None, typer.Option("--path", metavar="PATH", help="The file.", show_default=False)] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What it is good for.", show_default=False)
    ] = None,
) -> None:
    """Record a file worth knowing of.

    With it are recorded HEAD's commit, this worktree and its newest checkpoint.
    """
    from git_agentos import memory as domain

    if type_ is None or path is None or description is None:
        raise UsageError("an artifact needs --type, --path and --description")
    workspace = run.workspace()
    item = domain.artifact(workspace.context, type=type_, path=workspace.relative([path])[0], description=description)
    run.output.show("memory-item", item, lambda style: text_log.remembered(item, style))


@command
def merge(
    run: Invocation,
    more: Annotated[list[str] | None, typer.Argument(metavar="[SOURCE...]", show_default=False)] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="BRANCH", help="The branch merged into.", show_default=False)
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source", metavar="ID", help="A worktree whose work went in; may be repeated.", show_default=False
        ),
    ] = None,
    commit: Annotated[
        str | None, typer.Option("--commit", metavar="SHA", help="The commit that did it.", show_default=False)
    ] = None,
) -> None:
    """Record which agents' work went into a merge.

    All checkpoints of the sources are named with it, but for those that an earlier merge into the same branch names.
    """
    from git_agentos import memory as domain

    sources = [*(source or ()), *(more or ())]
    if target is None or not sources or commit is None:
        raise UsageError("a merge needs --target, --source and --commit")
    item = domain.merge(run.workspace().context, target, sources, commit)
    run.output.show("memory-item", item, lambda style: text_log.remembered(item, style))


@command
def list_(run: Invocation, agent: Agent = None, everywhere: All = False) -> None:
    """List what is remembered, the newest first.

    This worktree's, unless --agent or --all says otherwise.
    """
    from git_agentos import memory as domain

    found = domain.read(run.workspace().context, agent=agent, every=everywhere)
    found.tell()
    fields = {"items": found.items, "complete": found.complete}
    run.output.show("memory-list", fields, lambda style: text_log.memory(found.items, style))
