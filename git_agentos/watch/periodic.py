"""Checkpoints that the daemon creates by itself: when a worktree has changed and nothing happens any more, or when it
has been changing for as long as `agentos.auto.periodic` says.

That is done in every worktree that is guarded; with `agentos.watch=true`, and after `init`, in all of the repository.
Where nothing has changed since the newest checkpoint, the command creates none.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from git_agentos import config
from git_agentos.errors import AgentosError
from git_agentos.git import configuration, worktrees
from git_agentos.git.location import Location
from git_agentos.watch.notifying import Notifying
from git_agentos.watch.pushing import Pushing
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.service import Service

QUIET = 2.0  # seconds without a change
_LOOK = 5.0  # seconds between two looks at which worktrees there are
_SOON = 0.2
_LONGEST = 0.5  # seconds in which worktrees begin to be watched, until clients are answered
_FAILED = 60.0  # seconds until it is tried again


class _State:
    """What has changed in one worktree since its last checkpoint, by the tokens of `Changes`."""

    def __init__(self) -> None:
        self.seen = ""  # the newest moment that is known
        self.since: float | None = None  # when the first change came that is not saved
        self.last = 0.0  # when the last one came
        self.again = 0.0  # not before


class Periodic:
    """Looks after all worktrees of the repository at `location`."""

    def __init__(
        self, location: Location, repository: WatchedRepository, service: Service, log: Callable[[str], None]
    ) -> None:
        self._location, self._repository, self._service, self._log = location, repository, service, log
        self._states: dict[str, _State] = {}
        self._next_look = 0.0
        self._stamp: tuple[int, ...] | None = None
        self._every: float | None = None
        self._is_everywhere = False
        self._pushing = Pushing(service, log)
        self._notifying = Notifying(repository, service, log)

    @property
    def roots(self) -> frozenset[str]:
        """The worktrees in which it creates checkpoints."""
        return frozenset(self._states)

    def look_soon(self) -> None:
        """Look at once which worktrees there are: somebody has asked for one."""
        self._next_look = 0.0

    def turn(self) -> float:
        """Create what is due; in how many seconds to look again."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._look()
        wait = min((self._take(root, now) for root in list(self._states)), default=_LOOK)
        return wait if self._next_look else 0.0

    def _take(self, root: str, now: float) -> float:
        """Create the checkpoint of a worktree if it is time; in how many seconds it may be."""
        state, worktree = self._states[root], self._repository.worktrees.get(root)
        if worktree is None or self._every is None:
            return _LOOK
        token = worktree.changes.token
        if token != state.seen or worktree.problem:  # what is not watched may be changing all the time
            state.seen, state.last = token, now
            state.since = now if state.since is None else state.since
        if state.since is None:
            return _LOOK
        wait = max(min(state.last + QUIET, state.since + self._every), state.again) - now
        if wait > 0:
            return wait
        self._repository.read()  # a process that is forked knows what is known now
        argv = ("-C", root, "checkpoint", "-q", "--trigger", "periodic")
        if not self._service.start(argv, lambda said: self._note_failure(root, said)):
            return _SOON  # others are being saved
        state.since, state.again = None, now + QUIET
        return QUIET

    def _note_failure(self, root: str, said: str) -> None:
        self._log(f"no checkpoint of {root}: {said}")
        state = self._states.get(root)
        if state is not None:
            now = time.monotonic()
            state.since, state.again = now, now + _FAILED

    def _look(self) -> None:
        """Find out which worktrees there are, and watch those in which checkpoints are to be created."""
        with contextlib.suppress(AgentosError, OSError):
            there = worktrees.list_existing(self._location)
            if there:
                self._read_configuration(there[0])
                self._pushing.turn(there[0])
                self._notifying.turn(there)
            wanted: set[str] = set()
            if self._every is not None:
                wanted = {each.root for each in (there if self._is_everywhere else self._service.saved(there))}
            begun = time.monotonic()
            for root in sorted(wanted):
                if root not in self._repository.worktrees and time.monotonic() > begun + _LONGEST:
                    self._next_look = 0.0  # those that are left, after the clients that wait
                    break
                if self._repository.worktree(root) is not None:
                    self._states.setdefault(root, _State())
            for root in self._states.keys() - wanted:
                del self._states[root]

    def _read_configuration(self, main: Location) -> None:
        found = os.stat(os.path.join(self._repository.common_dir, "config"))
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        if stamp == self._stamp:
            return
        try:
            values = configuration.read(main)
            self._every, self._is_everywhere = config.periodic(values), config.watch(values) == "true"
        except AgentosError as error:
            self._log(f"no checkpoints are created by itself: {error}")
            self._every = None
        self._stamp = stamp
