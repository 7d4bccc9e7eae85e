"""A reading: what is found out about one git command line, as its family's function goes through it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from git_agentos.guard.decision import Operation
from git_agentos.guard.devices import is_device, leads_through_a_process
from git_agentos.guard.ownership import Caller
from git_agentos.guard.policy import config_keys, harmless, options
from git_agentos.guard.policy.facts import Facts
from git_agentos.guard.policy.options import UNRESOLVED, Options


class OnlyLooks(Exception):
    """The command line is one that changes nothing, apart from programs that it names and files that it writes: help, a
    dry run."""


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

    def only_looks(self) -> None:
        """Take back what was noted, apart from what such a command does all the same: programs that it runs (a dry run
        of a push starts its transport). The files that it writes are noted after this (`outputs`)."""
        self.operations[:] = [each for each in self.operations if each.name == "run-command"]
        self.texts.clear()
        self.calls.clear()
        self.saving = self.everything_ignored = False
        self.ignored.clear()
        self.commits.clear()
        self.looks_at_urls(self.args)

    def runs(self, text: str) -> None:
        """Note shell text that the command line gives git to run, unless it is plainly harmless."""
        command = config_keys.runs(text)
        if command is not None:
            self.texts.append(command)

    def runs_program(self, text: str, role: str) -> None:
        """Note a program that git runs as `role` (`harmless`), unless it changes nothing by it."""
        if not harmless.is_harmless(text, role):
            self.do("run-command", text)
            self.texts.append(text)

    def writes(self, name: str, *, saved: bool = False) -> None:
        """Note a file that is overwritten; over nothing, it is nobody's loss. With `saved`, it takes no approval to
        overwrite a file of the worktree, which is saved first."""
        if UNRESOLVED in name:
            self.do("unresolved", name)
        elif not name or name == "-" or is_device(name):
            return
        elif self.facts.in_git_dir(name):
            self.do("git-dir-write", name)
        elif leads_through_a_process(name) or self.facts.holds_bytes(name):
            inside = self.facts.is_in_worktree(name) or leads_through_a_process(name)
            if not (inside and saved):
                self.do("write-file" if inside else "file-outside", name)
            if inside:
                self.save(ignored=self.facts.ignored([name]))

    def writes_below(self, folder: str, pattern: str, *, saved: bool = False) -> None:
        """Note files that are written into a folder, and overwrite what is there by a name that `pattern` matches."""
        if UNRESOLVED in folder:
            self.do("unresolved", folder)
        elif self.facts.in_git_dir(folder or "."):
            self.do("git-dir-write", folder)
        else:
            for name in self.facts.names_in(folder or "."):
                if re.fullmatch(pattern, name):
                    self.writes(os.path.join(folder, name), saved=saved)

    def looks_at_urls(self, words: Iterable[str]) -> None:
        """Note URLs that make git run a program (git-remote-ext(1), git-remote-fd(1))."""
        for word in words:
            if word.partition("::")[0] in ("ext", "fd") and "::" in word:
                self.do("run-command", word)
