"""What is done about a harness's event.

    a command, an edit     is judged, and enforced as the other layers do it (`enforce`): denied, or passed on
    an edit that was made  becomes a checkpoint, as does what the user says and the end of a turn

Whoever is asked about by a harness is an agent; its identity is the worktree's or the environment's, and where there is
none, the harness's name. Whatever goes wrong while deciding denies; whatever goes wrong while recording stops nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location, locate
from git_agentos.guard import commands, harness, identity, tampering, wording
from git_agentos.guard import enforce as enforcing
from git_agentos.guard import settings as configuration
from git_agentos.guard.call import Call
from git_agentos.guard.commands import Step
from git_agentos.guard.decision import ALLOW, FORBID, Judgement, Operation, Save
from git_agentos.guard.harness import contact, events, overrides, protected_files
from git_agentos.guard.harness.events import Answer, Event, Malformed
from git_agentos.guard.identity import Who
from git_agentos.guard.policy import operations
from git_agentos.guard.settings import GuardSettings
from git_agentos.guard.shell import programs_files
from git_agentos.guard.shell.words import UNKNOWN
from git_agentos.redact import redact
from git_agentos.util import files

_MOST_PROMPT = 200


class Caller(NamedTuple):
    """Who has started the hook: its folder, environment and process, and `--as`."""

    cwd: str
    environment: Mapping[str, str]
    pid: int
    explicit: str | None = None


def answer(name: str, data: bytes, caller: Caller) -> Answer:
    """What harness `name` is told about the event that `data` is."""
    module = harness.module(name)
    found: Event | None = None
    try:
        found = module.read(events.document(data), caller.cwd)
        return _about(name, module, found, caller)
    except Malformed as error:
        reason = f"git-agentos: denied, since the hook's input is not what {name} sends: {error}"
    except AgentosError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        reason = f"git-agentos: denied, since it could not be decided: {error.message}{hint}"
    except OSError as error:
        reason = f"git-agentos: denied, since it could not be decided: {error}"
    if found is not None and found.kind in (events.DONE, events.PROMPT, events.STOP, events.OTHER):
        said: Answer = module.pass_on(found, "")
        return said._replace(said=f"{said.said}{reason}\n")
    denied: Answer = module.deny(found, reason)
    return denied._replace(said=denied.said + reason + "\n")


def refusal(name: str, reason: str) -> Answer:
    """What harness `name` is told where nothing could be decided at all."""
    denied: Answer = harness.module(name).deny(None, reason)
    return denied._replace(said=reason + "\n")


def _about(name: str, module: ModuleType, found: Event, caller: Caller) -> Answer:
    said = ""
    contact.note(name, identity.git_dir_of(_existing(found.cwd)), caller.environment)
    overrides_git = getattr(module, "OVERRIDES_GIT", "") in caller.environment
    if overrides_git:
        hook_environment = caller.environment
        caller = caller._replace(environment=overrides.inherited(hook_environment))
    if found.kind in (events.SHELL, events.EDIT):
        who = _who(name, found, caller)
        settings = configuration.read(_existing(found.cwd), caller.environment)
        edited = tampering.report_at(_existing(found.cwd), who, caller.environment)
        judged = (
            _commands(found, who, settings, caller) if found.kind == events.SHELL else _edits(found, settings, caller)
        )
        run, message = _enforced(judged, who, settings, caller)
        if edited is not None:
            message = f"git-agentos: {edited} ({tampering.HINT})\n{message}"
        if not run:
            denied: Answer = module.deny(found, message)
            return denied
        said = message
        if overrides_git and found.kind == events.SHELL and found.text:
            said = "\n".join(each for each in (said, _recorded(name, found, caller)) if each)
            rewritten: Answer = module.rewrite(found, overrides.prefixed(found.text, hook_environment))
            return rewritten._replace(said=said)
    elif found.kind != events.OTHER:
        said = _recorded(name, found, caller)
    passed: Answer = module.pass_on(found, said)
    return passed


def _who(name: str, found: Event, caller: Caller) -> Who:
    git_dir = identity.git_dir_of(_existing(found.cwd))
    who = identity.who(caller.environment, git_dir, caller.pid, caller.explicit)
    return who if who.agent is not None else Who(name, "harness")


def _existing(folder: str) -> str:
    """`folder`, or the nearest above it that is there."""
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


# -- deciding ----------------------------------------------------------------------------------------------------------


def _commands(found: Event, who: Who, settings: GuardSettings, caller: Caller) -> list[Step]:
    call = Call(found.argv, _existing(found.cwd), caller.environment)
    if found.argv:
        return [Step(call, commands.judge_argv(call, who, settings))]
    # Each is asked for as a part of the whole text. Where that cannot be read, it is the text itself.
    whole = call._replace(argv=("sh", "-c", found.text), text=found.text, unknown=True)
    steps = commands.steps(found.text, call, who, settings)
    return [step._replace(call=step.call._replace(text=found.text) if step.call.argv else whole) for step in steps]


def _edits(found: Event, settings: GuardSettings, caller: Caller) -> list[Step]:
    """One step for all files that a tool changes: those that are not the agent's to change decide."""
    own = programs_files.git_directories(_existing(found.cwd))
    if not own and not _is_agents_own(found, caller):
        return []  # no repository, and nobody's worktree: there is nothing to guard
    root = os.path.realpath(os.path.dirname(own[0])) if own else None
    asked: list[Operation] = []
    for path in found.paths:
        real = os.path.realpath(path)
        if programs_files.in_git_directory(programs_files.Files((path, real)), found.cwd, own) is not None:
            asked.append(Operation("git-dir-write", path))
        elif root is None or not (real == root or real.startswith(root + os.sep)):
            asked.append(Operation("file-outside", path))
        elif protected_files.is_protected(path):
            asked.append(Operation("guard-change", path))
    if not asked:
        return []
    decision = operations.decision(asked, settings)
    argv = (found.tool or "edit", *found.paths)
    call = Call(argv, _existing(found.cwd), caller.environment, text=found.given)
    save = Save() if root is not None and decision.decision != ALLOW else None
    return [Step(call, Judgement(decision, save, False, root))]


