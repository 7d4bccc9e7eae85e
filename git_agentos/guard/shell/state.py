"""What a shell knows at one point of a text: its folder, the values of variables, the functions.

A variable has *alternatives*: the values that it may have after a branch that may or may not be taken. Each is an
array, of one element for most variables and of none for one that is not set. Unknown text is `UNKNOWN` (`words`).
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
    """One shell. `variables` were set in the text; others are in `environment`. `directory` is its folder;
    `cwd_unknown`: it may be another. `file_contents` has files whose contents are known, by path: those that the text
    writes, and `<(…)`; all shells of a text share it. `ended` says what ended the shell (`exit`, `return`, `break`):
    what follows does not run.

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
    file_contents: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    left_loop: list[State] | None = None
    left_function: list[State] | None = None
    local: set[str] | None = None

    def subshell(self) -> State:
        """A subshell: it begins like this one, and does not change it."""
        return replace(
            self, variables=dict(self.variables), functions=dict(self.functions), aliases=dict(self.aliases), ended=""
        )

    def replace_with(self, other: State) -> None:
        """Take over everything from another state."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def snapshot(self) -> tuple[object, ...]:
        """Everything on which a command may depend, for comparison."""
        return (
            self.directory, self.cwd_unknown, dict(self.variables), self.exported, dict(self.functions),
            dict(self.aliases), self.positional,
        )  # fmt: skip

    def assign(self, name: str, values: Alternatives) -> None:
        self.variables[name] = values if len(values) <= MOST_ALTERNATIVES else ANY

    def merge(self, other: State) -> None:
        """Become the state after either this one or `other`."""
        if other.ended:
            return
        if self.ended:
            self.replace_with(other)
            return
        for name in {**self.variables, **other.variables}:
            value_of, two = self.values(name) or UNSET, other.values(name) or UNSET
            if value_of != two:
                self.assign(name, tuple(dict.fromkeys((*value_of, *two))))
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
        """Something unknown has run in this shell: any variable may have changed."""
        for name in self.variables:
            self.variables[name] = ANY
        self.positional = None

    def value_of(self, name: str) -> str:
        """The value of a variable, UNKNOWN if it is not certain."""
        values = self.values(name)
        return values[0][0] if values is not None and len(values) == 1 and values[0] else UNKNOWN

    def values(self, name: str) -> Alternatives | None:
        """The values that a variable may have; None if nothing is known about it."""
        if name in self.variables:
            return self.variables[name]
        if name == "IFS":
            return ((" \t\n",),)
        if name == "PWD":
            return ((self.directory,),) if not self.cwd_unknown else None
        return ((self.environment[name],),) if name in self.environment else None
