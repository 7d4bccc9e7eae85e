"""Which model a name means."""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos import config
from git_agentos.config import Settings
from git_agentos.errors import UsageError
from git_agentos.tdd.models import chat, command, mock
from git_agentos.tdd.models.model import COMMAND, MOCK, MODEL, Model

_AGENT_FORMS = "--agent takes mock, mock:SCRIPT, command:'SHELL TEXT' or model:PROVIDER:MODEL"


def choose(name: str | None, settings: Settings, environment: Mapping[str, str], folder: str | None = None) -> Model:
    """The model with a name: `mock`, `mock:SCRIPT`, `command:SHELL TEXT`, `model:PROVIDER:MODEL`; None takes
    AGENTOS_MOCK_LLM=1, then agentos.tdd.agent. UsageError if there is no such model; TddError if it cannot be used
    here. The path of a script is relative to `folder` (None: the current directory)."""
    wanted = name if name is not None else _default(settings, environment)
    kind, _, rest = wanted.partition(":")
    if kind == MOCK:
        script = rest or config.mock_script(environment)
        path = os.path.abspath(os.path.join(folder or "", script)) if script else None
        return mock.MockLLM.load(path, environment) if path else mock.MockLLM().within(environment)
    if kind == COMMAND and rest.strip():
        return command.Command(rest, environment, config.tdd_agent_timeout(settings.values))
    if kind == MODEL:
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
