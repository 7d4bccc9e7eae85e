"""`git agentos forget`: forget checkpoints, and free the room that they take."""

import sys
from typing import Annotated, NamedTuple

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import retention as render


class Keep(NamedTuple):
    """The rules by which checkpoints are kept, named as those of `retention.rules`."""

    last: Annotated[str | None, Option("--keep-last", metavar="N", help="Keep the N newest.")] = None
    hourly: Annotated[
        str | None, Option("--keep-hourly", metavar="N", help="Keep the newest of each of the last N hours with any.")
    ] = None
    daily: Annotated[str | None, Option("--keep-daily", metavar="N", help="The same for days.")] = None
    weekly: Annotated[str | None, Option("--keep-weekly", metavar="N", help="The same for weeks.")] = None
    monthly: Annotated[str | None, Option("--keep-monthly", metavar="N", help="The same for months.")] = None
    within: Annotated[
        str | None, Option("--keep-within", metavar="TIME", help="Keep all of the last TIME, such as 7d.")
    ] = None


class Timelines(NamedTuple):
    """Which timelines a command forgets checkpoints of; by default this worktree's."""

    agent: Annotated[str | None, Option("--agent", metavar="ID", help="Forget those of agent ID.")] = None
    all_timelines: Annotated[bool, Option("--all", help="Forget those of all worktrees.")] = False


class Inside(NamedTuple):
    """What is forgotten inside of checkpoints."""

    path: Annotated[
        list[str] | None, Option("--path", metavar="GLOB", help="Forget files in all checkpoints, by a pattern.")
    ] = None
    secret: Annotated[
        bool, Option("--secret", help="Forget the texts on standard input, one a line, in all checkpoints.")
    ] = False


@command()
def forget(
    ctx: Invocation,
    ids: Annotated[list[str] | None, Argument(metavar="[ID...]")] = None,
    *,
    keep: Keep,
    timelines: Timelines,
    inside: Inside,
    dry_run: DryRun = False,
) -> None:
    """Forget checkpoints, and free the room that they take.

    Give IDs, or rules: each checkpoint that no rule keeps is forgotten. Rules never forget checkpoints that were asked
    for, that something still needs, or that are the newest of a worktree; IDs do. The log and the memory are kept.

    --path and --secret remove files and texts from all checkpoints of the repository and from all else that is kept of
    agents' work in it. These checkpoints get other ids; the old ones still lead to them.
    """
    from git_agentos.retention import commands, secret_texts

    context = ctx.workspace().context
    wanted = secret_texts.parse(sys.stdin.buffer.read() if sys.stdin is not None else b"") if inside.secret else None
    done = commands.forget(
        context,
        *(ids or ()),
        keep=keep._asdict(),
        path=inside.path or (),
        secret=wanted,
        dry_run=dry_run,
        **timelines._asdict(),
    )
    ctx.output.show("forget", done, lambda _: render.forgotten(done))
