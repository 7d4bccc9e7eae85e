"""Clients whose shell tool switches the guard off inside git, by variables of its own.

Gemini CLI and Copilot CLI start every command with GIT_CONFIG_COUNT and pairs that empty `core.fsmonitor` (Gemini:
`core.hooksPath` too, and GIT_CONFIG_GLOBAL=/dev/null). Their hooks may replace the command. So each command gets a
prefix that restores git's environment as it was when the client was started: the layers below act again, in scripts
too, and git reads the user's own configuration with their policy. An agent did not set these variables, so it is not
judged by them either.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

_VARIABLES = ("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")

_END = ": git-agentos; "


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, that of the hook, without what the client itself has put there."""
    kept = {
        key: value for key, value in environment.items() if not key.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
    }
    kept.pop("GIT_CONFIG_COUNT", None)
    if kept.get("GIT_CONFIG_GLOBAL") == os.devnull:
        for name in _VARIABLES:
            kept.pop(name, None)
    return kept


def prefixed(command: str, environment: Mapping[str, str]) -> str:
    """`command` as it has to be run for the guard's layers to act; `environment` is the hook's."""
    kept = inherited(environment)
    values = [f"{name}={shlex.quote(kept[name])}" for name in _VARIABLES if name in kept]
    # The pairs also keep git from starting an editor, which nobody could leave.
    values += [] if "GIT_EDITOR" in kept else ["GIT_EDITOR=:"]
    unset = [name for name in _VARIABLES if name not in kept]
    exported = f"export {' '.join(values)}; " if values else ""
    return f"unset {' '.join(unset)}; {exported}{_END}{command}"


def original(command: str) -> str:
    """What `prefixed` was given, where `command` is what it returned."""
    before, found, after = command.partition(_END)
    return after if found and before.startswith("unset GIT_CONFIG_COUNT") else command
