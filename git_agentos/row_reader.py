"""Reading rows of the agent log or of the working memory: from this worktree's database, and from other worktrees'
databases while they exist, from their timelines afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple

from git_agentos.checkpoint import log_sync, timeline
from git_agentos.checkpoint.log_sync import CheckpointLog, Problems
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.store import database, database_path
from git_agentos.store.database import Connection
from git_agentos.store.rows import Row, RowOwner, order


class Reading(NamedTuple, Generic[Row]):
    """Rows, and the problems that keep others from being read."""

    rows: list[Row]
    problems: Problems

    @property
    def complete(self) -> bool:
        """Whether no row is missing."""
        return not self.problems

    def report(self, *, empty: bool) -> None:
        """Warn of the problems; raise the first if the result would be `empty`."""
        log_sync.report(self.problems, empty=empty)


class RowReader(Generic[Row]):
    """Reads rows of one kind, which problems call `what`.

    `find` returns the wanted rows of a worktree from an open database, `carried` those in a checkpoint of the worktree
    with an id. After `read`, `problems` are the errors because of which rows may be missing, and `worktrees` the ids of
    the worktrees that were read.
    """

    def __init__(
        self,
        context: OpenWorktree,
        what: str,
        find: Callable[[Connection, RowOwner], list[Row]],
        carried: Callable[[CheckpointLog, str], Iterable[Row]],
    ) -> None:
        self.problems: Problems = []
        self.worktrees = [context.worktree_id]
        self._context = context
        self._what = what
        self._find = find
        self._carried = carried

    def read(self, *, every: bool) -> list[Row]:
        """The rows of this worktree, or of all worktrees, newest first."""
        found = self._read_here()
        for name, where in _other_worktrees(self._context).items() if every else ():
            found += self._read_worktree(name, where)
            self.worktrees.append(name)
        unique = {row.id: row for row in found}
        return sorted(unique.values(), key=order, reverse=True)

    def _read_here(self) -> list[Row]:
        context = self._context
        problems: Problems = []
        try:
            found = list(log_sync.with_database(context, self._find, make=True, problems=problems) or ())
        except (AgentosError, OSError):  # the database may be readable, but not writable
            return self._read_worktree(context.worktree_id, context.location)
        self.problems += problems
        return found

    def _read_worktree(self, id_: str, location: Location | None) -> list[Row]:
        """The rows of a worktree; `location` is None if it is gone."""
        variable = self._context.settings.workflow_db
        if location is None or not os.path.lexists(database_path.path_of(location, variable)):
            return self._read_timeline(id_)
        try:
            path = database_path.check(location, variable)
            owner = RowOwner(database_path.repository_id(location), id_)
            with database.opened_to_read(path) as opened:
                _, reached = log_sync.reached_of(opened.connection, owner)
                found = self._find(opened.connection, owner)
        except database.NotSetUp:
            return self._read_timeline(id_)
        except (AgentosError, OSError) as error:
            text = f"the {self._what} of '{id_}' is read from its checkpoints alone"
            self.problems.append(log_sync.Unread(text, error))
            return self._read_timeline(id_)
        return found + self._read_timeline(id_, reached)

    def _read_timeline(self, id_: str, until: str | None = None) -> list[Row]:
        """The rows in the checkpoints of a worktree after the timeline commit `until`."""
        context = self._context
        if until is not None and timeline.tip(context.location, id_) == until:
            return []
        parts = log_sync.parts_of(context.repository, id_, until, self.problems)
        return [row for part in parts for row in self._carried(part, id_)]


def _other_worktrees(context: OpenWorktree) -> dict[str, Location | None]:
    """The other worktrees with a timeline or an entry in this repository, by id; None for those that are gone."""
    found: dict[str, Location | None] = dict.fromkeys(timeline.all_names(context.location))
    for where in context.all_worktrees():
        found[timeline.worktree_id(where)] = where
    found.pop(context.worktree_id, None)
    return found
