"""Environment variables that make git run a program or write a file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos.guard.devices import is_device
from git_agentos.guard.policy import config_keys, harmless

# Variables that hold commands for git to run, and what it runs them for.
COMMANDS = {
    "GIT_EDITOR": harmless.EDITOR,
    "GIT_SEQUENCE_EDITOR": harmless.EDITOR,
    "VISUAL": harmless.EDITOR,
    "EDITOR": harmless.EDITOR,
    "GIT_PAGER": harmless.PAGER,
    "PAGER": harmless.PAGER,
    "GIT_EXTERNAL_DIFF": harmless.VIEWER,
    "GIT_DIFFTOOL_EXTCMD": harmless.VIEWER,
    "GIT_SSH_COMMAND": harmless.SSH,
    "GIT_SSH": harmless.SSH,
    "GIT_ASKPASS": harmless.ASKPASS,
    "SSH_ASKPASS": harmless.ASKPASS,
    "GIT_PROXY_COMMAND": harmless.TRANSPORT,
}
# Those that other programs use as well: they are in everybody's environment.
_GENERAL = frozenset({"VISUAL", "EDITOR", "PAGER", "SSH_ASKPASS"})


def that_run(environment: Mapping[str, str], users: Mapping[str, str] | None) -> list[str]:
    """The variables that make git run what may change something. What the user has set himself does not count; `users`
    is his environment, None where it is not known: then any variable may be his that is not git's alone and does not
    look like git, a shell, or a deletion."""
    found = []
    for name, role in COMMANDS.items():
        text = environment.get(name, "")
        if not text or harmless.is_harmless(text, role) or harmless.is_own_program(text, role):
            continue
        if users is None:
            if name not in _GENERAL or config_keys.runs(text) is not None:
                found.append(name)
        elif users.get(name) != text:
            found.append(name)
    return found


def traces(environment: Mapping[str, str]) -> list[str]:
    """The files that variables make git append to (GIT_TRACE and its like)."""
    found = [value for key, value in environment.items() if key.startswith("GIT_TRACE")]
    return [value for value in found if os.path.isabs(value) and not is_device(value)]


def allow_programs_as_urls(environment: Mapping[str, str]) -> bool:
    """Whether `ext::COMMAND` is a URL that git takes."""
    return "ext" in environment.get("GIT_ALLOW_PROTOCOL", "").split(":")
