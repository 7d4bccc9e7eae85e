"""`core.fsmonitor`: git asks what has changed before it changes any file itself. The command is judged then."""

from __future__ import annotations

import contextlib
import os

from git_agentos.git import stale_locks
from git_agentos.guard.assessment import assessor
from git_agentos.guard.decision import Assessment
from git_agentos.hooks import passed, pending, subject, verdict
from git_agentos.hooks.called import Called
from git_agentos.hooks.subject import Subject


def fsmonitor(called: Called) -> int:
    """Decide about the git command `pid`, before it has touched a file. What is still to be recorded of earlier ones is
    recorded first: it is about the files as they are now."""
    asked = subject.of(called.pid)
    if asked.location is not None:
        pending.record(asked.location)
    code, _ = verdict.settle(asked, _judge, layer="fsmonitor", covers=passed.FILES)
    return code


def _judge(asked: Subject) -> Assessment:
    return assessor.assess_git(asked.call, asked.who, asked.settings)


def unlock(called: Called) -> int:
    """Remove the index.lock of a git that had to be killed, where no living process can be its owner."""
    location = subject.located()
    if location is None or os.path.isdir(f"/proc/{called.pid}"):
        return 0
    lock = stale_locks.Candidate(os.path.join(location.git_dir, "index.lock"), stale_locks.everywhere(location))
    with contextlib.suppress(OSError):
        stale_locks.remove(location, [lock])
    return 0
