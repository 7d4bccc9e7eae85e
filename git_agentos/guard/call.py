"""A command as a process is started: what a layer hands to the guard."""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos.process import table
from git_agentos.util.named_tuple import NamedTuple

UNKNOWN = "\0"
"""In a word of a command line: text that is known only at run time (`"$MSG"`, `$(date)`). No argument of a real process
can contain it, so no command can imitate it."""


class Call(NamedTuple):
    """A command as a process starts it: `argv` with the program first, as text (`os.fsdecode`); `cwd`, absolute; the
    complete `environment`.

    `text` is what a harness was given and the command is a part of (shell text, the input of a tool), None if no
    harness was given the command. `unknown`: words of `argv` are known only when that text runs.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    text: str | None = None
    unknown: bool = False


def call_of_process(pid: int) -> Call | None:
    """The call that a running process is, by /proc. Without /proc, `ps` gives argv, and the rest is this process's own.
    None if the process is gone or may not be read.

    Of an alias, git's own process holds the expanded argv. git changes to the worktree's root before it runs anything,
    so that is the `cwd` of a git process that calls a hook.
    """
    argv = table.argv(pid)
    if not argv:
        return None
    if not table.has_proc():
        return Call(argv, os.getcwd(), dict(os.environ))
    cwd = table.cwd(pid)
    environment = table.environment(pid)
    if cwd is None or environment is None:
        return None
    return Call(argv, cwd, environment)


def current_call(argv: tuple[str, ...]) -> Call:
    """The call that this process is about to make."""
    return Call(argv, os.getcwd(), os.environ)
