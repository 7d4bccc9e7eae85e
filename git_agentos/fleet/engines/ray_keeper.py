"""What is sent to a Ray cluster: the actor that starts the workers of a fleet there, and outlives who submits.

The standard library, Ray and `process/tied.py` only, all of it by value: on the nodes, this package is in no Python of
Ray's.

Ray ends the tasks of a driver that is gone. So the tasks belong to an actor of no driver's, which has a name: who
submits the fleet again finds it, and what runs. It ends when it has had nothing to do for ten minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from git_agentos.process import tied

_IDLE = 600.0  # seconds
# Variables of the node that a worker does not get: what Ray has set for its own processes, its token least of all; and
# who started the node, since a worker is nobody's agent.
_OF_RAY = "RAY_"
_NOT = ("PYTHONBREAKPOINT", "AGENTOS_AGENT_ID", "AGENTOS_SESSION_ID")
# What an order is here, and the end of a worker: plain values, since no class of ours is known there.
Sent = tuple[str, tuple[str, ...], dict[str, str], dict[str, Any]]  # task, words, variables, options of the Ray task
End = tuple[str, int | None, bytes]  # task, exit code, the end of its stderr or why it was given up


def work(argv: tuple[str, ...], environment: dict[str, str]) -> tuple[int, bytes]:
    """Run a worker on the node where this is; its exit code, and the end of its stderr."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY) and name not in _NOT}
    return tied.run(argv, usual | environment)


class Keeper:
    """An actor. All its methods run in one thread, one at a time between two `await`."""

    def __init__(self, most: int | None) -> None:
        import ray

        self._room = asyncio.Semaphore(most) if most is not None else None
        self._work = ray.remote(work)
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._refs: dict[str, Any] = {}
        self._ended: list[End] = []
        self._news = asyncio.Event()
        self._used = 0

    async def add(self, orders: list[Sent]) -> int:
        """Start the workers of these orders, but for those that are there; from where `ended` has their ends."""
        known = len(self._ended)
        self._used += 1
        for order in orders:
            if order[0] not in self._followers:
                self._followers[order[0]] = asyncio.create_task(self._follow(*order))
        return known

    async def ended(self, known: int, patience: float) -> list[End]:
        """The ends of workers after the first `known`; where there is none, one is waited for."""
        self._used += 1
        if len(self._ended) <= known:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), patience)
            except TimeoutError:
                pass
        return self._ended[known:]

    async def cancel(self, task: str) -> None:
        """End the worker of a task, or never start it."""
        import ray

        if task in self._refs:
            ray.cancel(self._refs[task])
        elif task in self._followers:
            self._followers[task].cancel()

    async def _follow(
        self, task: str, argv: tuple[str, ...], environment: dict[str, str], options: dict[str, Any]
    ) -> None:
        code: int | None = None
        try:
            async with self._room or contextlib.nullcontext():
                self._refs[task] = self._work.options(**options).remote(argv, environment)
                code, said = await self._refs[task]
        except asyncio.CancelledError:
            said = b"cancelled"
        except Exception as error:  # noqa: BLE001  (whatever Ray raises: this worker has ended, and is reported)
            said = _why(error)
        self._refs.pop(task, None)
        self._followers.pop(task, None)
        self._ended.append((task, code, said))
        self._news.set()
        if not self._followers:
            asyncio.get_running_loop().call_later(_IDLE, self._leave, self._used)

    def _leave(self, used: int) -> None:
        if used == self._used and not self._followers:
            os._exit(0)


def _why(error: Exception) -> bytes:
    """Why Ray has given a worker up."""
    import ray

    if isinstance(error, ray.exceptions.TaskCancelledError):
        return b"cancelled"
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}".encode()
