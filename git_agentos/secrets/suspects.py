"""Which of many blobs may have a secret: a first look, in one pass over all of them.

Most blobs have none, and `rules` takes some microseconds to say so of each. What is looked for here is necessary for a
finding and not sufficient: a blob that is no suspect has no finding, whatever the rules and detect-secrets' detectors
would say (`tests/secrets/test_suspects.py` holds it). Where one has none, neither is loaded.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache

from git_agentos import secret_forms
from git_agentos.util.named_tuple import NamedTuple

# The characters of which tokens are made, and how many of them are looked at.
TOKEN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=~%:-"
SHORTEST = 20
# The name of a secret has one of these, and is at most this far before its value.
NAME_WORDS = (b"pass", b"pwd", b"secret", b"key", b"token", b"credential", b"auth")
NAME_NEAR = 120
KEY_MARKERS = (b"PRIVATE KEY", b"PuTTY-User-Key-File-")
# detect-secrets gets so much of a long line, on either side of what is looked at.
AROUND = 200

_IN_URLS = (b"hooks.slack.com", b":_auth", b":_password")
_URL = re.compile(rb"://[^\s/:@'\"<>`]{0,200}:[^\s/@'\"<>`]{6,300}@")
_BYTE_ORDERS = (b"\xff\xfe", b"\xfe\xff")
_CLASSES = bytes(ord("a") if each in TOKEN_BYTES else ord(" ") for each in range(256))
_RUN = b"a" * SHORTEST
_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z]")
# Tokens that a text has to be about: an account of Twilio, a bot of Telegram, a storage key of Azure.
_ACCOUNT, _BOT, _STORAGE = 34, 44, 88
_NAMED = 4  # the shortest name, and what joins it to its value
# The release of detect-secrets of which this is true; of another one, every line that it would get counts.
_DETECTORS = "1.5.0"


class _Clue(NamedTuple):
    """What a detector's match needs: one of these words, and then the pattern; with `folded` in lower case."""

    words: tuple[bytes, ...]
    pattern: bytes
    folded: bool = False


