"""Runs the interface on a terminal."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import warnings
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from git_agentos.errors import UsageError
from git_agentos.git.location import locate
from git_agentos.ui.app import SIGNALLED, Interface, end_soon

_PATIENCE = 5.0  # seconds to leave a terminal that is gone
_SWITCH = 0.001  # seconds after which a thread that reads lets the one that answers keys go on


class _Driver(LinuxDriver):
    """Writes to stdout: Textual's own writes to stderr, which may be a file."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = sys.__stdout__

    def _sigcont_application(self, *args: Any) -> None:
        """Draw the screen again, as after `fg`. A process whose terminal is gone gets this signal, too, and would wait
        for ever until something of it was written."""
        if not _is_gone(self.fileno):
            super()._sigcont_application(*args)


def run(directory: str, agent: str | None) -> int:
    """Run the interface until it is left; the exit code. UsageError without a terminal, RepositoryError outside of a
    repository. Its arguments are those of `Interface`."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()):
        raise UsageError(
            "the interface needs a terminal as stdin and stdout",
            "'git agentos worktree list' prints what it shows first",
        )
    locate(directory or ".")
    sys.setswitchinterval(_SWITCH)
    gc.enable()  # a command switches it off, since it ends soon
    app = Interface(directory, agent, driver=_Driver)
    threading.Thread(target=_end_with_terminal, args=(sys.stdin.fileno(),), daemon=True).start()
    with warnings.catch_warnings():
        app.run()
    return SIGNALLED + app.ended_by if app.ended_by is not None else app.return_code or 0


def _end_with_terminal(number: int) -> None:
    """End when the terminal is gone. Only the processes that it controls get a signal then, and who reads from it reads
    nothing, again and again."""
    _is_gone(number, None)
    os.kill(os.getpid(), signal.SIGHUP)
    end_soon(signal.SIGHUP, _PATIENCE)  # whatever the thread that gets the signal is waiting for


def _is_gone(number: int, patience: float | None = 0) -> bool:
    """Whether a terminal is gone; within so many milliseconds (None: when it is)."""
    gone = select.poll()
    gone.register(number, 0)  # a hangup is always told
    return bool(gone.poll(patience))
