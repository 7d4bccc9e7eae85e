"""`git agentos worktree`: create, list, show, merge, archive, remove and repair agents' worktrees."""

from typing import Annotated, NamedTuple

from git_agentos.cli.command import Exit, group
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import DryRun, Id, OptionalId, Squash, TaskId
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import layout
from git_agentos.cli.render.text import worktree as render
from git_agentos.cli.render.text import worktree_upkeep as render_upkeep
from git_agentos.errors import ConflictError


class Create(NamedTuple):
    """What a new worktree is like."""

    from_ref: Annotated[str | None, Option("--from", metavar="REF", help="Start at REF (default: HEAD).")] = None
    task: TaskId = None
    sparse: Annotated[list[str] | None, Option("--sparse", metavar="PATH", help="Check out only PATH; repeatable.")] = (
        None
    )
    lock: Annotated[bool, Option("--lock", help="Lock the worktree against removal.")] = False
    revive: Annotated[bool, Option("--revive", help="Restore the archived worktree ID.")] = False
    host: Annotated[
        str | None, Option("--host", metavar="HOST", help="With --revive: as it was fetched from HOST.")
    ] = None
    guard: Annotated[bool, Option("--guard/--no-guard", help="Enable the guard (default).")] = True
    fetch: Annotated[
        bool | None,
        Option("--fetch/--no-fetch", help="Fetch the base first (default: if the last fetch is 15 minutes old)."),
    ] = None
    with_changes: Annotated[bool, Option("--with-changes", help="Carry uncommitted changes along; they stay here.")] = (
        False
    )


RunTeardown = Annotated[
    bool, Option("--teardown/--no-teardown", help="Run the command in agentos.teardown before (default).")
]


@group()
def worktree(ctx: Invocation) -> None:
    """Manage agents' worktrees.

    Each agent gets a worktree and a branch of its own. A worktree is removed only after everything in it was saved.
    """


@worktree.command()
def create(ctx: Invocation, id_: Id, options: Create) -> None:
    """Create a worktree for the agent ID, on its own branch 'agent/ID'.

    It starts at a commit: HEAD, or --from REF; uncommitted changes are not copied, unless --with-changes is given:
    then index, files and untracked files are as they are here, where a checkpoint saves them. Ignored files that
    '.worktreeinclude' lists are copied into it, then the command in agentos.setup is run. The guard is enabled in it
    unless --no-guard is given. If a step fails, nothing is left behind.
    """
    from git_agentos.worktree import creation

    given = options._asdict() | {"sparse": options.sparse or ()}
    result = creation.create(ctx.workspace().context, id_, **given)
    ctx.output.show(
        "worktree", result, lambda style: render.created(result, style, revived=options.revive, host=options.host)
    )


@worktree.command()
def list_(ctx: Invocation) -> None:
    """List agents' worktrees: active, complete, archived and broken."""
    from git_agentos.worktree import status

    context = ctx.workspace().context
    if ctx.output.ids_only:
        ids = status.ids(context)
        ctx.output.show("worktree-list", {}, lambda _: layout.ids(ids))
        return
    result = status.list_worktrees(context)
    ctx.output.show("worktree-list", result, lambda style: render.listing(result.worktrees, style))


@worktree.command()
def show(ctx: Invocation, id_: Id) -> None:
    """Show details of a worktree."""
    from git_agentos.worktree import status

    result = status.show(ctx.workspace().context, id_)
    ctx.output.show("worktree", result, lambda style: render.details(result, style))


@worktree.command()
def path(ctx: Invocation, id_: Id) -> None:
    """Print the path of a worktree: cd "$(git agentos worktree path ID)"."""
    from git_agentos.worktree import status

    result = status.path(ctx.workspace().context, id_)
    ctx.output.show("worktree-path", {"id": id_, "path": result}, lambda _: render.raw_path(result))


