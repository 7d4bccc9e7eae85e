"""Messages, and what is none: that is known as soon as possible, before more of it is kept."""

from __future__ import annotations

import pytest

from git_agentos.watch import protocol

_LONGEST = 100


@pytest.mark.parametrize("arguments", [(), (b"",), (b"a", b"", b"\n \xff")])
def test_a_request_comes_byte_by_byte(arguments: tuple[bytes, ...]) -> None:
    sent = protocol.request("1.2", "changes", *arguments)
    for end in range(len(sent)):
        assert protocol.parse(sent[:end], _LONGEST) is None, end
    found = protocol.parse(bytearray(sent), _LONGEST)
    assert found is not None and found[:2] == ("1.2", "changes")
    assert protocol.arguments(found[2]) == list(arguments)


def test_answers() -> None:
    for sent, word, data in (
        (protocol.accept("1", b"x\0y"), "ok", b"x\0y"),
        (protocol.accept("1"), "ok", b""),
        (protocol.ready("1", b"abc"), "ready", b"abc"),
        (protocol.decline("1", "no \udcff"), "no", b"no \\udcff"),
    ):
        assert protocol.parse(sent, _LONGEST) == ("1", word, data)


@pytest.mark.parametrize(
    "received",
    [b"\n", b"x", b"GET / HTTP/1.1", b"agentos-talk 1 status 0\n", b"agentos-watch 1 status\n",
     b"agentos-watch 1 a b 0\n", b"agentos-watch 1 status -1\n", b"agentos-watch 1 status x\n",
     b"agentos-watch 1 status 0\nx", b"agentos-watch 1 status 1\nxx", b"agentos-watch 1 status 99\n",
     b"agentos-watch 1 status 9999999999\n", b"agentos-watch " + b"9" * 186,
     b"agentos-watch 1 status " + b"9" * 170 + b"\n"],
)  # fmt: skip
def test_what_is_no_message(received: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.parse(received, _LONGEST)
