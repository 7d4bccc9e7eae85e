"""How many tokens a text has: counted if bpe-openai is installed, or an estimate that is never below the count.

The count is that of the vocabulary `o200k_base`. The estimate holds for `cl100k_base` too, and follows from what is in
both vocabularies. A text is cut into pieces, and in each of them tokens are merged until no two neighbours make a token
together. A token has at least one byte, so that every byte counts 1 at most; and:

    words     any two lower-case letters are one token, but for the pairs in `_APART`; so are a space and a letter, and
              any two of the capitals in `_CAPITALS`. Of two neighbouring tokens in a word one thus has two letters:
              n letters have at most (2n + 1) / 3 tokens, and (2n + 2) / 3 where the last may reach beyond the word.
              A word lies in one piece; a contraction ('re, 'll) may cut one in two, which is one token more.
    spaces    up to 79 are one token, so that two neighbours have 80: n spaces have at most 2 (n / 80) + 1 tokens, and
              one more for the last space, which may stand in a piece of its own.
    digits    are cut into threes, each one token.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

INSTALL_HINT = "install bpe-openai (pip install 'git-agentos[tokens]') for exact counts"

_VOCABULARY = "o200k_base"
_APART = frozenset(
    "bq fj fz gj gk gq hj jg jv jw jx jy jz kq kx kz lq mz nq oq qf qg qj qk qo qv qy qz rj tj tq uq vq vz wq wv wz xg"
    " xh xj xk xq xu xv xw yf yj yq yv zg zj zq zr zv".split()
)
_CAPITALS = "ABCDEFGHIMNOPRSTW"
_RUNS = re.compile(rf"(?P<word> ?[a-z]+)|(?P<capitals> ?[{_CAPITALS}]+)|(?P<spaces> {{2,}})|(?P<digits>[0-9]+)")
_PAIRS_APART = re.compile(f"(?=({'|'.join(sorted(_APART))}))")
_BEYOND = re.compile(r"[A-Za-z'\x80-\U0010ffff]")


def count(text: str) -> int | None:
    """How many tokens `text` has; None if bpe-openai is not installed. The first call takes a second."""
    counted = _counter()
    return None if counted is None else counted(text)


def estimate(text: str) -> int:
    """A number that is not below the number of tokens of `text`."""
    total = len(text.encode("utf-8", "surrogatepass"))
    for run in _RUNS.finditer(text):
        n = run.end() - run.start()
        total -= n - min(n, _tokens_of(run, n, text))
    return min(total + text.count("'"), len(text.encode("utf-8", "surrogatepass")))


def _tokens_of(run: re.Match[str], n: int, text: str) -> int:
    if run.lastgroup == "spaces":
        return 2 * (n // 80) + 2
    beyond = _BEYOND.match(text, run.end()) is not None
    if run.lastgroup == "digits":
        return (n + 1) // 3 + 1 + beyond
    return (2 * n + 1 + beyond) // 3 + len(_PAIRS_APART.findall(run[0]))


@cache
def _counter() -> Callable[[str], int] | None:
    """bpe-openai's counter; None if it is not installed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "open_binary is deprecated", DeprecationWarning)  # so it reads its tables
        try:
            import bpe_openai  # type: ignore[import-untyped]  # it has no types
        except ImportError:
            return None
        encoding: Any = bpe_openai.get_encoding(_VOCABULARY)
    return lambda text: len(encoding.encode_ordinary(text))
