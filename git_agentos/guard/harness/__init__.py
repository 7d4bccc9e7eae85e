"""Harnesses: the programs that agents run in, which ask a hook before they run what the agent wants.

Each module knows one: what its events look like (`read`), how it is answered (`deny`, `pass_on`), and where its
settings are and what has to be in them (`PROJECT`, `USER`, `settings`). What is done about an event is the same for all
(`act`).

Where something may run, a harness is told nothing at all: an `allow` from a hook would skip what its user is asked.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType

from git_agentos.errors import UsageError
from git_agentos.util import files

# Name on the command line -> module. In the order in which they are listed.
NAMES: Mapping[str, str] = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
    "copilot": "copilot",
    "opencode": "opencode",
}


# Every command of ours in a harness's settings has this in it, and nothing else has.
MARK = b"guard harness "


def integrated(folders: tuple[str, str]) -> list[str]:
    """The harnesses that ask us: by their settings in a worktree, or in the home folder (`folders`)."""
    return [name for name in NAMES if any(map(asks, _settings(module(name), folders)))]


def settings_files(folders: tuple[str, str]) -> list[str]:
    """The settings in a worktree or in the home folder (`folders`) that have our hooks in them."""
    return [path for name in NAMES for path in _settings(module(name), folders) if asks(path)]


def _settings(found: ModuleType, folders: tuple[str, str]) -> tuple[str, str]:
    return os.path.join(folders[0], found.PROJECT), os.path.join(folders[1], found.USER)


def asks(path: str) -> bool:
    """Whether a settings' file has our hooks in it."""
    try:
        return MARK in files.read(path, limit=1 << 20)
    except OSError:
        return False


def module(name: str) -> ModuleType:
    """The module of a harness; UsageError for a name that is none."""
    if name not in NAMES:
        raise UsageError(f"'{name}' is no harness that is known here", f"it is one of: {', '.join(NAMES)}")
    return importlib.import_module(f"git_agentos.guard.harness.{NAMES[name]}")
