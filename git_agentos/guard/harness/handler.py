"""The hook: how an event of a harness is decided about and recorded, and what the harness gets as a reply.

    a command, an edit     is judged, and enforced as in the other layers (`enforce`): denied, or not objected to
    a tool that has run    becomes a checkpoint (`recording`), as do the user's prompt, the end of a turn, and others
    a worktree             is created or archived as ours, by who has started the hook (`Worktrees`)

The caller is an agent: that of the worktree or the environment, or else one with the harness's name. An error while
deciding denies; an error while recording stops nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.guard import identity, protected_files, tampering
from git_agentos.guard.assessment import assessor
from git_agentos.guard.assessment.shell_text import AssessedCommand, merge
from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.configuration import settings as configuration
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, FORBID, Assessment, Operation, SaveScope
from git_agentos.guard.enforcement import enforcer as enforcing
from git_agentos.guard.exec import client_configuration
from git_agentos.guard.harness import adapters, events, recording, twins
from git_agentos.guard.harness.events import Event, HookReply, InvalidEvent
from git_agentos.guard.harness.row import Harness
from git_agentos.guard.identity import Identity
from git_agentos.guard.paths import git_directories, is_in_git_directory, nearest_folder, worktree_root
from git_agentos.guard.policy import operations
from git_agentos.util.named_tuple import NamedTuple


class Worktrees(NamedTuple):
    """How a harness's worktrees are made: `create(name, cwd, agent)` returns the path of a new one in the repository at
    `cwd`, `archive(path, agent)` saves and removes one, if it is ours. `agent` is who asks for it."""

    create: Callable[[str, str, str], str]
    archive: Callable[[str, str], None]


class Caller(NamedTuple):
    """Identity has started the hook: its folder, environment and process, and the agent id given by `--as`. `source`
    is where the harness has the hook from: its settings, or a plugin (`twins`)."""

    cwd: str
    environment: Mapping[str, str]
    pid: int
    explicit: str | None = None
    source: str = twins.SETTINGS
    worktrees: Worktrees | None = None


def respond(name: str, data: bytes, caller: Caller) -> HookReply:
    """The reply to the event that harness `name` sent as `data`."""
    harness = adapters.get(name)
    event: Event | None = None
    try:
        event = harness.parse(events.parse_json(data), caller.cwd)
        git_dir = identity.find_git_dir(nearest_folder(event.cwd))
        # Each of two hooks has to name a new worktree: the harness takes what it prints for the path.
        if event.kind != events.WORKTREE_CREATE and not twins.is_first(
            name, git_dir, twins.Sent(_same_for_both(harness, event, data), caller.source), caller.environment
        ):
            return harness.no_objection(event, "")
        if event.kind in (events.WORKTREE_CREATE, events.WORKTREE_REMOVE):
            return _worktree(harness, event, git_dir, caller)
        return _respond_to(harness, event, caller)
    except InvalidEvent as error:
        reason = f"git-agentos: denied: unexpected input from {name}: {error}"
    except AgentosError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        reason = f"git-agentos: denied: the guard cannot decide: {error.message}{hint}"
    except OSError as error:
        reason = f"git-agentos: denied: the guard cannot decide: {error}"
    if event is not None and event.kind in (events.WORKTREE_CREATE, events.WORKTREE_REMOVE):
        reply = HookReply(code=1)
    elif event is not None and event.kind not in (events.SHELL, events.EDIT):
        reply = harness.no_objection(event, "")
    else:
        reply = harness.deny(event, reason)
    return reply._replace(stderr=f"{reply.stderr}{reason}\n")


def refusal(name: str, reason: str) -> HookReply:
    """The reply where no event could be decided about, because of a bug."""
    return adapters.get(name).deny(None, reason)._replace(stderr=reason + "\n")


def _respond_to(harness: Harness, event: Event, caller: Caller) -> HookReply:
    folder = nearest_folder(event.cwd)
    git_dir = identity.find_git_dir(folder)
    recording.note_contact(harness.name, git_dir, caller.environment)
    hook_environment = caller.environment
    overrides_git = harness.override_variable in hook_environment
    if overrides_git:
        caller = caller._replace(environment=client_configuration.inherited(hook_environment))
    if event.kind == events.OTHER:
        return harness.no_objection(event, "")
    who = identity.identify(caller.environment, git_dir, caller.pid, caller.explicit)
    who = who if who.agent is not None else Identity(harness.name, "harness")
    if event.kind not in (events.SHELL, events.EDIT):
        return harness.no_objection(event, recording.record(harness.name, event, folder, _recorder(who, caller)))
    settings = configuration.read(folder, caller.environment)
    tampered = tampering.report_at(folder, who, caller.environment)
    runs, message = _enforce_all(_judge(event, who, settings, caller), who, settings, caller)
    if tampered is not None:
        message = f"git-agentos: {tampered} ({tampering.HINT})\n{message}"
    if not runs:
        return harness.deny(event, message)
    if harness.rewrite is not None and overrides_git and event.kind == events.SHELL and event.text:
        recorded = recording.record(harness.name, event, folder, _recorder(who, caller))
        message = "\n".join(each for each in (message, recorded) if each)
        reply = harness.rewrite(event, client_configuration.prefixed(event.text, hook_environment))
        return reply._replace(stderr=message)
    return harness.no_objection(event, message)


def _same_for_both(harness: Harness, event: Event, data: bytes) -> bytes:
    """What two hooks of ours get alike for one event: the second one is given the command that the first one has
    rewritten."""
    if harness.rewrite is None or event.kind != events.SHELL:
        return data
    parts = (event.name, event.session, event.tool, event.cwd, client_configuration.original(event.text), event.argv)
    return repr(parts).encode("utf-8", "backslashreplace")


def _worktree(harness: Harness, event: Event, git_dir: str | None, caller: Caller) -> HookReply:
    """Make or archive a worktree. The harness reads the path of a new one from stdout."""
    if caller.worktrees is None:
        return HookReply(code=1)
    agent = identity.identify(caller.environment, git_dir, caller.pid, caller.explicit).agent or harness.name
    if event.kind == events.WORKTREE_CREATE:
        return HookReply(caller.worktrees.create(event.text, event.cwd, agent) + "\n")
    caller.worktrees.archive(event.text, agent)
    return HookReply()


def _recorder(who: Identity, caller: Caller) -> recording.Recorder:
    return recording.Recorder(who.agent, caller.environment, caller.pid)


# -- judging -----------------------------------------------------------------------------------------------------------


def _judge(event: Event, who: Identity, settings: GuardSettings, caller: Caller) -> list[AssessedCommand]:
    """What the event does, step by step, each with the judgement about it."""
    if event.kind == events.EDIT:
        return _judge_edit(event, settings, caller)
    call = Call(event.argv, nearest_folder(event.cwd), caller.environment)
    if event.argv:
        return [AssessedCommand(call, assessor.assess_argv(call, who, settings))]
    # A step is asked for as a part of the whole text. Where the text cannot be read, the step is the text.
    whole = call._replace(argv=("sh", "-c", event.text), text=event.text, unknown=True)
    steps = assessor.assess_each(event.text, call, who, settings)
    return [step._replace(call=step.call._replace(text=event.text) if step.call.argv else whole) for step in steps]


def _judge_edit(event: Event, settings: GuardSettings, caller: Caller) -> list[AssessedCommand]:
    """One step for all files that a tool edits; none where the agent may edit them all."""
    folder = nearest_folder(event.cwd)
    root, git_dirs = worktree_root(folder), git_directories(folder)
    if root is None and not _is_agents_worktree(event, caller):
        return []  # outside of any repository there is nothing to guard
    risky: list[Operation] = []
    for path in event.paths:
        real = os.path.realpath(path)
        if is_in_git_directory(os.path.join(event.cwd, path), git_dirs):
            risky.append(Operation("git-dir-write", path))
        elif root is None or not (real == root or real.startswith(root + os.sep)):
            risky.append(Operation("file-outside", path))
        elif protected_files.is_protected(path):
            risky.append(Operation("guard-change", path))
    if not risky:
        return []
    decision = operations.decide(risky, settings)
    call = Call((event.tool or "edit", *event.paths), folder, caller.environment, text=event.given)
    save = SaveScope() if root is not None and decision.decision != ALLOW else None
    return [AssessedCommand(call, Assessment(decision, save, False, root))]


def _is_agents_worktree(event: Event, caller: Caller) -> bool:
    who = identity.identify(caller.environment, identity.find_git_dir(event.cwd), caller.pid, caller.explicit)
    return who.agent is not None


# -- enforcing ---------------------------------------------------------------------------------------------------------


def _enforce_all(
    steps: Sequence[AssessedCommand], who: Identity, settings: GuardSettings, caller: Caller
) -> tuple[bool, str]:
    """Whether all steps may run, and the message. A grant is used only where no other step of the same text is stopped,
    and approval is requested only where no step is forbidden."""
    forbidden = [step for step in steps if step.assessment.decision.decision == FORBID]
    to_approve = [step for step in steps if step.assessment.decision.decision not in (ALLOW, FORBID)]
    messages: list[str] = []

    def enforce(step: AssessedCommand, *, hold: bool = False) -> bool:
        verdict = _enforce(step, who, settings, caller, hold=hold)
        if verdict.message:
            messages.append(verdict.message)
        return verdict.run

    runs = [enforce(step, hold=True) for step in forbidden]
    if all(runs):
        runs += [enforce(step, hold=True) for step in to_approve]
    if all(runs):
        runs = [enforce(step) for step in (*forbidden, *to_approve)]
    if all(runs):
        risky = [step for step in steps if step.assessment.decision.decision == ALLOW and step.assessment.save]
        for root in dict.fromkeys(step.assessment.root for step in risky):
            in_root = [step for step in risky if step.assessment.root == root]
            verdict = _enforce(AssessedCommand(in_root[0].call, merge(in_root)), who, settings, caller)
            if not verdict.run:
                return False, verdict.message
            if verdict.message:
                messages.append(verdict.message)
    return all(runs), "\n".join(dict.fromkeys(messages))


def _enforce(
    step: AssessedCommand, who: Identity, settings: GuardSettings, caller: Caller, *, hold: bool = False
) -> enforcing.Verdict:
    # People have to read the request: unknown parts of a command line are shown as such.
    argv = tuple(word.replace(UNKNOWN, "…") for word in step.call.argv)
    unknown = step.call.unknown or argv != step.call.argv
    call = step.call._replace(argv=argv, cwd=nearest_folder(step.call.cwd), unknown=unknown)
    layer = enforcing.LayerCall(enforcing.HARNESS, caller.pid, settings, hold=hold)
    return enforcing.enforce(call, step.assessment, who, layer)
