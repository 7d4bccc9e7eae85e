"""Characters of shell text as they stand in a word: what backslashes, backquotes and `$` make of them.

tree-sitter leaves the first in the text of a word; and it takes for text what is between backquotes in a here-document,
and some a `$1` in the middle of a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from git_agentos.guard.shell.shell_syntax import Node, Parameter, Part, ShellError, Substitution, Text

# What a backslash takes its meaning from, between quotes and in a here-document.
IN_QUOTES, IN_DOCUMENT = '$`"\\', "$`\\"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-]", re.ASCII)


def literal(text: str, quote: str, inside: Callable[[str], Node]) -> Iterator[Part]:
    """Text as it stands in a word, backslashes and backquotes resolved. Where it is quoted, `quote` is what a backslash
    takes its meaning from. `inside` reads what is between backquotes."""
    plain = ""
    n = 0
    while n < len(text):
        character = text[n]
        if character == "\\" and n + 1 < len(text):
            following = text[n + 1]
            n += 2
            if following == "\n":
                continue
            if quote and following not in quote:
                plain += "\\" + following
                continue
            if not quote and plain:
                yield Text(plain)
                plain = ""
            if quote:
                plain += following
            else:
                yield Text(following, True)
            continue
        if character == "`":
            if plain:
                yield Text(plain, bool(quote))
                plain = ""
            inner, n = _backquoted(text, n)
            yield Substitution(inside(inner), bool(quote))
            continue
        if character == "$" and text[n + 1 : n + 2] in ("(", "{"):
            raise ShellError("it has an expansion that is not understood")
        if character == "$" and (found := _NAME.match(text, n + 1)):
            if plain:
                yield Text(plain, bool(quote))
                plain = ""
            yield Parameter(found[0], quoted=bool(quote))
            n = found.end()
            continue
        plain += character
        n += 1
    if plain:
        yield Text(plain, bool(quote))


def _backquoted(text: str, start: int) -> tuple[str, int]:
    """What is between the backquote at `start` and the next, as it is run, and where it goes on."""
    inner = ""
    n = start + 1
    while n < len(text):
        if text[n] == "\\" and text[n + 1 : n + 2] in ("`", "\\", "$"):
            inner += text[n + 1]
            n += 2
        elif text[n] == "`":
            return inner, n + 1
        else:
            inner += text[n]
            n += 1
    raise ShellError("it has a backquote that is not closed")
