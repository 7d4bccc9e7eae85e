"""What is asked of a model, what came of it, and which model a name means."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import Settings
from git_agentos.errors import UsageError
from git_agentos.run.context import WorkspaceContext

SCAFFOLD, IMPLEMENT = "scaffold", "implement"
MOCK, COMMAND, MODEL = "mock", "command", "model"

_WORDS = "--agent takes mock, mock:SCRIPT, command:'SHELL TEXT' or model:PROVIDER:MODEL"


@dataclass(frozen=True)
class Request:
    """One task: `node` is `scaffold` or `implement`, `attempt` counts from 0 (a retry is 1 …), `here` is the agent at
    work in the worktree, `frozen` are the paths that must not be touched. `show` is given each line that is said
    (redacted), `stop` is asked whether to end; `mark` is the run's (`process.contained.MARK`). `folder` is where what
    was exchanged is kept (absolute; see `kept`)."""

    node: str
    issue_id: str
    attempt: int
    prompt: str
    run: WorkspaceContext
    here: OpenWorktree
    frozen: tuple[str, ...]
    folder: str
    show: Callable[[bytes], None]
    stop: Callable[[], bool]
    mark: str


@dataclass(frozen=True)
class Work:
    """What came of it: `error` says why there is nothing that could be used (None: the worktree has the work), `said`
    is the last of what it said, redacted and bounded; `exit_code` a command's; tokens None where nobody counted."""

    error: str | None
    said: str
    seconds: float
    requests: int
    exit_code: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    interrupted: bool = False


class Model(Protocol):
    """One who writes: `name` is what `choose` took, `recipient` a clause that says to whom everything is sent."""

    name: str
    recipient: str

    def work(self, request: Request) -> Work:
        """Do it, in the worktree. Raises AgentosError only for what no further try can mend (no such program, a missing
        extra, a key that is refused)."""


def choose(name: str | None, settings: Settings, environment: Mapping[str, str], folder: str | None = None) -> Model:
    """The model called `name`: `mock`, `mock:SCRIPT`, `command:SHELL TEXT`, `model:PROVIDER:MODEL`; None takes
    AGENTOS_MOCK_LLM=1, then agentos.tdd.agent. UsageError where that is none, with what there is; TddError where it
    cannot be used here. The name of a script is relative to `folder` (None: where this process stands)."""
    wanted = name if name is not None else _unnamed(settings, environment)
    kind, _, rest = wanted.partition(":")
    if kind == MOCK:
        from git_agentos.tdd.models import mock

        script = rest or config.mock_script(environment)
        path = os.path.abspath(os.path.join(folder or "", script)) if script else None
        return mock.MockLLM.of_file(path, environment) if path else mock.MockLLM().within(environment)
    if kind == COMMAND and rest.strip():
        from git_agentos.tdd.models import command

        return command.Command(rest, environment, config.tdd_agent_timeout(settings.values))
    if kind == MODEL:
        from git_agentos.tdd.models import chat

        return chat.of_name(rest, environment, config.tdd_agent_timeout(settings.values))
    raise UsageError(f"'{wanted}' is not an agent", _WORDS)


def _unnamed(settings: Settings, environment: Mapping[str, str]) -> str:
    """What is taken where nothing was named."""
    if config.mock_llm(environment):
        return MOCK
    configured = config.tdd_agent(settings.values)
    if configured is None:
        raise UsageError("no agent is named", f"{_WORDS}; agentos.tdd.agent makes one the default")
    return configured
