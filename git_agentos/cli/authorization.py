"""Asks the guard whether the command at hand may run."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from git_agentos.guard import authorize

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.git.location import Location
    from git_agentos.guard.policy.command_table import Request


def authorized(context: Any, invocation: Invocation) -> AbstractContextManager[None]:
    """Run the command of `context`, which is click's; PolicyError if this process may not run it.

    Without a command (`--version`, a usage error) there is nothing to ask.
    """
    if len(context.command_path.split()) == 2:
        return nullcontext()
    return authorize.running(request(context, invocation), _argv(invocation), invocation.agent)


def authorize_option(invocation: Invocation, *path: str, option: str) -> None:
    """PolicyError if this process may not run the command with an option that came from a file."""
    from git_agentos.guard.policy.command_table import Request

    asked = Request(path, (), frozenset({option}), tuple(invocation.directories))
    authorize.check(asked, _argv(invocation), invocation.agent)


def require_operator(invocation: Invocation, location: Location, action: str, *, since: float | None = None) -> str:
    """How the caller has shown that it may decide for agents; PolicyError if it has not.

    `action` is for the message (`granting`); `since` is when the request was made that is decided.
    """
    from git_agentos.guard import operator

    return operator.require_operator(location, invocation.agent, action, since=since)


def request(context: Any, invocation: Invocation) -> Request:
    """The command line as typer has parsed it."""
    from git_agentos.guard.policy.command_table import WRITES, Request

    operands: list[str] = []
    options: set[str] = set()
    files: list[str] = []
    for each in context.command.params:
        value = context.params.get(each.name)
        if each.param_type_name == "argument":
            operands += [value] if isinstance(value, str) else value or ()
        elif value is False and each.secondary_opts:
            options.add(each.secondary_opts[-1])
        elif value and value != each.default:
            options.add(each.opts[-1])
            files += [value] if WRITES in each.opts else []
    operands += invocation.after_dashes
    path = tuple(context.command_path.split()[2:])
    return Request(path, tuple(operands), frozenset(options), tuple(invocation.directories), tuple(files))


def _argv(invocation: Invocation) -> tuple[str, ...]:
    """The command line of this process as it was typed, for requests and grants."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return (name, *sys.argv[1:]) if name.startswith("git-agentos") else ("git", "agentos", *invocation.words)
