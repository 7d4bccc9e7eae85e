"""The lock of a run: one process at a time changes a run, and the lock ends with that process.

<common dir>/agentos/runs/<run id>.turn   flock(2), held by the process that starts, resumes, resets or accepts the run
<common dir>/agentos/runs/<run id>.pid    its process id, for people
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator

from git_agentos.errors import LockedError
from git_agentos.git.location import Location
from git_agentos.util import directories, files, locks

_TIMEOUT = 0.5  # seconds: `holder` has the lock for a moment


@contextlib.contextmanager
def hold(location: Location, run_id: str, *, patience: float = _TIMEOUT) -> Iterator[Callable[[], bool]]:
    """Hold the lock of a run; LockedError where another process holds it for more than `patience` seconds.

    Yields a function that says whether the lock is still in place: others can remove its file.
    """
    path = _path(location, run_id)
    deadline = time.monotonic() + patience
    with contextlib.ExitStack() as stack:
        while True:
            clear_path(path)
            try:
                stack.enter_context(locks.hold(path, wait=False))
                held = os.lstat(path)
                break
            except FileNotFoundError:
                stack.close()  # it has just been removed
            except LockedError as error:
                if time.monotonic() > deadline:
                    pid = _read_pid(path)
                    who = f" (process {pid})" if pid is not None else ""
                    raise LockedError(
                        f"run '{run_id}' is running{who}",
                        f"wait for it, or cancel it: git agentos run cancel {run_id}",
                    ) from error
                time.sleep(0.01)
        _write_pid(path)

        def is_ours() -> bool:
            with contextlib.suppress(OSError):
                return os.path.samestat(held, os.lstat(path))
            return False

        try:
            yield is_ours
        finally:
            with contextlib.suppress(OSError):
                os.unlink(_pid_file(path))


def clear_path(path: str) -> None:
    """Rename what has the name of a file of git-agentos and is no regular file: a link, a folder."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            os.rename(path, f"{path}~{os.urandom(4).hex()}")


def holder(location: Location, run_id: str) -> int | None:
    """The process that holds the lock of a run (0: one that is not known); None where none does."""
    path = _path(location, run_id, make=False)
    if not os.path.lexists(path):
        return None
    try:
        with locks.hold(path, shared=True, wait=False):
            return None
    except LockedError:
        return _read_pid(path) or 0
    except OSError:  # it is no file, so no process holds it
        return None


def _path(location: Location, run_id: str, *, make: bool = True) -> str:
    folder = os.path.join(location.shared_state_dir, "runs")
    if make:
        folder = directories.make_own(location.shared_state_dir, "runs")
    return os.path.join(folder, run_id + ".turn")


def _pid_file(path: str) -> str:
    return path.removesuffix(".turn") + ".pid"


def _write_pid(path: str) -> None:
    clear_path(_pid_file(path))
    files.replace(_pid_file(path), f"{os.getpid()}\n".encode("ascii"), durable=False)


def _read_pid(path: str) -> int | None:
    try:
        return int(files.read(_pid_file(path), limit=20))
    except (OSError, ValueError):
        return None
