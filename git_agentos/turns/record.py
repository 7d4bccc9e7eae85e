"""Turns as entries of the agent log, which are never changed: one when a turn begins, and one when it ends.

Both are of type `turn`; what they say is in their details:

    turn       the turn's id
    event      `began`; `ended`; or `lost`: another turn has found out that the client was killed
    by         of an end: `stop`, `prompt` (the session's next one), `session-end`
    harness, session_id, prompt    of a beginning
    before     of an end: the checkpoint when the turn began, or null. It carries the entry of the beginning
    after      of an end: the checkpoint then, or null
    changed    how many paths differ between the two; the first thousand are the entry's files

A client may go on after its stop: then a turn has several ends, and the last one counts.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from git_agentos import log
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import state_dir
from git_agentos.redact import redact
from git_agentos.turns import changes, sessions
from git_agentos.turns.sessions import OpenTurn, Session
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import ordered_id

TYPE = "turn"
BEGAN, ENDED, LOST = "began", "ended", "lost"
STOP, PROMPT, SESSION_END = "stop", "prompt", "session-end"
_MOST = 4000  # characters of a prompt


class Begun(NamedTuple):
    """A turn that begins, and the session's turn before it, if that has not ended."""

    turn: OpenTurn
    before_it: OpenTurn | None = None


def begin(worktree: OpenWorktree, session: Session, turn: OpenTurn, prompt: str) -> Begun:
    """Record that a turn begins; `turn` lacks its id. Then its checkpoint is created, and `set_before` called.

    Two hooks of one client may report the same prompt: then it is the turn that has begun already.
    """
    location = worktree.location
    with state_dir.lock(location, "turns"):
        running = sessions.read(location, session.key)
        if running is not None and not running.ended:
            happened = sessions.last_checkpoint(location, session.key, running.turn) is not None
            if not happened and running.prompt == turn.prompt and running.client == turn.client:
                return Begun(running)
        turn = turn._replace(turn=ordered_id(time.time_ns()))
        text, removed = redact(prompt)
        details = {
            "turn": turn.turn,
            "event": BEGAN,
            "harness": session.harness,
            "session_id": session.id,
            "prompt": text[:_MOST],
        }
        log.write(worktree, TYPE, _summary(turn), details=details, redacted=removed)
        sessions.write(location, session.key, turn)
    return Begun(turn, running if running is not None and not running.ended else None)


def set_before(worktree: OpenWorktree, session: Session, begun: Begun, before: str | None) -> None:
    """Keep the checkpoint `before` of a turn that has begun, and record that the turn before it has ended there."""
    location = worktree.location
    with state_dir.lock(location, "turns"):
        if begun.before_it is not None:
            details = {"turn": begun.before_it.turn, "event": ENDED, "by": PROMPT}
            _write_end(worktree, begun.before_it, details, before)
        _note_lost(worktree, session.key)
        running = sessions.read(location, session.key)
        if running is not None and running.turn == begun.turn.turn:
            sessions.write(location, session.key, running._replace(before=before))


def end(worktree: OpenWorktree, session: Session, after: str | None, by: str) -> None:
    """Record that the session's turn has ended, at the checkpoint `after`."""
    location = worktree.location
    with state_dir.lock(location, "turns"):
        running = sessions.read(location, session.key)
        if running is not None:
            goes_on = sessions.last_checkpoint(location, session.key, running.turn) is not None
            if not running.ended or (goes_on and by == STOP):
                _end(worktree, session.key, running, after, by)
        if by == SESSION_END:
            sessions.remove(location, session.key)


def _end(worktree: OpenWorktree, key: str, running: OpenTurn, after: str | None, by: str) -> None:
    _write_end(worktree, running, {"turn": running.turn, "event": ENDED, "by": by}, after)
    sessions.forget_checkpoint(worktree.location, key)
    sessions.write(worktree.location, key, running._replace(ended=True))


def _note_lost(worktree: OpenWorktree, own: str) -> None:
    """Record which other turns in this worktree cannot go on, since the processes of their clients are gone."""
    location = worktree.location
    for key in sessions.keys(location):
        running = sessions.read(location, key) if key != own else None
        if running is None or not sessions.has_died(running.client):
            continue
        if not running.ended:
            last = sessions.last_checkpoint(location, key, running.turn)
            _write_end(worktree, running, {"turn": running.turn, "event": LOST}, last)
        sessions.remove(location, key)


def _write_end(worktree: OpenWorktree, running: OpenTurn, details: dict[str, Any], last: str | None) -> None:
    files: list[str] = []
    if running.before is not None and last is not None:
        with contextlib.suppress(AgentosError):  # a checkpoint was forgotten or is damaged
            files = changes.names(worktree.repository, running.before, last)
    after = None if details["event"] == LOST else last
    details = {**details, "before": running.before, "after": after, "changed": len(files)}
    first = files[: log.MOST_FILES]
    log.write(worktree, TYPE, _summary(running), details=details, files=first, checkpoint_id=last)


def _summary(turn: OpenTurn) -> str:
    return turn.subject or "(an empty prompt)"
