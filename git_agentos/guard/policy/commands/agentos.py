"""`git agentos …` itself, by `command_table`: what saves first is allowed in an agent's own worktree; ending, merging
or changing another worktree, or the guard, is not an agent's decision."""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_agentos.git import gitfile
from git_agentos.guard import ownership
from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.decision import Operation
from git_agentos.guard.ownership import Caller
from git_agentos.guard.paths import git_directories, is_in_git_directory
from git_agentos.guard.policy import command_table
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.command_table import HERE, RUN, WORKTREE, Command, Request


def operations(command: Command, request: Request, caller: Caller | None, folder: str) -> list[Operation]:
    """The operations of a call in `folder` (before `-C` is followed) by this caller; without a caller, nothing is its
    own."""
    where = os.path.join(folder, *(each for each in request.folders if each))
    own = caller is not None and _is_own(command, request, caller, where)
    changed = [each for each in sorted(request.options) if each in command.variants]
    subject = " ".join((command.name, *changed))
    names = command_table.operations(command, request.options, own=own)
    return [*(Operation(name, subject) for name in names), *_written(request, where)]


def _written(request: Request, where: str) -> Iterator[Operation]:
    """The operations of writing the files that a call names. A new file outside of repositories loses nothing."""
    found = gitfile.find(where)
    for name in request.files:
        path = os.path.join(where, name)
        real = os.path.realpath(path)
        if UNKNOWN in name:
            yield Operation("unresolved", name)
        elif is_in_git_directory(path, git_directories(where)):
            yield Operation("git-dir-write", name)
        elif found is not None and not real.startswith(found[0].rstrip(os.sep) + os.sep):
            if os.path.lexists(path) or gitfile.find(os.path.dirname(real)) is not None:
                yield Operation("file-outside", name)
        elif os.path.lexists(path):
            yield Operation("write-file", name)


def _is_own(command: Command, request: Request, caller: Caller, where: str) -> bool:
    if command.target not in (HERE, WORKTREE, RUN):
        return False
    if command.target == HERE or not request.operands:
        return ownership.owns_folder(caller, where) and (
            command.target != RUN or ownership.is_run_worktree(caller, where)
        )
    prefix = "run-" if command.target == RUN else ""
    return all(ownership.owns_id(caller, where, prefix + each) for each in request.operands)


def _agentos(analysis: Analysis) -> None:
    first = (analysis.command.removeprefix("agentos-"),) if analysis.command.startswith("agentos-") else ()
    request = command_table.parse((*first, *analysis.args))
    if request is None:
        raise ReadOnly
    command = command_table.table().get(request.path)
    if command is not None:
        folder = analysis.facts.folder
        found = operations(command, request, analysis.caller, folder)
        if all(each.name == "look" for each in found):
            raise ReadOnly
        for each in found:
            analysis.add(*each)
            analysis.unsavable |= each.name == "write-file"
        if request.path == ("guard", "exec") and request.operands:
            analysis.commands.append(request.operands)  # it is assessed now, too, though `guard exec` guards it
        return
    word = request.operands[0] if request.operands else ""
    if UNKNOWN in word:
        analysis.add("unresolved")
    elif word and request.path != ("help",):
        analysis.add("unknown-command", " ".join(("agentos", *request.path, word)))
    else:
        raise ReadOnly  # a usage message


HANDLERS = {
    "agentos": _agentos,
    "agentos-checkpoint": _agentos,
    "agentos-restore": _agentos,
    "agentos-rollback": _agentos,
    "agentos-tdd": _agentos,
    "agentos-worktree": _agentos,
}
