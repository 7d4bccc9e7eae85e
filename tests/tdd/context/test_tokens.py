"""The estimate of tokens is never below the count: what it is derived from is looked up in both vocabularies, and the
law is tried on what could break it."""

from __future__ import annotations

import builtins
import string
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from git_agentos.tdd.context import tokens

NAMES = ("cl100k_base", "o200k_base")


def encodings() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import bpe_openai  # type: ignore[import-untyped]  # it has no types

        return [bpe_openai.get_encoding(name) for name in NAMES]


ENCODINGS = encodings()


def exact(text: str) -> int:
    """As many as the vocabulary that needs more."""
    return max(len(each.encode_ordinary(text)) for each in ENCODINGS)


def vocabularies() -> list[Mapping[bytes, int]]:
    return [each._mergeable_ranks for each in ENCODINGS]


@pytest.mark.parametrize("vocabulary", vocabularies(), ids=NAMES)
def test_facts_behind_the_estimate(vocabulary: Mapping[bytes, int]) -> None:
    lower, capitals = string.ascii_lowercase, tokens._CAPITALS
    pairs = {a + b for a in lower for b in lower} - tokens._APART
    pairs |= {a + b for a in capitals for b in capitals}
    pairs |= {" " + letter for letter in string.ascii_letters}
    spaces = {" " * n for n in range(1, 80)}
    digits = {str(n).zfill(width) for width in (1, 2, 3) for n in range(10**width)}
    bytes_ = {bytes([n]) for n in range(256)}
    assert {text for text in pairs | spaces | digits if text.encode() not in vocabulary} == set()
    assert not {each for each in bytes_ if each not in vocabulary}


# What the two ways of cutting a text into pieces look at: classes of letters, contractions, marks, numbers, spaces.
PIECES = (
    *"a b q z x k j e th ing A J Q S K Ab sT 'd 's 'S 'll 'Re 'VE ' '' \u017f '\u017f \u2019s 1 12 123 1234".split(),
    *"\u00b2 \u2167 \u0663 \u00e9 \u00c9 \u00df \u01c5 \u02b0 \u4e2d \u05e9 \u0301 \U0001f600 \u200d \ufffd".split(),
    *'. .. / // _ - = == ( " # *** <|endoftext|>'.split(),
    *(" ", "  ", "   ", " " * 79, " " * 80, " " * 200, "\n", "\n\n", "\r\n", "\t", "\t\t", "\u00a0", "\u3000"),
    *("\x00", "\x1b", "\ufeff"),
)


@pytest.mark.law
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("don'thing it'Rebel IT'SFOO")
@example("x" * 50 + "bq" * 20 + "zz")
@example(" " * 160 + "\n" + " " * 81 + "a")
@example("\t\t\u0663123J\x1b1")
@example("1" * 20 + "²" + "12" + "é12")
def test_estimate_is_not_too_low_for_cut_text(text: str) -> None:
    assert exact(text) <= tokens.estimate(text) <= len(text.encode())


@pytest.mark.law
@given(st.text(max_size=200))
def test_estimate_is_not_too_low_for_random_text(text: str) -> None:
    assert exact(text) <= tokens.estimate(text) <= len(text.encode())


@pytest.mark.law
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300))
def test_estimate_is_not_too_low_for_ascii(text: str) -> None:
    assert exact(text) <= tokens.estimate(text) <= len(text)


@pytest.mark.parametrize("alphabet", ["abqz '", "aAS '", "1² a", " \n\ta"])
def test_estimate_is_not_too_low_for_short_text(alphabet: str) -> None:
    def texts(length: int) -> Iterator[str]:
        if length == 0:
            yield ""
            return
        for rest in texts(length - 1):
            for char in alphabet:
                yield char + rest

    for length in range(6):
        for text in texts(length):
            assert exact(text) <= tokens.estimate(text), repr(text)


def test_a_half_of_a_pair_counts_too() -> None:
    """A surrogate alone is no text that is sent; it is counted all the same."""
    assert tokens.estimate("\ud800") == 3


def test_real_texts_are_not_overestimated_by_much() -> None:
    """Bytes would be four times as many as there are."""
    text = Path(textwrap.__file__).read_text(encoding="utf-8")
    assert exact(text) <= tokens.estimate(text) < 0.8 * len(text.encode())


def test_counted_exactly_where_it_can_be() -> None:
    text = "def twice(n: int) -> int:\n    return 2 * n  # caf\u00e9 \u4e2d\n"
    assert tokens.count(text) == len(ENCODINGS[1].encode_ordinary(text))
    assert tokens.count("") == 0
    assert (tokens.count("<|endoftext|>") or 0) > 1  # a text, not a mark for a model


@pytest.fixture
def without_bpe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tokens._counter.cache_clear()
    real: Callable[..., Any] = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "bpe_openai":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "bpe_openai", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    yield
    tokens._counter.cache_clear()


@pytest.mark.usefixtures("without_bpe")
def test_missing_vocabulary_gives_no_count() -> None:
    assert tokens.count("def twice(n):\n    return 2 * n\n") is None
