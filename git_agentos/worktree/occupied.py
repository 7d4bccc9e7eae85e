"""Whose folder it is that stands where a worktree was."""

from __future__ import annotations

import os

from git_agentos.errors import AgentosError
from git_agentos.git import process, worktrees
from git_agentos.git.location import Location


def taken_by(root: str, git_dir: str, common_dir: str) -> str | None:
    """Why the folder at `root` is not the worktree of `git_dir`; None where it is, or where nothing says otherwise."""
    return worktrees.other_owner(root, git_dir) or _unlike(Location(root, git_dir, common_dir))


def _unlike(location: Location) -> str | None:
    """A folder without a `.git` file that has files, and none of those that the index has, was put there by somebody:
    it is no worktree that has lost that file alone."""
    if os.path.lexists(os.path.join(location.root, ".git")):
        return None
    try:
        out = process.run(["ls-files", "-z"], cwd=location.root, env=location.environment())
    except (AgentosError, OSError):
        return None
    paths = [path for path in out.split(b"\0") if path]
    root = os.fsencode(location.root)
    if not paths or any(os.path.lexists(os.path.join(root, path)) for path in paths):
        return None
    return "it has no '.git' file, and none of the worktree's files"
