"""What `core.hooksPath` and `core.fsmonitor` would be if the guard had not set them: the user's own hooks.

The guard's values are those that name its folder in the common git directory of this repository or of another one: its
path before it was moved, or the repository of which it is a copy. Of all scopes, the last value that is not the guard's
applies, as in git. `-c` and GIT_CONFIG_* are ignored: with them, git calls the hooks that they name instead of ours.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping

from git_agentos.git import configuration
from git_agentos.git.location import Location
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import parse_boolean

# How a user's fsmonitor is called: with version 1 or 2 of the protocol, with 2 and then 1, or not at all.
NONE, AUTO, BUILTIN = "none", "auto", "builtin"
_GUARD = ("/agentos/guard/hooks", "/agentos/guard/hooks/fsmonitor")
_COMMAND_LINE = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG")


class UserHooks(NamedTuple):
    """The user's own hooks. `hooks` is their folder, absolute; `fsmonitor` a command for sh, empty if there is none;
    `version` is `1`, `2`, `auto`, `none` or `builtin`. `files` are the configuration files that were read,
    and those that may be created."""

    hooks: str
    fsmonitor: str
    version: str
    files: tuple[str, ...]


def read(root: str, git_dir: str, common_dir: str, env: Mapping[str, str]) -> UserHooks:
    """The user's own hooks in the worktree at `root` (of a bare repository, its git directory); `env` is for git."""
    env = {key: value for key, value in env.items() if key not in _COMMAND_LINE}
    files = dict.fromkeys(_usual(git_dir, common_dir, env))
    hooks: str | None = None
    fsmonitor = ""
    versions: list[tuple[str, str]] = []
    ours: list[str] = []
    for entry in configuration.read_with_origins(root, env):
        key, value = entry.key, entry.value or ""
        if entry.file is not None:
            files[os.path.join(root, entry.file)] = None
        if key == "core.hookspath" and not is_guards(os.path.expanduser(value), common_dir):
            hooks = value
        elif key == "core.fsmonitorhookversion":
            versions.append((entry.origin, value))
        elif key == "core.fsmonitor" and is_guards(_program(value), common_dir):
            ours.append(entry.origin)
        elif key == "core.fsmonitor":
            fsmonitor = "true" if entry.value is None else entry.value
        elif key.startswith("includeif.onbranch:"):
            files[os.path.join(git_dir, "HEAD")] = None
            files[os.path.join(git_dir, "reftable", "tables.list")] = None
    folder = os.path.join(common_dir, "hooks") if hooks is None else os.path.join(root, os.path.expanduser(hooks))
    command, version = _monitor(fsmonitor, _without(versions, ours))
    return UserHooks(folder, command, version, tuple(files))


def is_guards(path: str, common_dir: str) -> bool:
    """Whether a path from the configuration is the guard's folder, of this repository or of another one."""
    return path.startswith(os.path.join(common_dir, "agentos", "guard") + os.sep) or path.endswith(_GUARD)


def options(location: Location) -> list[str]:
    """git options with which a user's command in this worktree uses the user's hooks and fsmonitor instead of the
    guard's; empty if the guard has set nothing."""
    if not os.path.isdir(os.path.join(location.shared_state_dir, "guard", "hooks")):
        return []
    found = read(location.root, location.git_dir, location.common_dir, location.environment())
    args = ["-c", f"core.hooksPath={found.hooks}"]
    args += ["-c", f"core.fsmonitor={found.fsmonitor or ('true' if found.version == BUILTIN else 'false')}"]
    if found.version in ("1", "2"):
        args += ["-c", f"core.fsmonitorHookVersion={found.version}"]
    return args


def _without(versions: Iterable[tuple[str, str]], ours: Iterable[str]) -> str:
    """The user's hook version: without ours, which is in the same file as our fsmonitor, after all others."""
    left = list(versions)
    for origin in ours:
        last = next((n for n in range(len(left) - 1, -1, -1) if left[n][0] == origin), None)
        if last is not None:
            del left[last]
    return left[-1][1] if left else ""


def _monitor(value: str, version: str) -> tuple[str, str]:
    switch = parse_boolean(value)
    if switch is not None:
        return "", BUILTIN if switch else NONE
    return value, version if version in ("1", "2") else AUTO


def _program(command: str) -> str:
    """The program of a command for sh; a path with a blank in it is quoted."""
    try:
        return next(iter(shlex.split(command)), "")
    except ValueError:
        return command


def _usual(git_dir: str, common_dir: str, env: Mapping[str, str]) -> list[str]:
    """The configuration files that git reads if they exist."""
    home = env.get("HOME", "")
    usual = [env.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"]
    if env.get("GIT_CONFIG_GLOBAL"):
        usual.append(env["GIT_CONFIG_GLOBAL"])
    elif home:
        above = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        usual += [os.path.join(above, "git", "config"), os.path.join(home, ".gitconfig")]
    return [*usual, os.path.join(common_dir, "config"), os.path.join(git_dir, "config.worktree")]
