"""The git command that called a hook: its command line, its directory, and its agent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from git_agentos.errors import GuardError, RepositoryError
from git_agentos.git.location import Location, locate
from git_agentos.guard import ancestry, identity
from git_agentos.guard import call as calls
from git_agentos.guard.call import Call
from git_agentos.guard.configuration import settings as settings_
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.identity import Identity
from git_agentos.process import table
from git_agentos.util import git_command_line
from git_agentos.util.named_tuple import NamedTuple


class GitCommand(NamedTuple):
    """The git command that called a hook. `pid` is its process: the outermost git above `caller_pid`, the git that
    called the hook. `location` is its worktree; None if there is none (a bare repository)."""

    pid: int
    caller_pid: int
    call: Call
    who: Identity
    settings: GuardSettings
    location: Location | None
    common_dir: str

    def with_index(self) -> Call:
        """The call, with the index that git passes to its hooks: `commit -a` and `commit PATH` use an index of their
        own."""
        index = os.environ.get("GIT_INDEX_FILE")
        if index is None:
            return self.call
        extra = {"GIT_INDEX_FILE": os.path.abspath(index)}
        return self.call._replace(environment={**self.call.environment, **extra})


def read(pid: int) -> GitCommand:
    """The command of the git process `pid`, which called a hook. ConfigurationError if the guard's settings
    are invalid, GuardError if the process is gone."""
    outermost = ancestry.outermost_git(pid)
    call = _call_of(outermost, pid)
    if call is None:
        raise GuardError("the git command that started this hook has ended")
    location = locate_worktree()
    git_dir = location.git_dir if location is not None else os.path.abspath(os.environ.get("GIT_DIR", "."))
    common_dir = location.common_dir if location is not None else git_dir
    # The environment of the command, and the one that git passes on: an agent cannot change both.
    who = identity.identify({**os.environ, **call.environment}, git_dir, outermost)
    return GitCommand(outermost, pid, call, who, settings_.read(call.cwd, call.environment), location, common_dir)


def locate_worktree(root: str | None = None) -> Location | None:
    """The worktree of a hook; `root` is the directory in which git started it, if this process is in another one."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"):
        if root is not None and name in os.environ:
            os.environ[name] = os.path.join(root, os.environ[name])
    try:
        return locate(os.getcwd() if root is None else root)
    except RepositoryError:
        return None


def _call_of(outermost: int, caller: int) -> Call | None:
    """The call of the git process `outermost`, with the directory in which the command was given; git itself has
    changed to the top of the worktree."""
    call = calls.call_of_process(outermost)
    if call is None:
        return None
    prefix = _prefix(outermost, caller)
    here = os.path.normpath(os.path.join(call.cwd, prefix)) if prefix else call.cwd
    changes = _changes_of_directory(call.argv)
    if not changes:
        return call._replace(cwd=here)
    for given in _candidates(outermost, call.environment):
        if os.path.realpath(os.path.join(given, *changes)) == os.path.realpath(here):
            return call._replace(cwd=given)
    # The directory is unknown: assume the one to which git has changed.
    return call._replace(argv=_without_changes(call.argv), cwd=here)


def _prefix(outermost: int, caller: int) -> str:
    """The directory of the command, relative to the top (GIT_PREFIX, which git sets for its children)."""
    if outermost == caller:
        return os.environ.get("GIT_PREFIX", "")
    below = caller
    for each in table.parents(caller):
        if each == outermost:
            break
        below = each
    return (table.environment(below) or {}).get("GIT_PREFIX", "")


def _changes_of_directory(argv: tuple[str, ...]) -> list[str]:
    """The folders of git's own `-C` options."""
    return [option.value or "" for option in git_command_line.parse(argv).options if option.name == "-C"]


def _without_changes(argv: tuple[str, ...]) -> tuple[str, ...]:
    line = git_command_line.parse(argv)
    return git_command_line.join(argv[0], [each for each in line.options if each.name != "-C"], line)


def _candidates(pid: int, environment: Mapping[str, str]) -> Iterator[str]:
    """Directories in which a command may have been given: the shell's PWD, and those of the processes above."""
    if os.path.isabs(environment.get("PWD", "")):
        yield environment["PWD"]
    for each in table.parents(pid)[:3]:
        place = table.cwd(each)
        if place is not None:
            yield place
