"""Filling the pool (see `pool`), as the process in the background does."""

from __future__ import annotations

import contextlib
import os

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import LockedError
from git_agentos.git import refs, worktrees
from git_agentos.worktree import creation_recovery, journal, layout, new_worktree, pool
from git_agentos.worktree.layout import NewPath
from git_agentos.worktree.pool import Prepared


def fill(context: OpenWorktree) -> int:
    """Prepare worktrees at HEAD's commit until there are as many as agentos.pool says, or remove those too many; how
    many are ready then. Nothing is done while another process fills it."""
    location = context.location
    with contextlib.suppress(LockedError), pool.filling(location):
        clean(context)
        wanted = config.pool(context.settings.values)
        commit = refs.read_head(location).commit
        while commit is not None and len(pool.filled(location)) < wanted:
            _prepare(context, commit)
        for each in pool.filled(location)[wanted:]:
            _drop(context, each)
    return len(pool.filled(location))


def _prepare(context: OpenWorktree, commit: str) -> None:
    name = os.urandom(6).hex()
    path = os.path.join(layout.pool_folder(context.location, context.settings), f"p-{name}")
    where = NewPath(path, "", layout.exclude(context, path))
    with new_worktree.creating_for_pool(context, where, commit, pool.UNFINISHED + name) as git_dir:
        pool.mark(git_dir, commit)


def clean(context: OpenWorktree) -> None:
    """Remove what is half-made, of processes that were killed."""
    for each in journal.interrupted(context.location):
        if each.id.startswith(pool.UNFINISHED):
            with worktrees.lock(context.location):
                taken = journal.take_over(each)
                if taken is not None:
                    creation_recovery.abort_creation(context.location, taken)


def _drop(context: OpenWorktree, surplus: Prepared) -> None:
    """Remove a prepared worktree, unless it has been claimed meanwhile."""
    location = context.location
    with worktrees.lock(location):
        if surplus not in pool.prepared(location):
            return
        git_dirs = worktrees.linked_git_dirs(location.common_dir)
        others = [os.path.basename(each) for each in git_dirs if each != surplus.git_dir]
        begun = journal.start(
            location, pool.UNFINISHED + os.path.basename(surplus.path).removeprefix("p-"), journal.CREATE
        )
        gone = creation_recovery.empty_fields(surplus.path, others)
        creation_recovery.abort_creation(location, journal.update(begun, **gone))
