"""Between which checkpoints of a timeline which turn was at work, and no other.

A turn is at work between two checkpoints of its own (those whose metadata names it, that before it, and that of its
stop), unless the first of them is that of a stop, or the second that of a prompt. Before, after and in between may be
somebody else's work. Where another turn may have been at work as well, nobody can tell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property

from git_agentos.log import Entry
from git_agentos.turns import listing, record
from git_agentos.turns.listing import Turn
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.why.versions import History

_FOR_EVER = "9999"  # after every time


class Extent(NamedTuple):
    """From which position on a turn may have been at work, and until which one."""

    first: int
    last: int


class Log(NamedTuple):
    """What the log says of all turns: the turns; the checkpoints at the stops of each, which may be several; and when a
    turn was found to be killed."""

    turns: Sequence[Turn]
    stops: Mapping[str, Sequence[str]]
    lost: Mapping[str, str]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Log:
        """Of entries, oldest first."""
        stops: dict[str, list[str]] = {}
        lost: dict[str, str] = {}
        for entry in entries:
            turn, after = entry.details.get("turn"), entry.details.get("after")
            if not isinstance(turn, str):
                continue
            if entry.details.get("event") == record.LOST:
                lost[turn] = entry.timestamp
            elif entry.details.get("by") == record.STOP and isinstance(after, str):
                stops.setdefault(turn, []).append(after)
        return cls(listing.folded(entries), stops, lost)


class Windows:
    """The turns of the worktree whose timeline is `history`."""

    def __init__(self, history: History, known: Log) -> None:
        self._history = history
        self._turns = {each.id: each for each in known.turns if each.worktree == history.name}
        self._stops = known.stops
        self._lost = known.lost

    def turn_between(self, first: int, last: int) -> Turn | None:
        """The turn that alone was at work between the checkpoints at two positions; None if there is none, or that
        cannot be told."""
        if first < 0:
            return None
        found = [turn for turn, steps in self._steps.items() if all(n in steps for n in range(first + 1, last + 1))]
        if len(found) != 1:
            return None
        others = (extent for turn, extent in self._extents.items() if turn != found[0])
        if any(extent.first < last and extent.last > first for extent in others):
            return None
        return self._turns[found[0]]

    @cached_property
    def _own(self) -> dict[str, dict[int, str]]:
        """Turn -> position -> what happened there (the event), for the turn's own checkpoints."""
        by_id = self._history.by_id
        own: dict[str, dict[int, str]] = {id_: {} for id_ in self._turns}
        for n, position in enumerate(self._history.positions):
            named = position.said("turn")
            if named in own:
                own[named][n] = position.said("event") or ""
        for id_, turn in self._turns.items():
            if turn.before is not None and turn.before in by_id:
                own[id_].setdefault(by_id[turn.before], "prompt")
            for stop in self._stops.get(id_, ()):
                if stop in by_id:
                    own[id_][by_id[stop]] = "stop"
        return own

    @cached_property
    def _steps(self) -> dict[str, set[int]]:
        """Turn -> the positions such that it was at work from the one before until then."""
        found: dict[str, set[int]] = {}
        for id_, own in self._own.items():
            positions = sorted(own)
            found[id_] = {
                n
                for before, after in itertools.pairwise(positions)
                if own[before] != "stop" and own[after] != "prompt"
                for n in range(before + 1, after + 1)
            }
        return found

    @cached_property
    def _extents(self) -> dict[str, Extent]:
        return {id_: self._extent(turn) for id_, turn in self._turns.items()}

    def _extent(self, turn: Turn) -> Extent:
        by_id, own = self._history.by_id, self._own[turn.id]
        end = turn.ended_at or self._lost.get(turn.id) or _FOR_EVER
        first = by_id.get(turn.before or "")
        first = self._before(turn.started_at) if first is None else first
        last = by_id.get(turn.after or "") if turn.ended_at is not None else None
        last = self._after(end) if last is None else last
        return Extent(min([first, *own]), max([last, *own]))

    def _before(self, time: str) -> int:
        """The last position that was created before a time; -1 if there is none."""
        return max((n for n, each in enumerate(self._history.positions) if each.created_at <= time), default=-1)

    def _after(self, time: str) -> int:
        """The first position that was created after a time; the number of positions if there is none."""
        every = self._history.positions
        return min((n for n, each in enumerate(every) if each.created_at >= time), default=len(every))
