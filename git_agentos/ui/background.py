"""Threads that read while the screen goes on: what takes long is never on the path of a key.

A thread serves one name (`agents`, `preview`). Only the newest request of a name counts: an older one that has not
begun is dropped, and the answer of one that has begun is not given. The threads are daemons, so leaving does not wait
for a git that is still reading.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from git_agentos.errors import AgentosError, system_reason
from git_agentos.util.named_tuple import NamedTuple

Read = Callable[[], Any]
Give = Callable[[Any], None]


class Problem(NamedTuple):
    """Why something could not be read."""

    message: str
    hint: str | None = None


class _Request(NamedTuple):
    number: int
    read: Read
    give: Give
    from_: float  # when it may begin (`time.monotonic`)


class Background:
    """`deliver` calls a function in the thread of the application; it may be called from any thread."""

    def __init__(self, deliver: Callable[[Callable[[], None]], None]) -> None:
        self._deliver = deliver
        self._condition = threading.Condition()
        self._waiting: dict[str, _Request] = {}
        self._newest: dict[str, int] = {}
        self._running = 0
        self._threads: set[str] = set()
        self._ended = False

    def request(self, name: str, read: Read, give: Give, *, pause: float = 0.0) -> None:
        """Let a thread call `read`, after `pause` seconds without another request of that name, and then the
        application `give` with what it returned, or a `Problem`."""
        with self._condition:
            number = self._newest[name] = self._newest.get(name, 0) + 1
            self._waiting[name] = _Request(number, read, give, time.monotonic() + pause)
            if name not in self._threads and not self._ended:
                self._threads.add(name)
                threading.Thread(target=self._serve, args=(name,), name=f"ui-{name}", daemon=True).start()
            self._condition.notify_all()

    def drop(self, name: str) -> None:
        """What was requested by that name is not needed any more."""
        with self._condition:
            self._newest[name] = self._newest.get(name, 0) + 1
            self._waiting.pop(name, None)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was requested has been read."""
        with self._condition:
            return not self._waiting and not self._running

    def end(self) -> None:
        """Begin nothing any more."""
        with self._condition:
            self._ended = True
            self._waiting.clear()
            self._condition.notify_all()

    def _take(self, name: str) -> _Request | None:
        """The next request of a name that is due; None at the end."""
        with self._condition:
            while not self._ended:
                found = self._waiting.get(name)
                pause = None if found is None else found.from_ - time.monotonic()
                if found is not None and pause is not None and pause <= 0:
                    self._running += 1
                    return self._waiting.pop(name)
                self._condition.wait(pause)
        return None

    def _serve(self, name: str) -> None:
        while (request := self._take(name)) is not None:
            answer = _read(request.read)
            self._deliver(lambda request=request, answer=answer: self._give(name, request, answer))  # type: ignore[misc]

    def _give(self, name: str, request: _Request, answer: Any) -> None:
        with self._condition:
            self._running -= 1
            is_newest = self._newest[name] == request.number and not self._ended
        if is_newest:
            request.give(answer)


def _read(read: Read) -> Any:
    try:
        return read()
    except AgentosError as error:
        return Problem(error.message, error.hint)
    except OSError as error:  # a worktree that vanishes while it is read
        return Problem(system_reason(error))
    except Exception as error:  # noqa: BLE001 (what cannot be read must not end what can)
        return Problem(f"this is a bug in git-agentos: {type(error).__name__}: {error}")
