"""`core.fsmonitor`: git asks what has changed before it changes any file itself. The command is judged then."""

from __future__ import annotations

import contextlib
import os

from git_agentos import processes
from git_agentos.git import worktrees
from git_agentos.guard import judge
from git_agentos.guard.decision import Judgement
from git_agentos.hooks import passed, subject, verdict
from git_agentos.hooks.called import Called
from git_agentos.hooks.subject import Subject


def fsmonitor(called: Called) -> int:
    """Decide about the git command `pid`, before it has touched a file."""
    code, _ = verdict.settle(subject.of(called.pid), _judge, layer="fsmonitor", covers=passed.FILES)
    return code


def _judge(asked: Subject) -> Judgement:
    return judge.judge(asked.call, asked.who, asked.settings)


def unlock(called: Called) -> int:
    """Remove the index.lock of a git that had to be killed, where no living process can be its owner."""
    location = subject.located()
    if location is None or os.path.isdir(f"/proc/{called.pid}"):
        return 0
    lock = os.path.join(location.git_dir, "index.lock")
    places = [location.root, location.git_dir, location.common_dir]
    for entry in worktrees.entries(location.common_dir):
        places += [entry, *filter(None, [worktrees.known_root(entry)])]
    with contextlib.suppress(OSError):
        if processes.why_not_stale(lock, places) is None:
            os.unlink(lock)
    return 0
