"""Does the work of commands and hooks, in a process that has everything loaded already.

For each request the daemon forks a child. That takes over what the client has (standard streams, folder, environment,
umask, limits) and its identity (`process.table.serve`), and then runs the same function as the client would have run.
Its rights are the client's as well, or it declines: an agent in a sandbox gets out of it no other way.

The child begins only when the client says so, because a client that has waited for too long does the work itself. It
stops as for Ctrl-C when the client is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from git_agentos.process import confinement, table
from git_agentos.watch import client, place, protocol
from git_agentos.watch.server import Request

Run = Callable[[Sequence[str]], int]
"""Runs a command line (without the program's name); gives its exit code."""

_MOST = 32  # children at a time
_PATIENCE = 1.0  # seconds until the client has to say that the work may begin
_STREAMS = 3
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_MAXIMUM = float("inf")


class _Work(NamedTuple):
    """What a child does: the whole command line, the environment, the process that it does it for, and its limits."""

    argv: list[str]
    environment: dict[bytes, bytes]
    pid: int = 0
    limits: Mapping[int, tuple[int, int]] = MappingProxyType({})


class Service:
    """Does the work of clients with `run`."""

    def __init__(self, version: str, run: Run) -> None:
        self._version, self._run = version, run
        self._children: set[int] = set()

    @property
    def is_busy(self) -> bool:
        """Whether a child is at work."""
        self._reap()
        return bool(self._children)

    def serve(self, request: Request) -> str:
        """Let a child do the work; it then has the connection. Else the reason why not."""
        work = _read(request.arguments)
        if work is None or len(request.descriptors) != client.DESCRIPTORS or not client.is_served(work.argv[1:]):
            return "it does not do that"
        if sys.getfilesystemencoding() != "utf-8":
            return "its text is not in UTF-8"
        pid = place.peer(request.connection)
        if pid is None or not _has_been_there(pid) or not confinement.has_own_rights(pid):
            return "it may not do what the caller may, or it may do more"
        limits = {each: resource.prlimit(pid, each) for each in _LIMITS}
        if any(_number(hard) > _number(resource.getrlimit(each)[1]) for each, (_, hard) in limits.items()):
            return "its limits are below those of the caller"
        self._reap()
        if len(self._children) >= _MOST:
            return "it has too much to do"
        child = os.fork()
        if not child:
            _be_child(request, work._replace(pid=pid, limits=limits), self._version, self._run)
        self._children.add(child)
        return ""

    def _reap(self) -> None:
        for child in list(self._children):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(child, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(child)


def _read(arguments: Sequence[bytes]) -> _Work | None:
    """The arguments of a request as `client.run` writes them."""
    if not arguments or not arguments[0].isdigit() or not 1 < int(arguments[0]) + 1 <= len(arguments):
        return None
    end = int(arguments[0]) + 1
    pairs = (each.partition(b"=") for each in arguments[end:] if b"=" in each)
    return _Work([os.fsdecode(each) for each in arguments[1:end]], {key: value for key, _, value in pairs})


def _number(limit: int) -> float:
    return _MAXIMUM if limit == resource.RLIM_INFINITY else limit


def _has_been_there(pid: int) -> bool:
    """Whether a process was started before now: not one that got the number of one that has ended meanwhile."""
    found = table.identify(pid)
    ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    return found is not None and int(found.start) <= ticks


def _be_child(request: Request, work: _Work, version: str, run: Run) -> NoReturn:
    """Do the work and end. Nothing of the daemon may run in this process any more."""
    code = 70
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        connection = request.connection
        _close_others((connection.fileno(), *request.descriptors))
        connection.settimeout(_PATIENCE)
        connection.sendall(protocol.ready(version))
        if connection.recv(1):
            _take_over(work, request.descriptors)
            _end_with(connection)
            code = run(work.argv[1:])
            _flush()
            connection.setblocking(True)
            connection.sendall(protocol.accept(version, b"%d" % code))
    except BaseException:  # noqa: BLE001 (whatever it is, the daemon's own code must not go on here)
        code = 70
    finally:
        os._exit(code)


def _close_others(kept: Sequence[int]) -> None:
    """Close the daemon's descriptors: its socket, its clients, what it watches."""
    begin = _STREAMS
    for each in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(begin, each)
        begin = each + 1


def _take_over(work: _Work, descriptors: Sequence[int]) -> None:
    """Have what the client has."""
    *streams, folder = descriptors
    os.fchdir(folder)
    os.close(folder)
    for number, each in enumerate(streams):
        os.dup2(each, number, inheritable=True)
        os.close(each)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
    )
    sys.argv = work.argv
    os.environ.clear()
    os.environb.update(work.environment)
    time.tzset()
    umask = confinement.umask(work.pid)
    if umask is not None:
        os.umask(umask)
    for limit, wanted in work.limits.items():
        if wanted != resource.getrlimit(limit):
            resource.setrlimit(limit, wanted)
    table.serve(work.pid)
    gc.disable()  # as in a process of its own


def _end_with(connection: socket.socket) -> None:
    """From now on, be interrupted when the client is gone."""

    def interrupt(_number: int, _frame: object) -> None:
        with contextlib.suppress(BlockingIOError):
            if not connection.recv(1, socket.MSG_PEEK):
                signal.signal(signal.SIGIO, signal.SIG_IGN)
                raise KeyboardInterrupt

    connection.setblocking(False)
    signal.signal(signal.SIGIO, interrupt)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    interrupt(signal.SIGIO, None)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
