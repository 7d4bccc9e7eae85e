"""Discarding a worktree without a checkpoint: for whoever has all of it elsewhere.

    to_pool     its files are used again: the folder gets an entry of its own, and becomes a prepared worktree (`pool`)
    to_trash    the folder goes (`trash`)

Its branch and its timeline stay. Killed at any moment, the worktree is there as it was, or it is gone; what was made of
a prepared one until then is removed by `pool_filling.clean`, what was not deleted yet by `trash.delete_leftovers`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import refs, worktrees
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation
from git_agentos.process import deletion
from git_agentos.util import files
from git_agentos.worktree import creation_recovery, journal, layout, pool, trash
from git_agentos.worktree.record import AgentWorktree


def to_pool(
    context: OpenWorktree, worktree: AgentWorktree, base_sha: str, index: bytes, reset: Callable[[Location], None]
) -> None:
    """Make the folder of an agent's worktree a prepared one at `base_sha`; its entry goes, with all that is in it.

    `index` is what the file of the index has then. `reset` makes the files such as the index says, by what git compares
    of a file's times; it is called in the new place. Whatever it raises, the worktree is gone then.
    """
    location = context.location
    name = f"p-{os.urandom(6).hex()}"
    path = os.path.join(layout.pool_folder(location, context.settings), name)
    with worktrees.lock(location):
        begun = journal.start(location, pool.UNFINISHED + name.removeprefix("p-"), journal.CREATE)
        entries = [os.path.basename(each) for each in worktrees.linked_git_dirs(location.common_dir)]
        begun = journal.update(begun, **creation_recovery.empty_fields(path, entries))
        try:
            there = _move(location, worktree, path, base_sha, index)
        except BaseException:
            creation_recovery.abort_creation(location, begun)
            raise
    try:
        reset(there)
        pool.mark(there.git_dir, base_sha, is_returned=True)
    except BaseException:
        with worktrees.lock(location):
            creation_recovery.abort_creation(location, begun)
        raise
    journal.finish(begun)


def to_trash(location: Location, worktree: AgentWorktree) -> None:
    """Remove an agent's worktree, and delete its files in the background."""
    with worktrees.lock(location):
        entry = trash.choose_entry(location, worktree.root, worktree.id)
        trash.mark(worktree.git_dir, entry.folder)
        if os.path.isdir(worktree.root) and not os.path.islink(worktree.root):
            trash.move(worktree.root, entry.folder)
        activation.unregister(location, worktree.git_dir)
        trash.move(worktree.git_dir, entry.entry)
    trash.delete([entry])


def _move(location: Location, worktree: AgentWorktree, path: str, base_sha: str, index: bytes) -> Location:
    """Make an entry for `path`, move the folder there, and remove its former entry."""
    git_dir = os.path.join(location.common_dir, "worktrees", os.path.basename(path))
    there = location.worktree(path, git_dir)
    os.makedirs(git_dir)
    worktrees.write_entry(there, refs.Head(None, base_sha))
    files.replace(os.path.join(git_dir, "index"), index, durable=False)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(worktree.root, ".git"))
    os.rename(worktree.root, path)
    files.replace(os.path.join(path, ".git"), os.fsencode(f"gitdir: {git_dir}\n"), durable=False)
    activation.unregister(location, worktree.git_dir)
    # By one rename: of a folder that was deleted in part, nobody could tell what it had been.
    entry = trash.choose_entry(location, worktree.root, worktree.id).entry
    trash.move(worktree.git_dir, entry)
    deletion.remove_folders([entry])
    return there
