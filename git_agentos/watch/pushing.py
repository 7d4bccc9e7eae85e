"""Timelines that the daemon pushes by itself, with `agentos.sync.auto=periodic`: all of them, some time after a
checkpoint was created, whoever has created it."""

from __future__ import annotations

import time
from collections.abc import Callable

from git_agentos import config
from git_agentos.errors import AgentosError
from git_agentos.git import own_configuration, refs
from git_agentos.git.location import Location
from git_agentos.watch.service import Service

_EVERY = 300.0  # seconds between two pushes
_TIMELINES = "refs/agentos/timelines/"  # `checkpoint.timeline` is above this package
_PERIODIC = "periodic"
_HINT = "the watch daemon pushes nothing by it"


class Pushing:
    """Pushes the timelines of a repository."""

    def __init__(self, service: Service, log: Callable[[str], None], every: float = _EVERY) -> None:
        self._service, self._log, self._every = service, log, every
        self._next = time.monotonic() + every
        self._pushed: dict[str, str] | None = None

    def turn(self, main: Location) -> None:
        """Push from the worktree `main` if it is time and a timeline has moved; whatever fails is tried again then."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        try:
            value = own_configuration.value(main, config.SYNC_AUTO, _HINT)
            if config.sync_auto({config.SYNC_AUTO.lower(): [value or ""]}) != _PERIODIC:
                return
            tips = refs.list_refs(main, _TIMELINES, skip_broken=True)
        except (AgentosError, OSError) as error:
            self._log(f"no timelines are pushed: {error}")
            return
        if tips == self._pushed:
            return
        self._pushed = tips
        if not self._service.start(("-C", main.root, "sync", "-q", "--push", "--all"), self._failed):
            self._pushed = None

    def _failed(self, said: str) -> None:
        self._log(f"not all timelines were pushed: {said}")
        self._pushed = None
