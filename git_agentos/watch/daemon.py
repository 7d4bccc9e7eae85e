"""The life of a daemon: it begins when it alone holds the lock, and ends by itself.

It ends when it is asked to, when nothing has changed and nobody has asked for `agentos.watchIdle`, when the repository
is not where it was, when git-agentos was uninstalled, and when a client is of another version.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

from git_agentos import config
from git_agentos.git import configuration
from git_agentos.git.location import Location
from git_agentos.util import locks, times
from git_agentos.watch import place, protocol
from git_agentos.watch.periodic import Periodic
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.server import Request, Server
from git_agentos.watch.service import Service

_TURN = 5.0  # seconds at most until it looks whether it has to end
_QUIET = 1.0  # seconds without an event
_BACKLOG = 64


class AlreadyRunsError(Exception):
    """Another daemon serves this repository."""


class Log:
    """What the daemon says; a file of at most `most` bytes, and the one before it."""

    def __init__(self, path: str, most: int = 256 << 10) -> None:
        self._path, self._most = path, most

    def write(self, text: str) -> None:
        """Add a line; nothing happens where it cannot be written."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, f"{times.now_text()} {text}\n".encode("utf-8", "backslashreplace"))
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if size > self._most:
                os.replace(self._path, self._path + ".1")


class Daemon:
    """Serves the repository of a worktree."""

    def __init__(self, location: Location, repository: WatchedRepository, service: Service, version: str, log: Log):
        self._repository, self._service, self._version, self._log = repository, service, version, log
        self._idle = config.watch_idle(configuration.read(location))
        self._periodic = Periodic(location, repository, service, log.write)
        self._since = time.time()
        self._end = ""  # why it ends

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until it ends; `ready` is called once it serves. AlreadyRunsError, UnsafePlaceError or OSError if it
        cannot."""
        common_dir = self._repository.common_dir
        path = place.make(common_dir)
        with _only_one(common_dir):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # of a daemon that was killed: we hold its lock
            listener = _listen(path)
            own = os.lstat(path)
            server = Server(listener, self._repository, self.answer)
            try:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, lambda number, _: self._stop(f"signal {number}"))
                self._log.write(f"serves {common_dir} (version {self._version}, pid {os.getpid()})")
                ready()
                while not self._end:
                    server.turn(min(_TURN, self._periodic.turn()))
                    self._look(server, path, own)
            finally:
                server.close()
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.lstat(path), own):
                        os.unlink(path)
                self._repository.close()
                self._log.write(f"ends: {self._end or 'an error'}")

    def answer(self, request: Request) -> bytes | None:
        """The answer to a request; None if another process gives it. No request ends the daemon but `stop`."""
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 (whatever a client sends, others are served)
            self._log.write(f"{request.name}: {type(error).__name__}: {error}")
            return self._decline("it has failed")

    def _answer(self, request: Request) -> bytes | None:
        if request.version != self._version:
            self._stop(f"a client has version {request.version!r}")
            return self._decline("the versions differ")
        if request.name == "status":
            return protocol.accept(self._version, json.dumps(self._status()).encode("ascii"))
        if request.name == "stop":
            self._stop("it was asked to")
            return protocol.accept(self._version)
        if request.name == "run":
            reason = self._service.serve(request)
            return self._decline(reason) if reason else None
        if request.name == "moments":
            return protocol.accept(self._version, json.dumps(self._repository.moments()).encode("ascii"))
        if request.name in ("watch", "changes") and request.arguments:
            return self._look_at(request)
        return self._decline("there is no such request")

    def _look_at(self, request: Request) -> bytes:
        """What is known of a worktree."""
        worktree = self._repository.worktree(os.fsdecode(request.arguments[0]))
        if worktree is None:
            return self._decline("it is no worktree of this repository")
        if request.name == "watch":
            self._periodic.look_soon()
            return protocol.accept(self._version)
        token = request.arguments[1] if len(request.arguments) > 1 else b""
        found = worktree.answer(token.decode("ascii", "replace"))
        if worktree.problem:
            return self._decline(worktree.problem)
        paths = [b"/"] if found.paths is None else sorted(found.paths)
        return protocol.accept(self._version, b"".join(each + b"\0" for each in (found.token.encode("ascii"), *paths)))

    def _decline(self, reason: str) -> bytes:
        return protocol.decline(self._version, reason)

    def _status(self) -> dict[str, object]:
        self._repository.forget_gone()
        worktrees = [
            {
                "path": root,
                "watching": not each.problem,
                "folders": each.folder_count,
                "reason": each.problem or None,
                "checkpoints": root in self._periodic.roots,
            }
            for root, each in sorted(self._repository.worktrees.items())
        ]
        return {
            "pid": os.getpid(),
            "since": times.seconds_to_text(self._since),
            "version": self._version,
            "idle_seconds": self._idle,
            "served": self._service.served,
            "worktrees": worktrees,
        }

    def _look(self, server: Server, path: str, own: os.stat_result) -> None:
        """End if there is nothing left to do; else watch again what could not be watched, once it is quiet."""
        now = time.monotonic()
        if now - server.last_event >= _QUIET:
            self._repository.retry()
        if not self._repository.is_there():
            self._stop("the repository is not there any more")
        elif not os.path.exists(__file__):
            self._stop("git-agentos is not installed any more")
        elif (
            self._idle is not None
            and not self._service.is_busy
            and now - max(server.last_asked, server.last_event) > self._idle
        ):
            self._stop("nothing has happened, and nobody has asked")
        else:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(path), own):
                    return
            self._stop("its socket is gone")

    def _stop(self, why: str) -> None:
        self._end = self._end or why


@contextlib.contextmanager
def _only_one(common_dir: str) -> Iterator[None]:
    """Hold the lock; the process that holds it is named in the file."""
    path = place.file(common_dir, "turn")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not locks.try_acquire(descriptor):
            raise AlreadyRunsError
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _listen(path: str) -> socket.socket:
    name, folder = place.address(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(name)
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        if folder is not None:
            os.close(folder)
    return listener
