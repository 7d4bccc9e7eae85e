"""Name and mail of the user, for programs that do not get the user's whole environment.

A command of a run gets no `GIT_*` variables. If these name the committer (GIT_CONFIG_GLOBAL, `git -c`,
GIT_AUTHOR_NAME), a `git commit` of an agent or a test would fail, or have another author. So name and mail are passed
on, but nothing else: neither signing nor anything that names a program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from git_agentos.errors import ConfigurationError, GitCommandError, RepositoryError
from git_agentos.git import configuration, process

_VARIABLES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_CONFIGURATION = "GIT_CONFIG"  # prefix of variables that set configuration, or name its files
_KEYS = r"^((user|author|committer)\.(name|email)|user\.useconfigonly)$"


def variables(root: str, users: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """The variables that make git, in the environment `theirs`, commit in the worktree at `root` as it does in the
    user's own environment `users`; none if it does so already."""
    found = {name: users[name] for name in _VARIABLES if users.get(name) and name not in theirs}
    if any(name.startswith(_CONFIGURATION) for name in users):
        wanted, there = _configured(root, users), _configured(root, theirs)
        different = [(key, value) for key, value in wanted.items() if there.get(key) != value]
        found |= configuration.as_variables(different) if different else {}
    return found


def require(root: str, environment: Mapping[str, str]) -> None:
    """ConfigurationError if git, in this environment, does not know the committer in the worktree at `root`."""
    for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        try:
            process.run(["var", name], cwd=root, env=_in_english(environment), neutral_config=False)
        except GitCommandError as error:
            raise ConfigurationError(
                f"git does not know who commits here: {_reason(error)}",
                "git config --global user.name 'YOUR NAME'\n"
                "git config --global user.email YOU@EXAMPLE.COM\n"
                "nothing was changed",
            ) from error


def _configured(root: str, environment: Mapping[str, str]) -> dict[str, str]:
    """git's configuration in this environment: key -> the last value."""
    base = process.environment(base=environment)
    try:
        out = process.run(["config", "-z", "--get-regexp", _KEYS], cwd=root, env=base, ok=(0, 1), neutral_config=False)
    except (GitCommandError, RepositoryError):  # or there is no git on its PATH
        return {}  # the command that needs it reports the error
    return {key: values[-1] for key, values in configuration.parse(out).items()}


def _in_english(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with English messages, and without dates, which are not passed on."""
    return {key: value for key, value in environment.items() if not key.endswith("_DATE")} | {"LC_ALL": "C"}


def _reason(error: GitCommandError) -> str:
    """The line of git's long advice that names what is missing."""
    lines = [re.sub(r"^(fatal|error): ", "", line) for line in error.stderr.splitlines() if ": " in line]
    return lines[-1] if lines else "no name and no mail are configured"