def _is_agents_own(found: Event, caller: Caller) -> bool:
    return (
        identity.who(caller.environment, identity.git_dir_of(found.cwd), caller.pid, caller.explicit).agent is not None
    )


def _enforced(judged: Sequence[Step], who: Who, settings: GuardSettings, caller: Caller) -> tuple[bool, str]:
    """Act on what was judged: everything that needs approval is asked for, and nothing is used up where another part
    of the same text stops it all."""
    forbidden = [step for step in judged if step.judgement.decision.decision == FORBID]
    asking = [step for step in judged if step.judgement.decision.decision not in (ALLOW, FORBID)]
    said: list[str] = []
    stopped = False
    held: list[Step] = []
    for step in [*forbidden, *asking]:
        if stopped and step in asking and forbidden:
            break
        verdict = _enforce(step, who, settings, caller, hold=True)
        stopped = stopped or not verdict.run
        if verdict.run:
            held.append(step)
        if verdict.message:
            said.append(verdict.message)
    for step in held if not stopped else ():
        verdict = _enforce(step, who, settings, caller)
        stopped = stopped or not verdict.run
        if verdict.message:
            said.append(verdict.message)
    if stopped:
        return False, "\n".join(dict.fromkeys(said))
    risky = [step for step in judged if step.judgement.decision.decision == ALLOW and step.judgement.save is not None]
    for root in dict.fromkeys(step.judgement.root for step in risky):
        here = [step for step in risky if step.judgement.root == root]
        verdict = _enforce(Step(here[0].call, commands.merged(here)), who, settings, caller)
        if not verdict.run:
            return False, verdict.message
        if verdict.message:
            said.append(verdict.message)
    return True, "\n".join(dict.fromkeys(said))


