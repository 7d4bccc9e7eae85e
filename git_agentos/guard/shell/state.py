"""What a shell knows at one point of a text: where it stands, what its variables hold, which functions it has.

A variable has *alternatives*: what it may hold after a branch that may or may not have been taken. Each is an array,
of one element for most variables and of none for one that is not set. What cannot be known is `UNKNOWN` (`words`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from git_agentos.guard.shell.syntax import Node
from git_agentos.guard.shell.words import UNKNOWN

Array = tuple[str, ...]
Alternatives = tuple[Array, ...]
ANY: Alternatives = ((UNKNOWN,),)
UNSET: Alternatives = ((),)
MOST_ALTERNATIVES = 24


@dataclass
class State:
    """One shell. `variables` were set in the text; others are `environment`'s. `directory` is where it stands, as far
    as that is known (`lost`: it is not). `feeds` is what `<(…)` gives to read, by the name that stands for it: all
    shells of a text share it. `ended` says what ended it (`exit`, `return`, `break`): what follows does not run.

    `left_loop` and `left_function` are the states in which a loop (`break`, `continue`) or a function (`return`) was
    left early; None outside of both, where these do nothing. `local` are the names that a function has declared.
    """

    environment: Mapping[str, str]
    directory: str
    cwd_unknown: bool = False
    variables: dict[str, Alternatives] = field(default_factory=dict)
    exported: frozenset[str] = frozenset()
    functions: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    positional: Array | None = None
    feeds: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    left_loop: list[State] | None = None
    left_function: list[State] | None = None
    local: set[str] | None = None

    def inner(self) -> State:
        """A subshell: it begins like this one, and nothing comes back."""
        return replace(
            self, variables=dict(self.variables), functions=dict(self.functions), aliases=dict(self.aliases), ended=""
        )

    def become(self, other: State) -> None:
        """Take everything over from another."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def known(self) -> tuple[object, ...]:
        """All that a command may depend on, to compare."""
        return (
            self.directory, self.cwd_unknown, dict(self.variables), self.exported, dict(self.functions),
            dict(self.aliases), self.positional,
        )  # fmt: skip

    def assign(self, name: str, values: Alternatives) -> None:
        self.variables[name] = values if len(values) <= MOST_ALTERNATIVES else ANY

    def join(self, other: State) -> None:
        """What is known where either this shell or `other` may be the one that goes on."""
        if other.ended:
            return
        if self.ended:
            self.become(other)
            return
        for name in {**self.variables, **other.variables}:
            one, two = self.values(name) or UNSET, other.values(name) or UNSET
            if one != two:
                self.assign(name, tuple(dict.fromkeys((*one, *two))))
        for name, bodies in other.functions.items():
            own = self.functions.get(name, ())
            self.functions[name] = (*own, *(body for body in bodies if body not in own))
        for name, text in other.aliases.items():
            self.aliases[name] = text if self.aliases.get(name, text) == text else UNKNOWN
        self.exported |= other.exported
        self.cwd_unknown = self.cwd_unknown or other.cwd_unknown or self.directory != other.directory
        if other.positional != self.positional:
            self.positional = None

    def forget_variables(self) -> None:
        """Something that is not known has run in this shell: what was set may be set otherwise."""
        for name in self.variables:
            self.variables[name] = ANY
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
            return ((self.directory,),) if not self.cwd_unknown else None
        return ((self.environment[name],),) if name in self.environment else None
