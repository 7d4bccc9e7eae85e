"""Asks the daemon of a repository. Nobody waits for one that is gone, stopped or slow.

Standard library only, and nothing of it that takes time to import: `_socket` is what `socket` is made of. So the whole
process of a client takes hardly longer than Python itself.
"""

from __future__ import annotations

import _socket
import os
import time

from git_agentos.watch import place, protocol

PATIENCE = 0.05  # seconds that an answer may take
_CHUNK = 1 << 16


class NoAnswer(Exception):
    """There is no daemon, or it does not answer; the message says which."""


class NotRunning(NoAnswer):
    """There is no daemon."""


def ask(common_dir: str, version: str, request: str, *arguments: bytes, patience: float = PATIENCE) -> bytes:
    """The daemon's answer; NoAnswer if there is none within `patience` seconds, or if it declines."""
    deadline = time.monotonic() + patience
    try:
        path = place.socket_path(common_dir)
        if not os.path.lexists(path):
            raise NotRunning("it does not run")
        place.check(path)
        name, folder = place.address(path)
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(patience)
            connection.connect(name)
            if not place.is_own_peer(connection):
                raise NoAnswer("it is another user's")
            connection.send(protocol.request(version, request, *arguments))
            return _receive(connection, deadline)
        finally:
            connection.close()
            if folder is not None:
                os.close(folder)
    except place.UnsafePlaceError as error:
        raise NoAnswer(str(error)) from None
    except TimeoutError:
        raise NoAnswer("it does not answer in time") from None
    except ConnectionRefusedError:
        raise NotRunning("it does not run") from None
    except (OSError, protocol.ProtocolError) as error:
        raise NoAnswer(str(error)) from None


def _receive(connection: _socket.socket, deadline: float) -> bytes:
    received = bytearray()
    while (found := protocol.parse(received, protocol.LONGEST_ANSWER)) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        data = connection.recv(_CHUNK)
        if not data:
            raise protocol.ProtocolError("the answer is incomplete")
        received += data
    _, word, answer = found
    if word != "ok":
        raise NoAnswer(answer.decode("utf-8", "replace"))
    return answer
