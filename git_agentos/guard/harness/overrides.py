"""Harnesses whose shell switches the guard off inside git, by environment variables.

Gemini CLI and Copilot CLI start every command with GIT_CONFIG_COUNT and pairs that empty `core.fsmonitor` (Gemini:
`core.hooksPath` too, and GIT_CONFIG_GLOBAL=/dev/null). Their hooks may replace the command. So each command gets a
prefix that restores git's environment as it was when the harness was started. Then the layers below act again, also in
scripts, and git reads the user's configuration with its policy. An agent is not judged by these variables, since it did
not set them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

_VARIABLES = ("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")

_END = ": git-agentos; "


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The hook's `environment` without what the harness has added to it."""
    rest = {
        key: value for key, value in environment.items() if not key.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
    }
    rest.pop("GIT_CONFIG_COUNT", None)
    if rest.get("GIT_CONFIG_GLOBAL") == os.devnull:
        for name in _VARIABLES:
            rest.pop(name, None)
    return rest


def prefixed(command: str, environment: Mapping[str, str]) -> str:
    """`command` with the prefix that makes the guard's layers act; `environment` is the hook's."""
    rest = inherited(environment)
    values = [f"{name}={shlex.quote(rest[name])}" for name in _VARIABLES if name in rest]
    # The harness's configuration also keeps git from starting an editor, in which the command would hang.
    values += [] if "GIT_EDITOR" in rest else ["GIT_EDITOR=:"]
    unset = [name for name in _VARIABLES if name not in rest]
    exported = f"export {' '.join(values)}; " if values else ""
    return f"unset {' '.join(unset)}; {exported}{_END}{command}"


def original(command: str) -> str:
    """`command` without the prefix that `prefixed` adds."""
    before, separator, after = command.partition(_END)
    return after if separator and before.startswith("unset GIT_CONFIG_COUNT") else command
