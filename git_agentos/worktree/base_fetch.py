"""Fetching the base of a new worktree, where that follows a branch of a remote: an agent that begins at a base that is
days old does work that is done already, or that conflicts.

    <common dir>/agentos/fetched.json   when each branch of a remote was last asked for, by the ref that tracks it
    <common dir>/agentos/fetch.turn     flock(2): of many worktrees that are created at once, one fetches

Only the remote-tracking branch moves. A branch of the user's never does: `worktree create` says how far it is behind.
"""

from __future__ import annotations

import json
import os
import time
import warnings

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, AgentosWarning, system_reason
from git_agentos.git import refs, remote_branch, worktrees
from git_agentos.git.remote_branch import RemoteBranch
from git_agentos.guard import authorize
from git_agentos.util import directories, files, locks
from git_agentos.worktree import base

_FRESH = 15 * 60.0  # seconds
_TIMEOUT = 20.0
_STAMPS = "fetched.json"


def followed(context: OpenWorktree, from_ref: str | None) -> RemoteBranch | None:
    """The branch of a remote that the base `from_ref`, or HEAD's branch, follows; None where it follows none."""
    if not any(key.startswith("remote.") for key in context.settings.values):
        return None
    ref = refs.read_head(context.location).ref if from_ref is None else base.symbolic_name(context, from_ref)
    return remote_branch.followed_by(context.location, context.settings.values, ref) if ref else None


def refresh(context: OpenWorktree, branch: RemoteBranch, *, always: bool) -> None:
    """Fetch the branch; unless `always`, which the caller has asked the guard for, only where the last fetch is 15
    minutes old and an agent may fetch. What fails is a warning: the worktree begins at what is known here."""
    location = context.location
    folder = directories.make_own(location.shared_state_dir)
    began = time.time()
    with locks.hold(os.path.join(folder, "fetch.turn")):
        stamps = _read(folder)
        git_dirs = worktrees.linked_git_dirs(location.common_dir)
        last = max(stamps.get(branch.tracking, 0.0), remote_branch.last_fetched(location, git_dirs, branch))
        now = time.time()
        # Another process may have fetched while this one waited for it.
        if 0 <= now - last < _FRESH and not (always and last < began):
            return
        if not always and not authorize.may(location, "fetch"):
            _warn(branch, "agents may not fetch without approval, by the guard's policy")
            return
        try:
            remote_branch.fetch(location, branch, timeout=_TIMEOUT)
        except (AgentosError, OSError) as error:
            reason = error.message if isinstance(error, AgentosError) else system_reason(error)
            _warn(branch, reason)
        files.replace(
            os.path.join(folder, _STAMPS), json.dumps({**stamps, branch.tracking: now}).encode(), durable=False
        )


def behind(context: OpenWorktree, branch: RemoteBranch, commit: str) -> int | None:
    """How many commits of the remote's branch a commit lacks; None where that branch was never fetched."""
    tip = refs.resolve(context.location, branch.tracking)
    if tip is None:
        return None
    return int(context.repository.git("rev-list", "--count", f"{commit}..{tip}"))


def _warn(branch: RemoteBranch, reason: str) -> None:
    message = f"'{branch.name}' could not be fetched: {reason}; the worktree begins at what is known here"
    warnings.warn(AgentosWarning(message), stacklevel=3)


def _read(folder: str) -> dict[str, float]:
    """When branches were last asked for; a file that cannot be read says nothing."""
    try:
        found = files.read_object(os.path.join(folder, _STAMPS))
    except (OSError, ValueError):
        return {}
    return {key: float(value) for key, value in found.items() if isinstance(value, int | float)}
