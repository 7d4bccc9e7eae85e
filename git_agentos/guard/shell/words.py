"""Words of a command line of which a part may be unknown, and what a shell makes of a word by itself.

`UNKNOWN` means text that is known only at run time (`"$MSG"`, `$(date)`). No argument of a real process can contain it,
so no command can imitate it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

UNKNOWN = "\0"
FILE = UNKNOWN + UNKNOWN
"""The input of a program that reads a file."""

# Longer lists are not written by hand.
_MOST = 200

_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\",
    "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})|U(?P<U>[0-9A-Fa-f]{1,8})|(?P<octal>[0-7]{1,3})"
    r"|c(?P<control>.)|(?P<simple>.))",
    re.DOTALL,
)


def known(word: str) -> bool:
    return UNKNOWN not in word


def shown(argv: Sequence[str]) -> str:
    """A command line for people and for the log; unknown parts are `…`."""
    return " ".join(_quote(word) for word in argv)


def _quote(word: str) -> str:
    text = word.replace(UNKNOWN, "…")
    if text and not re.search(r"[\s'\"\\$`;&|<>(){}*?\[\]#~!]", text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def ansi(text: str) -> str:
    """The text of `$'text'`; a NUL ends it, as in bash."""

    def one(found: re.Match[str]) -> str:
        for group in ("hex", "u", "U"):
            if found[group]:
                code = int(found[group], 16)
                return chr(code) if code < 0x110000 else UNKNOWN
        if found["octal"]:
            return chr(int(found["octal"], 8) & 0xFF)
        if found["control"]:
            return chr(ord(found["control"].upper()) & 0x1F)
        return _SIMPLE.get(found["simple"], "\\" + found["simple"])

    return _ESCAPE.sub(one, text).partition("\0")[0]


def printf(arguments: Sequence[str]) -> str | None:
    """What `printf ARGUMENTS` prints, for formats of `%s`, `%b` and escapes; None for any other."""
    if not arguments or arguments[0].startswith("-") or not all(map(known, arguments)):
        return None
    form, rest = arguments[0], list(arguments[1:])
    if re.search(r"%(?![sb%])", form):
        return None
    out = ""
    while True:
        before = len(rest)

        def one(found: re.Match[str]) -> str:
            if found[0] == "%%":
                return "%"
            return rest.pop(0) if rest else ""

        out += re.sub(r"%[sb%]", one, ansi(form))
        if not rest or len(rest) == before or len(out) > 1 << 16:
            return out


def braces(atoms: Sequence[object]) -> list[list[object]]:
    """Brace expansion of a word given as characters (unquoted, active) and anything else (which is kept)."""
    for start, atom in enumerate(atoms):
        if atom != "{":
            continue
        end, commas = _closing(atoms, start)
        if end is None:
            continue
        options: list[list[object]]
        if commas:
            edges = [start, *commas, end]
            options = [list(atoms[a + 1 : b]) for a, b in pairwise(edges)]
            options = [each for option in options for each in braces(option)]
        else:
            run = _run(atoms[start + 1 : end])
            if run is None:
                continue
            options = run
        tails = braces(atoms[end + 1 :])
        if len(options) * len(tails) > _MOST:
            return [[UNKNOWN]]
        return [[*atoms[:start], *option, *tail] for option in options for tail in tails]
    return [list(atoms)]


def _closing(atoms: Sequence[object], start: int) -> tuple[int | None, list[int]]:
    """The position where the brace that opens at `start` closes, and those of the commas that separate its options."""
    depth = 0
    commas: list[int] = []
    for n in range(start, len(atoms)):
        if atoms[n] == "{":
            depth += 1
        elif atoms[n] == "}":
            depth -= 1
            if depth == 0:
                return n, commas
        elif atoms[n] == "," and depth == 1:
            commas.append(n)
    return None, []


def _run(atoms: Sequence[object]) -> list[list[object]] | None:
    """The words of `{a..b}` or `{a..b..step}`, given what is between the braces."""
    if not all(isinstance(atom, str) for atom in atoms):
        return None
    text = "".join(str(atom) for atom in atoms)
    found = re.fullmatch(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?", text)
    if found is None or found[1].lstrip("-").isdigit() != found[2].lstrip("-").isdigit():
        return None
    letters = found[1].isalpha()
    first, last = (ord(found[1]), ord(found[2])) if letters else (int(found[1]), int(found[2]))
    step = abs(int(found[3] or 1)) or 1
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > _MOST:
        return [[UNKNOWN]]
    return [list(chr(n) if letters else str(n)) for n in numbers]


def requoted(word: str) -> str:
    """A word quoted so that a shell reads it back."""
    return "'" + word.replace("'", "'\\''").replace(UNKNOWN, "'\"" + UNKNOWN + "\"'") + "'"
