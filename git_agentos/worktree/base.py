"""Which commit a new worktree begins at, and the folders of a sparse checkout of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import UsageError, WorktreeError
from git_agentos.git import refs, trees
from git_agentos.worktree import integration, layout


def base_of(context: OpenWorktree, from_ref: str | None) -> tuple[str, str]:
    """The name of a new worktree's base, and its commit: `from_ref`, or HEAD of the worktree of `context`."""
    head = refs.read_head(context.location)
    if from_ref is None:
        if head.commit is None:
            raise WorktreeError(
                "there is no commit yet to begin a worktree from", "make a first commit, or give --from"
            )
        return head.branch or head.commit, head.commit
    oid = context.repository.find_commit(from_ref)
    if oid is None:
        raise WorktreeError(f"'{from_ref}' is not a commit", "give a branch, a tag or a commit id; nothing was changed")
    return _base_name(context, from_ref) or oid, oid


def _base_name(context: OpenWorktree, from_ref: str) -> str | None:
    """The short name of the branch or tag that `from_ref` names, in full where that is ambiguous; None for everything
    else: an expression like `HEAD~1` means another commit in another worktree."""
    args = ["rev-parse", "--symbolic-full-name", "--verify", "--quiet", "--end-of-options", from_ref]
    full = os.fsdecode(context.repository.git(*args, ok=(0, 1, 128)).strip().removeprefix(b"--end-of-options").strip())
    for prefix in (layout.HEADS, "refs/remotes/", "refs/tags/"):
        if full.startswith(prefix):
            short = full.removeprefix(prefix)
            found = integration.find_base_ref(context, short)
            return from_ref if from_ref == full else short if found == full else full
    return None


def folders(context: OpenWorktree, base: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The folders of a sparse checkout, from the top; UsageError for what cannot be one."""
    found = []
    tree = context.repository.commit_tree(base)
    for path in paths:
        name = os.path.normpath(path)
        if os.path.isabs(name) or name.split(os.sep)[0] in ("..", ".", "") or name.startswith("-"):
            raise UsageError(f"'{path}' is not a folder of the repository", "give it from the top, without '..'")
        entry = trees.find(context.repository, tree, os.fsencode(name))
        if entry is None or entry[0] != trees.DIRECTORY:
            raise WorktreeError(f"there is no folder '{path}' in {base[:8]}", "nothing was changed")
        found.append(name)
    return tuple(dict.fromkeys(found))
