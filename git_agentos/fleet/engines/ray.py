"""The engine `ray`: workers as tasks of a Ray cluster, which knows the resources, and starts them anew elsewhere where
a node is lost.

Another process talks to the cluster (`ray_driver.py`). Ray takes signals for itself, writes to stderr what it likes,
waits for minutes where nobody answers, and ends the process that it is in where its part of the cluster is lost: none
of that may happen to who submits.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from typing import Any

from git_agentos import redact_lines
from git_agentos.errors import AgentosError, FleetError, UsageError, system_reason
from git_agentos.fleet.engines import port
from git_agentos.fleet.engines.port import Ended, Order, Unfit
from git_agentos.process import programs

_MODULE = "git_agentos.fleet.engines.ray_driver"
_LONGEST_CONNECT = 120.0  # seconds; a cluster that is busy answers late, and one that is hung never
_LONGEST_END = 60.0  # seconds; Ray waits for the processes of a cluster that it has started
_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
_TICK = 0.5  # seconds
_ERRORS: Mapping[str, type[AgentosError]] = {each.__name__: each for each in (FleetError, UsageError, Unfit)}


class RayEngine:
    """`address` is HOST:PORT, as `ray start` says it (None: the cluster of this machine; where there is none, one is
    started here, and ended with the engine). A worker that is lost with its node is started anew `retries` times;
    `most` workers run at once (None: as many as there is room for)."""

    name = port.RAY
    reports_ends = True
    program = ("git-agentos",)

    def __init__(self, *, address: str | None, retries: int, most: int | None = None) -> None:
        self._address = address
        self._options = (address, retries, most)
        self._process: _Process | None = None
        self._running: dict[str, Order] = {}

    def check(self, orders: Sequence[Order], /) -> None:
        self._connected().ask("check", list(orders))

    def start(self, order: Order, /) -> None:
        self._connected().ask("start", order)
        self._running[order.task] = order

    def poll(self, patience: float, /) -> Sequence[Ended]:
        if not self._running:
            return ()
        ended = []
        for task, code, said in self._connected().ask("poll", patience):
            if (order := self._running.pop(task, None)) is not None:
                ended.append(Ended(task, code, _detail(said, order.environment)))
        return ended

    def describe(self, _task: str, /) -> None:
        """Nothing: `poll` reports each."""

    def cancel(self, task: str, /) -> None:
        if task in self._running:
            self._connected().ask("cancel", task)

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            # Where all workers have ended, the cluster may be gone as well.
            with contextlib.nullcontext() if self._running else contextlib.suppress(FleetError):
                process.ask("end", patience=_LONGEST_END)
        finally:
            process.end(_LONGEST_END)

    def _connected(self) -> _Process:
        if self._process is None:
            process = _Process()
            try:
                process.ask("load")
                process.ask("connect", *self._options, patience=_LONGEST_CONNECT)
            except _Silent as error:
                process.end(0)
                where = f" at '{self._address}'" if self._address else ""
                raise FleetError(
                    f"the Ray cluster{where} cannot be reached: no answer in {_LONGEST_CONNECT:g} seconds", error.hint
                ) from error
            except AgentosError:
                process.end(_LONGEST_END)
                raise
            except BaseException:
                process.end(0)
                raise
            self._process = process
        return self._process


class _Silent(FleetError):
    """There was no answer in time."""


class _Process:
    """The process that talks to the cluster. It ends when this one is gone."""

    def __init__(self) -> None:
        self._asked = 0
        self._connection, theirs = connection.Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed in `end`
        argv = (sys.executable or "python3", "-P", "-m", _MODULE, str(theirs.fileno()))
        try:
            self._child = programs.start_tied(
                argv, env=os.environ, output=self._errors.fileno(), keep=(theirs.fileno(),)
            )
        except OSError as error:
            self._connection.close()
            self._errors.close()
            raise FleetError(f"the engine ray cannot be started: {system_reason(error)}") from error
        finally:
            theirs.close()

    def ask(self, method: str, *arguments: Any, patience: float | None = None) -> Any:
        """What a method of `ray_driver.Driver` returns, or raises. FleetError where the process has ended, and where
        it has not answered in `patience` seconds."""
        # An answer for which a signal has ended the wait may still come: it is that of another number.
        self._asked += 1
        deadline = None if patience is None else time.monotonic() + patience
        try:
            self._connection.send((self._asked, method, arguments))
            while True:
                while not self._connection.poll(_TICK):
                    if deadline is not None and time.monotonic() >= deadline:
                        raise _Silent(
                            "the Ray cluster does not answer",
                            "'ray status' on its head node says whether it is up",
                        )
                number, error, value = self._connection.recv()
                if number == self._asked:
                    break
        except (OSError, EOFError) as broken:
            raise FleetError(
                f"the connection to the Ray cluster is lost{self._last_words()}",
                "what runs there goes on as long as the cluster does; submit again to wait for it",
            ) from broken
        if error is not None:
            raise _ERRORS[error](*value)
        return value

    def end(self, patience: float) -> None:
        """Have the process end, which has so many seconds for it; then it is ended."""
        self._connection.close()
        for how, seconds in ((None, patience), (self._child.terminate, _GRACE), (self._child.kill, None)):
            if how is not None:
                how()
            with contextlib.suppress(programs.TimeoutExpired):
                self._child.wait(seconds)
                break
        self._errors.close()

    def _last_words(self) -> str:
        """Why the process says it has ended."""
        with contextlib.suppress(programs.TimeoutExpired):
            self._child.wait(_TICK)
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").splitlines()
        known = next((line for line in reversed(lines) if "GCS" in line or "Raylet" in line), None)
        return f": {known.partition('] ')[2] or known}" if known else ""


def _detail(said: bytes, environment: Mapping[str, str]) -> str | None:
    lines = redact_lines.clean_lines(said.splitlines(), redact_lines.secrets_of(environment))
    return next((os.fsdecode(line).strip() for line in reversed(lines) if line.strip()), None)
