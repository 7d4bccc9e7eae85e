"""Pending checkpoints: the work of `post-commit` and others, done in the background.

A hook writes a note (`notes`) and starts `record` in the background. If that is killed, the notes stay, and the next
reader of the timeline calls `record` first. So nobody sees the timeline without the checkpoint of a noted command. If
several commands are noted, one checkpoint is created for the last of them: the states in between are gone.
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.hooks import CONTINUE, HookCall, notes

_LOCK = "recording"


def record(location: Location) -> None:
    """Create the pending checkpoints of a worktree, after any other process that does so. Nothing is raised: errors are
    logged, and the next hook prints them."""
    if not notes.paths(location):
        return
    with contextlib.suppress(OSError), state_dir.lock(location, _LOCK):
        while True:
            found = [notes.read(path) for path in notes.paths(location)]
            if not found:
                return
            from git_agentos.hooks import recorders

            recorders.record_noted(location, found[-1])
            for each in found:
                os.unlink(each.path)


def post_commit(_hook: HookCall) -> int:
    """Create the checkpoint of a noted command (`notes`), after a commit or another command."""
    from git_agentos.hooks import git_command

    root = os.environ.pop("AGENTOS_RECORD_IN", None)
    location = git_command.locate_worktree(root)
    if location is None:
        return CONTINUE
    if root is not None:
        with contextlib.suppress(OSError):
            os.setsid()  # the command has ended: ignore signals of its terminal
    record(location)
    return CONTINUE


post_merge = post_rewrite = post_checkout = post_commit
