"""Notes of commands for which a checkpoint must be recorded.

    <git dir>/agentos/recording/<pid>.<start>.<hook>    one command (git dir: that of the worktree)
        line 1    the agent by the environment; empty if there is none
        then      the words of the calling git and of those above it, one per line, `\\002` after each git
                  (a newline in a word is `\\001`)

`hooks/guard.sh` writes them for `post-commit` and others. `pending` records them; the command does not wait for that.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from git_agentos.git.location import Location
from git_agentos.util import files

_FOLDER = "recording"


class Noted(NamedTuple):
    """One pending command. `argvs` are those of the calling git and of the ones above it."""

    path: str
    hook: str
    agent: str
    argvs: tuple[tuple[str, ...], ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that the user gave; the others are its steps."""
        from git_agentos.guard import ancestry

        found: tuple[str, ...] = self.argvs[0] if self.argvs else ()
        for outer in self.argvs[1:]:
            if not ancestry.is_part(found, outer):
                break
            found = outer
        return found


def paths(location: Location) -> list[str]:
    """The files of a worktree's notes, newest last."""
    try:
        with os.scandir(os.path.join(location.state_dir, _FOLDER)) as entries:
            found = [(each.stat().st_mtime_ns, each.path) for each in entries if each.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return [path for _, path in sorted(found)]


def read(path: str) -> Noted:
    """A note; one that is incomplete or gone has no words."""
    data = b""
    with contextlib.suppress(OSError):
        data = files.read(path)
    agent, _, rest = os.fsdecode(data).partition("\n")
    blocks = rest.split("\n\2\n")[:-1]
    argvs = [tuple(word.replace("\1", "\n") for word in block.split("\n")) for block in blocks]
    return Noted(path, os.path.basename(path).rpartition(".")[2], agent.strip(), tuple(argvs))
