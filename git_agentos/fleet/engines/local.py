"""The engine `local`: workers on this machine, some at a time. They end with the process that has started them.

A worker gets the variables that any program of the user needs (paths, languages, what git and ssh use), and those that
were named: so that it finds the same as on other machines.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO

from git_agentos.errors import FleetError, system_reason
from git_agentos.fleet.engines.port import LOCAL, Ended, Order, Unfit
from git_agentos.git import process
from git_agentos.process import programs
from git_agentos.util.named_tuple import NamedTuple

_GRACE = 120.0  # seconds that workers have to save what they did, before they are killed
_TICK = 0.05
_TAIL = 4096  # bytes of what a worker says

_NAMES = frozenset(
    {
        "PATH", "HOME", "SHELL", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH",
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
        "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5CCNAME", "GNUPGHOME",
    }
)  # fmt: skip
_PREFIXES = ("LC_", "XDG_", "GIT_", "SSH_", "AGENTOS_")
_NOT = ("AGENTOS_AGENT_ID", "AGENTOS_SESSION_ID")  # a worker is nobody's agent


class _Worker(NamedTuple):
    order: Order
    child: programs.Child
    errors: IO[bytes]


class LocalEngine:
    """Runs at most `most` workers at once, as far as the processors and the memory of this machine that they ask for
    allow it. `environment` is that of the user."""

    name = LOCAL
    reports_ends = True
    program = (sys.executable or "python3", "-P", "-m", "git_agentos")

    def __init__(self, most: int, environment: Mapping[str, str]) -> None:
        self._most = most
        self._environment = _environment(environment)
        self._waiting: deque[Order] = deque()
        self._running: dict[int, _Worker] = {}  # by process
        self._ended: list[Ended] = []
        self._cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        self._memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def check(self, orders: Sequence[Order], /) -> None:
        for order in orders:
            task = order.task
            if (order.cpus or 0) > self._cpus:
                raise Unfit(task, f"the task '{task}' needs {order.cpus:g} cpus, and this machine has {self._cpus:g}")
            if (order.memory or 0) > self._memory:
                raise Unfit(task, f"the task '{task}' needs more memory than this machine has ({self._memory} bytes)")
            if order.gpus:
                raise Unfit(task, f"the task '{task}' needs gpus, which the engine 'local' does not assign")
            if order.labels:
                raise Unfit(task, f"the task '{task}' needs a machine with labels, and the engine 'local' knows none")

    def start(self, order: Order, /) -> None:
        self._waiting.append(order)
        self._fill()

    def poll(self, patience: float, /) -> Sequence[Ended]:
        if not self._ended:
            self._wait(patience)
        self._reap()
        self._fill()
        found, self._ended = self._ended, []
        return found

    def describe(self, _task: str, /) -> None:
        """Nothing: `poll` reports each."""

    def cancel(self, task: str, /) -> None:
        for order in [order for order in self._waiting if order.task == task]:
            self._waiting.remove(order)
            self._ended.append(Ended(task, 128 + signal.SIGTERM, "it was cancelled before it began"))
        for worker in self._running.values():
            if worker.order.task == task:
                _send(worker.child, signal.SIGTERM)

    def end(self) -> None:
        self._waiting.clear()
        for worker in self._running.values():
            _send(worker.child, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while self._running and time.monotonic() < deadline:
            self._wait(_TICK * 10)
            self._reap()
        for worker in self._running.values():
            _send(worker.child, signal.SIGKILL)
        while self._running:
            self._wait(_TICK * 10)
            self._reap()

    # -- processes -----------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Start what there is room for, in order."""
        while self._waiting and self._has_room(self._waiting[0]):
            self._begin(self._waiting.popleft())

    def _has_room(self, order: Order) -> bool:
        if not self._running:
            return True
        taken = [worker.order for worker in self._running.values()]
        return (
            len(taken) < self._most
            and sum(each.cpus or 0 for each in (*taken, order)) <= max(self._cpus, self._most)
            and sum(each.memory or 0 for each in (*taken, order)) <= self._memory
        )

    def _begin(self, order: Order) -> None:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when the worker is reaped
        try:
            child = programs.start_tied(
                order.argv, env={**self._environment, **order.environment}, output=errors.fileno()
            )
        except OSError as error:
            errors.close()
            raise FleetError(f"a worker cannot be started: {system_reason(error)}") from error
        self._running[child.pid] = _Worker(order, child, errors)

    def _reap(self) -> None:
        for pid, worker in list(self._running.items()):
            code = worker.child.poll()
            if code is None:
                continue
            del self._running[pid]
            with worker.errors as errors:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL))
                said = errors.read().decode("utf-8", "replace").strip().splitlines()
            reason = next((line for line in reversed(said) if line.startswith("error: ")), said[-1] if said else None)
            self._ended.append(Ended(worker.order.task, code if code >= 0 else 128 - code, reason))

    def _wait(self, patience: float) -> None:
        """Wait until a worker has ended, at most so many seconds."""
        with contextlib.ExitStack() as stack:
            descriptors = []
            try:
                for pid in self._running:
                    descriptors.append(os.pidfd_open(pid))
                    stack.callback(os.close, descriptors[-1])
            except (AttributeError, OSError):  # a system without them
                time.sleep(min(patience, _TICK))
                return
            select.select(descriptors, [], [], patience)


def _environment(users: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in users.items()
        if (key in _NAMES or key.startswith(_PREFIXES)) and key not in _NOT and key not in process.LOCATION_VARIABLES
    }


def _send(child: programs.Child, number: int) -> None:
    if child.poll() is None:
        child.send_signal(number)
