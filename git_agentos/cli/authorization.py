"""Whether the command at hand may be run: what the guard is asked, in its own words."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from git_agentos.guard import authorize

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.git.location import Location
    from git_agentos.guard.policy.command_table import Request


def running(ctx: Any, run: Invocation) -> AbstractContextManager[None]:
    """Run the command of `ctx`, click's context; PolicyError where this process may not. Without a command there is
    nothing to ask: `--version`, or a usage error."""
    if len(ctx.command_path.split()) == 2:
        return nullcontext()
    return authorize.running(request(ctx, run), _called(run), run.agent)


def ask(run: Invocation, *path: str, option: str) -> None:
    """PolicyError where this process may not run the command with that option, which was not given as one."""
    from git_agentos.guard.policy.command_table import Request

    authorize.check(Request(path, (), frozenset({option}), tuple(run.directories)), _called(run), run.agent)


def require(run: Invocation, location: Location, what: str, *, since: float | None = None) -> str:
    """How the right to decide for agents is shown; a PolicyError where an agent asks, or nobody who could be a person.

    `what` is for people: `granting`; `since` when what is decided about was asked for.
    """
    from git_agentos.guard.approval import authority
    from git_agentos.guard.configuration import settings

    known = settings.read(location.root, os.environ)
    terminal = _terminal()
    who = authorize.current(run.agent)
    return authority.require(who, location, terminal=terminal, key_file=known.approval_key, what=what, since=since)


def _terminal() -> int | None:
    """The descriptor of stdin where that is a terminal."""
    with suppress(AttributeError, OSError, ValueError):
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) else None
    return None


def request(ctx: Any, run: Invocation) -> Request:
    """The call as typer has parsed it."""
    from git_agentos.guard.policy.command_table import WRITES, Request

    path = tuple(ctx.command_path.split()[2:])
    operands: list[str] = []
    options: set[str] = set()
    files: list[str] = []
    for each in ctx.command.params:
        value = ctx.params.get(each.name)
        if each.param_type_name == "argument":
            operands += [value] if isinstance(value, str) else value or ()
        elif value is False and each.secondary_opts:
            options.add(each.secondary_opts[-1])
        elif value and value != each.default:
            options.add(each.opts[-1])
            files += [value] if WRITES in each.opts else []
    operands += run.after_dashes
    return Request(path, tuple(operands), frozenset(options), tuple(run.directories), tuple(files))


def _called(run: Invocation) -> tuple[str, ...]:
    """The command line of this process as it was typed, for requests and grants."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return (name, *sys.argv[1:]) if name.startswith("git-agentos") else ("git", "agentos", *run.words)