@worktree.command()
def env(ctx: Invocation, id_: OptionalId = None) -> None:
    """Print the ports of a worktree as variables: eval "$(git agentos worktree env)".

    They are AGENTOS_PORT_BASE and AGENTOS_PORT_COUNT; agentos.ports says how many ports a new worktree gets. Nothing is
    printed if it has none. Without ID, of the current worktree.
    """
    from git_agentos.worktree import ports

    result = ports.environment(ctx.workspace().context, id_)
    ctx.output.show("worktree-env", result, lambda _: render.environment(result.variables))


@worktree.command(hidden=True)
def refill(ctx: Invocation) -> None:
    """Fill the pool of prepared worktrees.

    'create' starts this in the background; agentos.pool is the number of worktrees that are prepared.
    """
    from git_agentos.worktree import pool_filling as filling

    prepared = filling.fill(ctx.workspace().context)
    ctx.output.show("worktree-pool", {"prepared": prepared}, lambda _: render.refilled(prepared))


@worktree.command(hidden=True)
def notify(
    ctx: Invocation,
    conflicts: Annotated[bool, Option("--conflicts", help="Tell which branches conflict.")] = False,
) -> None:
    """Tell agentos.notify that the current worktree is idle, once.

    The watch daemon starts this. The exit code is 1 if the worktree is in use.
    """
    from git_agentos.worktree import notices

    context = ctx.workspace().context
    result = notices.tell_conflicts(context) if conflicts else notices.tell_idle(context)
    ctx.output.show("worktree-notify", result, lambda _: layout.ids(result.told))
    if not result.is_idle:
        raise Exit(1)


@worktree.command()
def complete(
    ctx: Invocation,
    id_: OptionalId = None,
    push: Annotated[bool, Option("--push", help="Push the branch; open a pull request with gh or glab.")] = False,
) -> None:
    """Create a final checkpoint, and print a merge request in Markdown.

    The merge request lists what changed, the checkpoints, decisions and errors, and what is not committed. The worktree
    is kept for the review. Without ID, completes the current worktree.
    """
    from git_agentos.worktree import completion as completing

    result = completing.complete(ctx.workspace().context, id_, push=push)
    ctx.output.show("worktree-complete", result, lambda _: render.completed(result))
    if result.problems:
        raise Exit(1)


@worktree.command()
def archive(ctx: Invocation, id_: Id, teardown: RunTeardown = True) -> None:
    """Save everything in a worktree, its log and memory, and remove it.

    Branch and timeline are kept; 'git agentos worktree create ID --revive' restores the worktree. The command
    in agentos.teardown is run before. Refuses if the worktree is locked, if a process uses it, or if something in it
    cannot be saved.
    """
    from git_agentos.worktree import removal

    result = removal.archive(ctx.workspace().context, id_, run_teardown=teardown)
    ctx.output.show("worktree-archive", result, lambda style: render.removed(result, style, archived=True))


@worktree.command()
def remove(
    ctx: Invocation,
    id_: Id,
    delete_branch: Annotated[bool, Option("--delete-branch", help="Delete its branch, too.")] = False,
    discard_ignored: Annotated[
        bool, Option("--discard-ignored", help="Delete ignored files that cannot be saved.")
    ] = False,
    teardown: RunTeardown = True,
) -> None:
    """Save everything in a worktree in a checkpoint, and remove it.

    Saves changes, untracked and ignored files, commits that are on no branch, and nested repositories. The command
    in agentos.teardown is run before. Refuses if the worktree is locked, if a process uses it, or if something in it
    cannot be saved.
    """
    from git_agentos.worktree import removal

    context = ctx.workspace().context
    result = removal.remove(
        context, id_, delete_branch=delete_branch, discard_ignored=discard_ignored, run_teardown=teardown
    )
    ctx.output.show("worktree-remove", result, lambda style: render.removed(result, style, archived=False))


