"""A command as a process is started: what a layer hands to the guard."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from git_agentos.guard import ancestry


class Call(NamedTuple):
    """`argv` with the program first, as text (`os.fsdecode`); `cwd` absolute; the complete `environment`.

    `text` is what a harness was given of which the command is a part (shell text, the input of a tool), None where it
    was not a harness; `unknown` tells that words of `argv` cannot be known before that text runs.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    text: str | None = None
    unknown: bool = False


def call_of_process(pid: int) -> Call | None:
    """The call that a living process is, by /proc (elsewhere `ps` tells argv, and the rest is this process's own);
    None where it is gone or may not be looked into.

    Of an alias, git's own process holds the expanded argv. git goes to the worktree's root before it runs anything, so
    that is the `cwd` of a git that has come as far as a hook.
    """
    argv = ancestry.argv(pid)
    if not argv:
        return None
    if not ancestry.has_proc():
        return Call(argv, os.getcwd(), dict(os.environ))
    cwd = ancestry.cwd(pid)
    environment = ancestry.environment(pid)
    if cwd is None or environment is None:
        return None
    return Call(argv, cwd, environment)


def current_call(argv: tuple[str, ...]) -> Call:
    """The call that this process is about to make."""
    return Call(argv, os.getcwd(), os.environ)
