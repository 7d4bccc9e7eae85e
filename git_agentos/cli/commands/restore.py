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

    ID is at least four digits of a checkpoint's id, 'latest', or '@{N}' for the N-th newest, 0 being the latest.
    """
    if options.no_branch and options.branch is not None:
        raise UsageError("--branch and --no-branch cannot be used together")
    if paths and options.branch is not None:
        raise UsageError("--branch and PATH cannot be used together: paths are restored without moving HEAD")
    result = ctx.workspace().restore(spec, paths or (), **options._asdict(), **timelines._asdict())
    kept_branch, elsewhere = options.no_branch or bool(paths), options.worktree is not None
    ctx.output.show("restore", result, lambda _: render.restored(result, kept_branch=kept_branch, elsewhere=elsewhere))