@worktree.command()
def cleanup(ctx: Invocation, dry_run: DryRun = False) -> None:
    """Archive the worktrees that are merged, complete or idle.

    Merged: all commits that were made in it are in its base, and nothing is uncommitted. Complete: 'complete' was
    called, and nothing has changed since. Idle: unused for agentos.cleanupAfter (default: 30 days). Everything is saved
    first, as by 'archive', which also says what is refused. Branches that are in their base are deleted.
    """
    from git_agentos.worktree import cleanup as cleaning

    result = cleaning.cleanup(ctx.workspace().context, dry_run=dry_run)
    ctx.output.show("cleanup", result, lambda style: render_upkeep.cleaned(result, style))


@worktree.command()
def repair(ctx: Invocation, id_: OptionalId = None) -> None:
    """Repair worktrees after a crash or move.

    Finishes or aborts interrupted commands, finds moved worktrees and guards them again, removes stale locks, and
    rebuilds damaged records and indexes and pruned entries; nothing is lost. Reports what cannot be repaired, with a
    hint. The exit code is 1 if a problem is left.
    """
    from git_agentos.worktree import repair as repairing

    result = repairing.repair(ctx.workspace().context, id_)
    ctx.output.show("worktree-repair", result, lambda style: render.repaired(result, style))
    if any(not each.fixed for each in result.findings):
        raise Exit(1)


@worktree.command()
def merge(
    ctx: Invocation,
    ids: Annotated[list[str], Argument(metavar="ID...")],
    into: Annotated[str | None, Option("--into", metavar="BRANCH", help="Merge into BRANCH.")] = None,
    squash: Squash = False,
    dry_run: DryRun = False,
) -> None:
    """Merge agents' branches, all or none.

    Merges into the branch that is checked out here, or into --into BRANCH; in a worktree of one of the agents, into
    the branch from which the worktree was created. Everything is merged in memory first, with git's merge settings: if
    there is a conflict, the exit code is 4 and nothing is changed. If the branch is checked out, saves the state there
    and updates its files; refuses if local changes are in the way.
    """
    from git_agentos.worktree import agent_merge as merging

    result = merging.merge(ctx.workspace().context, ids, into=into, squash=squash, dry_run=dry_run)
    ctx.output.show("merge", result, lambda style: render.merged(result, style))
    if result.conflicts:
        raise Exit(ConflictError.exit_code)


@worktree.command()
def sync(
    ctx: Invocation,
    ids: Annotated[list[str] | None, Argument(metavar="[ID...]")] = None,
    all_: Annotated[bool, Option("--all", help="Sync all agents' worktrees.")] = False,
    rebase: Annotated[bool, Option("--rebase/--merge", help="Rebase onto the base; or merge it (default).")] = False,
    dry_run: DryRun = False,
) -> None:
    """Bring agents' branches up to a base that has moved on.

    Merges the base into each branch, or replays the branch's commits onto it, in memory first; then updates the
    worktree, after a checkpoint. Changes that are not committed are kept. A worktree with a conflict stays as it was,
    and the exit code is 4; one in which a process works is left alone. 'git agentos undo' in a worktree undoes it.
    Without ID, syncs the current worktree.
    """
    from git_agentos.worktree import base_update

    result = base_update.sync(ctx.workspace().context, ids or (), all_=all_, rebase=rebase, dry_run=dry_run)
    ctx.output.show("worktree-sync", result, lambda style: render_upkeep.synced(result, style))
    if result.conflicts:
        raise Exit(ConflictError.exit_code)


@worktree.command()
def conflicts(
    ctx: Invocation,
    ids: Annotated[list[str] | None, Argument(metavar="[ID...]")] = None,
    dirty: Annotated[bool, Option("--dirty", help="Compare latest checkpoints, not commits.")] = False,
) -> None:
    """Show which agents' branches conflict.

    Merges every two of the agents (by default, of all that have a worktree) in memory; nothing is changed. Also
    suggests an order in which to merge: the agent that conflicts with the fewest others first.
    """
    from git_agentos.worktree import conflicts as comparison

    result = comparison.conflicts(ctx.workspace().context, ids or (), dirty=dirty)
    ctx.output.show("conflicts", result, lambda style: render.conflicts(result, style))
