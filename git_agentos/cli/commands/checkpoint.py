"""`git agentos checkpoint`: take a checkpoint, and look at those taken."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from git_agentos.cli.invocation import Agent, All, Id, Invocation, Limit, command, number, paths_from
from git_agentos.cli.render.text import checkpoint as text
from git_agentos.errors import UsageError

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="T", help="Only those since T: ISO 8601, or '2 hours ago'.", show_default=False),
]
Trigger = Annotated[
    str | None, typer.Option("--trigger", metavar="T", help="Only those of trigger T.", show_default=False)
]
Task = Annotated[str | None, typer.Option("--task", metavar="ID", help="Only those of task ID.", show_default=False)]


class _DiffCommand(TyperCommand):
    """Keeps apart what stands behind `--`: typer would give the first of it to ID2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.obj.after_dashes, args = args[at + 1 :], args[:at]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = register_creation(app)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("diff", cls=_DiffCommand)(diff)
    group.command("cat")(cat)
    group.command("search")(search)


def register_creation(app: typer.Typer) -> typer.Typer:
    """Add the command without its subcommands; returns it for those to be added."""
    group = typer.Typer(name="checkpoint", rich_markup_mode=None)
    group.callback(invoke_without_command=True)(checkpoint)
    app.add_typer(group)
    return group


@command
def checkpoint(
    run: Invocation,
    message: Annotated[
        str, typer.Option("-m", "--message", metavar="TEXT", help="Describe the checkpoint.", show_default=False)
    ] = "",
    trigger: Annotated[
        str | None,
        typer.Option(
            "--trigger",
            metavar="T",
            help="What occasions it. Where nothing has changed, only manual (the default) and milestone "
            "make a new checkpoint.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="The task it belongs to.", show_default=False)
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="K=V", help="Record a key and a value; may be repeated.", show_default=False),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="The run it belongs to.", show_default=False)
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="The session it belongs to.", show_default=False)
    ] = None,
) -> None:
    """Save the complete state, and touch none of it.

    Prints the new checkpoint's short id. HEAD, the index, the files, the untracked files and an operation in
    progress are saved; ignored files are not.
    """
    if run.subcommand is not None:
        if message or trigger or task or meta or run_id or session:
            raise UsageError(
                f"options for a new checkpoint before '{run.subcommand}'",
                f"put the options of '{run.subcommand}' behind it",
            )
        return
    pairs = _pairs(meta or [])
    made = run.workspace().checkpoint(
        message,
        trigger=trigger or "manual",
        task_id=task,
        meta=pairs,
        run_id=run_id,
        session_id=session,
    )
    run.output.show("checkpoint", made, lambda style: text.created(made, style))


@command
def list_(
    run: Invocation,
    agent: Agent = None,
    everywhere: All = False,
    limit: Limit = None,
    since: Since = None,
    task: Task = None,
    trigger: Trigger = None,
) -> None:
    """List checkpoints, the newest first.

    Those of this worktree, unless --agent or --all says otherwise.
    """
    most = number(limit)
    found = run.workspace().checkpoints(
        limit=most, since=since, task_id=task, trigger=trigger, agent=agent, all_timelines=everywhere
    )
    run.output.show("checkpoint-list", {"checkpoints": found}, lambda style: text.timeline(found, style))


@command
def show(run: Invocation, spec: Id, agent: Agent = None, everywhere: All = False) -> None:
    """Show what one checkpoint holds.

    When, where and why it was taken, and which paths were changed then.

    ID is at least four digits of a checkpoint's id, 'latest', or '@{N}' for the N-th newest, 0 being the latest.
    """
    found = run.workspace().find(spec, agent=agent, all_timelines=everywhere)
    run.output.show("checkpoint", found, lambda style: text.shown(found, style))


@command
def diff(
    run: Invocation,
    spec: Id,
    other: Annotated[str | None, typer.Argument(metavar="[ID2]", show_default=False)] = None,
    paths: Annotated[list[str] | None, typer.Argument(metavar="[-- PATH...]", show_default=False)] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only the paths, and how many lines changed.")] = False,
    agent: Agent = None,
    everywhere: All = False,
) -> None:
    """Compare a checkpoint with now, or with another.

    With ID2, what changed from ID to ID2; without, from ID to the state now.

    The patch is what plain git would apply; on a terminal it is coloured, and control characters are shown.
    """
    from git_agentos.cli.render import json as documents

    found = run.workspace().diff(spec, other, paths_from(run, paths), agent=agent, all_timelines=everywhere)
    fields = documents.diff(found, patch=None if stat else found.patch)
    run.output.show("checkpoint-diff", fields, lambda style: text.difference(found, style, stat=stat))


@command
def cat(
    run: Invocation,
    spec: Annotated[str, typer.Argument(metavar="ID:PATH")],
    agent: Agent = None,
    everywhere: All = False,
) -> None:
    """Print a file as a checkpoint holds it.

    The bytes are printed unchanged, but to a terminal control characters are made visible.
    """
    from git_agentos.cli.render import json as documents

    file = run.workspace().read_file(spec, agent=agent, all_timelines=everywhere)
    run.output.show("checkpoint-cat", documents.contents(file, file.content), lambda style: text.contents(file, style))


@command
def search(
    run: Invocation,
    words: Annotated[str, typer.Argument(metavar="TEXT")],
    agent: Agent = None,
    everywhere: All = False,
    limit: Limit = None,
) -> None:
    """Find checkpoints by what they say or change.

    TEXT is looked for in descriptions, tasks, metadata and the paths that were changed.
    """
    most = number(limit)
    found = run.workspace().search(words, limit=most, agent=agent, all_timelines=everywhere)
    run.output.show(
        "checkpoint-list",
        {"checkpoints": found},
        lambda style: text.timeline(found, style, nothing="no checkpoint matches"),
    )


def _pairs(meta: list[str]) -> dict[str, str]:
    pairs = {}
    for each in meta:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise UsageError(f"--meta takes KEY=VALUE, not '{each}'")
        pairs[key] = value
    return pairs
