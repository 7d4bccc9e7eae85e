"""A reading: what is found out about one git command line, as its family's function goes through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from git_agentos.guard.decision import Operation
from git_agentos.guard.ownership import Caller
from git_agentos.guard.policy import config_keys, options
from git_agentos.guard.policy.facts import Facts
from git_agentos.guard.policy.options import UNRESOLVED, Options


class OnlyLooks(Exception):
    """The command line is one that changes nothing, whatever else is in it: help, a dry run."""


class Reading:
    """What a command does, what must be saved before it, and what other commands it runs.

    `texts` are shell texts, `calls` command lines. `unsaved` tells that something would be lost that no checkpoint
    holds. `caller` is who asks, None where that makes no difference.
    """

    def __init__(self, command: str, args: Sequence[str], facts: Facts, caller: Caller | None = None) -> None:
        self.command = command
        self.args = tuple(args)
        self.facts = facts
        self.caller = caller
        self.operations: list[Operation] = []
        self.texts: list[str] = []
        self.calls: list[tuple[str, ...]] = []
        self.saving = False
        self.unsaved = False
        self.ignored: set[bytes] = set()
        self.everything_ignored = False
        self.commits: list[str] = []

    def do(self, name: str, subject: str = "") -> None:
        """Note an operation."""
        self.operations.append(Operation(name, subject.replace(UNRESOLVED, "…")))

    def save(
        self, *, ignored: Iterable[bytes] = (), commits: Iterable[str] = (), everything_ignored: bool = False
    ) -> None:
        """Note that the state has to be saved first, and what beside it."""
        self.saving = True
        self.ignored.update(ignored)
        self.commits.extend(commits)
        self.everything_ignored |= everything_ignored

    def options(
        self, name: str | None = None, args: Sequence[str] | None = None, *, stop: bool = False, paths: bool = False
    ) -> Options:
        """Read the options by the table's row `name`; OnlyLooks for a request for help.

        With `paths`, operands are nothing but paths, so that it does not matter which.
        """
        found = options.parse(options.spec(name or self.command), self.args if args is None else args, stop=stop)
        if found.help:
            raise OnlyLooks
        for word in found.unknown:
            self.do("unknown-option", word)
        if found.unresolved and not (paths and not any(word.startswith("-") for word in self._hidden(args))):
            self.do("unresolved")
        return found

    def _hidden(self, args: Sequence[str] | None) -> list[str]:
        return [word for word in (self.args if args is None else args) if UNRESOLVED in word and "=" not in word]

    def runs(self, text: str) -> None:
        """Note a value that git runs by the shell, unless it is plainly harmless."""
        command = config_keys.runs(text)
        if command is not None:
            self.texts.append(command)
