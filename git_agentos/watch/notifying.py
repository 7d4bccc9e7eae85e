"""Agents' worktrees that become idle or whose branches conflict, for `agentos.notify`: the daemon notices that
something may have to be told, and a command finds out and tells it. Nothing is done where the user has set none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from git_agentos import config, notification
from git_agentos.errors import AgentosError
from git_agentos.git import configuration, refs
from git_agentos.git.location import Location
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.service import Service

_LOOK = 60.0  # seconds between two looks
_SHORTEST = 1.0
_RECORD = os.path.join("agentos", "worktree.json")  # `worktree.record` is above this package


class _State:
    """One worktree: the newest change that is known, when it came, and whether it has been looked at since."""

    def __init__(self) -> None:
        self.seen = ""
        self.last = 0.0
        self.done = False


class Notifying:
    """Looks after all agents' worktrees of a repository."""

    def __init__(self, repository: WatchedRepository, service: Service, log: Callable[[str], None]) -> None:
        self._repository, self._service, self._log = repository, service, log
        self._states: dict[str, _State] = {}
        self._tips: dict[str, str] | None = None
        self._next = 0.0

    def turn(self, there: Sequence[Location]) -> None:
        """Start what is due for the worktrees `there`, of which the first is the main one."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _LOOK
        agents = [each for each in there if os.path.lexists(os.path.join(each.git_dir, _RECORD))]
        if not agents or notification.command(there[0]) is None:
            self._states.clear()
            self._tips = None
            return
        try:
            after = config.notify_idle(configuration.read(there[0]))
            tips = refs.list_refs(there[0], "refs/heads/", skip_broken=True)
        except (AgentosError, OSError) as error:
            self._log(f"nothing is told to agentos.notify: {error}")
            return
        if after is not None:
            self._next = now + min(_LOOK, max(_SHORTEST, after / 4))
            for each in agents:
                self._look(each.root, now, after)
        for root in self._states.keys() - {each.root for each in agents}:
            del self._states[root]
        if tips != self._tips and len(agents) > 1:
            self._tips = tips
            argv = ("-C", there[0].root, "worktree", "notify", "-q", "--conflicts")
            if not self._service.start(argv, lambda said: self._log(f"agentos.notify, conflicts: {said}")):
                self._tips = None

    def _look(self, root: str, now: float, after: float) -> None:
        state, watched = self._states.setdefault(root, _State()), self._repository.worktree(root)
        if watched is None:
            return
        token = watched.changes.token
        if token != state.seen and not watched.problem:
            state.seen, state.last, state.done = token, now, False
        elif not state.done and now - state.last >= after:
            argv = ("-C", root, "worktree", "notify", "-q")
            state.done = self._service.start(argv, lambda _: self._look_again(root))

    def _look_again(self, root: str) -> None:
        """The worktree is in use, in a way that is not watched: by a process, or by changes to ignored files."""
        if root in self._states:
            self._states[root].done = False
