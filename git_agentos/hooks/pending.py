"""Commands that have to be recorded: `post-commit` and the like note them, and the command does not wait for the rest.

    <git dir>/agentos/recording/<pid>.<start>.<hook>    one command (git dir: that of the worktree)
        line 1    the agent, as the environment says; empty where it says nothing
        then      the words of the git that called the hook and of those above it, one a line, `\\002` after each git
                  (a newline in a word is `\\001`)

The hook starts `record` in the background. If that is killed, the notes stay, and the next reader of the timeline
(`record` again) does its work: so a command that was noted is recorded before anybody sees the timeline without it.
Several that wait are one checkpoint, by the last one of them: the states between them are gone.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from git_agentos.git import state_dir
from git_agentos.git.location import Location
from git_agentos.util import files

_FOLDER = "recording"
_LOCK = "recording"


class Noted(NamedTuple):
    """One command that waits. `argvs` are those of the git that called the hook and of the ones above it."""

    path: str
    hook: str
    agent: str
    argvs: tuple[tuple[str, ...], ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that a user gave, of which the others are steps."""
        from git_agentos.guard import ancestry

        found: tuple[str, ...] = self.argvs[0] if self.argvs else ()
        for outer in self.argvs[1:]:
            if not ancestry.is_part(found, outer):
                break
            found = outer
        return found


def record(location: Location) -> None:
    """Record what is pending in a worktree, after any process that is recording there. Nothing is raised: errors are in
    the log, and the next hook prints them."""
    if not _notes(location):
        return
    with contextlib.suppress(OSError), state_dir.lock(location, _LOCK):
        while True:
            found = [_read(path) for path in _notes(location)]
            if not found:
                return
            from git_agentos.hooks import recorders

            recorders.record_noted(location, found[-1])
            for each in found:
                os.unlink(each.path)


def _notes(location: Location) -> list[str]:
    """The notes, the newest last."""
    try:
        with os.scandir(os.path.join(location.state_dir, _FOLDER)) as entries:
            found = [(each.stat().st_mtime_ns, each.path) for each in entries if each.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return [path for _, path in sorted(found)]


def _read(path: str) -> Noted:
    """A note; one that is incomplete or gone has no words."""
    data = b""
    with contextlib.suppress(OSError):
        data = files.read(path)
    agent, _, rest = os.fsdecode(data).partition("\n")
    blocks = rest.split("\n\2\n")[:-1]
    argvs = [tuple(word.replace("\1", "\n") for word in block.split("\n")) for block in blocks]
    return Noted(path, os.path.basename(path).rpartition(".")[2], agent.strip(), tuple(argvs))
