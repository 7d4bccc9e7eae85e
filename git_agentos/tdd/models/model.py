"""What a model is asked, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.run.context import WorkspaceContext

SCAFFOLD, IMPLEMENT = "scaffold", "implement"
MOCK, COMMAND, MODEL = "mock", "command", "model"


@dataclass(frozen=True)
class Request:
    """One task: `node` is `scaffold` or `implement`, `attempt` counts from 0, `worktree` is the agent in the worktree,
    `changed` are the paths that differ from the base, without frozen ones. `show` gets each line of output (redacted),
    `stop` is asked whether to end; `mark` is the run's (`process.marked.MARK`). `folder` is for the transcript
    (absolute)."""

    node: str
    issue_id: str
    attempt: int
    prompt: str
    run: WorkspaceContext
    worktree: OpenWorktree
    changed: tuple[str, ...]
    folder: str
    show: Callable[[bytes], None]
    stop: Callable[[], bool]
    mark: str


@dataclass(frozen=True)
class ModelResult:
    """The result: `error` is the reason if there is nothing usable (None: the worktree has the work); `exit_code` is a
    command's; tokens are None if nobody counted them."""

    error: str | None
    exit_code: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    interrupted: bool = False


class Model(Protocol):
    """Writes tests and code: `name` is what `selection` takes, `recipient` a clause: where all of it is sent."""

    name: str
    recipient: str

    def work(self, request: Request) -> ModelResult:
        """Do the task, in the worktree. Raises AgentosError only if no further attempt can help (no such program, a
        missing extra, a key that is refused)."""
