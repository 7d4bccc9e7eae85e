"""The user's command that runs in a worktree before it is removed or archived: `agentos.teardown`.

A checkpoint is created before it. Whatever becomes of the command, the worktree is removed: all that it left is saved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from git_agentos import log, redact
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import TEARDOWN
from git_agentos.errors import AgentosWarning
from git_agentos.worktree import user_command
from git_agentos.worktree.record import Record

TIMEOUT = 300.0  # seconds
_SIGNAL = 128


@dataclass(frozen=True)
class Teardown:
    """What became of the command: `exit_code` is None if it ran out of time, and 128 and the number of the signal that
    killed it; `output` is the end of what it wrote if it failed. `checkpoint` is the state before it."""

    command: str
    exit_code: int | None
    output: list[str]
    checkpoint: str


def find(context: OpenWorktree) -> str | None:
    """The command, None where there is none; ConfigurationError where it was set in a place from which it is not
    taken."""
    return user_command.find(context.location, context.settings.values, TEARDOWN)


def run(inner: OpenWorktree, known: Record, command: str) -> Teardown:
    """Create a checkpoint of the worktree `inner`, and run the command in it."""
    description = f"before the teardown command of the worktree {known.id}"
    metadata = inner.metadata(trigger="before_risky", description=description, task_id=known.task)
    saved = create_checkpoint(inner, metadata).checkpoint
    ended = user_command.run(command, inner.location.root, known, timeout=TIMEOUT)
    shown, code = redact.redact(command)[0], ended.code
    how = "teardown command done" if code == 0 else f"the teardown command {user_command.describe(ended)}"
    log.try_add(inner, "action" if code == 0 else "error", f"{how}: {shown}", task_id=known.task)
    output = user_command.last_lines(ended) if code != 0 else []
    if code != 0:
        text = "\n".join([f"{how}: {shown}", *output])
        warnings.warn(AgentosWarning(f"{known.id}: {text}"), stacklevel=2)
    return Teardown(shown, code if code is None or code >= 0 else _SIGNAL - code, output, saved.id)
