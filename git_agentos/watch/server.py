"""The daemon's loop: clients on its socket, and the events of the file system.

One thread does everything, so nothing is seen half done. A client that is slow, silent or sends too much is cut off; it
cannot keep the daemon from the others for longer than one answer takes.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time
from collections.abc import Callable
from typing import Protocol

from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import place, protocol

_MOST_CLIENTS = 64
_PATIENCE = 5.0  # seconds that a client has for its request, and to take its answer
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # as process.table counts
_PAUSE = 0.2  # seconds until clients are accepted again after there was no descriptor for one


class Request(NamedTuple):
    """What a client asks for: its version, the name of the request, and its arguments; by which connection, and when
    that was accepted (seconds since the start of the system)."""

    version: str
    name: str
    arguments: list[bytes]
    connection: socket.socket
    since: float


Handler = Callable[[Request], bytes | None]
"""Gives a whole answer; None if another process answers."""


class Source(Protocol):
    """What else the loop waits for."""

    def fileno(self) -> int: ...

    def read(self) -> int: ...


class _Client:
    """A connection. `waiting` is what it has not taken yet of its answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = bytearray()
        self.waiting = memoryview(b"")
        self.deadline = time.monotonic() + _PATIENCE
        self.since = time.clock_gettime(_SINCE_BOOT)


class Server:
    """`listener` is a listening socket; `last_asked` is when a client was last answered (`time.monotonic`)."""

    def __init__(self, listener: socket.socket, source: Source, answer: Handler) -> None:
        self._listener, self._source, self._answer = listener, source, answer
        self._clients: set[_Client] = set()
        self._accepts_from = 0.0
        self.last_asked = self.last_event = time.monotonic()
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(source.fileno(), selectors.EVENT_READ, source)

    def turn(self, longest: float) -> None:
        """Wait for at most so many seconds, and do what there is to do."""
        deadlines = [client.deadline for client in self._clients]
        if self._accepts_from:
            deadlines.append(self._accepts_from)
        wait = min([longest, *(each - time.monotonic() for each in deadlines)])
        for key, events in self._selector.select(max(wait, 0)):
            if key.data is None:
                self._accept()
            elif key.data is self._source:
                if self._source.read():
                    self.last_event = time.monotonic()
            elif key.data in self._clients:
                self._serve(key.data, events)
        now = time.monotonic()
        for client in [each for each in self._clients if each.deadline <= now]:
            self._drop(client)
        if self._accepts_from and now >= self._accepts_from:
            self._accepts_from = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ, None)

    def close(self) -> None:
        """Answer nobody any more; answers that were given are still sent."""
        for client in list(self._clients):
            with contextlib.suppress(OSError):
                client.connection.settimeout(1.0)
                client.connection.sendall(client.waiting)
            self._drop(client)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                raise
            self._selector.unregister(self._listener)  # it would be readable all the time
            self._accepts_from = time.monotonic() + _PAUSE
            return
        if len(self._clients) >= _MOST_CLIENTS or not place.is_own_peer(connection):
            connection.close()
            return
        connection.setblocking(False)
        client = _Client(connection)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(client)
            elif events & selectors.EVENT_READ:
                self._receive(client)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, protocol.ProtocolError):
            self._drop(client)

    def _receive(self, client: _Client) -> None:
        data = client.connection.recv(protocol.LONGEST_REQUEST)
        client.received += data
        found = protocol.parse(client.received, protocol.LONGEST_REQUEST)
        if found is not None:
            self._source.read()
            version, name, arguments = found
            words = protocol.arguments(arguments)
            answer = self._answer(Request(version, name, words, client.connection, client.since))
            self.last_asked = time.monotonic()
            if answer is None:
                self._drop(client)
                return
            client.waiting = memoryview(answer)
            client.deadline = self.last_asked + _PATIENCE
            self._selector.modify(client.connection, selectors.EVENT_WRITE, client)
            self._send(client)
        elif not data:
            self._drop(client)

    def _send(self, client: _Client) -> None:
        sent = client.connection.send(client.waiting)
        client.waiting = client.waiting[sent:]
        if not client.waiting:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._clients.discard(client)
        self._selector.unregister(client.connection)
        client.connection.close()
