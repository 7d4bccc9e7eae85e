"""`git agentos worktree`: complete, archive, remove, repair."""

from typing import Annotated

import typer

from git_agentos.cli.invocation import Id, Invocation, command
from git_agentos.cli.render.text import worktree as text_worktree

OptionalId = Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("complete")(complete)
    group.command("archive")(archive)
    group.command("remove")(remove)
    group.command("repair")(repair)


@command
def complete(
    run: Invocation,
    id_: OptionalId = None,
    push: Annotated[
        bool, typer.Option("--push", help="Push the branch, and open a pull request with gh or glab.")
    ] = False,
) -> None:
    """Take a final checkpoint, and print a merge request in Markdown.

    It tells what changed, the checkpoints, decisions and errors, and what is not committed. The worktree stays, for
    the review. Without ID it is the worktree that you are in.
    """
    from git_agentos.worktree import completion as completing

    done = completing.complete(run.workspace().context, id_, push=push)
    run.output.show("worktree-complete", done, lambda _: text_worktree.completed(done))
    if done.problems:
        raise typer.Exit(1)


@command
def archive(run: Invocation, id_: Id) -> None:
    """Save everything in a worktree, its log and memory, and remove it.

    Branch and timeline stay, 'git agentos worktree create ID --revive' brings the worktree back. Refuses a locked
    worktree, one that a process works in, and one in which something cannot be saved.
    """
    from git_agentos.worktree import removal

    done = removal.archive(run.workspace().context, id_)
    run.output.show("worktree-archive", done, lambda style: text_worktree.ended(done, style, archived=True))


@command
def remove(
    run: Invocation,
    id_: Id,
    delete_branch: Annotated[bool, typer.Option("--delete-branch", help="Delete its branch, too.")] = False,
    discard_ignored: Annotated[
        bool, typer.Option("--discard-ignored", help="Lose ignored files that cannot be saved.")
    ] = False,
) -> None:
    """Save everything in a worktree in a checkpoint, and remove it.

    Changes, untracked and ignored files, commits that no branch has, and repositories inside are saved first. Refuses
    a locked worktree, one that a process works in, and one in which something cannot be saved.
    """
    from git_agentos.worktree import removal

    context = run.workspace().context
    done = removal.remove(context, id_, delete_branch=delete_branch, discard_ignored=discard_ignored)
    run.output.show("worktree-remove", done, lambda style: text_worktree.ended(done, style, archived=False))


@command
def repair(run: Invocation, id_: OptionalId = None) -> None:
    """Mend what kills, moved folders and power cuts left, and lose nothing.

    Interrupted commands are finished or taken back, moved worktrees found and guarded again, stale locks removed,
    damaged records and indexes and pruned entries made anew. What cannot be mended is told, with what to do. The exit
    code is 1 while something is left.
    """
    from git_agentos.worktree import repair as repairing

    done = repairing.repair(run.workspace().context, id_)
    run.output.show("worktree-repair", done, lambda style: text_worktree.repaired(done, style))
    if any(not each.fixed for each in done.findings):
        raise typer.Exit(1)
