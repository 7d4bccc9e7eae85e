"""Asks the daemon of a repository, and lets it do the work of a command. Nobody waits for one that is gone, stopped or
slow.

Standard library only, and nothing of it that takes time to import: `_socket` is what `socket` is made of. So the whole
process of a client takes hardly longer than Python itself.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from git_agentos.watch import place, proof, protocol

TYPE_CHECKING = False  # as in `typing`, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = 0.05  # seconds that an answer may take
DESCRIPTORS = 4  # that are handed over: the standard streams, and the current folder
_CHUNK = 1 << 16
# What a daemon does: no command that decides, forgets or asks.
_COMMANDS = (["checkpoint"], ["status"])
# These read their standard input, so they cannot be done a second time. (`hook shim` becomes git.)
_ONCE = (["hook"], ["guard", "harness"])
_NEVER = ["hook", "shim"]
_FLAGS = ("--json", "-q", "--quiet")  # options that may come first
_FAILED = 70
_REST = 60.0  # seconds in which a daemon is not asked again that has not answered in time
_silent: dict[str, float] = {}  # repositories with such a daemon, and until when that is (`time.monotonic`)


class NoAnswer(Exception):
    """There is no daemon, or it does not answer; the message says which."""


class NotRunning(NoAnswer):
    """There is no daemon."""


def ask(common_dir: str, version: str, request: str, *arguments: bytes, patience: float = PATIENCE) -> bytes:
    """The daemon's answer; NoAnswer if there is none within `patience` seconds, or if it declines."""
    if patience <= PATIENCE and _is_silent(common_dir):
        raise NoAnswer("it has not answered in time")
    deadline = time.monotonic() + patience
    connection = _connect(common_dir, patience)
    try:
        connection.send(protocol.request(version, request, *arguments))
        word, answer = _receive(connection, deadline)
    except (OSError, protocol.ProtocolError) as error:
        raise _no_answer(error) from None
    finally:
        connection.close()
    if word != "ok":
        raise NoAnswer(answer.decode("utf-8", "replace"))
    return answer


def _is_silent(common_dir: str) -> bool:
    return time.monotonic() < _silent.get(common_dir, 0.0)


def is_served(argv: Sequence[str]) -> bool:
    """Whether a daemon does the work of such a command line (without the program's name)."""
    words = _command(argv)[0]
    return words != _NEVER and any(words[: len(each)] == each for each in (*_COMMANDS, *_ONCE))


def _command(argv: Sequence[str]) -> tuple[list[str], str]:
    """The first two words that are no options, as far as it is certain, and the folder that `-C` leads to."""
    folder, rest = "", list(argv)
    while rest:
        if rest[0] in _FLAGS:
            del rest[:1]
        elif rest[0] in ("-C", "--as") and len(rest) > 1:
            folder = os.path.join(folder, rest[1]) if rest[0] == "-C" else folder
            del rest[:2]
        else:
            break
    return rest[:2], folder


def run(argv: Sequence[str], version: str, streams: Sequence[int] = (0, 1, 2)) -> int | None:
    """Let the daemon of this repository do the work of a command, with these descriptors as its standard streams; its
    exit code. None if it has not been done."""
    if not is_served(argv) or sys.getfilesystemencoding() != "utf-8":
        return None
    words, folder = _command(argv)
    common_dir = _common_dir(folder)
    if common_dir is None or _is_silent(common_dir):
        return None
    deadline = time.monotonic() + PATIENCE
    try:
        connection = _connect(common_dir, PATIENCE)
    except NoAnswer:
        return None
    try:
        if not _begin(connection, argv, version, deadline):
            return None
        _hand_over(connection, streams)
        code = _wait(connection)
    except TimeoutError:
        _silent[common_dir] = time.monotonic() + _REST
        return None
    except (OSError, protocol.ProtocolError):
        return None
    finally:
        connection.close()
    if code is None and words[:1] not in _COMMANDS:
        os.write(2, b"git-agentos: the process that did this for the watch daemon was ended\n")
        return _FAILED
    return code