_CLUES = (
    _Clue((b"AKC",), rb"AKC[a-zA-Z0-9]{10}"),
    _Clue((b"AP",), rb"AP[0-9A-F][a-zA-Z0-9]{8}"),
    _Clue((b"A3T",), rb"A3T[A-Z0-9]{17}"),
    _Clue((b"ABIA", b"ACCA", b"AKIA", b"ASIA"), rb"A(?:BIA|CCA|KIA|SIA)[0-9A-Z]{16}"),
    _Clue((b"aws",), rb"aws[^\n]{0,20}?(?:key|pwd|pw|pass|token)[^\n]{0,30}?['\"][0-9a-z/+]{40}['\"]", folded=True),
    _Clue((b"AccountKey=",), rb"AccountKey="),
    _Clue((b"cloudant.com",), rb"cloudant\.com", folded=True),
    _Clue(
        (b"key", b"pwd", b"pw", b"pass", b"token"),
        rb"(?:key|pwd|pw|password|pass|token)[\"']?\]? *(?::=|=>|::|=|:| ) *[\"']?[a-z0-9_-]{24}",
        folded=True,
    ),
    _Clue((b".",), rb"\.[a-zA-Z0-9_-]{6}\.[a-zA-Z0-9_-]{27}"),
    _Clue((b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9_]{36}"),
    _Clue((b"gl",), rb"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-"),
    _Clue((b"GR1348941",), rb"GR1348941"),
    _Clue((b"eyJ",), rb"eyJ[A-Za-z0-9_=-]+\."),
    _Clue((b"-us",), rb"[0-9a-z]{32}-us[0-9]"),
    _Clue((b":_authToken",), rb":_authToken"),
    _Clue((b"T3BlbkFJ",), rb"T3BlbkFJ"),
    _Clue((b"pypi-Ag",), rb"pypi-Ag"),
    _Clue((b"SG.",), rb"SG\.[a-zA-Z0-9_-]{22}\."),
    _Clue((b"xox",), rb"xox[abpors]-[0-9]", folded=True),
    _Clue((b"hooks.slack.com",), rb"hooks\.slack\.com", folded=True),
    _Clue((b"softlayer",), rb"softlayer", folded=True),
    _Clue((b"sq0csp-",), rb"sq0csp-"),
    _Clue((b"k_live_",), rb"k_live_"),
    _Clue((b":",), rb"[0-9]:[0-9A-Za-z_-]{35}"),
    _Clue((b"AC", b"SK"), rb"(?:AC|SK)[a-z0-9]{32}"),
)


def find(blobs: Sequence[bytes], detectors: str | None) -> set[int]:
    """The numbers of the blobs that may have a secret; of the others it is certain that they have none. `detectors` is
    the release of detect-secrets that is asked as well, None for no such release."""
    found = {number for number, data in enumerate(blobs) if data.startswith(_BYTE_ORDERS)}
    text = b"\n".join(blobs)
    starts = [0, *itertools.accumulate(len(each) + 1 for each in blobs)]
    look = _Look(text, starts, found)
    look.at_markers()
    look.at_runs()
    if detectors is not None:
        look.at_lines(detectors)
    return found


class _Look:
    """One look at many blobs: `text` are all of them, with their beginnings in `starts`."""

    def __init__(self, text: bytes, starts: Sequence[int], found: set[int]) -> None:
        self._text = text
        self._starts = starts
        self._found = found
        self._lines: list[tuple[int, bytes]] = []  # the lines that detectors would get, and where they are

    def _suspect(self, at: int) -> None:
        self._found.add(self._blob(at))

    def _blob(self, at: int) -> int:
        return bisect.bisect_right(self._starts, at) - 1

    def at_markers(self) -> None:
        """What needs no run of characters: private keys, and passwords in URLs."""
        for marker in (*KEY_MARKERS, *_IN_URLS):
            at = self._text.find(marker)
            while at >= 0:
                self._suspect(at)
                at = self._text.find(marker, at + 1)
        if b"@" in self._text:
            for each in _URL.finditer(self._text):
                self._suspect(each.start())

    def at_runs(self) -> None:
        """Tokens, and values with the name of a secret: all in a run of characters of which tokens are made."""
        text = self._text
        classes = text.translate(_CLASSES) + b" "
        runs: dict[bytes, list[int]] = {}
        end = covered = 0
        while (at := classes.find(_RUN, end)) >= 0:
            end = classes.index(b" ", at + SHORTEST)
            run = text[at:end]
            runs.setdefault(run, []).append(at)
            if _DIGIT.search(run) is None or _LETTER.search(run) is None:
                continue
            # A name and its value are in one line; a value in the middle of a run comes after one of these.
            line = text.rfind(b"\n", max(at - AROUND, 0), at) + 1 or max(at - AROUND, 0)
            before = text[max(line, at - NAME_NEAR) : end if b"=" in run or b":" in run else at]
            if len(before) >= _NAMED:
                before = before.lower()
                if any(word in before for word in NAME_WORDS):
                    self._suspect(at)
            line_end = text.find(b"\n", end, end + AROUND)
            line_end = min(end + AROUND, len(text)) if line_end < 0 else line_end
            if line_end > covered:
                covered = line_end
                self._lines.append((line, text[line:line_end]))
        self._at_tokens(runs)

    def _at_tokens(self, runs: dict[bytes, list[int]]) -> None:
        joined = b"\n".join(runs)
        for words, pattern in _forms():
            present = [word for word in words if word in joined]
            if not present:
                continue
            blobs = {
                self._blob(at) for run in runs if any(word in run for word in present) for at in runs[run]
            } - self._found
            search = re.compile(pattern).search if blobs else None
            for number in blobs:
                if search is not None and search(self._text, self._starts[number], self._starts[number + 1]):
                    self._found.add(number)
        for run, places in runs.items():
            size = len(run)
            if size >= _ACCOUNT and (
                b"AC" in run or b"SK" in run or (size >= _BOT and b":" in run) or (size >= _STORAGE and b"==" in run)
            ):
                self._found.update(map(self._blob, places))

    def at_lines(self, release: str) -> None:
        """What detect-secrets finds, in the lines that it gets."""
        joined = b"\n".join(line for _, line in self._lines)
        starts = [0, *itertools.accumulate(len(line) + 1 for _, line in self._lines)]
        for at in _places(joined) if release == _DETECTORS else starts[:-1]:
            self._suspect(self._lines[bisect.bisect_right(starts, at) - 1][0])


def may_be_detected(text: bytes, release: str | None) -> bool:
    """Whether a detector of that release of detect-secrets may match in a text; None for no such release."""
    return release is not None and (release != _DETECTORS or next(_places(text), None) is not None)


def _places(text: bytes) -> Iterator[int]:
    """Where a detector may match."""
    folded = text.lower()
    for clue in _CLUES:
        given = folded if clue.folded else text
        if any(word in given for word in clue.words):
            for each in re.finditer(clue.pattern, given):
                yield each.start()


@cache
def _forms() -> list[tuple[tuple[bytes, ...], bytes]]:
    return [(tuple(word.encode() for word in form.words), form.pattern.encode()) for form in secret_forms.FORMS]
