"""Does the work of commands and hooks, in a process that has everything loaded already.

For each request the daemon forks a child. That takes over what the client has (standard streams, folder, environment,
umask, limits) and its identity (`process.table.serve`), and then runs the same function as the client would have run.
Its rights are the client's as well, or it declines: an agent in a sandbox gets out of it no other way.

The child begins only when the client says so, because a client that has waited for too long does the work itself. It
stops as for Ctrl-C when the client is gone.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import functools
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from git_agentos.git.location import Location
from git_agentos.git.scan import Scan
from git_agentos.process import confinement, table
from git_agentos.util import system
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import client, place, proof, protocol
from git_agentos.watch.scans import Scans
from git_agentos.watch.server import Request

StartScan = Callable[[str], Scan]
"""Starts the scan of the worktree that a folder is in."""


class Work(NamedTuple):
    """What the daemon can do: `run` runs a command line (without the program's name), which starts its scan by the
    function that it is given, and gives its exit code; `saved` gives those of a repository's worktrees in which the
    daemon creates checkpoints by itself. `key` is the user's, None where there is none: then it works for nobody.
    """

    key: bytes | None
    run: Callable[[Sequence[str], StartScan], int]
    saved: Callable[[Sequence[Location]], Sequence[Location]]


_MOST = 32  # children at a time
_MOST_OWN = 2  # of them for the daemon's own work
_LONGEST = 2000  # bytes that are kept of what such a child says
_FAILED = 70
_PATIENCE = 1.0  # seconds until the client has to say that the work may begin
_STREAMS = 3
_DIGITS = 9
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_MAXIMUM = float("inf")


class _Order(NamedTuple):
    """What a client wants to have done: its whole command line, its environment, its process and its limits."""

    argv: list[str]
    environment: dict[bytes, bytes]
    pid: int = 0
    limits: Mapping[int, tuple[int, int]] = MappingProxyType({})


class Service:
    """Does the work of clients, and what the daemon does by itself."""

    def __init__(self, version: str, work: Work, scans: Scans) -> None:
        self._version, self._work, self._scans = version, work, scans
        self.saved = work.saved
        self.served = 0  # commands of clients
        self._children: dict[int, _Child] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a child is at work."""
        self._reap()
        return bool(self._children)

    def serve(self, request: Request) -> str:
        """Let a child do the work; it then has the connection. Else the reason why not."""
        if self._work.key is None:
            return "the user has no key"
        order = _read(request.arguments[1:])
        if order is None or not client.is_served(order.argv[1:]):
            return "it does not do that"
        if sys.getfilesystemencoding() != "utf-8":
            return "its text is not in UTF-8"
        pid = place.peer(request.connection)
        if pid is None or not _has_connected(pid, request.since) or not confinement.has_own_rights(pid):
            return "it may not do what the caller may, or it may do more"
        limits = {each: resource.prlimit(pid, each) for each in _LIMITS}
        if any(_number(hard) > _number(resource.getrlimit(each)[1]) for each, (_, hard) in limits.items()):
            return "its limits are below those of the caller"
        self._reap()
        if len(self._children) >= _MOST:
            return "it has too much to do"
        found = system.memory_file()
        child = os.fork()
        if not child:
            ready = protocol.ready(self._version, proof.answer(self._work.key, request.arguments[0]))
            order = order._replace(pid=pid, limits=limits)
            _serve(request, order, ready, self._version, functools.partial(self._run, found), found)
        self._children[child] = _Child(found)
        self.served += 1
        return ""

    def start(self, argv: Sequence[str], failed: Callable[[str], None]) -> bool:
        """Let a child run a command of the daemon's own; `failed` is told what it said if it fails. False where there
        is too much to do."""
        self._reap()
        if sum(each.failed is not None for each in self._children.values()) >= _MOST_OWN:
            return False
        found, said = system.memory_file(), system.memory_file()
        child = os.fork()
        if not child:
            _run_own(argv, said, functools.partial(self._run, found), found)
        self._children[child] = _Child(found, said, failed)
        return True

    def _run(self, found: int, argv: Sequence[str]) -> int:
        """In a child: run a command line, and write what the daemon is to know into the file `found`."""
        code = self._work.run(argv, self._scans.start)
        with os.fdopen(found, "wb") as file:
            file.write(self._scans.made())
        return code

    def _reap(self) -> None:
        for child, known in list(self._children.items()):
            code = 0
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended == 0:
                    continue
                code = os.waitstatus_to_exitcode(status)
            del self._children[child]
            found = _contents(known.found)
            if code >= 0 and found:
                self._scans.take(found)
            text = _contents(known.said, _LONGEST).decode("utf-8", "replace")
            if code and known.failed is not None:
                known.failed(" / ".join(text.splitlines()) or f"exit code {code}")


class _Child(NamedTuple):
    """A child: the file into which it writes what the daemon is to know; of one that does the daemon's own work, the
    file into which it writes what it says, and who is told if it fails."""

    found: int
    said: int | None = None
    failed: Callable[[str], None] | None = None


def _contents(descriptor: int | None, most: int = -1) -> bytes:
    """What was written into a file; it is closed."""
    if descriptor is None:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read(most)


def _read(arguments: Sequence[bytes]) -> _Order | None:
    """The arguments of a request as `client.run` writes them."""
    if not arguments or not arguments[0].isdigit() or len(arguments[0]) > _DIGITS:
        return None
    end = int(arguments[0]) + 1
    if not 1 < end <= len(arguments):
        return None
    pairs = (each.partition(b"=") for each in arguments[end:] if b"=" in each)
    return _Order([os.fsdecode(each) for each in arguments[1:end]], {key: value for key, _, value in pairs})


def _number(limit: int) -> float:
    return _MAXIMUM if limit == resource.RLIM_INFINITY else limit


def _has_connected(pid: int, since: float) -> bool:
    """Whether a process was there when the connection was accepted: it is not one that has got the number of a client
    that has ended and has left its connection to somebody else."""
    found = table.identify(pid)
    return found is not None and int(found.start) <= since * os.sysconf("SC_CLK_TCK")


def _serve(
    request: Request, order: _Order, ready: bytes, version: str, run: Callable[[Sequence[str]], int], kept: int
) -> NoReturn:
    """In a child: do what a client wants, and tell it the exit code."""

    def work() -> None:
        connection = request.connection
        connection.settimeout(_PATIENCE)
        connection.sendall(ready)
        descriptors = _receive_descriptors(connection)
        if len(descriptors) != client.DESCRIPTORS:
            return
        _take_over(order, descriptors)
        _end_with(connection)
        code = run(order.argv[1:])
        _flush()
        connection.setblocking(True)
        connection.sendall(protocol.accept(version, b"%d" % code))

    _be_child((request.connection.fileno(), kept), work)


def _run_own(argv: Sequence[str], said: int, run: Callable[[Sequence[str]], int], kept: int) -> NoReturn:
    """In a child: run a command of the daemon's own."""

    def work() -> int:
        for number, target in ((1, said), (2, said)):
            os.dup2(target, number)
        _open_streams()
        sys.argv = ["git-agentos", *argv]
        gc.disable()
        code = run(argv)
        _flush()
        return code

    _be_child((said, kept), work)


def _be_child(kept: Sequence[int], work: Callable[[], int | None]) -> NoReturn:
    """Do the work of a child and end: nothing of the daemon may run in it. Only the descriptors `kept` stay open."""
    code: int | None = _FAILED
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _close_others(kept)
        code = work()
    except BaseException:  # noqa: BLE001 (whatever it is, it must not get to the daemon's code)
        code = _FAILED
    finally:
        os._exit(code or 0)


def _receive_descriptors(connection: socket.socket) -> list[int]:
    """What the client hands over when the work may begin; empty if it may not."""
    numbers = array.array("i")
    size = socket.CMSG_SPACE(client.DESCRIPTORS * numbers.itemsize)
    data, with_it, _, _ = connection.recvmsg(1, size)
    for level, kind, found in with_it:
        if data and (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(found[: len(found) // numbers.itemsize * numbers.itemsize])
    return numbers.tolist()


def _close_others(kept: Sequence[int]) -> None:
    """Close the daemon's descriptors: its socket, its clients, what it watches."""
    begin = _STREAMS
    for each in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(begin, each)
        begin = each + 1


def _take_over(order: _Order, descriptors: Sequence[int]) -> None:
    """Have what the client has."""
    *streams, folder = descriptors
    os.fchdir(folder)
    os.close(folder)
    for number, each in enumerate(streams):
        os.dup2(each, number, inheritable=True)
        os.close(each)
    _open_streams()
    sys.argv = order.argv
    os.environ.clear()
    os.environb.update(order.environment)
    time.tzset()
    umask = confinement.umask(order.pid)
    if umask is not None:
        os.umask(umask)
    for limit, wanted in order.limits.items():
        if wanted != resource.getrlimit(limit):
            resource.setrlimit(limit, wanted)
    table.serve(order.pid)
    gc.disable()  # as in a process of its own


def _end_with(connection: socket.socket) -> None:
    """From now on, be interrupted when the client is gone."""

    def interrupt(_number: int, _frame: object) -> None:
        try:
            if connection.recv(1, socket.MSG_PEEK):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        raise KeyboardInterrupt

    connection.setblocking(False)
    signal.signal(signal.SIGIO, interrupt)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    interrupt(signal.SIGIO, None)


def _open_streams() -> None:
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
    )


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
