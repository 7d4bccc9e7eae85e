"""What a model is asked, its result, and which model a name means."""

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

_AGENT_FORMS = "--agent takes mock, mock:SCRIPT, command:'SHELL TEXT' or model:PROVIDER:MODEL"


@dataclass(frozen=True)
class Request:
    """One task: `node` is `scaffold` or `implement`, `attempt` counts from 0, `worktree` is the agent in the worktree,
    `frozen` are the paths that must not be changed. `show` gets each line of output (redacted), `stop` is asked whether
    to end; `mark` is the run's (`process.contained.MARK`). `folder` is for the transcript (absolute)."""

    node: str
    issue_id: str
    attempt: int
    prompt: str
    run: WorkspaceContext
    worktree: OpenWorktree
    frozen: tuple[str, ...]
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
    """Writes tests and code: `name` is what `choose` takes, `recipient` a clause that says where everything is sent."""

    name: str
    recipient: str

    def work(self, request: Request) -> ModelResult:
        """Do the task, in the worktree. Raises AgentosError only if no further attempt can help (no such program, a
        missing extra, a key that is refused)."""


def choose(name: str | None, settings: Settings, environment: Mapping[str, str], folder: str | None = None) -> Model:
    """The model with a name: `mock`, `mock:SCRIPT`, `command:SHELL TEXT`, `model:PROVIDER:MODEL`; None takes
    AGENTOS_MOCK_LLM=1, then agentos.tdd.agent. UsageError if there is no such model; TddError if it cannot be used
    here. The path of a script is relative to `folder` (None: the current directory)."""
    wanted = name if name is not None else _default(settings, environment)
    kind, _, rest = wanted.partition(":")
    if kind == MOCK:
        from git_agentos.tdd.models import mock

        script = rest or config.mock_script(environment)
        path = os.path.abspath(os.path.join(folder or "", script)) if script else None
        return mock.MockLLM.load(path, environment) if path else mock.MockLLM().within(environment)
    if kind == COMMAND and rest.strip():
        from git_agentos.tdd.models import command

        return command.Command(rest, environment, config.tdd_agent_timeout(settings.values))
    if kind == MODEL:
        from git_agentos.tdd.models import chat

        return chat.choose_chat(rest, environment, config.tdd_agent_timeout(settings.values))
    raise UsageError(f"'{wanted}' is not an agent", _AGENT_FORMS)


def _default(settings: Settings, environment: Mapping[str, str]) -> str:
    """The name of the model if none was given."""
    if config.mock_llm(environment):
        return MOCK
    configured = config.tdd_agent(settings.values)
    if configured is None:
        raise UsageError("no agent is named", f"{_AGENT_FORMS}; agentos.tdd.agent makes one the default")
    return configured
