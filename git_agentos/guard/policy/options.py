"""Options as git reads them (parse-options.c): abbreviated, clustered, negated, before and after operands, up to `--`.

If an abbreviation fits several options, some versions of git stop with an error and some take one of them. Here it
counts as all of them, since a guess must not be the harmless one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy.option_table import SPECS
from git_agentos.util.named_tuple import NamedTuple

NONE, OPTIONAL, REQUIRED = "", "?", "="


class Spec(NamedTuple):
    """A command's options: short -> long, and long -> whether it takes a value. An option without a long name has its
    letter as one."""

    short: Mapping[str, str]
    long: Mapping[str, str]


class Options(NamedTuple):
    """A command line, parsed.

    `given` are the options that apply at the end (`--no-X` removes X), each with its values ("" for none); `operands`
    everything else, of which those from `dashes` on came after `--` (None: there was no `--`); `unknown` options are
    not known for this command; `unresolved`: some word, known only at run time, may be any option.
    """

    given: Mapping[str, Sequence[str]]
    operands: tuple[str, ...]
    dashes: int | None
    unknown: tuple[str, ...]
    unresolved: bool
    help: bool

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def value(self, name: str) -> str:
        """The last value of an option, "" if it has none or is not given."""
        return self.given[name][-1] if name in self.given else ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The operands after `--`."""
        return self.operands[self.dashes :] if self.dashes is not None else ()

    @property
    def words(self) -> tuple[str, ...]:
        """The operands before `--`."""
        return self.operands[: self.dashes] if self.dashes is not None else self.operands


def spec(name: str) -> Spec:
    """The options of a command by its name in the table."""
    short: dict[str, str] = {}
    long: dict[str, str] = {}
    for token in SPECS[name].split():
        kind = token[-1] if token[-1] in "=?" else NONE
        text = token.removesuffix(kind) if kind else token
        letter, comma, name_ = text.partition(",")
        if not comma and len(text) > 1:
            letter, name_ = "", text
        if letter:
            short[letter] = name_ or letter
        long[name_ or letter] = kind
    return Spec(short, long)


def parse(which: Spec, args: Sequence[str], *, stop: bool = False) -> Options:
    """Parse a command's arguments; with `stop`, everything from the first operand on is an operand."""
    reader = _Reader(which)
    words = list(args)
    position = 0
    dashes = None
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            dashes = len(reader.operands)
            reader.operands += words[position:]
            break
        if not word.startswith("-") or word == "-":
            reader.operand(word)
            if stop:
                reader.operands += words[position:]
                break
        elif word.startswith("--"):
            position += reader.long(word[2:], words[position:])
        else:
            position += reader.cluster(word[1:], words[position:])
    return Options(reader.given, tuple(reader.operands), dashes, tuple(reader.unknown), reader.unresolved, reader.help)


class _Reader:
    def __init__(self, which: Spec) -> None:
        self.spec = which
        self.given: dict[str, list[str]] = {}
        self.operands: list[str] = []
        self.unknown: list[str] = []
        self.unresolved = False
        self.help = False

    def operand(self, word: str) -> None:
        self.unresolved |= word.startswith(UNKNOWN)
        self.operands.append(word)

    def take(self, name: str, value: str) -> None:
        """Add an option, and remove its opposite by name (`tags`, `no-tags`)."""
        self.given.pop(name[3:] if name.startswith("no-") else f"no-{name}", None)
        self.given.setdefault(name, []).append(value)

    def long(self, text: str, rest: Sequence[str]) -> int:
        """Read `--text`; the number of the words after it that are its value."""
        name, equals, value = text.partition("=")
        if UNKNOWN in name:
            self.unresolved = True
            return 0
        if name in ("help", "help-all") and name not in self.spec.long:
            self.help = True
            return 0
        fitting = self._fitting(name)
        if not fitting:
            self.unknown.append(f"--{name}")
            return 0
        consumed = 0
        if len(fitting) == 1:
            option, negated = fitting[0]
            if not negated and not equals and self.spec.long[option] == REQUIRED and rest:
                value, consumed = rest[0], 1
        for option, negated in fitting:
            if not negated:
                self.take(option, value)
            elif len(fitting) == 1:
                self.given.pop(option, None)
        return consumed

    def _fitting(self, name: str) -> list[tuple[str, bool]]:
        """Which options `--name` may be, and whether it negates them."""
        forms: dict[str, tuple[str, bool]] = {}
        names = [option for option in self.spec.long if len(option) > 1]
        for option in names:
            forms[option] = (option, False)
        for option in names:
            forms.setdefault(option[3:] if option.startswith("no-") else f"no-{option}", (option, True))
        if name in forms:
            return [forms[name]]
        return list(dict.fromkeys(found for form, found in forms.items() if name and form.startswith(name)))

    def cluster(self, text: str, rest: Sequence[str]) -> int:
        """Read `-text`; the number of the words after it that are the last one's value."""
        for n, letter in enumerate(text):
            if letter == UNKNOWN:
                self.unresolved = True
                return 0
            option = self.spec.short.get(letter)
            if option is None:
                if letter.isdigit() and text[n:].isdigit():
                    return 0
                if letter == "h":
                    self.help = True
                else:
                    self.unknown.append(f"-{letter}")
                continue
            kind = self.spec.long[option]
            if kind == NONE:
                self.take(option, "")
                continue
            value = text[n + 1 :]
            if value or kind == OPTIONAL:
                self.take(option, value)
                return 0
            self.take(option, rest[0] if rest else "")
            return 1 if rest else 0
        return 0
