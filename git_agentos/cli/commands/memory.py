"""`git agentos memory`: record artifacts and merges."""

from typing import Annotated

from git_agentos.cli.command import group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import log as render
from git_agentos.errors import UsageError


@group()
def memory(ctx: Invocation) -> None:
    """Record artifacts and merges."""


@memory.command()
def artifact(
    ctx: Invocation,
    type_: Annotated[
        str | None, Option("--type", metavar="TYPE", help="Kind of artifact: code, test, document, data.")
    ] = None,
    path: Annotated[str | None, Option("--path", metavar="PATH", help="The file.")] = None,
    description: Annotated[str | None, Option("--description", metavar="TEXT", help="Describe the artifact.")] = None,
) -> None:
    """Record a file as an artifact.

    Also records HEAD's commit, this worktree and its newest checkpoint.
    """
    from git_agentos import memory as domain

    if type_ is None or path is None or description is None:
        raise UsageError("an artifact needs --type, --path and --description")
    workspace = ctx.workspace()
    item = domain.artifact(workspace.context, type=type_, path=workspace.relative([path])[0], description=description)
    ctx.output.show("memory-item", item, lambda style: render.remembered(item, style))


@memory.command()
def merge(
    ctx: Invocation,
    more: Annotated[list[str] | None, Argument(metavar="[SOURCE...]")] = None,
    target: Annotated[str | None, Option("--target", metavar="BRANCH", help="The branch merged into.")] = None,
    source: Annotated[
        list[str] | None, Option("--source", metavar="ID", help="Worktree that was merged; repeatable.")
    ] = None,
    commit: Annotated[str | None, Option("--commit", metavar="COMMIT", help="The merge commit.")] = None,
) -> None:
    """Record which agents' work went into a merge.

    Records all checkpoints of the sources, except those that an earlier merge into the same branch has recorded.
    """
    from git_agentos import memory as domain

    sources = [*(source or ()), *(more or ())]
    if target is None or not sources or commit is None:
        raise UsageError("a merge needs --target, --source and --commit")
    item = domain.merge(ctx.workspace().context, target, sources, commit)
    ctx.output.show("memory-item", item, lambda style: render.remembered(item, style))


@memory.command()
def list_(
    ctx: Invocation,
    agent: Annotated[
        str | None, Option("--agent", metavar="ID", help="Only items that agent ID recorded, in any worktree.")
    ] = None,
    all_worktrees: Annotated[bool, Option("--all", help="Items of all worktrees, archived ones included.")] = False,
) -> None:
    """List artifacts and merges, newest first.

    Lists those of this worktree unless --agent or --all is given.
    """
    from git_agentos import memory as domain

    result = domain.read(ctx.workspace().context, agent=agent, every=all_worktrees)
    result.report(empty=not result.rows)
    fields = {"items": result.rows, "complete": result.complete}
    ctx.output.show("memory-list", fields, lambda style: render.memory(result.rows, style))
