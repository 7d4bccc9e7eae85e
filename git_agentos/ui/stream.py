"""The events of one agent, as `log timeline` has them, read again only if something has come to them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos import history
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.timeline import TimelineEntry
from git_agentos.git import refs
from git_agentos.history import CheckpointEvent, Event
from git_agentos.store import database_path
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.workspace import Workspace
from git_agentos.worktree import status

_FIRST = 200  # events of a kind that are read the first time
_DATABASE = ("", "-wal")


class Item(NamedTuple):
    """One event: when it was (seconds since the epoch), the text in which a search looks, and of a checkpoint its entry
    in a timeline."""

    event: Event
    key: str
    at: float
    text: str
    link: TimelineEntry | None = None


class Stream(NamedTuple):
    """What the timeline shows: the events, newest first; the folder of the worktree, None where there is none, and the
    id of its own timeline. `is_whole`: these are all; else only the newest were read, since it is the first time."""

    agent: str
    folder: str | None
    own: str | None
    items: Sequence[Item]
    is_whole: bool


class Reader:
    """Reads the events of `agent`; of the worktree that `workspace` is of, where it is None. Used by one thread."""

    def __init__(self, workspace: Workspace, agent: str | None) -> None:
        self._context, self._agent = workspace.context, agent
        self._before: dict[str, CheckpointEvent] = {}
        self._stamp: object = None
        self._found: Stream | None = None

    def read(self) -> Stream:
        """All events, but the first time the newest only; the same object as the last time if there are no others."""
        folder, context = self._folder()
        stamp = (folder, self._refs(), _stamp_of_database(context) if context is not None else None)
        if self._found is None or stamp != self._stamp or not self._found.is_whole:
            limit = _FIRST if self._found is None else None
            found = history.collect(self._context, self._agent, limit, self._before)
            own = context.worktree_id if context is not None else None
            name, items = self._agent or self._context.worktree_id, _items(found)
            self._found = Stream(
                name,
                folder,
                own,
                items,
                is_whole=limit is None or max(len(found.checkpoints), len(found.entries)) < limit,
            )
            self._stamp = stamp
        return self._found

    def _folder(self) -> tuple[str | None, OpenWorktree | None]:
        context = self._context
        if self._agent is None or self._agent == context.worktree_id:
            return context.location.root, context
        if self._agent == timeline.MAIN:
            there = next(iter(context.all_worktrees()), None)
        else:
            known = {each.id: each for each in status.sources(context)}.get(self._agent)
            there = status.find_folder(context, known) if known is not None else None
        return (there.root, context.in_worktree(there)) if there is not None else (None, None)

    def _refs(self) -> object:
        location = self._context.location
        return (refs.list_refs(location, timeline.PREFIX, skip_broken=True), refs.list_refs(location, "refs/heads/"))


def _stamp_of_database(context: OpenWorktree) -> object:
    path = database_path.path_of(context.location, context.settings.workflow_db)
    found = []
    for end in _DATABASE:
        try:
            data = os.stat(path + end)
            found.append((data.st_mtime_ns, data.st_size))
        except OSError:
            found.append((0, 0))
    return found


def _items(found: history.History) -> tuple[Item, ...]:
    links = {each.event.checkpoint_id: each.link for each in found.checkpoints}
    return tuple(
        Item(
            event=each,
            key=f"{each.kind} {each.checkpoint_id or ''} {each.id}",
            at=times.to_seconds(each.time),
            text=_text(each).casefold(),
            link=links.get(each.checkpoint_id),
        )
        for each in found.events()
    )


def _text(event: Event) -> str:
    parts = (event.kind, event.type or "", event.id, event.checkpoint_id or "", event.task_id or "", event.summary)
    return "\n".join((*parts, *event.files))


def density(moments: Sequence[float], begin: float, end: float, width: int) -> list[int]:
    """How many of the moments (seconds) are in each of `width` equal parts from `begin` to `end`."""
    found = [0] * width
    length = (end - begin) / width if width else 0
    for each in moments:
        if length > 0 and begin <= each <= end:
            found[min(int((each - begin) / length), width - 1)] += 1
    return found
