"""Harnesses: the programs that agents run in, which ask a hook before they run what the agent wants.

Each module knows one: what its events look like (`read`), how it is answered (`deny`, `pass_on`), and where its
settings are and what has to be in them (`PROJECT`, `USER`, `settings`). What is done about an event is the same for all
(`act`).

Where something may run, a harness is told nothing at all: an `allow` from a hook would skip what its user is asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

from git_agentos.errors import UsageError

# Name on the command line -> module. In the order in which they are listed.
NAMES: Mapping[str, str] = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
    "copilot": "copilot",
    "opencode": "opencode",
}


def module(name: str) -> ModuleType:
    """The module of a harness; UsageError for a name that is none."""
    if name not in NAMES:
        raise UsageError(f"'{name}' is no harness that is known here", f"it is one of: {', '.join(NAMES)}")
    return importlib.import_module(f"git_agentos.guard.harness.{NAMES[name]}")