def _begin(connection: _socket.socket, argv: Sequence[str], version: str, deadline: float) -> bool:
    """Ask for the work; whether the daemon is ready for it, and has proved itself."""
    key, challenge = proof.find_key(), proof.challenge()
    line = [os.fsencode(each) for each in (sys.argv[0], *argv)]
    variables = [b"%s=%s" % pair for pair in os.environb.items()]
    request = protocol.request(version, "run", challenge, b"%d" % len(line), *line, *variables)
    if key is None or len(request) > protocol.LONGEST_REQUEST:
        return False
    connection.settimeout(PATIENCE)
    connection.sendall(request)
    return _receive(connection, deadline) == ("ready", proof.answer(key, challenge))


def _connect(common_dir: str, patience: float) -> _socket.socket:
    """A connection with the daemon; NoAnswer if there is none."""
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
        except BaseException:
            connection.close()
            raise
        finally:
            if folder is not None:
                os.close(folder)
    except place.UnsafePlaceError as error:
        raise NoAnswer(str(error)) from None
    except OSError as error:
        raise _no_answer(error) from None
    return connection


def _no_answer(error: Exception) -> NoAnswer:
    if isinstance(error, TimeoutError):
        return NoAnswer("it does not answer in time")
    return NotRunning("it does not run") if isinstance(error, ConnectionRefusedError) else NoAnswer(str(error))


def _hand_over(connection: _socket.socket, streams: Sequence[int]) -> None:
    """Say that the work may begin, and hand over the streams and the current folder. Not with the request: a
    daemon that is stopped would keep them open, and whoever reads our output would wait for its end."""
    folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptors = b"".join(each.to_bytes(4, sys.byteorder) for each in (*streams, folder))
        connection.sendmsg([b"\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    finally:
        os.close(folder)


def _receive(connection: _socket.socket, deadline: float | None) -> tuple[str, bytes]:
    """An answer: its word, and its data. None waits for as long as it takes."""
    received = bytearray()
    while (found := protocol.parse(received, protocol.LONGEST_ANSWER)) is None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        data = connection.recv(_CHUNK)
        if not data:
            raise protocol.ProtocolError("the answer is incomplete")
        received += data
    return found[1], found[2]


def _wait(connection: _socket.socket) -> int | None:
    """The exit code of the command, however long it takes; None if it did not come to its end. Ctrl-C interrupts it."""
    while True:
        try:
            return int(_receive(connection, None)[1])
        except KeyboardInterrupt:
            connection.shutdown(_socket.SHUT_WR)
        except (OSError, ValueError, protocol.ProtocolError):
            return None


def _common_dir(path: str) -> str | None:
    """The common git directory of the repository that a folder is in, or that GIT_DIR names; a guess, since what is
    asked there finds out for itself. AGENTOS_RECORD_IN is the folder of the command that a hook works for."""
    try:
        folder = os.path.normpath(os.path.join(os.environ.get("AGENTOS_RECORD_IN") or os.getcwd(), path))
        named = os.environ.get("GIT_DIR")
        git_dir = os.path.join(folder, named) if named else _git_dir(folder)
        if git_dir is None:
            return None
        common = _first_line(os.path.join(git_dir, "commondir"))
        return os.path.normpath(os.path.join(git_dir, common)) if common else git_dir
    except (OSError, ValueError):
        return None


def _git_dir(folder: str) -> str | None:
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        line = _first_line(path)
        if line.startswith("gitdir: "):
            return os.path.join(folder, line[len("gitdir: ") :])
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _first_line(path: str) -> str:
    """The first line of a small file; empty where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(descriptor, 4096).partition(b"\n")[0])
    except OSError:
        return ""
    finally:
        os.close(descriptor)
