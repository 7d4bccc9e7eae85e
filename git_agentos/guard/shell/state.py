"""What a shell knows at one point of a text: its folder and the values of its variables.

A variable has *alternatives*: the values that it may have after a branch that may or may not be taken. Each is an
array, of one element for most variables and of none for one that is not set. Unknown text is `UNKNOWN` (`words`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell.syntax import ShellError

Array = tuple[str, ...]
Alternatives = tuple[Array, ...]
ANY: Alternatives = ((UNKNOWN,),)
UNSET: Alternatives = ((),)
MOST_ALTERNATIVES = 24

# Where a shell uses such a value as a number, it runs the command in it.
_RUNS_AS_NUMBER = re.compile(r"\w\[[^\]\n]*(\$\(|`)")


@dataclass
class State:
    """One shell. `variables` were set in the text; others are in `environment`. `directory` is its folder;
    `cwd_unknown`: it may be another. `file_contents` has files whose contents are known, by path: those that the text
    writes, and `<(…)`; all shells of a text share it.

    `may_have_left`: a `break`, `continue` or `return` may have left the loop or function, so what follows runs perhaps.
    `local` are the names that a function has declared.
    """

    environment: Mapping[str, str]
    directory: str
    cwd_unknown: bool = False
    variables: dict[str, Alternatives] = field(default_factory=dict)
    exported: frozenset[str] = frozenset()
    positional: Array | None = None
    file_contents: dict[str, str] = field(default_factory=dict)
    may_have_left: bool = False
    local: set[str] | None = None

    def copy(self) -> State:
        """A subshell, or a branch: it begins like this one, and does not change it."""
        return replace(self, variables=dict(self.variables))

    def become(self, ends: Sequence[State]) -> None:
        """Become the state after any of `ends`."""
        vars(self).update(vars(after_any(ends)))

    def merge(self, other: State) -> None:
        """Become the state after either this one or `other`."""
        for name in {**self.variables, **other.variables}:
            own, others = self.values(name) or UNSET, other.values(name) or UNSET
            if own != others:
                self._set(name, (*own, *others))
        self.exported |= other.exported
        self.cwd_unknown = self.cwd_unknown or other.cwd_unknown or self.directory != other.directory
        self.positional = self.positional if self.positional == other.positional else None
        self.may_have_left = self.may_have_left or other.may_have_left

    def assign(self, name: str, values: Alternatives) -> None:
        values = checked(name, values)
        self._set(name, (*(self.values(name) or UNSET), *values) if self.may_have_left else values)

    def _set(self, name: str, values: Alternatives) -> None:
        values = tuple(dict.fromkeys(values))
        self.variables[name] = values if len(values) <= MOST_ALTERNATIVES else ANY

    def forget_variables(self) -> None:
        """Something unknown has run in this shell: any variable may have changed."""
        self.variables = dict.fromkeys(self.variables, ANY)
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


def after_any(ends: Sequence[State]) -> State:
    """The state after any of `ends`; the folder of the first is the most likely one."""
    state = ends[0].copy()
    for each in ends[1:]:
        state.merge(each)
    return state


def checked(name: str, values: Alternatives) -> Alternatives:
    """The values that a variable is given; ShellError if one has a command that runs where it is used as a number."""
    if any(_RUNS_AS_NUMBER.search(text) for value in values for text in value):
        raise ShellError(f"the value of '{name}' has a command in it, which runs where it is used as a number")
    return values
