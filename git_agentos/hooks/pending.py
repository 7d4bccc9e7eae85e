"""What is still to be recorded: the work of `post-commit` and the like, done in the background.

A hook writes a note (`notes`) and starts `record` in the background. If that is killed, the notes stay, and the next
reader of the timeline (`record` again) does its work: so a command that was noted is recorded before anybody sees the
timeline without it. Several that wait are one checkpoint, by the last one of them: the states between them are gone.
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.hooks import CONTINUE, HookCall, notes

_LOCK = "recording"


def record(location: Location) -> None:
    """Record what is pending in a worktree, after any process that is recording there. Nothing is raised: errors are in
    the log, and the next hook prints them."""
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
    """Record what is noted (`notes`), after a commit or another command."""
    from git_agentos.hooks import git_command

    root = os.environ.pop("AGENTOS_RECORD_IN", None)
    location = git_command.locate_worktree(root)
    if location is None:
        return CONTINUE
    if root is not None:
        with contextlib.suppress(OSError):
            os.setsid()  # the command has ended: signals of its terminal are not for us
    record(location)
    return CONTINUE


post_merge = post_rewrite = post_checkout = post_commit
