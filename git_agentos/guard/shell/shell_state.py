"""What a shell knows while it runs a text, and what it makes of the words in it.

A variable has *alternatives*: what it may hold, after a branch that may or may not have been taken. Each is an array,
of one element for most. A word is expanded into alternatives too, each a list of arguments; where that would be too
many, or where it is not known what a variable holds, `UNKNOWN` stands in the argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product

from git_agentos.guard.shell.shell_syntax import NOTHING, Maybe, Node, Opaque, Parameter, Part, Substitution, Text, Word
from git_agentos.guard.shell.words import UNKNOWN, braces

Array = tuple[str, ...]
Alternatives = tuple[Array, ...]
Run = Callable[[Node, "State"], str]
"""Runs what is inside of `$(…)` and tells what it prints, UNKNOWN where that is not known."""

_ANY: Alternatives = ((UNKNOWN,),)
_MOST = 24
_FEED = "/dev/fd/"


@dataclass
class State:
    """One shell. `variables` were set in the text; others are `environment`'s. `directory` is where it stands, as far
    as that is known (`lost`: it is not). `feeds` is what `<(…)` gives to read, by the name that stands for it;
    `perhaps` are variables that may not have been set at all; `ended` says what ended it, `exit` or `return`: what
    follows does not run."""

    environment: Mapping[str, str]
    directory: str
    lost: bool = False
    variables: dict[str, Alternatives] = field(default_factory=dict)
    exported: frozenset[str] = frozenset()
    functions: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    positional: Array | None = None
    feeds: dict[str, str] = field(default_factory=dict)
    perhaps: frozenset[str] = frozenset()
    ended: str = ""

    def inner(self) -> State:
        """A subshell: it begins like this one, and nothing comes back."""
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
            ended="",
        )

    def become(self, other: State) -> None:
        """Take everything over from another."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def assign(self, name: str, values: Alternatives) -> None:
        self.perhaps -= {name}
        self.variables[name] = values if len(values) <= _MOST else _ANY

    def join(self, other: State) -> None:
        """What is known where either this shell or `other` may be the one that goes on."""
        if other.ended:
            return
        if self.ended:
            self.become(other)
            return
        for name in {**self.variables, **other.variables}:
            one, two = self.values(name), other.values(name)
            perhaps = one is None or two is None or name in self.perhaps | other.perhaps
            if one != two:
                self.assign(name, tuple(dict.fromkeys((*(one or ()), *(two or ())))))
            self.perhaps |= {name} if perhaps else frozenset()
        for name, body in other.functions.items():
            own = self.functions.get(name, body)
            self.functions[name] = body if own == body else Maybe(NOTHING, (own, body))
        for name, text in other.aliases.items():
            self.aliases[name] = text if self.aliases.get(name, text) == text else UNKNOWN
        self.exported |= other.exported
        self.lost = self.lost or other.lost or self.directory != other.directory
        self.feeds.update(other.feeds)
        if other.positional != self.positional:
            self.positional = None

    def forget_variables(self) -> None:
        """Something that is not known has run in this shell: what was set may be set otherwise."""
        for name in self.variables:
            self.variables[name] = _ANY
        self.positional = None

    def one(self, name: str) -> str:
        """What a variable holds, UNKNOWN where that is not certain."""
        values = self.values(name)
        return values[0][0] if values is not None and len(values) == 1 and values[0] else UNKNOWN

    def values(self, name: str) -> Alternatives | None:
        """What a variable may hold; None where nothing is known of it."""
        if name in self.variables:
            return self.variables[name]
        if name == "IFS":
            return ((" \t\n",),)
        if name == "PWD":
            return ((self.directory,),) if not self.lost else None
        return ((self.environment[name],),) if name in self.environment else None


def expand(word: Word, state: State, run: Run) -> list[list[str]]:
    """The arguments that a word becomes, in alternatives."""
    atoms: list[object] = []
    for part in word:
        if isinstance(part, Text) and not part.quoted:
            atoms += part.text
        else:
            atoms.append(part)
    # What runs in a substitution runs once, whatever braces are around it.
    options: dict[int, Sequence[Array]] = {
        n: _values(part, state, run) for n, part in enumerate(atoms) if not isinstance(part, str | Text)
    }
    numbered: list[object] = [n if n in options else atom for n, atom in enumerate(atoms)]
    made: list[list[str]] = [[]]
    for one in braces(numbered):
        found = [fields for choice in _choices(one, options) for fields in [_fields(one, choice, atoms, state)]]
        unique = [list(each) for each in dict.fromkeys(map(tuple, found))]
        made = [[*before, *after] for before in made for after in unique]
        if len(made) > _MOST:
            return [[UNKNOWN]]
    return made


def combined(words: Sequence[list[list[str]]]) -> list[list[str]]:
    """The argument lists that words with alternatives make."""
    total = 1
    for options in words:
        total *= max(len(options), 1)
    if total > _MOST:
        words = [options if len(options) == 1 else [[UNKNOWN]] for options in words]
    return [[field for fields in choice for field in fields] for choice in product(*words)]


