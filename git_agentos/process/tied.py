"""Running a program that does not outlive the process that has started it.

Standard library only, and nothing of this package: an engine sends this module to machines where it is not installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

_PR_SET_PDEATHSIG = 1
_GRACE = 30.0  # seconds between SIGTERM and SIGKILL
_TICK = 0.5
_TAIL = 4096  # bytes


def run(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Run a program to its end: its exit code (128 + N for signal N; 127 where there is no such program), and the end
    of what it wrote to stderr. Its stdout is discarded; it works in the folder of this process.

    Where this is interrupted by an exception, the program is ended by SIGTERM, and by SIGKILL after 30 seconds. Where
    this thread ends with its process, by SIGKILL too, the program gets SIGTERM; not on systems other than Linux.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                preexec_fn=end_with_parent(),  # noqa: PLW1509  (it only calls prctl and getppid)
            )
        except OSError as error:
            return 127, f"cannot run '{argv[0]}': {error.strerror}".encode()
        try:
            _wait(child)
        except BaseException:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE)
            child.kill()
            child.wait()
            raise
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - _TAIL))
        code = child.returncode
        return (code if code >= 0 else 128 - code), errors.read()


def _wait(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child. An exception that is raised from another thread is seen in half a second: a plain wait would
    not return for it."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_TICK)
                return
    try:
        while not select.select([descriptor], [], [], _TICK)[0]:
            pass
    finally:
        os.close(descriptor)
    child.wait()


def end_with_parent() -> Callable[[], None] | None:
    """What a child does before it becomes another program, so that it gets SIGTERM when this thread is gone."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it was gone before this was asked for
            os.kill(os.getpid(), signal.SIGTERM)

    return ask
