"""`git agentos sync`: push and fetch timelines; status."""

from typing import Annotated, NamedTuple

from git_agentos.cli.command import Exit, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun, number
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import sync as render
from git_agentos.errors import PolicyError, UsageError

Remote = Annotated[str | None, Argument(metavar="[REMOTE]")]


class Options(NamedTuple):
    """What is transferred."""

    push: Annotated[bool, Option("--push", help="Only push.")] = False
    fetch: Annotated[bool, Option("--fetch", help="Only fetch.")] = False
    agent: Annotated[str | None, Option("--agent", metavar="ID", help="Only the timelines of worktrees ID.")] = None
    all_timelines: Annotated[bool, Option("--all", help="Push the timelines of all worktrees.")] = False
    last: Annotated[str | None, Option("--last", metavar="N", help="Push at most N new checkpoints of each.")] = None
    allow: Annotated[
        list[str] | None, Option("--allow", metavar="FINGERPRINT", help="This finding is no secret; repeatable.")
    ] = None
    dry_run: DryRun = False


@group(runs_alone=True)
def sync(ctx: Invocation, remote: Remote = None, *, options: Options) -> None:
    """Push timelines to a remote; fetch those of other hosts.

    Pushes the timeline of this worktree, or those that --agent or --all name, to refs of the host that this clone is,
    and fetches the timelines of all other hosts. Nothing is forced, and no branch is touched. A checkpoint in which a
    secret is found is held back and named: the exit code is then 3.
    """
    if ctx.subcommand is not None:
        if any(options):
            raise UsageError(
                f"options of a transfer before '{ctx.subcommand}'",
                f"'git agentos sync {ctx.subcommand} -h' lists its own",
            )
        return
    from git_agentos.cli import authorization
    from git_agentos.sync import commands

    workspace = ctx.workspace()
    if options.agent is not None and options.all_timelines:
        raise UsageError("--agent and --all cannot be used together")
    if options.allow:
        authorization.require_operator(ctx, workspace.context.location, commands.ALLOWING)
    given = options._asdict() | {"last": number(options.last, "--last"), "allow": options.allow or ()}
    result = commands.sync(workspace.context, remote, **given)
    ctx.output.show("sync", result, lambda _: render.synchronised(result))
    if result.refused:
        raise Exit(1)
    if result.held_back:
        raise Exit(PolicyError.exit_code)


@sync.command()
def status(ctx: Invocation, remote: Remote = None) -> None:
    """Compare timelines here with those on a remote.

    Says how many checkpoints the remote lacks of each timeline, how many were held back, and which timelines of other
    hosts have changed since they were fetched. Asks the remote, and transfers nothing.
    """
    from git_agentos.sync import commands

    result = commands.status(ctx.workspace().context, remote)
    ctx.output.show("sync-status", result, lambda style: render.status(result, style))
