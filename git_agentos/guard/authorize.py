"""Whether a process may run a command of `git agentos`. The command line checks that before each command, the functions
of the Python API by the decorator `entry`.

`policy.command_table` says what a command does, and to what. For agents, policy decides about it as about any git
command, with requests, grants and configuration. A person's process is never stopped. The commands that a command calls
are part of it, and are not checked again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from git_agentos.errors import ConfigurationError, PolicyError
from git_agentos.guard import ancestry, identity
from git_agentos.guard.identity import ILL_FORMED, Identity
from git_agentos.process import table
from git_agentos.util import git_command_line

if TYPE_CHECKING:
    import inspect

    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.git.location import Location
    from git_agentos.guard.decision import Operation
    from git_agentos.guard.policy.command_table import Request

P = ParamSpec("P")
R = TypeVar("R")

# Whether an authorized command is running: what it calls is part of it.
_authorized: ContextVar[bool] = ContextVar("authorized", default=False)
# The names in messages of what is a person's decision, by the command.
_DECISIONS = {
    "approvals grant": "granting",
    "forget": "forgetting checkpoints",
    "approvals deny": "denying",
    "guard confirm": "confirming",
    "run accept": "accepting a run",
    "fleet accept": "accepting tasks of a fleet",
    "tdd approve": "approving a workflow",
    "ui": "allowing decisions in the browser",
}
# Parameters of functions that do not change what a call does.
NOT_CHECKED = ("observer", "consent", "environment", "choose")


@contextlib.contextmanager
def running(request: Request, argv: Sequence[str], explicit: str | None = None) -> Iterator[None]:
    """Run one command of the command line; PolicyError where the process may not run it.

    `argv` is the command line, for requests and grants; `explicit` the agent id given by `--as`.
    """
    if not _authorized.get():
        check(request, argv, explicit)
    with _part():
        yield


def entry(
    *path: str, named: Sequence[str] = (), also: Callable[[Any], Mapping[str, Any]] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check that the process may run the command `path` before a function of the Python API that does the same.

    The function's first argument has the worktree: an `OpenWorktree`, or an object with one as `context`. Its other
    positional parameters are the command's operands; its keyword parameters, those in `named`, and the fields of
    dataclasses are the options. `also` returns more options for the first argument; the key `operands` is for operands.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if _authorized.get():
                return function(*args, **kwargs)
            who = current()
            if who.agent is None:
                with _part():
                    return function(*args, **kwargs)
            import inspect  # here and below: few calls need it, and it takes longer to import than this module

            bound = inspect.signature(function).bind(*args, **kwargs)
            _check_call(who, path, bound, named, also)
            try:
                with _part():
                    return function(*args, **kwargs)
            finally:
                _leave(_location(next(iter(bound.arguments.values()))))

        return call

    return decorate


def current(explicit: str | None = None) -> Identity:
    """The identity of this process, by the folder in which it was started, not by that of `-C` (git's own too)."""
    folder = _started_in()
    git_dir = identity.find_git_dir(folder) if folder is not None else None
    return identity.identify(os.environ, git_dir, table.own_pid(), explicit)


def check(request: Request, argv: Sequence[str], explicit: str | None = None) -> None:
    """PolicyError where this process may not run the command; an approval request is filed where one is needed."""
    who = current(explicit)
    if who.agent is not None:
        _decide(who, request, argv)


def require(context: OpenWorktree, *path: str, operands: Sequence[str] = ()) -> None:
    """PolicyError where the process that calls a function of the Python API may not run the command `path`."""
    if not _authorized.get():
        who = current()
        if who.agent is not None:
            _check_words(who, path, context.location.root, operands, {})


def may(location: Location, operation: str) -> bool:
    """Whether this process may do an operation without asking: what a command does by itself, beside what it was asked
    for, it does not ask for."""
    if current().agent is None:
        return True
    from git_agentos.guard.configuration import settings
    from git_agentos.guard.decision import ALLOW, Operation
    from git_agentos.guard.policy import operations

    decision = operations.decide([Operation(operation)], settings.read(location.root, os.environ))
    return decision.decision == ALLOW


def refusal(who: Identity, what: str) -> PolicyError:
    """The error for an agent that would decide; `what` is for messages: `granting`."""
    by = {
        "environment": "AGENTOS_AGENT_ID is set",
        "ill-formed": "AGENTOS_AGENT_ID is set, and is not an agent id",
        "worktree": "this is an agent's worktree",
        "ancestor": "a process above this one is an agent's",
        "as": "--as names it",
    }[who.source]
    return PolicyError(
        f"{what} is not for agents, and this is {_describe(who)}: {by}",
        "the person who runs the agents decides, in a separate terminal, outside of the agents' worktrees",
    )


@contextlib.contextmanager
def _part() -> Iterator[None]:
    token = _authorized.set(True)
    try:
        yield
    finally:
        _authorized.reset(token)


def _decide(who: Identity, request: Request, argv: Sequence[str]) -> None:
    from git_agentos.guard.ownership import Caller
    from git_agentos.guard.policy import command_table
    from git_agentos.guard.policy.commands import agentos

    command = command_table.table().get(request.path)
    name = " ".join(request.path)
    if command is None:
        raise PolicyError(
            f"'git agentos {name}' is not known to the guard, and this is {_describe(who)}",
            "a person can run it",
        )
    if command.is_decision(request.options):
        raise refusal(who, _DECISIONS[name])
    caller = Caller(who, os.environ, _started_in(), table.own_pid())
    found = agentos.operations(command, request, caller, _folder())
    if [each.name for each in found] != ["look"]:
        _enforce(who, found, _git_above() or tuple(argv), request.folders)


def _enforce(who: Identity, found: Sequence[Operation], argv: Sequence[str], folders: Sequence[str]) -> None:
    from git_agentos.git import gitfile
    from git_agentos.guard.call import Call
    from git_agentos.guard.configuration import settings
    from git_agentos.guard.decision import ALLOW, Assessment
    from git_agentos.guard.enforcement import enforcer
    from git_agentos.guard.policy import operations

    cwd = os.path.join(_folder(), *(each for each in folders if each))
    try:
        guard_settings = settings.read(cwd, os.environ)
    except ConfigurationError:
        if all(operations.OPERATIONS[each.name].default == ALLOW for each in found):
            return  # other commands report it; a command that saves first loses nothing
        raise
    worktree = gitfile.find(cwd)
    verdict = enforcer.enforce(
        Call(tuple(argv), cwd, os.environ),
        Assessment(operations.decide(found, guard_settings), root=worktree[0] if worktree is not None else None),
        who,
        enforcer.LayerCall("shim", table.own_pid(), guard_settings),
    )
    if not verdict.run:
        _refuse(who, verdict.message)


def _refuse(who: Identity, message: str) -> NoReturn:
    first, *rest = (line.strip().removeprefix("git-agentos: ") for line in message.splitlines())
    if who.source in ("worktree", "ancestor"):
        rest.append("a process in an agent's worktree counts as that agent: a person can run this elsewhere")
    raise PolicyError(first, "\n".join(rest))


def _check_call(
    who: Identity,
    path: tuple[str, ...],
    bound: inspect.BoundArguments,
    named: Sequence[str],
    also: Callable[[Any], Mapping[str, Any]] | None,
) -> None:
    """Check a call of a function like the command line that does the same."""
    import inspect
    from dataclasses import fields, is_dataclass

    subject, *others = bound.signature.parameters.values()
    first = bound.arguments[subject.name]
    operands: list[str] = []
    options: dict[str, list[str]] = {}
    for each in others:
        value = bound.arguments.get(each.name, each.default)
        if each.name in NOT_CHECKED or value is None or value == each.default:
            continue
        if is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                options |= _option(field.name, getattr(value, field.name))
        elif each.kind is inspect.Parameter.KEYWORD_ONLY or each.name in named:
            options |= _option(each.name, value)
        else:
            operands += _texts(value)
    for name, value in (also(first) if also is not None else {}).items():
        if name == "operands":
            operands += _texts(value)
        else:
            options |= _option(name, value)
    _check_words(who, path, _location(first).root, operands, options)


def _check_words(
    who: Identity, path: tuple[str, ...], root: str, operands: Sequence[str], options: Mapping[str, list[str]]
) -> None:
    from git_agentos.guard.policy.command_table import Request

    words = [word for name, values in options.items() for word in ([f"{name}={each}" for each in values] or [name])]
    argv = ("git", "agentos", "-C", root, *path, *words, *(("--", *operands) if operands else ()))
    _decide(who, Request(path, tuple(operands), frozenset(options), (root,)), argv)


def _location(first: Any) -> Location:
    found: Location = getattr(first, "context", first).location
    return found


def _leave(location: Location) -> None:
    """End the use of a grant: it is good for one call, and this process may make others."""
    if os.path.isdir(os.path.join(location.shared_state_dir, "approvals", "running")):
        from git_agentos.guard.approval import approvals

        process = table.identify(table.own_pid())
        if process is not None:
            approvals.end_use(location.common_dir, process)


def _option(name: str, value: Any) -> dict[str, list[str]]:
    """A parameter as an option: none where it is not set, `--no-guard` where the guard is switched off."""
    option = name.removesuffix("_").replace("_", "-")
    if value is False:
        return {"--no-guard": []} if option == "guard" else {}
    if value is None or value == () or value == []:
        return {}
    return {f"--{option}": [] if value is True else _texts(value)}


def _texts(value: Any) -> list[str]:
    """The words for an argument of a function. A value of another type is written out, so that a grant is bound to
    it."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return list(value)
    return [repr(value)]


def _git_above() -> tuple[str, ...] | None:
    """The command line of the git that has started this process for `git agentos`. It has to have the arguments of this
    process: a program that calls itself git cannot give it another command line."""
    argv = table.argv(table.own_parent())
    if not argv or os.path.basename(argv[0]) != "git":
        return None
    line = git_command_line.parse(argv)
    is_ours = line.command == "agentos" or (line.command or "").startswith("agentos-")
    return ("git", *argv[1:]) if is_ours and list(line.args) == sys.argv[1:] else None


def _started_in() -> str | None:
    """The folder in which this process was started: for `git -C PATH agentos`, that of git, not PATH."""
    return ancestry.started_in(table.own_pid()) if table.has_proc() else _folder()


def _describe(who: Identity) -> str:
    return "an agent" if who.agent == ILL_FORMED else f"agent '{who.agent}'"


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return os.sep  # it was deleted: the command reports that
