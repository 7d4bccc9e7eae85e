"""The lock of a run, its private files, and whether it is to stop. One process at a time changes a run, and the lock
ends with that process. Until the run has ended, it has in the repository's git directory:

<common dir>/agentos/runs/<run id>.turn     flock(2), held by the process that starts, resumes, resets or accepts it
<common dir>/agentos/runs/<run id>.pid      the process id of that, for people
<common dir>/agentos/runs/<run id>.json     its spec, word for word: the evidence has it without secrets, and only its
                                            owner can read this file. The event `begun` has a MAC of it
<common dir>/agentos/runs/<run id>.cancel   a signed request to cancel the run, which its process looks for
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from git_agentos.errors import LockedError
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.util import directories, files, locks

_CANCEL = "run-cancel"
_TIMEOUT = 0.5  # seconds: `holder` has the lock for a moment
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextlib.contextmanager
def hold(location: Location, run_id: str) -> Iterator[Callable[[], bool]]:
    """Hold the lock of a run; LockedError where another process holds it for more than a moment.

    Yields a function that says whether the lock is still in place: others can remove its file.
    """
    directories.make_own(location.shared_state_dir, "runs")
    path = _path(location, run_id, "turn")
    deadline = time.monotonic() + _TIMEOUT
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
                    pid = _read_pid(location, run_id)
                    who = f" (process {pid})" if pid is not None else ""
                    hint = f"wait for it, or cancel it: git agentos run cancel {run_id}"
                    raise LockedError(f"run '{run_id}' is running{who}", hint) from error
                time.sleep(0.01)
        _write(location, run_id, "pid", f"{os.getpid()}\n".encode("ascii"))

        def is_ours() -> bool:
            with contextlib.suppress(OSError):
                return os.path.samestat(held, os.lstat(path))
            return False

        try:
            yield is_ours
        finally:
            with contextlib.suppress(OSError):
                os.unlink(_path(location, run_id, "pid"))


def holder(location: Location, run_id: str) -> int | None:
    """The process that holds the lock of a run (0: one that is not known); None where none does."""
    path = _path(location, run_id, "turn")
    if not os.path.lexists(path):
        return None
    try:
        with locks.hold(path, shared=True, wait=False):
            return None
    except LockedError:
        return _read_pid(location, run_id) or 0
    except OSError:  # it is no file, so no process holds it
        return None


def clear_path(path: str) -> None:
    """Rename what has the name of a file of git-agentos and is no regular file: a link, a folder."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            os.rename(path, f"{path}~{os.urandom(4).hex()}")


# -- private files -----------------------------------------------------------------------------------------------------


def save_spec(location: Location, run_id: str, text: str) -> None:
    """Save the spec of a run."""
    _write(location, run_id, "json", _bytes(text), mode=0o600, durable=True)


def load_spec(location: Location, run_id: str) -> str | None:
    """The spec of a run; None where it is not here (the run has ended, or was begun on another machine)."""
    try:
        return files.read(_path(location, run_id, "json")).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def sign_spec(run_id: str, text: str) -> str | None:
    """The MAC of a run's spec, by the user's key; None where the key cannot be read."""
    return signing.sign(_document(run_id, text), os.environ)


def is_signed_spec(run_id: str, text: str, known: object) -> bool:
    """Whether `known` is the MAC of a text."""
    return signing.is_signed(_document(run_id, text), known, os.environ)


def request_cancel(location: Location, run_id: str) -> None:
    """Ask the process that has a run to cancel it."""
    body = {"run_id": run_id, "repository": location.common_dir}
    document = signing.sign_document(_CANCEL, run_id, body, signing.key(os.environ))
    _write(location, run_id, "cancel", json.dumps(document).encode("ascii") + b"\n")


def cancel_requested(location: Location, run_id: str) -> bool:
    """Whether a run is to be cancelled: the request has to be signed with the user's key, where there is one."""
    path = _path(location, run_id, "cancel")
    if not os.path.lexists(path):
        return False
    try:
        document = files.read_object(path, limit=1 << 16)
    except (OSError, ValueError):
        return False
    known = signing.key(os.environ, make=False)
    if document.get("repository") != location.common_dir:
        return False
    return known is None or signing.verify_document(_CANCEL, run_id, document, known)


def discard(location: Location, run_id: str, *ends: str) -> None:
    """Remove the private files of a run with the given `ends`, by default its spec and the request to cancel it."""
    for end in ends or ("json", "cancel"):
        path = _path(location, run_id, end)
        clear_path(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


# -- stopping ----------------------------------------------------------------------------------------------------------


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
        return cancel_requested(self._location, self._run_id)

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


# -- inside ------------------------------------------------------------------------------------------------------------


def _read_pid(location: Location, run_id: str) -> int | None:
    try:
        return int(files.read(_path(location, run_id, "pid"), limit=20))
    except (OSError, ValueError):
        return None


def _document(run_id: str, text: str) -> bytes:
    return f"git-agentos run-spec {run_id}\0".encode("ascii") + _bytes(text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _write(
    location: Location, run_id: str, end: str, data: bytes, *, mode: int | None = None, durable: bool = False
) -> None:  # fmt: skip
    directories.make_own(location.shared_state_dir, "runs")
    path = _path(location, run_id, end)
    clear_path(path)
    files.replace(path, data, mode=mode, durable=durable)


def _path(location: Location, run_id: str, end: str) -> str:
    return os.path.join(location.shared_state_dir, "runs", f"{run_id}.{end}")