def _enforce(step: Step, who: Who, settings: GuardSettings, caller: Caller, *, hold: bool = False) -> enforcing.Verdict:
    # A request has to be readable: what is not known of a command line is shown as such.
    argv = tuple(word.replace(UNKNOWN, "…") for word in step.call.argv)
    call = step.call._replace(
        argv=argv, cwd=_existing(step.call.cwd), unknown=step.call.unknown or argv != step.call.argv
    )
    return enforcing.enforce(
        call, step.judgement, who, layer=enforcing.HARNESS, pid=caller.pid, settings=settings, hold=hold
    )


# -- recording ---------------------------------------------------------------------------------------------------------


def _recorded(name: str, found: Event, caller: Caller) -> str:
    """Make a checkpoint of what an event tells has happened; what to warn of."""
    if found.kind == events.DONE and not found.paths and not found.text:
        return ""
    try:
        location = locate(_existing(found.cwd), inherit=False)
    except AgentosError:
        return ""  # no repository: nothing to save
    try:
        settings = configuration.read(location.root, caller.environment)
        if not settings.auto_on("onTaskComplete"):
            return ""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            _checkpoint(name, found, location, _who(name, found, caller), caller.environment)
        return "\n".join(f"git-agentos: {wording.printable(str(each.message))}" for each in heard)
    except (AgentosError, OSError) as error:
        return f"git-agentos: warning: no checkpoint could be taken: {wording.printable(str(error))}"


def _checkpoint(name: str, found: Event, location: Location, who: Who, environment: Mapping[str, str]) -> None:
    from git_agentos.checkpoint import take
    from git_agentos.guard import saving

    prompt = _prompt(location, found)
    ran = found.kind in (events.DONE, events.SHELL) and not found.paths
    meta = {"harness": name, "event": "shell" if ran else "edit" if found.kind == events.DONE else found.kind}
    if prompt:
        meta["prompt"] = prompt
    if found.tool:
        meta["tool"] = found.tool
    if ran:
        what = f"{'before' if found.kind == events.SHELL else 'after'} a command: {_first_line(found.text)}"
    elif found.kind == events.DONE:
        shown = ", ".join(os.path.relpath(path, location.root) for path in found.paths[:3])
        what = f"after an edit of {wording.printable(os.fsencode(shown).decode('utf-8', 'backslashreplace'))}"
    else:
        what = f"{'before' if found.kind == events.PROMPT else 'after'} a turn" + (f": {prompt}" if prompt else "")
    context = saving.context_at(location, who.agent, environment)
    origin = context.origin(
        trigger="task_complete" if found.kind == events.STOP else "periodic",
        description=what,
        session_id=_session(found.session),
        meta=meta,
    )
    take.take(context.repository, context.settings, origin)


def _session(text: str | None) -> str | None:
    return wording.printable(text)[:200] if text else None


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return wording.printable(redact(line)[0])[:_MOST_PROMPT]


def _prompt(location: Location, found: Event) -> str:
    """The first line of what the user said for this turn. It is kept, since later events do not tell it."""
    prompt = _first_line(found.text) if found.kind in (events.PROMPT, events.STOP) else ""
    key = hashlib.sha256((found.session or "").encode("utf-8", "surrogatepass")).hexdigest()[:16]
    path = os.path.join(location.state_dir, "harness", f"{key}.json")
    if prompt:
        from git_agentos.util import directories

        with contextlib.suppress(AgentosError, OSError):  # the checkpoint is worth more than what it is called
            directories.make_own(location.state_dir)
            directories.make_own(os.path.dirname(path))
            files.replace(path, json.dumps({"prompt": prompt}).encode("ascii"), mode=0o600, durable=False)
        return prompt
    try:
        kept = json.loads(files.read(path, limit=1 << 16)).get("prompt", "")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return kept if isinstance(kept, str) else ""
