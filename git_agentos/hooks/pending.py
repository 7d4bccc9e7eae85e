"""Pending checkpoints: the work of `post-commit` and others, done in the background.

A hook (`note` in `hooks/guard.sh`) writes a note and starts `record` in the background. If that is killed, the notes
stay, and the next reader of the timeline calls `record` first. So nobody sees the timeline without the checkpoint of a
noted command. If several commands are noted, one checkpoint is created for the last of them: the states in between are
gone.

    <git dir>/agentos/recording/<pid>.<start>.<hook>    one command (git dir: that of the worktree)
        line 1    the agent by the environment; empty if there is none
        then      the words of the calling git and of those above it, one per line, `\\002` after each git
                  (a newline in a word is `\\001`)
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.checkpoint import deferred
from git_agentos.errors import AgentosError
from git_agentos.git import refs, state_dir
from git_agentos.git.location import Location
from git_agentos.hooks import CONTINUE, HookCall
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_FOLDER = _LOCK = "recording"


def record(location: Location) -> None:
    """Create the pending checkpoints of a worktree, after any other process that does so, and after those that hooks
    have created already (`publish`). Nothing is raised: errors are logged, and the next hook prints them."""
    _publish(location)
    if not _paths(location):
        return
    with contextlib.suppress(OSError), state_dir.lock(location, _LOCK):
        while True:
            paths = _paths(location)
            if not paths:
                return
            from git_agentos.hooks import recorders

            recorders.record_noted(location, *_read(paths[-1]))
            for path in paths:
                os.unlink(path)


def _publish(location: Location) -> None:
    if not deferred.paths(location) or refs.are_locked_by_caller(location):
        return
    from git_agentos.checkpoint import timeline
    from git_agentos.git.repository import Repository
    from git_agentos.guard.setup import scripts
    from git_agentos.hooks import output

    try:
        timeline.publish(Repository(location))  # `doctor` reports what cannot be published
    except (AgentosError, OSError) as error:
        folder = scripts.folder(location.common_dir)
        output.warn_later(folder, f"a checkpoint that a hook has created is not on its timeline yet: {error}")


def publish(_hook: HookCall) -> int:
    """Append the checkpoints to the timeline that were created while git had locked its refs."""
    from git_agentos.hooks import git_command

    location = git_command.locate_worktree()
    if location is not None:
        _publish(location)
    return CONTINUE


def post_commit(_hook: HookCall) -> int:
    """Create the checkpoint of a noted command, after a commit or another command."""
    from git_agentos.hooks import git_command

    root = os.environ.pop("AGENTOS_RECORD_IN", None)
    location = git_command.locate_worktree(root)
    if location is None:
        return CONTINUE
    if root is not None:
        with contextlib.suppress(OSError):
            os.setsid()  # the command has ended: ignore signals of its terminal
    record(location)
    return CONTINUE


post_merge = post_rewrite = post_checkout = post_commit


# -- notes -------------------------------------------------------------------------------------------------------------


class _Note(NamedTuple):
    """What is known of a noted command: the hook that noted it, the agent, and the command line that was given."""

    hook: str
    agent: str
    argv: tuple[str, ...]


def _paths(location: Location) -> list[str]:
    """The files of a worktree's notes, newest last."""
    try:
        with os.scandir(os.path.join(location.state_dir, _FOLDER)) as entries:
            found = [(each.stat().st_mtime_ns, each.path) for each in entries if each.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return [path for _, path in sorted(found)]


def _read(path: str) -> _Note:
    """A note; one that is incomplete or gone has no words."""
    from git_agentos.guard import ancestry

    data = b""
    with contextlib.suppress(OSError):
        data = files.read(path)
    agent, _, rest = os.fsdecode(data).partition("\n")
    blocks = rest.split("\n\2\n")[:-1]
    argvs = [tuple(word.replace("\1", "\n") for word in block.split("\n")) for block in blocks]
    command: tuple[str, ...] = argvs[0] if argvs else ()
    for outer in argvs[1:]:
        if not ancestry.is_part(command, outer):
            break
        command = outer  # of which the others are steps
    return _Note(os.path.basename(path).rpartition(".")[2], agent.strip(), command)
