"""`git agentos restore`: restore a checkpoint."""

from typing import Annotated, NamedTuple

from git_agentos.cli.command import command
from git_agentos.cli.invocation import Invocation
from git_agentos.cli.options import CheckpointTimelines, DryRun, Expected, Id, IdempotencyKey
from git_agentos.cli.parameters import Argument, Option
from git_agentos.cli.render.text import restore as render
from git_agentos.errors import UsageError


class Options(NamedTuple):
    """What is restored, and where."""

    no_branch: Annotated[bool, Option("--no-branch", help="Do not move HEAD.")] = False
    branch: Annotated[
        str | None, Option("--branch", metavar="NAME", help="Name of the new branch that is checked out.")
    ] = None
    worktree: Annotated[
        str | None,
        Option("--worktree", metavar="NAME", help="Restore into a new worktree; do not change this one."),
    ] = None
    keep_new: Annotated[bool, Option("--keep-new", help="Keep files created since the checkpoint.")] = False
    patch: Annotated[
        bool, Option("-p", "--patch", help="Ask for each hunk in which the worktree differs whether to restore it.")
    ] = False
    hunks: Annotated[
        list[str] | None,
        Option("--hunks", metavar="PATH:N[,N...]", help="Restore only these hunks of a file; repeatable."),
    ] = None
    dry_run: DryRun = False
    expected: Expected = None
    idempotency_key: IdempotencyKey = None


@command()
def restore(
    ctx: Invocation,
    spec: Id,
    paths: Annotated[list[str] | None, Argument(metavar="[PATH...]")] = None,
    *,
    options: Options,
    timelines: CheckpointTimelines,
) -> None:
    """Restore a checkpoint on a new branch.

    Saves the current state first. Then the index, the files, the untracked files and an operation in progress
    become those of the checkpoint. No existing branch moves. With PATH..., only these paths are restored, and
    HEAD does not move. 'git agentos undo' undoes it.

    With --patch or --hunks, only the chosen hunks of 'git agentos checkpoint diff ID' are restored, in the
    worktree. The numbers of --hunks count from 1 in each file.

    ID is at least four digits of a checkpoint's id, 'latest', or '@{N}' for the N-th newest, 0 being the latest.
    """
    if options.no_branch and options.branch is not None:
        raise UsageError("--branch and --no-branch cannot be used together")
    if paths and options.branch is not None:
        raise UsageError("--branch and PATH cannot be used together: paths are restored without moving HEAD")
    if (options.patch or options.hunks) and (options.branch is not None or options.worktree or options.keep_new):
        raise UsageError("--patch and --hunks cannot be used together with --branch, --worktree or --keep-new")
    if options.hunks and (options.patch or paths):
        raise UsageError("--hunks cannot be used together with --patch or PATH: its words name the paths")
    workspace, choose = ctx.workspace(), None
    if options.patch:
        from git_agentos.cli import hunk_questions  # few restores ask

        choose = hunk_questions.chooser(ctx.output, workspace.context.location)
    given = options._asdict()
    del given["patch"]
    given["hunks"] = options.hunks or ()
    result = workspace.restore(spec, paths or (), **given, choose=choose, **timelines._asdict())
    kept_branch, elsewhere = (
        options.no_branch or bool(paths or options.patch or options.hunks),
        options.worktree is not None,
    )
    ctx.output.show("restore", result, lambda _: render.restored(result, kept_branch=kept_branch, elsewhere=elsewhere))
