"""Options of programs other than git, read in one way for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


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
