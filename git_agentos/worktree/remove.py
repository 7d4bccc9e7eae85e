"""`worktree remove`: everything saved, then out of the way."""

from __future__ import annotations

from git_agentos.checkpoint.model import OpenWorktree
from git_agentos.guard import authorize
from git_agentos.worktree import end
from git_agentos.worktree.end import Removal


@authorize.entry("worktree", "remove")
def remove(context: OpenWorktree, id_: str, *, delete_branch: bool = False, discard_ignored: bool = False) -> Removal:
    """Save all that is in the managed worktree `id_` in a checkpoint, and remove it.

    With `delete_branch` its branch goes as well; the timeline keeps the commits. With `discard_ignored`, ignored files
    that cannot be saved are lost, and named in the result. Refuses what `end.end` refuses.
    """
    return end.end(context, id_, end.REMOVE, delete_branch=delete_branch, discard_ignored=discard_ignored)
