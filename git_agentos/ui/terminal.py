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
from git_agentos.ui.app import Interface

_SIGNALLED = 128
_SWITCH = 0.001  # seconds after which a thread that reads lets the one that answers keys go on
_PATIENCE = 5.0  # seconds to leave a terminal that may be gone


class _Driver(LinuxDriver):
    """Writes to stdout: Textual's own writes to stderr, which may be a file."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = sys.__stdout__


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
    if app.ended_by is not None:
        # The terminal may be gone: then nothing of it can be waited for.
        timer = threading.Timer(_PATIENCE, os._exit, (_SIGNALLED + app.ended_by,))
        timer.daemon = True
        timer.start()
        return _SIGNALLED + app.ended_by
    return app.return_code or 0


def _end_with_terminal(number: int) -> None:
    """End when the terminal is gone. Only the processes that it controls get a signal then, and who reads from it reads
    nothing, again and again."""
    gone = select.poll()
    gone.register(number, 0)  # a hangup is always told
    gone.poll()
    os.kill(os.getpid(), signal.SIGHUP)
