"""The entries of a harness's sessions in the agent log: where a session began and ended, where its conversation was
compacted, and where a sub-agent stopped.

    type "session", details {"event": "began" | "ended" | "compaction" | "subagent-stop", "harness": …, "session_id": …,
    "reason": what the harness says of it}

A harness that has our hook twice in its settings (the user's and the project's) sends each event twice. Such a
repetition is found by the last event of each session of the last minute, which is noted in

    <git directory of the worktree>/agentos/harness/moments    {session's key: [digest of the event, seconds]…}
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from git_agentos import log
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.guard.harness import events
from git_agentos.guard.harness.events import Event
from git_agentos.store import rows
from git_agentos.turns.sessions import Session
from git_agentos.util import directories, files

_KEPT = 60.0  # seconds in which a repetition comes
_LIMIT = 1 << 20
_EVENTS = {
    events.SESSION_START: ("began", "the session began"),
    events.SESSION_END: ("ended", "the session ended"),
    events.COMPACTION: ("compaction", "the conversation is compacted"),
    events.SUBAGENT_STOP: ("subagent-stop", "a sub-agent stopped"),
}


def record(worktree: OpenWorktree, session: Session, event: Event, reason: str, checkpoint: str | None) -> None:
    """Write the entry of a session's event, which found the worktree as `checkpoint` has it, unless it repeats the
    session's last one."""
    name, summary = _EVENTS[event.kind]
    details = {"event": name, "harness": session.harness, "session_id": session.id}
    if reason:
        details["reason"] = reason
        summary = f"{summary} ({reason})"
    with state_dir.lock(worktree.location, "sessions"):
        if _recent(worktree.location).get(session.key, [""])[0] == event.digest:
            return
        if event.kind == events.SESSION_END and not _is_known(worktree, session):
            return
        log.write(worktree, rows.SESSION, summary, details=details, checkpoint_id=checkpoint)
        _note(worktree.location, session.key, event.digest)


def _is_known(worktree: OpenWorktree, session: Session) -> bool:
    """Whether the worktree's log knows a session. Claude Code ends one for each of its commands, such as `claude plugin
    list`, of which nothing else is ever told."""
    kinds = (rows.SESSION, rows.TURN)
    return session.id is None or bool(log.read(worktree, kinds=kinds, text=session.id, limit=1).rows)


def _note(location: Location, key: str, digest: str) -> None:
    path = _path(location)
    directories.make_own(os.path.dirname(path))
    body = {**_recent(location), key: [digest, time.time()]}
    files.replace(path, json.dumps(body).encode("ascii"), mode=0o600, durable=False)


def _recent(location: Location) -> dict[str, list[Any]]:
    """The last event of each session that had one in the last minute."""
    now = time.time()
    try:
        body = files.read_object(_path(location), limit=_LIMIT)
        return {key: each for key, each in body.items() if abs(now - float(each[1])) < _KEPT}
    except (OSError, ValueError, TypeError, LookupError):
        return {}


def _path(location: Location) -> str:
    return os.path.join(location.state_dir, "harness", "moments")
