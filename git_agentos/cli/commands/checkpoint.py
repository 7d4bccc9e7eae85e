"""`git agentos checkpoint`: create, list, show, diff, cat, search."""

from typing import Annotated, NamedTuple

from git_agentos.cli.command import AFTER_DASHES, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import CheckpointTimelines, Id, Since, Stat, number, pairs
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import checkpoint as render
from git_agentos.errors import UsageError

Limit = Annotated[str | None, Option("-n", "--max-count", metavar="N", help="Show at most N checkpoints.")]


class Create(NamedTuple):
    """The options of `checkpoint` without a subcommand."""

    message: Annotated[str, Option("-m", "--message", metavar="TEXT", help="Describe the checkpoint.")] = ""
    trigger: Annotated[
        str | None,
        Option(
            "--trigger",
            metavar="TRIGGER",
            help="Why the checkpoint is created. If nothing has changed, only manual (the default) and milestone "
            "create a new checkpoint.",
        ),
    ] = None
    task: Annotated[str | None, Option("--task", metavar="ID", help="Task ID to record.")] = None
    meta: Annotated[list[str] | None, Option("--meta", metavar="K=V", help="Key and value; repeatable.")] = None
    run: Annotated[str | None, Option("--run", metavar="ID", help="Run ID to record.")] = None
    session: Annotated[str | None, Option("--session", metavar="ID", help="Session ID to record.")] = None


class Filter(NamedTuple):
    """Which checkpoints `list` shows."""

    since: Since = None
    task: Annotated[str | None, Option("--task", metavar="ID", help="Only those of task ID.")] = None
    trigger: Annotated[str | None, Option("--trigger", metavar="TRIGGER", help="Only those with this trigger.")] = None


@group(runs_alone=True)
def checkpoint(ctx: Invocation, options: Create) -> None:
    """Save the working state without changing it.

    Saves HEAD, the index, the files, the untracked files and an operation in progress, but not ignored files.
    Prints the new checkpoint's short id.
    """
    if ctx.subcommand is not None:
        if any(options):
            raise UsageError(
                f"options for a new checkpoint before '{ctx.subcommand}'",
                f"put the options of '{ctx.subcommand}' after it",
            )
        return
    meta = pairs(options.meta, "--meta", "KEY=VALUE")
    created = ctx.workspace().checkpoint(
        options.message,
        trigger=options.trigger or "manual",
        task_id=options.task,
        meta=meta,
        run_id=options.run,
        session_id=options.session,
    )
    ctx.output.show("checkpoint", created, lambda style: render.created(created, style))


@checkpoint.command()
def list_(ctx: Invocation, limit: Limit = None, *, filter_: Filter, timelines: CheckpointTimelines) -> None:
    """List checkpoints, newest first.

    Lists those of this worktree unless --agent or --all is given.
    """
    maximum = number(limit)
    checkpoints = ctx.workspace().checkpoints(
        limit=maximum,
        since=filter_.since,
        task_id=filter_.task,
        trigger=filter_.trigger,
        **timelines._asdict(),
    )
    ctx.output.show("checkpoint-list", {"checkpoints": checkpoints}, lambda style: render.listing(checkpoints, style))


@checkpoint.command()
def show(ctx: Invocation, spec: Id, timelines: CheckpointTimelines) -> None:
    """Show what a checkpoint contains.

    Shows when, where and why it was taken, and which paths were changed.

    ID is at least four digits of a checkpoint's id, 'latest', or '@{N}' for the N-th newest, 0 being the latest.
    """
    found = ctx.workspace().find(spec, **timelines._asdict())
    ctx.output.show("checkpoint", found, lambda style: render.details(found, style))


@checkpoint.command(rest=AFTER_DASHES)
def diff(
    ctx: Invocation,
    spec: Id,
    other: Annotated[str | None, Argument(metavar="[ID2]")] = None,
    paths: Annotated[list[str] | None, Argument(metavar="[-- PATH...]")] = None,
    stat: Stat = False,
    *,
    timelines: CheckpointTimelines,
) -> None:
    """Compare a checkpoint with the working state or another.

    With ID2, shows what changed from ID to ID2; without it, from ID to the working state.

    The patch can be applied with plain git; on a terminal it is coloured, and control characters are made visible.
    """
    from git_agentos.cli.render import json

    result = ctx.workspace().diff(spec, other, ctx.paths(paths), **timelines._asdict())
    fields = json.diff(result, patch=None if stat else result.patch)
    ctx.output.show("checkpoint-diff", fields, lambda style: render.diff(result, style, stat=stat))


@checkpoint.command()
def cat(ctx: Invocation, spec: Annotated[str, Argument(metavar="ID:PATH")], timelines: CheckpointTimelines) -> None:
    """Print a file as a checkpoint has it.

    The bytes are printed unchanged; on a terminal control characters are made visible.
    """
    from git_agentos.cli.render import json

    file = ctx.workspace().read_file(spec, **timelines._asdict())
    ctx.output.show("checkpoint-cat", json.contents(file, file.content), lambda style: render.contents(file, style))


@checkpoint.command()
def search(
    ctx: Invocation,
    text: Annotated[str, Argument(metavar="TEXT")],
    limit: Limit = None,
    *,
    timelines: CheckpointTimelines,
) -> None:
    """Search descriptions, tasks, metadata, changed paths.

    Lists the checkpoints in which TEXT occurs, newest first.
    """
    maximum = number(limit)
    checkpoints = ctx.workspace().search(text, limit=maximum, **timelines._asdict())
    ctx.output.show(
        "checkpoint-list",
        {"checkpoints": checkpoints},
        lambda style: render.listing(checkpoints, style, empty="no checkpoint matches"),
    )
