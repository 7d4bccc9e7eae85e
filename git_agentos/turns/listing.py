"""Reading turns from the agent log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from git_agentos import log
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, CheckpointNotFound, UsageError
from git_agentos.git.location import Location
from git_agentos.log import Entry
from git_agentos.turns import changes, record, sessions
from git_agentos.util.named_tuple import NamedTuple

_SHORTEST = 4


class Turn(NamedTuple):
    """One turn; the fields are the keys in the JSON kind `turns`.

    `session_id` is None if the harness has none. `prompt` has no secrets and at most 4,000 characters. `ended_at` is
    None while the turn is going on, and of one whose client was killed. `before` and `after` are checkpoints, which may
    be forgotten; None where none could be created. `changed` are the paths in which they differ; of a turn without an
    end, what had changed at its last checkpoint.
    """

    id: str
    session_id: str | None
    agent_id: str
    prompt: str
    started_at: str
    ended_at: str | None
    before: str | None
    after: str | None
    changed: list[str]
    worktree: str
    harness: str
    ended_by: str | None = None


class Turns(NamedTuple):
    """Turns, newest first; the fields are the keys of the JSON kind `turns`. `complete` is false if a database or a
    checkpoint could not be read, so that there may be more."""

    turns: list[Turn]
    complete: bool = True


def list_turns(
    worktree: OpenWorktree, session: str | None = None, *, every: bool = False, limit: int | None = None
) -> Turns:
    """The turns of this worktree; with `session`, those of this session in any worktree; with `every`, all.

    `limit` counts from the newest. CheckpointNotFound if there is no such session.
    """
    if limit is not None and limit < 0:
        raise UsageError("the number of turns cannot be negative")
    found, complete = read(worktree, every=every or session is not None)
    if session is not None:
        ids = {each.session_id for each in found if each.session_id is not None}
        session = _match(session, ids, "session")
        found = [each for each in found if each.session_id == session]
    chosen = found[:limit]
    locations: dict[str, Location] = {}
    if any(each.ended_at is None for each in chosen):
        locations = {timeline.worktree_id(where): where for where in worktree.all_worktrees()}
    return Turns([_completed(worktree, each, locations) for each in chosen], complete)


def find(worktree: OpenWorktree, spec: str) -> Turn:
    """The turn with this id, or with an id that begins so, in any worktree; CheckpointNotFound if there is none."""
    found, _ = read(worktree, every=True)
    by_id = {each.id: each for each in found}
    turn = by_id[_match(spec, by_id, "turn")]
    locations = {timeline.worktree_id(where): where for where in worktree.all_worktrees()}
    return _completed(worktree, turn, locations)


def read(worktree: OpenWorktree, *, every: bool) -> tuple[list[Turn], bool]:
    """The turns of this worktree or of all, newest first, as the log has them; and whether all could be read."""
    found = log.read(worktree, kinds=(record.TYPE,), every=every, newest_first=False)
    found.report(empty=not found.rows)
    return list(reversed(folded(found.rows))), found.complete


def folded(entries: Iterable[Entry]) -> list[Turn]:
    """The turns that entries, oldest first, describe."""
    turns: dict[str, Turn] = {}
    for entry in entries:
        id_ = entry.details.get("turn")
        if not isinstance(id_, str):
            continue
        event = entry.details.get("event")
        if event == record.BEGAN:
            turns[id_] = _begun(id_, entry)
        elif id_ in turns and event == record.ENDED:
            turns[id_] = turns[id_]._replace(
                ended_at=entry.timestamp,
                before=_text(entry.details, "before"),
                after=_text(entry.details, "after"),
                changed=entry.files_changed,
                ended_by=_text(entry.details, "by"),
            )
        elif id_ in turns and event == record.LOST:
            turns[id_] = turns[id_]._replace(
                before=_text(entry.details, "before"),
                after=entry.checkpoint_id,
                changed=entry.files_changed,
                ended_by=record.LOST,
            )
    return list(turns.values())


def _begun(id_: str, entry: Entry) -> Turn:
    details = entry.details
    return Turn(
        id=id_,
        session_id=_text(details, "session_id"),
        agent_id=entry.agent_id,
        prompt=_text(details, "prompt") or "",
        started_at=entry.timestamp,
        ended_at=None,
        before=None,
        after=None,
        changed=[],
        worktree=entry.worktree,
        harness=_text(details, "harness") or "",
    )


def _text(details: Mapping[str, Any], key: str) -> str | None:
    value = details.get(key)
    return value if isinstance(value, str) else None


def _match(spec: str, ids: Iterable[str], what: str) -> str:
    """The id that `spec` is, or that alone begins with it."""
    known = set(ids)
    if spec in known:
        return spec
    found = sorted(each for each in known if len(spec) >= _SHORTEST and each.startswith(spec))
    if len(found) == 1:
        return found[0]
    if found:
        raise CheckpointNotFound(f"'{spec}' is ambiguous: {', '.join(found[:5])}", "give more of it")
    raise CheckpointNotFound(f"there is no {what} '{spec}'", "git agentos turns --all lists all turns")


def _completed(worktree: OpenWorktree, turn: Turn, locations: Mapping[str, Location]) -> Turn:
    """A turn with what the log does not say: what one without an end has changed so far, and paths after the first
    thousand."""
    after = turn.after
    if turn.ended_at is None and turn.ended_by is None:
        if turn.worktree not in locations:
            return turn
        before, after = sessions.checkpoints_of(locations[turn.worktree], turn.id)
        turn = turn._replace(before=before)
    elif len(turn.changed) < log.MOST_FILES:
        return turn
    if turn.before is not None and after is not None:
        with contextlib.suppress(AgentosError):
            return turn._replace(changed=changes.names(worktree.repository, turn.before, after))
    return turn
