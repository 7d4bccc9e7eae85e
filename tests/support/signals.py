"""Signals as a terminal leaves them. `nohup`, and a shell that starts a job in the background, ignore some, and what is
ignored is inherited: a test that sends one to what it starts says that it is to be heard."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def with_default_handlers(*numbers: int) -> Iterator[None]:
    """What is started meanwhile has the default for these signals."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
