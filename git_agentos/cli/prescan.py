"""Reads the command line before typer is imported.

Three things cannot wait for the parser: whether git's scan may start at once (a plain `checkpoint`), which command's
module has to be loaded, and whether a usage error is reported as JSON. The result is a hint only; the parser, which
comes later, decides.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from git_agentos.guard.policy import command_table


@dataclass(frozen=True)
class Prescan:
    """What the raw words show.

    `command` is the first word that is not an option. `is_plain_checkpoint` is true only if the whole line was
    understood and creates a checkpoint. `directory` joins all `-C` as git does.
    """

    command: str | None
    is_plain_checkpoint: bool
    json: bool
    directory: str


def prescan(argv: Sequence[str]) -> Prescan:
    """Read `argv` (without the program's name) as far as it can be understood without the parser."""
    line = command_table.read(argv)
    request = line.request
    is_checkpoint = request.path == ("checkpoint",) and not request.operands
    return Prescan(
        command=next(iter((*request.path, *request.operands)), None),
        is_plain_checkpoint=is_checkpoint and line.is_valid and not line.asks_help,
        json="--json" in request.options,
        directory=join(request.folders),
    )


def join(directories: Sequence[str]) -> str:
    """Join several `-C` as git does: each is relative to the one before, and an empty one has no effect."""
    path = "."
    for directory in directories:
        if directory:
            path = os.path.join(path, directory) if path != "." else directory
    return path
