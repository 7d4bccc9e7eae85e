"""Whether something has happened in an agent's worktree since a time."""

from __future__ import annotations

import os

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import refs
from git_agentos.git.location import Location
from git_agentos.util import times
from git_agentos.worktree import losses
from git_agentos.worktree.record import AgentWorktree


def has_changed(context: OpenWorktree, worktree: AgentWorktree, since: float) -> bool:
    """Whether a file, HEAD or the timeline of a worktree has changed since (seconds since the epoch)."""
    link = timeline.newest(context.repository, worktree.id)
    if link is not None:
        created_at = format.read(context.repository, link.checkpoint).created_at
        if times.to_seconds(created_at) > since:
            return True
    return _head_moved(worktree.location, since) or losses.changed_since(worktree.root, int(since * 1e9)) is not None


def _head_moved(location: Location, since: float) -> bool:
    """Whether the reflog of HEAD has an entry since (seconds since the epoch), or cannot tell."""
    lines = refs.read_log(location, "HEAD")
    if not lines:
        return os.stat(os.path.join(location.git_dir, "HEAD")).st_mtime > since
    words = lines[-1].partition(b"\t")[0].rsplit(b" ", 2)
    return len(words) != 3 or not words[1].isdigit() or int(words[1]) > since
