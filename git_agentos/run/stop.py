"""Whether a run is to stop: a signal came, or it is being cancelled."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from git_agentos.git.location import Location
from git_agentos.run import control

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stop:
    """Handles SIGINT, SIGTERM and SIGHUP while it is entered; a run calls it between two steps.

    Only the main thread gets signals: for a run in another thread, the main thread has to handle them.
    """

    def __init__(self, location: Location, run_id: str) -> None:
        self._location = location
        self._run_id = run_id
        self._before: dict[int, Any] = {}
        self._raises = False
        self.signal: int | None = None

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # A process that was started to ignore one (nohup, a job in the background) keeps ignoring it.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None or self.is_cancelled

    @property
    def is_cancelled(self) -> bool:
        return control.cancel_requested(self._location, self._run_id)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """In this block the first signal raises KeyboardInterrupt: for what takes long, and reverts itself."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.signal = self.signal or number
        if self._raises:
            self._raises = False
            raise KeyboardInterrupt
