"""Reads the command line before anything large is imported.

Three things cannot wait for the parser: whether git's scan may start at once (`checkpoint`, `status`), which command's
module has to be loaded, and whether a usage error is reported as JSON. `direct` runs a plain command line from the same
reading, without a parser; otherwise the result is a hint only, and the parser decides.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.guard.policy import command_table
from git_agentos.guard.policy.command_table import Line
from git_agentos.util.named_tuple import NamedTuple

_SCANNING = (("checkpoint",), ("status",))


class Prescan(NamedTuple):
    """What the raw words show.

    `command` is the first word that is not an option. `needs_scan` is true only if the whole line was understood and
    its command scans the worktree. `directory` joins all `-C` as git does.
    """

    line: Line

    @property
    def command(self) -> str | None:
        return next(iter((*self.line.request.path, *self.line.request.operands)), None)

    @property
    def needs_scan(self) -> bool:
        request = self.line.request
        scans = request.path in _SCANNING and not request.operands and not self.line.has_dashes
        return scans and self.line.is_valid and not self.line.asks_help

    @property
    def json(self) -> bool:
        return "--json" in self.line.request.options

    @property
    def directory(self) -> str:
        return join(self.line.request.folders)


def prescan(argv: Sequence[str]) -> Prescan:
    """Read `argv` (without the program's name) as far as it can be understood without the parser."""
    return Prescan(command_table.read(argv))


def join(directories: Sequence[str]) -> str:
    """Join several `-C` as git does: each is relative to the one before, and an empty one has no effect."""
    path = "."
    for directory in directories:
        if directory:
            path = os.path.join(path, directory) if path != "." else directory
    return path