def single(word: Word, state: State, run: Run) -> Alternatives:
    """A word where nothing is split: the value of an assignment, the target of a redirection."""
    quoted = tuple(
        part._replace(quoted=True) if isinstance(part, Parameter | Substitution) else _tilde(part, n)
        for n, part in enumerate(word)
    )
    return tuple(dict.fromkeys((" ".join(fields),) for fields in expand(quoted, state, run)))


def _tilde(part: Part, n: int) -> Part:
    """Braces are no braces where nothing is split."""
    if not isinstance(part, Text) or part.quoted:
        return part
    return part if n == 0 and part.text.startswith("~") else part._replace(quoted=True)


def _choices(one: Iterable[object], options: Mapping[int, Sequence[Array]]) -> list[dict[int, Array]]:
    used = [atom for atom in dict.fromkeys(one) if isinstance(atom, int)]
    total = 1
    for n in used:
        total *= len(options[n])
    if total > _MOST:
        return [dict.fromkeys(used, (UNKNOWN,))]
    return [dict(zip(used, values, strict=True)) for values in product(*(options[n] for n in used))]


def _fields(one: Sequence[object], choice: Mapping[int, Array], atoms: Sequence[object], state: State) -> list[str]:
    fields: list[str] = []
    current, there = "", False
    blanks = r"[ \t\n]+" if "IFS" not in state.variables else None
    for place, atom in enumerate(one):
        if isinstance(atom, str):
            if atom == "~" and place == 0 and _is_home(one):
                current += next(iter(state.values("HOME") or _ANY))[0]
            else:
                current += atom
            there = True
        elif isinstance(atom, Text):
            current += atom.text
            there = True
        elif isinstance(atom, int):
            part = atoms[atom]
            quoted = isinstance(part, Parameter | Substitution) and part.quoted
            values: Sequence[str] = choice[atom]
            if not quoted:
                values, before, after = _split(values, blanks)
                if before and there:
                    fields.append(current)
                    current, there = "", False
            else:
                after = False
                there = there or not (isinstance(part, Parameter) and (part.name == "@" or part.subscript == "@"))
            for n, value in enumerate(values):
                if n:
                    fields.append(current)
                    current = ""
                current += value
                there = True
            if after and there:
                fields.append(current)
                current, there = "", False
    return [*fields, current] if there else fields


def _is_home(one: Sequence[object]) -> bool:
    """Whether the tilde at the beginning stands alone or before a slash: whose home another is, is not looked up."""
    return len(one) == 1 or one[1] == "/"


def _split(values: Sequence[str], blanks: str | None) -> tuple[list[str], bool, bool]:
    """An unquoted value as words; whether it begins and ends with a blank."""
    if blanks is None:
        return [UNKNOWN for _ in values[:1]], False, False
    whole = " ".join(values)
    return [each for each in re.split(blanks, whole) if each], whole[:1].isspace(), whole[-1:].isspace()


# -- values ------------------------------------------------------------------------------------------------------------


def _values(part: object, state: State, run: Run) -> Sequence[Array]:
    if isinstance(part, Opaque):
        for node in part.inner:
            run(node, state)
        return _ANY
    if isinstance(part, Substitution):
        said = run(part.body, state)
        if not part.feed:
            return ((said.rstrip("\n") if said.strip(UNKNOWN) else said[:1],),)
        name = f"{_FEED}{63 + len(state.feeds)}{UNKNOWN}"
        state.feeds[name] = said
        return ((name,),)
    assert isinstance(part, Parameter)
    for node in part.inner:
        run(node, state)
    return _parameter(part, state, run)


def _parameter(part: Parameter, state: State, run: Run) -> Sequence[Array]:
    if part.operator.startswith("^"):
        return _ANY
    found = _held(part, state)
    if part.operator == "":
        return _ANY if found is None else found
    if not part.operator.endswith(("-", "=", "+", "?")) or len(part.operator) > 2:
        return _ANY
    given = tuple(tuple(fields) for fields in expand(part.word, state, run)) or ((),)
    kind = part.operator[-1]
    if kind == "?":
        return _ANY if found is None else found
    if kind == "+":
        return (*given, ()) if found is None else given if any(any(value) for value in found) else ((),)
    if found is None:
        return (*given, *_ANY)
    chosen = [value if any(value) else default for value in found for default in given]
    chosen += given if part.name in state.perhaps else ()
    return tuple(dict.fromkeys(chosen))


def _held(part: Parameter, state: State) -> Sequence[Array] | None:
    """What a parameter holds, as the fields that it is worth between quotes."""
    name = part.name
    if name in ("@", "*"):
        if state.positional is None:
            return None
        values: Alternatives = (state.positional,)
        whole = name
    elif name.isdigit():
        if name == "0":
            return state.variables.get("0")
        if state.positional is None:
            return None
        n = int(name)
        return ((state.positional[n - 1] if n <= len(state.positional) else "",),)
    elif not (name[:1].isalpha() or name[:1] == "_"):
        return None
    else:
        held = state.values(name)
        if held is None or name == "_":
            return None
        values, whole = held, part.subscript
    if whole == "@":
        return values
    if whole == "*":
        return tuple((" ".join(each),) for each in values)
    if whole == "":
        return tuple(each[:1] or ("",) for each in values)
    if whole.isdigit():
        return tuple((each[int(whole)] if int(whole) < len(each) else "",) for each in values)
    return None
