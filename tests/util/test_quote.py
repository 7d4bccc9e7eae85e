"""Names and text that cannot harm a terminal."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_agentos.util import quote


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain.txt", "plain.txt"),
        (b"with space", "with space"),
        (b"-dash", "-dash"),
        ("grün/naïve".encode(), "grün/naïve"),
        (b"tab\there", '"tab\\there"'),
        (b"new\nline", '"new\\nline"'),
        (b'quo"te', '"quo\\"te"'),
        (b"back\\slash", '"back\\\\slash"'),
        (b"bad\xff", '"bad\\377"'),
        (b"esc\x1b[31m", '"esc\\033[31m"'),
        (b"del\x7f", '"del\\177"'),
        ("c1\x9b31m".encode(), '"c1\\302\\23331m"'),
        ("rtl\u202e".encode(), '"rtl\\342\\200\\256"'),
    ],
)
def test_paths_are_quoted_as_git_does(name: bytes, shown: str) -> None:
    assert quote.path(os.fsdecode(name)) == shown


_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def unquote(shown: str) -> bytes:
    if not shown.startswith('"'):
        return shown.encode()
    return re.sub(
        rb'\\([0-7]{3}|[abtnvfr"\\])',
        lambda found: bytes([int(found[1], 8) if len(found[1]) == 3 else _ESCAPES[found[1].decode()]]),
        shown[1:-1].encode(),
    )


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_a_quoted_path_is_printable_and_can_be_read_back(name: bytes) -> None:
    shown = quote.path(os.fsdecode(name))
    assert shown.isprintable()
    assert unquote(shown) == name


@settings(deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_free_text_is_printable(text: str) -> None:
    assert quote.line(text).isprintable()
    assert all(line.isprintable() for line in quote.block(text).split("\n"))


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_contents_are_printable_but_for_tabs_and_line_ends(data: bytes) -> None:
    assert quote.contents(data).replace("\n", "").replace("\t", "").isprintable()


def test_contents_that_are_text_are_left_alone() -> None:
    assert quote.contents("a\tb\nnaïve\n".encode()) == "a\tb\nnaïve\n"
    assert quote.contents(b"\x1b]0;x\x07\r\n\xff") == "\\033]0;x\\007\n\\377"
