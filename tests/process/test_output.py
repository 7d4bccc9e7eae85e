"""What a command says on its way to file and screen: line by line, without secrets, and never without end."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos import redact
from git_agentos.process import output
from git_agentos.process.output import RedactingWriter
from git_agentos.redact_lines import secrets_of

TOKEN = b"ghp_" + b"a1B2" * 9
KEY_LINES = [b"MIIEpAIBAAKCAQEA7bq" + b"Zx9/+A" * 8, b"w8Fq" * 16, b"Zm9vYmFy" * 8]


def through(*pieces: bytes, values: frozenset[bytes] = frozenset()) -> tuple[bytes, list[bytes]]:
    """What comes out of a stream in the end, and what was shown."""
    file, shown = io.BytesIO(), list[bytes]()
    stream = RedactingWriter(file, shown.append, values)
    for piece in pieces:
        stream.write(piece)
    stream.close()
    return file.getvalue(), shown


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"one\ntwo\n", b"no end", b"\r\n\r\n", b"50%\r60%\r70%\n", b"\x00\xff\xfe\n\x80", "é\n".encode(),
        "\x0b\x0c\x1c\x85\u2028 are no ends of lines\n".encode(), b"-----END PRIVATE KEY-----\n",
    ],
)  # fmt: skip
def test_output_without_a_secret_is_unchanged(data: bytes) -> None:
    assert through(data)[0] == data
    assert through(*(data[n : n + 1] for n in range(len(data))))[0] == data


def test_lines_are_shown_without_their_ends_when_they_are_complete() -> None:
    file, shown = io.BytesIO(), list[bytes]()
    stream = RedactingWriter(file, shown.append, frozenset())
    stream.write(b"one\r\ntw")
    assert (file.getvalue(), shown) == (b"one\r\n", [b"one"])
    stream.write(b"o\n\nthree")
    assert (file.getvalue(), shown) == (b"one\r\ntwo\n\n", [b"one", b"two", b""])
    stream.close()
    assert (file.getvalue(), shown) == (b"one\r\ntwo\n\nthree", [b"one", b"two", b"", b"three"])


# -- secrets -----------------------------------------------------------------------------------------------------------

PIECES = [
    TOKEN, b"password=hunter2x", b"plain words", b"key", b"\n", b"\n", b"\xff", "é".encode(), b"=", b" ", b"api_key: ",
    b"s3cret-value", b"https://u:pa55word@host/", b"-----BEGIN RSA PRIVATE KEY-----", b"-----END RSA PRIVATE KEY-----",
    KEY_LINES[0], b"Proc-Type: 4,ENCRYPTED", b"\r",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.lists(st.integers(0, 200), max_size=6))
def test_chunking_does_not_change_the_result(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[one:other] for one, other in pairwise(places)]
    values = frozenset([b"s3cret-value"])
    whole = through(data, values=values)
    assert through(*parts, values=values) == whole
    alone = [b"password=hunter2x", TOKEN, b"s3cret-value"]
    assert not set(alone) & set(whole[1])


@pytest.mark.parametrize("prefix", [b"", b"    ", b"+", b"2026-11-22T10:00:00Z stderr F ", b"   12 | "])
@pytest.mark.parametrize("kind", [b"RSA PRIVATE KEY", b"PRIVATE KEY", b"OPENSSH PRIVATE KEY", b"PGP PRIVATE KEY BLOCK"])
@pytest.mark.parametrize("headers", [[], [b"Proc-Type: 4,ENCRYPTED", b"DEK-Info: AES-128-CBC,0011", b""]])
def test_a_private_key_over_several_lines(prefix: bytes, kind: bytes, headers: list[bytes]) -> None:
    body = [b"-----BEGIN %s-----" % kind, *headers, *KEY_LINES, b"c2hvcnQ=", b"-----END %s-----" % kind]
    text = b"".join(prefix + line + b"\n" for line in [b"before", *body, b"after"])
    found, shown = through(text)
    assert found == prefix + b"before\n" + prefix + b"[redacted]\n" + prefix + b"after\n"
    assert found.splitlines() == shown


def test_a_key_that_does_not_end() -> None:
    start = b"-----BEGIN PRIVATE KEY-----\n"
    assert through(start, *(line + b"\n" for line in KEY_LINES))[0] == b"[redacted]\n"
    found, _ = through(start, KEY_LINES[0] + b"\n", b"FAILED tests/test_a.py - it is not so\nmore words\n")
    assert found == b"[redacted]\nFAILED tests/test_a.py - it is not so\nmore words\n"
    again, _ = through(start, KEY_LINES[0] + b"\n", start, KEY_LINES[1] + b"\n-----END PRIVATE KEY-----\nend\n")
    assert again == b"[redacted]\n[redacted]\nend\n"


def test_words_about_keys_hide_nothing_else() -> None:
    text = b"expected '-----BEGIN PRIVATE KEY-----' in the file\nassert 1 == 2\nFAILED\n"
    assert through(text)[0].endswith(b"\nassert 1 == 2\nFAILED\n")


def test_values_of_secret_variables() -> None:
    environment = {
        "GITHUB_TOKEN": "abcdefgh", "DB_PASSWORD": "correct horse", "SHORT_TOKEN": "abc", "PWD": "/home/somewhere",
        "SSH_KEY": "/home/x/.ssh/id", "PATH": "/usr/bin:/bin", "PLAIN": "words that stay",
        "AWS_SECRET_ACCESS_KEY": "k" * 40,
    }  # fmt: skip
    values = secrets_of(environment)
    assert values == {b"abcdefgh", b"correct horse", b"k" * 40}
    assert through(b"xabcdefghx correct ", b"horse stay\n", values=values)[0] == b"x[redacted]x [redacted] stay\n"


@given(st.text(alphabet=st.sampled_from("pasword=:'\" tkn-_/@.\n[]?&sk1AK\u212a\u017f"), max_size=60))
def test_the_quick_look_overlooks_nothing(text: str) -> None:
    if not redact.may_hold(text):
        assert redact.redact(text) == (text, 0)
        assert redact._ASSIGNMENT.search(text) is None or redact._ASSIGNMENT.sub(_untouched, text) == text


def _untouched(found: re.Match[str]) -> str:
    held = redact._is_secret(found["name"], found["join"], found["value"])
    return "" if held else found[0]


# -- without end -------------------------------------------------------------------------------------------------------


def test_a_line_without_end_comes_out_in_pieces_and_whole() -> None:
    words = b"word " * 40_000
    found, shown = through(words[:100_000], words[100_000:])
    assert found == words
    assert max(map(len, shown)) <= 64 << 10
    assert all(piece.endswith(b" ") for piece in shown)
    blob = b"x" * 200_000
    assert through(blob)[0] == blob


@pytest.mark.parametrize("at", [65536 - 60, 65536 - 20, 65536 - 1, 65536])
def test_a_secret_is_not_cut_in_two(at: int) -> None:
    text = b"a " * (at // 2) + TOKEN + b" b" * 40_000
    assert through(text)[0] == text.replace(TOKEN, b"[redacted]")


def test_a_flood_is_kept_by_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_BYTES", 1000)
    monkeypatch.setattr(output, "TAIL_BYTES", 200)
    lines = [b"line %06d\n" % n for n in range(10_000)]
    found, shown = through(b"".join(lines), b"token " + TOKEN + b"\nlast")
    head, note, tail = found.partition(b"\n[git-agentos: ")
    assert head == b"".join(lines[: head.count(b"\n") + 0])
    assert 900 <= len(head) <= 1100
    left_out, _, end = tail.partition(b" bytes are left out here]\n")
    assert note
    assert end.endswith(b"line 009999\ntoken [redacted]\nlast")
    assert len(end) <= 300
    whole = len(b"".join(lines)) + len(b"token " + TOKEN + b"\nlast")
    kept = len(end) - len(b"[redacted]") + len(TOKEN)
    assert int(left_out) == whole - len(head) - kept
    assert b"".join(line + b"\n" for line in shown) == head
