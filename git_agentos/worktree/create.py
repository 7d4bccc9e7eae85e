"""A new managed worktree, with the state of a checkpoint in it: `restore --worktree NAME`.

It lies beside the repository, in `<repository>.worktrees/<NAME>`, on the branch `agent/<NAME>`, which begins at the
checkpoint's commit. The worktree that one stands in is not touched. Creations take turns within the repository (git's
own `worktree add` fails when several run at once), and a failure leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from git_agentos import config
from git_agentos.checkpoint import format, operation, restore, take, timeline
from git_agentos.checkpoint.format import Origin
from git_agentos.checkpoint.restore import Options, Restoration
from git_agentos.config import Settings
from git_agentos.errors import AgentosError, LockedError, RestoreError, UsageError
from git_agentos.git import locks, refs
from git_agentos.git.location import Location, locate
from git_agentos.git.repository import Repository
from git_agentos.git.scan import read_config

BRANCHES = "agent/"


def path_of(location: Location, name: str) -> str:
    """Where the worktree `name` goes: in the folder `<repository>.worktrees` beside the main repository."""
    top = location.common_dir.removesuffix(os.sep + ".git")
    return os.path.join(top.removesuffix(".git") + ".worktrees", name)


def with_state(repository: Repository, settings: Settings, origin: Origin, checkpoint: str, name: str) -> Restoration:
    """Make the worktree `name` and restore `checkpoint` in it.

    UsageError for an ill-formed name, RestoreError where the name, its branch or its folder is taken, or the
    checkpoint was made before the first commit.
    """
    config.agent_id(name, source="--worktree")
    if name == timeline.MAIN:
        raise UsageError(f"'{timeline.MAIN}' is the main worktree's name", "choose another name")
    target = format.read_state(repository, checkpoint)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {checkpoint[:8]} was made before the first commit: git cannot make a worktree of it",
            "restore it in place, or with --no-branch; nothing was changed",
        )
    folder = locks.own_folder(repository.location.shared_state_dir)
    try:
        with locks.turn_at(os.path.join(folder, "worktrees.turn")):
            path = _free_path(repository.location, name)
            detached = target.head.ref is None or operation.on_own_branch(target.operation)
            with _removed_on_failure(repository, path, None if detached else BRANCHES + name):
                where = ["--detach"] if detached else ["-b", BRANCHES + name]
                repository.git("worktree", "add", "--quiet", "--no-track", *where, path, target.head.commit)
                location = locate(path, inherit=False)
                inner = Repository(location)
                own = origin._replace(timeline=timeline.name_of(location), worktree_path=location.root)
                values = settings._replace(values=read_config(location))
                done = restore.restore(inner, values, own, checkpoint, Options(no_branch=True))
    except OSError as error:
        raise take.storage_error(error) from error
    return done


def _free_path(location: Location, name: str) -> str:
    path = path_of(location, name)
    if os.path.lexists(path):
        raise RestoreError(f"'{path}' exists already", "choose another name; nothing was changed")
    if os.path.lexists(os.path.join(location.common_dir, "worktrees", name)):
        raise RestoreError(f"there is a worktree '{name}' already", "choose another name; nothing was changed")
    branch = f"refs/heads/{BRANCHES}{name}"
    if refs.resolve(location, branch) is not None:
        raise RestoreError(f"a branch '{BRANCHES}{name}' exists already", "choose another name; nothing was changed")
    restore.check_room(location, branch)
    return path


@contextlib.contextmanager
def _removed_on_failure(repository: Repository, path: str, branch: str | None) -> Iterator[None]:
    parent = os.path.dirname(path)
    had_parent = os.path.isdir(parent)
    try:
        yield
    except BaseException:
        with contextlib.suppress(AgentosError):
            repository.git("worktree", "remove", "--force", path, ok=(0, 128))
        shutil.rmtree(path, ignore_errors=True)
        if branch is not None:
            with contextlib.suppress(AgentosError, LockedError):
                refs.delete(repository.location, f"refs/heads/{branch}", with_log=True)
        if not had_parent:
            with contextlib.suppress(OSError):
                os.rmdir(parent)
        raise
