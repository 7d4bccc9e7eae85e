"""How `guard exec` starts a command, so that the guard decides about every `git` below it.

The command gets the shim (`hooks/git-shim`) first on PATH and the agent's id in its environment, and runs below a
supervisor (`process.supervisor`), whose environment shows that everything below it is the agent's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.git.process import SHIM_FOLDER
from git_agentos.guard.ancestry import MARKER
from git_agentos.guard.configuration.settings import PLACES
from git_agentos.guard.exec import client_configuration
from git_agentos.guard.setup import scripts
from git_agentos.process import supervisor
from git_agentos.util.named_tuple import NamedTuple

WAIT = "AGENTOS_GUARD_WAIT"
_PLACES = "AGENTOS_GUARD_PLACES"
_USERS_BASH_ENV = "AGENTOS_BASH_ENV"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Launch(NamedTuple):
    """A command to run: `argv`, whose program is found without PATH, and the complete `environment`."""

    argv: tuple[str, ...]
    environment: dict[str, str]


def launch(
    location: Location,
    agent: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    wait: bool = False,
    within: Sequence[str] = (),
) -> Launch:
    """How to start `command` for `agent` below a supervisor; `within` are words before it (`sandbox`)."""
    guarded = with_shim(location, agent, command, environment, wait=wait)
    return Launch((*supervisor.command_line(), *within, *guarded.argv), guarded.environment)


def with_shim(
    location: Location, agent: str, command: Sequence[str], environment: Mapping[str, str], *, wait: bool = False
) -> Launch:
    """`command` and its environment with the shim first on PATH; the shim is placed in the repository if
    necessary. With `wait`, what needs approval waits for it."""
    shims = scripts.shim_dir(location.common_dir)
    try:
        scripts.install(location)
    except (AgentosError, OSError):
        if not os.access(os.path.join(shims, "git"), os.X_OK):
            raise
        # In a sandbox it exists, and its folder cannot be written.
    words = list(command)
    if "/" in words[0] and os.path.basename(words[0]) == "git":
        words[0] = os.path.join(shims, "git")
    changed = _environment(shims, agent, environment, wait=wait)
    _reach_login_shells(scripts.bash_env(location.common_dir), changed)
    return Launch(tuple(words), changed)


def _environment(shims: str, agent: str, environment: Mapping[str, str], *, wait: bool) -> dict[str, str]:
    # A harness that starts `guard exec` may have switched the guard off for every git.
    environment = client_configuration.without_guard_pairs(environment) or environment
    # An empty entry is the current folder: no program should be found there by accident.
    path = (environment.get("PATH") or _DEFAULT_PATH).split(os.pathsep)
    rest = [folder for folder in path if folder and not folder.rstrip("/").endswith(SHIM_FOLDER)]
    changed = {key: value for key, value in environment.items() if key != WAIT}
    changed.update({"PATH": os.pathsep.join([shims, *rest]), MARKER: agent, "AGENTOS_AGENT_ID": agent})
    # The shim compares them before it lets a reading command through: another HOME has another configuration.
    changed[_PLACES] = "|".join(environment.get(name, "") for name in PLACES[:4])
    if wait:
        changed[WAIT] = "1"
    return changed


def _reach_login_shells(script: str, environment: dict[str, str]) -> None:
    """Have bash put the shim first on PATH again after a profile (Debian's /etc/profile sets PATH). zsh and fish leave
    PATH as it is; dash has no such variable."""
    before = environment.get("BASH_ENV", "")
    if not before.endswith(scripts.BASH_ENV):
        environment.pop(_USERS_BASH_ENV, None)
        if before:
            environment[_USERS_BASH_ENV] = before
    environment["BASH_ENV"] = script
