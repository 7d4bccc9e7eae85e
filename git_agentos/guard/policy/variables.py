"""Environment variables that make git run a program, write a file, or read another configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_agentos.errors import ConfigurationError, UnreadableConfiguration
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import settings
from git_agentos.guard.paths import is_device
from git_agentos.guard.policy import config_keys, harmless_programs
from git_agentos.guard.policy.git_line import ConfigOverride

# Variables that hold commands for git to run, and the roles of these.
COMMANDS = {
    "GIT_EDITOR": harmless_programs.EDITOR,
    "GIT_SEQUENCE_EDITOR": harmless_programs.EDITOR,
    "VISUAL": harmless_programs.EDITOR,
    "EDITOR": harmless_programs.EDITOR,
    "GIT_PAGER": harmless_programs.PAGER,
    "PAGER": harmless_programs.PAGER,
    "GIT_EXTERNAL_DIFF": harmless_programs.VIEWER,
    "GIT_DIFFTOOL_EXTCMD": harmless_programs.VIEWER,
    "GIT_SSH_COMMAND": harmless_programs.SSH,
    "GIT_SSH": harmless_programs.SSH,
    "GIT_ASKPASS": harmless_programs.ASKPASS,
    "SSH_ASKPASS": harmless_programs.ASKPASS,
    "GIT_PROXY_COMMAND": harmless_programs.TRANSPORT,
}
# Variables that other programs use as well, so most environments have them.
_GENERAL = frozenset({"VISUAL", "EDITOR", "PAGER", "SSH_ASKPASS"})


def that_run(environment: Mapping[str, str], users: Mapping[str, str] | None) -> list[str]:
    """The variables that make git run something that may change files. What the user has set does not count; `users` is
    the user's environment, None if it is not known: then a variable that other programs use as well may be the user's,
    unless it looks like git, a shell, or a deletion."""
    found = []
    for name, role in COMMANDS.items():
        text = environment.get(name, "")
        if not text or harmless_programs.is_harmless(text, role) or harmless_programs.is_own_program(text, role):
            continue
        if users is None:
            if name not in _GENERAL or config_keys.unsafe_command(text) is not None:
                found.append(name)
        elif users.get(name) != text:
            found.append(name)
    return found


def traces(environment: Mapping[str, str]) -> list[str]:
    """The files that variables make git append to (GIT_TRACE and the like)."""
    found = [value for key, value in environment.items() if key.startswith("GIT_TRACE")]
    return [value for value in found if os.path.isabs(value) and not is_device(value)]


def allow_programs_as_urls(environment: Mapping[str, str]) -> bool:
    """Whether git accepts `ext::COMMAND` as a URL."""
    return "ext" in environment.get("GIT_ALLOW_PROTOCOL", "").split(":")


def are_plain(environment: Mapping[str, str], users: Mapping[str, str] | None) -> bool:
    """Whether the variables of a command make git do nothing beside what its command line says."""
    given = traces(environment) or allow_programs_as_urls(environment) or that_run(environment, users)
    return not (given or _chosen_places(environment, users))


def brought(call: Call, where: Sequence[str], users: Mapping[str, str] | None) -> list[ConfigOverride]:
    """Configuration that a command has because it chooses which files are the user's, and would not have otherwise: it
    is given with the command, as by `-c`. `where` are git's own options that say where it works."""
    places = _chosen_places(call.environment, users)
    if not places or users is None:
        return []
    environment = {key: value for key, value in call.environment.items() if key not in places}
    environment |= {name: users[name] for name in places if name in users}
    others = {(entry.key, entry.value) for entry in _entries(call, where, environment)}
    return [
        ConfigOverride(entry.key, entry.value, "-c")
        for entry in _entries(call, where, call.environment)
        if entry.scope in ("system", "global") and (entry.key, entry.value) not in others
    ]


def _chosen_places(environment: Mapping[str, str], users: Mapping[str, str] | None) -> list[str]:
    """The variables by which a command chooses which configuration is the user's."""
    if users is None:
        return []
    return [name for name in settings.PLACES if users.get(name) != environment.get(name)]


def _entries(call: Call, where: Sequence[str], environment: Mapping[str, str]) -> Sequence[settings.Entry]:
    try:
        return settings.read(call.cwd, environment, where).entries
    except (ConfigurationError, UnreadableConfiguration):
        return ()
