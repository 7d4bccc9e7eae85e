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
from git_agentos.guard.assessment import hook_events
from git_agentos.guard.assessment.git_command import LOOK, GitCommandReader, InnerCommand
from git_agentos.guard.assessment.hook_events import RefUpdate
from git_agentos.guard.call import Call
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, Assessment, Decision, Operation, SaveScope, strictest
from git_agentos.guard.identity import ILL_FORMED, Identity
from git_agentos.guard.policy import operations
from git_agentos.guard.policy.analysis import Analysis
from git_agentos.guard.policy.operations import OPERATIONS
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, EarlierCommands

if TYPE_CHECKING:
    from git_agentos.guard.assessment.shell_text import AssessedCommand, ShellTextReader

# After these HEAD may be at another commit than before. A commit that is made on top of it does not count.
_MOVES_HEAD = frozenset(
    {each.name for each in OPERATIONS.values() if each.effect in (operations.OWN_HISTORY, operations.UNKNOWN)}
    | {"switch", "stash-apply", "symbolic-ref", "branch-reset", "branch-force", "ref-rewrite", "branch-move", "agentos"}
) - {"commit", "commit-amend"}


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
        return _conclude(reader, [_assess_inner(each, reader) for each in reader.inner])
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


# -- the decision ------------------------------------------------------------------------------------------------------


def _conclude(reader: GitCommandReader, inner: Sequence[Assessment]) -> Assessment:
    """The assessment of the command that `reader` has read, and of the commands that it runs."""
    analysis = reader.analysis
    if reader.only_reads and not (analysis is not None and analysis.needs_checkpoint):
        known = reader.known_settings
        if known is None or LOOK.name not in known.policy:
            return Assessment(Decision(ALLOW, [LOOK.name]))
    settings = reader.settings
    changing = [each for each in reader.operations if each.name != LOOK.name]
    inner_names = [name for each in inner for name in each.decision.operations if name != LOOK.name]
    names = [*(each.name for each in changing), *inner_names]
    is_person = reader.identity.agent is None
    if is_person and not settings.everyone:
        return Assessment(Decision(ALLOW, list(dict.fromkeys(names)) or [LOOK.name]))
    recoverable = frozenset(each for each in changing if _is_recoverable(each, analysis, settings))
    decided = changing or ([] if inner_names else [LOOK])
    own_decision = operations.decide(decided, settings, recoverable=recoverable)
    decision = _without_look(strictest([own_decision, *(each.decision for each in inner)]))
    losing = [OPERATIONS[name] for name in names if name in OPERATIONS and OPERATIONS[name].default != ALLOW]
    is_limited = all(each in recoverable or OPERATIONS[each.name].default == ALLOW for each in changing)
    save = _save_scope(analysis, inner, any(each.saves for each in losing), is_limited=is_limited)
    is_unsavable = (analysis is not None and analysis.unsavable) or any(
        not each.fully_saved for each in inner if each.decision.decision != ALLOW
    )
    fully_saved = save is not None and not is_unsavable and all(each.fully_saved for each in losing)
    relies = decision.decision == ALLOW and (bool(recoverable) or any(each.relies_on_checkpoint for each in inner))
    if is_person:
        decision, relies = Decision(ALLOW, decision.operations), False
    root = reader.facts.root if decision.decision != ALLOW or save else None
    moves_head = (
        bool(inner)
        or (analysis is not None and analysis.moves_head)
        or any(each.name in _MOVES_HEAD for each in reader.operations)
    )
    return Assessment(decision, save, fully_saved, root, relies, tuple(reader.operations), moves_head)


def _is_recoverable(operation: Operation, analysis: Analysis | None, settings: GuardSettings) -> bool:
    """Whether a checkpoint can restore all that the operation takes away from the agent's own worktree."""
    return (
        analysis is not None
        and not analysis.unsavable
        and operations.is_recoverable(operation, settings)
        and analysis.own.is_own_worktree
    )


def _save_scope(
    analysis: Analysis | None, inner: Sequence[Assessment], wanted: bool, *, is_limited: bool
) -> SaveScope | None:
    """What must be saved before the command. `wanted`: the operations want a checkpoint. `is_limited`: all of them are
    understood well enough to know which files they change."""
    own = analysis.save_scope if analysis is not None else None
    if own is None and wanted:
        own = SaveScope()
    elif own is not None and not is_limited:
        own = own._replace(touches=None)
    scopes = [each for each in (own, *(each.save for each in inner)) if each is not None]
    return functools.reduce(SaveScope.joined, scopes) if scopes else None


def _without_look(decision: Decision) -> Decision:
    """The same decision; that a command also reads something is said only where it does nothing else."""
    names = [name for name in decision.operations if name != LOOK.name]
    return decision._replace(operations=names or [LOOK.name])
