"""Asks the guard whether the command at hand may run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from git_agentos.cli.parameters import Argument
from git_agentos.guard import authorize

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.cli.parameters import Parameter
    from git_agentos.git.location import Location
    from git_agentos.guard.policy.command_table import Request


def authorized(
    invocation: Invocation, path: Sequence[str], parameters: Sequence[Parameter], values: Mapping[str, Any]
) -> AbstractContextManager[None]:
    """Run the command `path` with these values of its parameters; PolicyError if this process may not run it.

    Without a command (`--version`, a usage error) there is nothing to ask.
    """
    if not path:
        return nullcontext()
    return authorize.running(request(invocation, path, parameters, values), _argv(invocation), invocation.agent)


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


def request(
    invocation: Invocation, path: Sequence[str], parameters: Sequence[Parameter], values: Mapping[str, Any]
) -> Request:
    """The request that the guard judges, from the parsed command line."""
    from git_agentos.guard.policy.command_table import WRITES, Request

    operands: list[str] = []
    options: set[str] = set()
    files: list[str] = []
    for each in parameters:
        value, declared = values[each.name], each.declaration
        if isinstance(declared, Argument):
            operands += [value] if isinstance(value, str) else value or ()
        elif value is False and declared.opposites:
            options.add(declared.opposites[-1])
        elif value and value != each.default:
            options.add(declared.names[-1])
            files += [value] if WRITES in declared.names else []
    operands += invocation.after_dashes
    return Request(tuple(path), tuple(operands), frozenset(options), tuple(invocation.directories), tuple(files))


def _argv(invocation: Invocation) -> tuple[str, ...]:
    """The command line of this process as it was typed, for requests and grants."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return (name, *sys.argv[1:]) if name.startswith("git-agentos") else ("git", "agentos", *invocation.words)
