"""Messages between the daemon and its clients.

A request is a line and what follows it: `agentos-watch VERSION REQUEST LENGTH`, and so many bytes, which are the
arguments, each ended by a NUL. An answer is `agentos-watch VERSION ok LENGTH` and the data, or `no` in place of `ok`,
and the reason in the data. `VERSION` is that of the program that wrote the message; a daemon of another version than
its client says no, and ends.

The arguments of `run` are a challenge (`proof`), the number of words of the command line, the words, and the
environment. If it will be done, `ready` comes first, with the proof; then the client sends one byte, and with it its
standard streams and its current folder (SCM_RIGHTS, unix(7)); once it is done the exit code comes. If that byte does
not come, nothing is done.

Standard library only, and nothing that takes time to import: a client imports it.
"""

from __future__ import annotations

MAGIC = b"agentos-watch"
LONGEST_REQUEST = 1 << 16  # bytes, with its line
LONGEST_ANSWER = 16 << 20
_LONGEST_LINE = 200
_DIGITS = 9


class ProtocolError(Exception):
    """What came is no message."""


def request(version: str, name: str, *arguments: bytes) -> bytes:
    """A request as it is sent. No argument has a NUL."""
    return _message(version, name, b"".join(each + b"\0" for each in arguments))


def accept(version: str, data: bytes = b"") -> bytes:
    """An answer as it is sent."""
    return _message(version, "ok", data)


def ready(version: str, proof: bytes) -> bytes:
    """What comes before the answer to `run`: the work begins when the client says so."""
    return _message(version, "ready", proof)


def decline(version: str, reason: str) -> bytes:
    """An answer that says why there is none."""
    return _message(version, "no", reason.encode("utf-8", "backslashreplace"))


def arguments(data: bytes) -> list[bytes]:
    """The arguments of a request."""
    return data.split(b"\0")[:-1]


def parse(received: bytes | bytearray, longest: int) -> tuple[str, str, bytes] | None:
    """The version, the word and the data of a message; None while it is incomplete. ProtocolError if it is none, or
    longer than `longest` bytes, or if more follows it."""
    line, newline, _ = bytes(received[:_LONGEST_LINE]).partition(b"\n")
    if not newline:
        if len(line) == _LONGEST_LINE or not MAGIC.startswith(line[: len(MAGIC)]):
            raise ProtocolError("it does not begin as one")
        return None
    words = line.split(b" ")
    if len(words) != 4 or words[0] != MAGIC or not words[3].isdigit() or len(words[3]) > _DIGITS:
        raise ProtocolError("its first line is not one")
    begin, length = len(line) + 1, int(words[3])
    if begin + length > longest or len(received) > begin + length:
        raise ProtocolError("it is too long")
    if len(received) < begin + length:
        return None
    return words[1].decode("ascii", "replace"), words[2].decode("ascii", "replace"), bytes(received[begin:])


def _message(version: str, word: str, data: bytes) -> bytes:
    return b"%s %s %s %d\n%s" % (MAGIC, version.encode("ascii"), word.encode("ascii"), len(data), data)
