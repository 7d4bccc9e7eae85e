"""Waiting for an event, for as long as it takes on a busy machine; and processes that are known to have begun."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0  # seconds


def wait_until(condition: Callable[[], object], what: str, *, patience: float = PATIENCE) -> None:
    """Return once `condition` is true; fail where it does not become so."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after {patience:g} seconds"
        time.sleep(0.02)


@contextmanager
def running_process(*argv: str, cwd: Path, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun: it has said so. It is killed at the end."""
    command = ["sh", "-c", 'echo begun; exec "$@"', "sh", *argv]
    child = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
    try:
        assert child.stdout.readline() == b"begun\n"
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
