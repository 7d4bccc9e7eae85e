"""Words of a command line of which a part may be `UNKNOWN`: options of programs other than git, and what a shell makes
of a word by itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell.syntax import BRACE, COMMA, END_BRACE

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
    first, *pieces = re.split("%[sb]", ansi(arguments[0]))
    if any("%" in piece.replace("%%", "") for piece in (first, *pieces)):
        return None
    values = list(arguments[1:])
    out = ""
    while True:  # the format is used again until all values are printed
        out += first + "".join((values.pop(0) if values else "") + piece for piece in pieces)
        if not values or not pieces:
            return out.replace("%%", "%")


_BRACES = re.compile(f"{BRACE}([^{BRACE}{END_BRACE}]*){END_BRACE}")
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?(\d+))?")


def braces(word: str) -> list[str]:
    """The words that a marked word becomes by brace expansion. Of nested braces, some words come twice."""
    done: list[str] = []
    left = [word]
    while left:
        text = left.pop(0)
        found = _BRACES.search(text)
        if found is None:
            done.append(text.replace(BRACE, "{").replace(COMMA, ",").replace(END_BRACE, "}"))
            continue
        options = found[1].split(COMMA)
        if len(options) == 1:
            options = _range(found[1]) or ["{" + found[1] + "}"]
        left = [text[: found.start()] + option + text[found.end() :] for option in options] + left
        if len(done) + len(left) > _MOST:
            return [UNKNOWN]
    return done


def _range(text: str) -> list[str]:
    """The words of `a..b` or `a..b..step`; none for any other text."""
    found = _RANGE.fullmatch(text)
    if found is None or found[1][-1].isdigit() != found[2][-1].isdigit():
        return []
    numbers = found[1][-1].isdigit()
    first, last = (int(found[1]), int(found[2])) if numbers else (ord(found[1]), ord(found[2]))
    step = int(found[3] or 1) or 1
    made = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    return [UNKNOWN] if len(made) > _MOST else [str(n) if numbers else chr(n) for n in made]


def requoted(word: str) -> str:
    """A word quoted so that a shell reads it back."""
    return "'" + word.replace("'", "'\\''").replace(UNKNOWN, "'\"" + UNKNOWN + "\"'") + "'"


# -- options -----------------------------------------------------------------------------------------------------------


def split_options(
    words: Sequence[str], valued: Collection[str], joined: Collection[str] = (), *, permute: bool = False
) -> tuple[list[str], dict[str, list[str]]]:
    """The words behind the options, and the options with their values ("" for none). Those in `valued` take a value,
    those in `joined` only one in the same word; a long one may be abbreviated. With `permute`, options may follow
    other words."""
    rest = list(words)
    given: dict[str, list[str]] = {}
    operands: list[str] = []
    while rest and (permute or (rest[0].startswith("-") and rest[0] != "-")):
        word = rest.pop(0)
        if word == "--":
            break
        if word[:1] != "-" or word == "-":
            operands.append(word)
            continue
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            name = next((each for each in (*valued, *joined) if each.startswith(name)), name)
            if not equals and name in valued and rest:
                value = rest.pop(0)
            given.setdefault(name, []).append(value)
            continue
        letters = [word] if word in valued else [f"-{letter}" for letter in word[1:]]
        for n, name in enumerate(letters, 2):
            if name in valued or name in joined:
                value = "" if name == word else word[n:]
                given.setdefault(name, []).append(value or (rest.pop(0) if rest and name in valued else ""))
                break
            given.setdefault(name, []).append("")
    return operands + rest, given


def values_of(given: Mapping[str, Sequence[str]], *names: str) -> list[str]:
    """The values of some options."""
    return [value for name in names for value in given.get(name, ())]
