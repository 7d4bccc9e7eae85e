"""A command of `git agentos` in a process of its own, and the document that it prints.

So a tool gives the same answer as the command, and may do what the command may: the process is a child of the server,
in its folder and environment. It has the locks of a process, a kill is the kill of a command, the watch daemon can do
its work, and a command that waits keeps no other one waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread

from git_agentos.errors import AgentosError, McpError
from git_agentos.process import programs
from git_agentos.process.programs import Child

_AT_ONCE = 16  # commands that run at the same time; others wait
_LONGEST = 16 << 20  # bytes of a document
_GRACE = 30.0  # seconds in which a command that is interrupted can put back what it has changed
_POLL = 0.02


class Failed(AgentosError):
    """The error that a command has printed, by its kind, message and hint."""

    def __init__(self, kind: str, message: str, hint: str | None) -> None:
        super().__init__(message, hint)
        self.kind = kind


class Commands:
    """Runs commands. `before` are words that come before the name of each: `-C PATH`, `--as ID`."""

    def __init__(self, before: Sequence[str]) -> None:
        self._before = tuple(before)
        self._limiter = CapacityLimiter(_AT_ONCE)

    async def run(self, *words: str) -> tuple[str, dict[str, Any]]:
        """The document of a command, as text and as an object; `Failed` if it is an error."""
        line = [sys.executable, "-P", "-m", "git_agentos", *self._before, "--json", *words]
        process = _Process(line)
        try:
            out = await to_thread.run_sync(process.run, abandon_on_cancel=True, limiter=self._limiter)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await process.interrupt()
            raise
        if len(out) > _LONGEST:
            raise McpError(
                f"the answer is longer than {_LONGEST >> 20} MiB", "limit it, or ask for less: one file, no patch"
            )
        try:
            document = json.loads(out)
        except ValueError as error:
            raise McpError(
                f"'git agentos {words[0]}' ended without an answer (exit code {process.code})",
                "'git agentos status' shows whether anything was interrupted",
            ) from error
        if document["schema"] == "agentos.error.v1":
            raise Failed(**document["error"])
        return out.decode("ascii").strip(), document


class _Process:
    """The process of a command: one thread runs it, and the event loop may interrupt it at any time."""

    def __init__(self, line: Sequence[str]) -> None:
        self._line = tuple(line)
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._is_cancelled = False

    @property
    def code(self) -> int | None:
        return None if self._child is None else self._child.returncode

    def run(self) -> bytes:
        """What it prints, up to a little more than a document may be long."""
        with self._lock:
            if self._is_cancelled:
                return b""
            child = self._child = programs.start_for_answer(self._line, cwd=os.getcwd(), env=os.environ)
        out = bytearray()
        with child:
            assert child.stdout is not None
            while len(out) <= _LONGEST and (data := child.stdout.read(1 << 16)):
                out += data
        return bytes(out)

    async def interrupt(self) -> None:
        """Interrupt it, and wait for its end: it takes back what it has begun."""
        with self._lock:
            self._is_cancelled = True
            child = self._child
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        with anyio.move_on_after(_GRACE):
            while child.poll() is None:
                await anyio.sleep(_POLL)
            return
        child.kill()
