"""Assesses commands: what a command would do, what is decided about it, and what a checkpoint must hold before it.

`assess_git` takes a git command line, `assess_argv` that of any program, `assess_text` shell text; hooks use
`assess_ref_updates`, `assess_push` and `assess_commit`. A command that runs others is assessed with them: this is the
one module that knows both how git commands are read (`git_command`) and how shell text is (`shell_text`, imported only
where there is some, since git hooks start this module).

A person's command is never stopped. Where `agentos.guard.everyone` is set, what it could lose is saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from git_agentos.errors import ConfigurationError
from git_agentos.guard.assessment import conclusion, hook_events
from git_agentos.guard.assessment.git_command import LOOK, GitCommandReader, InnerCommand
from git_agentos.guard.assessment.hook_events import RefUpdate
from git_agentos.guard.call import Call
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision
from git_agentos.guard.identity import ILL_FORMED, Identity
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, EarlierCommands

if TYPE_CHECKING:
    from git_agentos.guard.assessment.shell_text import AssessedCommand, ShellTextReader


# -- git commands ------------------------------------------------------------------------------------------------------


def assess_git(
    call: Call,
    identity: Identity,
    settings: GuardSettings | None = None,
    *,
    trusted: Mapping[str, str] | None = None,
    earlier: EarlierCommands = NO_EARLIER_COMMANDS,
    depth: int = 0,
) -> Assessment:
    """Assess a git command line (`argv[0]` is some `git` or `git-NAME`).

    `settings` are those of `call.cwd`, if the caller has read them already; `trusted` is the environment that the user
    has made, if it is known: commands in it are the user's own. `earlier` is what commands before this one, in the same
    text, will have done; `depth` counts the commands that this one is nested in. ConfigurationError for a bad value.
    """
    reader = GitCommandReader(call, identity, settings, trusted=trusted, earlier=earlier, depth=depth)

    def read() -> None:
        if reader.is_plain_read():
            reader.operations.append(LOOK)
        else:
            reader.read()

    return _assess(reader, read)


def assess_ref_updates(
    updates: Sequence[RefUpdate], call: Call, identity: Identity, settings: GuardSettings | None = None
) -> Assessment:
    """Assess a reference transaction of the git process `call` (the outermost one), together with its command line."""
    reader = GitCommandReader(call, identity, settings)
    return _assess(reader, lambda: hook_events.read_ref_updates(reader, updates))


def assess_push(
    lines: Sequence[str], remote: str, call: Call, identity: Identity, settings: GuardSettings | None = None
) -> Assessment:
    """Assess a push to `remote` (a name, or a URL); `lines` are what git gives `pre-push`."""
    reader = GitCommandReader(call, identity, settings)
    return _assess(reader, lambda: hook_events.read_push(reader, lines, remote))


def assess_commit(call: Call, identity: Identity, settings: GuardSettings | None = None) -> Assessment:
    """Assess a commit in `pre-commit`: the command line, the branch, and what is staged."""
    reader = GitCommandReader(call, identity, settings)
    return _assess(reader, lambda: hook_events.read_commit(reader))


def _assess(reader: GitCommandReader, read: Callable[[], None]) -> Assessment:
    """Read a command by `read`, assess the commands that it runs, and conclude."""
    try:
        read()
        return conclusion.conclude(reader, [_assess_inner(each, reader) for each in reader.inner])
    except ConfigurationError:
        if reader.identity.agent is not None:
            raise
        return Assessment(Decision(ALLOW, []))  # invalid configuration never stops a person


def _assess_inner(command: InnerCommand, reader: GitCommandReader) -> Assessment:
    # Inner commands are assessed as an agent's, so that what they do is known. The conclusion makes it a person's.
    identity = reader.identity if reader.identity.agent is not None else Identity(ILL_FORMED, "ancestor")
    text_reader = _text_reader(command.call, identity, reader.given_settings, reader.depth + 1)
    if command.text is None:
        text_reader.read_argv(command.call)
    else:
        text_reader.read_text(command.text, command.call)
    return text_reader.merged()


# -- other programs, and shell text ------------------------------------------------------------------------------------


def assess_argv(call: Call, identity: Identity, settings: GuardSettings | None = None) -> Assessment:
    """Assess the command line of any program."""
    reader = _text_reader(call, identity, settings)
    reader.read_argv(call)
    return reader.merged()


def assess_text(text: str, call: Call, identity: Identity, settings: GuardSettings | None = None) -> Assessment:
    """Assess shell text; `call` says where it runs (its `argv` is ignored)."""
    reader = _text_reader(call, identity, settings)
    reader.read_text(text, call)
    return reader.merged()


def assess_each(
    text: str, call: Call, identity: Identity, settings: GuardSettings | None = None
) -> list[AssessedCommand]:
    """Assess the commands of a shell text one by one, in the order in which they would run. Harmless commands are left
    out."""
    reader = _text_reader(call, identity, settings)
    reader.read_text(text, call)
    return reader.commands


def _text_reader(call: Call, identity: Identity, settings: GuardSettings | None, depth: int = 0) -> ShellTextReader:
    from git_agentos.guard.assessment.shell_text import ShellTextReader

    return ShellTextReader(identity, settings, call, functools.partial(assess_git, depth=depth))
