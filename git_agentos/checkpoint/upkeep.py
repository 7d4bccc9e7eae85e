"""Applying `agentos.retention` and `agentos.diskBudget` in the background, at most once an hour.

    <common dir>/agentos/upkeep.turn    empty; its time is when upkeep was started last
    <common dir>/agentos/over-budget    there while more room is taken than the budget allows: how many bytes, as text

Whoever creates a checkpoint starts it, as a process of its own: `git agentos storage upkeep`. In a repository that is
new to git-agentos, the first hour begins with the first checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git.location import Location
from git_agentos.util import directories, files

_MARK = "upkeep.turn"
_EVERY = 3600.0  # seconds
_OVER = "over-budget"
BUDGET_HINT = (
    "'git agentos storage --all' shows what takes room; the oldest automatic checkpoints are forgotten after an hour"
)


def start_if_due(worktree: OpenWorktree) -> None:
    """Start upkeep, unless it was started within the last hour, or nothing is to be done. Nothing is raised."""
    path = os.path.join(worktree.location.shared_state_dir, _MARK)
    with contextlib.suppress(OSError):
        try:
            age = time.time() - os.stat(path).st_mtime
        except FileNotFoundError:
            _touch(worktree, path)
            return
        if 0 <= age < _EVERY:
            return
        _touch(worktree, path)
        values = worktree.settings.values
        if config.retention(values).strip().lower() != "keep" or "agentos.diskbudget" in values:
            _start(worktree.location.root)


def budget_mark(location: Location) -> str:
    """The path of the file that is there while more room is taken than the budget allows."""
    return os.path.join(location.shared_state_dir, _OVER)


def over_budget(location: Location) -> int | None:
    """How many bytes were taken when that was more than the budget; None if it was not."""
    try:
        return int(files.read(budget_mark(location), limit=100))
    except (OSError, ValueError):
        return None


def _touch(worktree: OpenWorktree, path: str) -> None:
    directories.make_own(worktree.location.shared_state_dir)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    os.close(descriptor)
    os.utime(path)


def _start(root: str) -> None:
    from git_agentos.git import process
    from git_agentos.process import programs  # once an hour

    words = [sys.executable, "-P", "-m", "git_agentos", "-C", root, "storage", "upkeep", "-q"]
    programs.start_in_background(words, env=process.user_environment({}))
