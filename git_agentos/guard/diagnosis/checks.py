"""The state of the guard in a worktree, and findings about it: for `guard status`, `hooks status` and `doctor`."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from git_agentos.checkpoint import timeline
from git_agentos.errors import AgentosError, ConfigurationError
from git_agentos.findings import DOCTOR_FIX, Finding, Fixable, fixable, report
from git_agentos.git import process, user_hooks, worktrees
from git_agentos.git.location import Location
from git_agentos.git.user_hooks import UserHooks
from git_agentos.guard import identity, signing, tampering
from git_agentos.guard.ancestry import MARKER
from git_agentos.guard.approval import documents
from git_agentos.guard.configuration import confirmation, settings
from git_agentos.guard.diagnosis import probe
from git_agentos.guard.diagnosis.probe import Layer
from git_agentos.guard.enforcement.safeguard import FSMONITOR, HOOK
from git_agentos.guard.harness import integration, recording, requirements, settings_files
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.guard.setup import activation, manifest, own_files, repository_hooks, scripts
from git_agentos.guard.shell import syntax
from git_agentos.util import files

MOVED = "guard-moved"
_ENABLE = f"{DOCTOR_FIX}, or git agentos guard enable"
_CONFIRM = "if you have set it, git agentos guard confirm in a terminal; else restore the value"
_KEY_HINT = "chmod go-w it if nobody else has written to it; else remove it, and grant pending requests again"


@dataclass(frozen=True)
class GuardStatus:
    """The guard of one worktree; the fields are the keys of JSON kind `guard-status`.

    `id` is the worktree's, `enabled` says whether `guard enable` was run, `mode` and `everyone` are from the
    configuration. `layers` are the layers as they were tried here, empty where the guard is not enabled.
    """

    id: str
    worktree_path: str
    enabled: bool
    mode: str
    everyone: bool
    layers: list[Layer]
    findings: list[Finding]


@dataclass(frozen=True)
class HooksStatus:
    """The hooks of a repository; the fields are the keys of JSON kind `hooks-status`.

    `hooks_path` is the folder from which git takes hooks, `user_hooks_path` the folder without us, `user_hooks` are the
    names of the hooks in it that git would run, and `manager` is the hook manager that wrote them, where it is known.
    """

    worktree_path: str
    installed: bool
    save: bool
    hooks_path: str
    user_hooks_path: str
    user_hooks: list[str]
    manager: str | None
    layers: list[Layer]
    findings: list[Finding]


def guard_status(location: Location, environment: Mapping[str, str]) -> GuardStatus:
    """The state of the guard in one worktree; its layers are tried where it is enabled."""
    read = settings.read(location.root, environment)
    on = _enabled(location)
    layers = probe.try_layers(location, environment) if on else []
    findings = [*_setup_findings(location, environment), *_inactive_layers(layers), *_shim(location, environment)]
    findings += report(harnesses(location, environment), fix=False)
    findings += [*_inactive_elsewhere(location, environment), *_unconfirmed(read)]
    name = timeline.worktree_id(location)
    return GuardStatus(name, location.root, on, read.mode, read.everyone, layers, findings)


def hooks_status(location: Location, environment: Mapping[str, str]) -> HooksStatus:
    """The state of the hooks in a repository; they are tried where ours are installed."""
    installed = _installed(location)
    users = _user_hooks(location, environment)
    layers = probe.try_hooks(location, environment) if installed else []
    return HooksStatus(
        worktree_path=location.root,
        installed=installed,
        save=settings.read(location.root, environment).everyone,
        hooks_path=_effective_hooks_dir(location, environment),
        user_hooks_path=users.hooks,
        user_hooks=[name for name, runs in _hooks_in(users.hooks) if runs],
        manager=_manager(users.hooks),
        layers=layers,
        findings=[*_setup_findings(location, environment), *_inactive_layers(layers)],
    )


def examine(location: Location, environment: Mapping[str, str], *, fix: bool) -> Iterator[Finding]:
    """All findings, in the worktree at `location` and in what all worktrees share; with `fix`, they are fixed if
    possible."""
    guarded = _is_set_up(location)
    yield from report(_key(location, environment), fix=fix)
    yield from report(_approvals(location), fix=fix)
    if guarded and fix:
        yield from _repair(location, environment)
    yield from _setup_findings(location, environment)
    if guarded and (_enabled(location) or _installed(location)):
        yield from _inactive_layers(probe.try_layers(location, environment))
    yield from _inactive_elsewhere(location, environment)
    yield from _shim(location, environment)
    yield from report(harnesses(location, environment), fix=fix)
    yield from _shell_reader()
    yield from _unguarded_worktrees(location)
    yield from _settings(location, environment)


# -- fixing ------------------------------------------------------------------------------------------------------------


def _repair(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Place scripts again that are of another version or edited, and set settings again that lead elsewhere or were
    edited; the findings about them."""
    is_set = activation.is_set(location)
    changed, old = scripts.changed_files(location.common_dir), scripts.outdated(location.common_dir)
    if is_set and (changed or old):
        scripts.install(location)
        for path in changed:
            yield Finding("guard-tampered", "error", f"'{path}' was not what git-agentos placed there", None, True)
        if not changed:
            yield Finding("guard-outdated", "warning", "the guard's scripts were those of another version", None, True)
    found = problems(location, environment)
    left: list[Finding] = []
    if found:
        repository_hooks.restore_record(location)
        activation.reinstall(location)
        left = problems(location, environment)
    for each in found:
        if each not in left:  # `_set_up` finds what is left
            yield replace(each, message=f"{each.message}; it was set again", hint=None, fixed=True)
    if os.path.lexists(os.path.join(scripts.folder(location.common_dir), "warned")):
        os.unlink(os.path.join(scripts.folder(location.common_dir), "warned"))


def _key(location: Location, environment: Mapping[str, str]) -> Iterator[Finding | Fixable]:
    """The finding about the user's key."""
    problem = signing.problem(environment)
    if problem is None:
        return
    if problem.endswith(signing.DAMAGED):
        replace_key = functools.partial(_replace_key, location, environment)
        yield fixable("guard-key", "error", f"{problem}: nothing that it signed counts", replace_key)
    else:
        yield Finding("guard-key", "error", f"{problem}: nothing that it signs counts", _KEY_HINT)


def _replace_key(location: Location, environment: Mapping[str, str]) -> str:
    own_files.remove(os.path.join(signing.folder(environment), "key"))
    if os.path.isdir(scripts.folder(location.common_dir)):
        signing.key(environment)
    if _is_set_up(location):
        with contextlib.suppress(AgentosError):
            manifest.write(location.common_dir, manifest.read(location.common_dir))
    return "it was replaced: grant pending requests again"


def _approvals(location: Location) -> Iterator[Fixable]:
    """Damaged files of requests and decisions. Notes of used grants are left: without them, the grants would count
    again."""
    for path in documents.damaged_files(location.common_dir):
        message = f"'{path}' was not written by git-agentos: it does not count"
        yield fixable("guard-approvals", "warning", message, functools.partial(_remove, path))


def _remove(path: str) -> str:
    own_files.remove(path)
    return ""


# -- findings ----------------------------------------------------------------------------------------------------------


def problems(location: Location, environment: Mapping[str, str]) -> list[Finding]:
    """The findings in all worktrees that `activation.reinstall` fixes: settings that lead elsewhere or were edited, and
    programs that cannot be started."""
    found = []
    paths = activation.misdirected_files(location)
    if paths:
        names = ", ".join(f"'{each}'" for each in dict.fromkeys(activation.worktree_id_of(path) for path in paths))
        message = f"the guard of {names} leads to the former path of the repository, and does not act"
        found.append(Finding(MOVED, "error", message, DOCTOR_FIX))
    messages = tampering.in_repository(location)
    found += [Finding("guard-tampered", "error", each, _ENABLE) for each in messages]
    reason = probe.program_problem(location.common_dir, environment)
    if reason is not None:
        found.append(Finding("guard-program", "error", f"the guard cannot decide or save: {reason}", DOCTOR_FIX))
    return found


def _setup_findings(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What is not as it was set up, and other settings that decide which hooks run."""
    try:
        known = manifest.read(location.common_dir)
        here = activation.tampered(location)
        set_up = not known.empty or bool(here)
        found = problems(location, environment)
        yield from found
        said = {each.message for each in found}
        if not any(each.code == MOVED for each in found):
            for message in here:
                if message not in said:
                    yield Finding("guard-tampered", "error", message, _ENABLE)
        if set_up and not found and scripts.outdated(location.common_dir):
            message = "the guard's scripts are those of another version"
            yield Finding("guard-outdated", "warning", message, DOCTOR_FIX)
    except AgentosError as error:
        set_up = True
        yield Finding("guard-tampered", "error", error.message, error.hint)
    yield from _hooks_path(location, environment)
    if set_up:
        yield from _fsmonitor(location, environment)


def _hooks_path(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Other folders of hooks, and hooks that exist and do not run."""
    ours = scripts.hooks_dir(location.common_dir)
    users = _user_hooks(location, environment)
    effective = _effective_hooks_dir(location, environment)
    if (_enabled(location) or _installed(location)) and not _is_same_path(effective, ours):
        yield Finding(
            "guard-hooks-path",
            "error",
            f"git takes hooks from '{effective}': those of git-agentos do not run",
            "git config --show-origin --show-scope --get-all core.hooksPath shows where it is set",
        )
    default = os.path.join(location.common_dir, "hooks")
    if not _is_same_path(users.hooks, default):
        silenced = [name for name, runs in _hooks_in(default) if runs]
        if silenced:
            manager = _manager(users.hooks) or "core.hooksPath"
            yield Finding(
                "silenced-hooks",
                "warning",
                f"{', '.join(silenced)} in '{default}' {'do' if len(silenced) > 1 else 'does'} not run:"
                f" {manager} makes git take hooks from '{users.hooks}'",
                "move them to that folder, or git config --unset core.hooksPath",
            )
        if not os.path.isdir(users.hooks):
            yield Finding(
                "missing-hooks",
                "warning",
                f"core.hooksPath names '{users.hooks}', which does not exist: none of your own hooks runs here",
                "a relative path is resolved in each worktree: make it absolute, or create the folder",
            )
    for name, runs in _hooks_in(users.hooks):
        if not runs:
            path = os.path.join(users.hooks, name)
            yield Finding("hook-not-executable", "warning", f"git does not run '{path}'", f"chmod +x '{path}'")


def _fsmonitor(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    users = _user_hooks(location, environment)
    if users.version == user_hooks.BUILTIN:
        message = "git's built-in file system monitor (core.fsmonitor) is not used in guarded worktrees"
        yield Finding("other-fsmonitor", "info", message)
    elif users.version != user_hooks.NONE:
        message = f"your file system monitor is used through the guard's: {users.fsmonitor}"
        yield Finding("other-fsmonitor", "info", message)


def _inactive_layers(layers: list[Layer]) -> Iterator[Finding]:
    """Git layers that do not act, although they are set up."""
    for each in layers:
        if each.name in (FSMONITOR, HOOK) and not each.acts:
            message = f"the guard's layer '{each.name}' does not act here: {each.reason}"
            yield Finding("guard-layer", "error", message, DOCTOR_FIX)


def _inactive_elsewhere(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Git layers that do not act in other guarded worktrees, by the configuration that git reads there."""
    for each in worktrees.list_existing(location):
        if each.git_dir == location.git_dir or not _enabled(each):
            continue
        try:
            reasons = probe.config_problems(each, environment)
        except AgentosError as error:
            reasons = (error.message, error.message)
        id_ = timeline.worktree_id(each)
        for name, reason in zip((FSMONITOR, HOOK), reasons, strict=True):
            if reason is not None:
                message = f"the guard's layer '{name}' does not act in the worktree '{id_}': {reason}"
                yield Finding("guard-layer", "error", message, DOCTOR_FIX)


def _shim(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    if MARKER in environment:
        found = probe.shim_on_path(location, environment)
        if not found.acts:
            message = f"the guard's git is not the first on PATH below guard exec: {found.reason}"
            yield Finding("guard-shim", "warning", message, "another folder was put in front of it")


def _shell_reader() -> Iterator[Finding]:
    """Whether shell text can be read: otherwise every command of an integrated harness is denied."""
    if syntax.program() is None:
        error = syntax.missing()
        yield Finding("guard-shell", "error", error.message, error.hint)


def _unguarded_worktrees(location: Location) -> Iterator[Finding]:
    """Agents' worktrees in which the guard is not enabled."""
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        id_ = identity.worktree_agent_id(git_dir)
        if id_ and not _enabled(location._replace(git_dir=git_dir)):
            yield Finding(
                "guard-off", "info", f"the worktree '{id_}' is not guarded", f"git agentos guard enable {id_}", False
            )


def _settings(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Settings that do not count, and the file of those that do."""
    wrong = confirmation.problem(environment)
    if wrong is not None:
        yield Finding("confirmations-damaged", "warning", wrong, "remove it, and git agentos guard confirm")
    with contextlib.suppress(ConfigurationError):  # every command that needs the value reports it
        yield from _unconfirmed(settings.read(location.root, environment))


def _unconfirmed(read: settings.GuardSettings) -> Iterator[Finding]:
    for each in read.pending:
        setting = confirmation.format_setting(each)
        message = f"{setting} in '{each.source}' makes the guard weaker, and is not confirmed"
        yield Finding("unconfirmed-setting", "warning", message, _CONFIRM)


# -- harnesses ---------------------------------------------------------------------------------------------------------


def harnesses(location: Location, environment: Mapping[str, str]) -> Iterator[Finding | Fixable]:
    """Settings that lack our hooks, or that the harness does not read, and harnesses that should run below `guard
    exec`."""
    for name, path in list(integration.missing(location.root, environment)):
        message = f"our hooks are no longer in '{path}': {name} does not ask the guard"
        hint = f"git agentos doctor --fix, or git agentos guard integrate {name} --remove if they are not wanted"
        add = functools.partial(_add_again, name, location.root, environment)
        yield fixable("harness-missing", "warning", message, add, hint)
    home = environment.get("HOME") or os.path.expanduser("~")
    for name in HARNESSES:
        path_read = settings_files.effective(name, location.root, home)
        if path_read is None:
            continue
        yield from _outdated(name, path_read, location.root, home, environment)
        for requirement in requirements.unmet(name, location.root, path_read, environment):
            yield Finding("harness-unread", "warning", f"{name} does not ask the guard here: {requirement}")
        yield from _override(name, location)


def _outdated(
    name: str, path: str, root: str, home: str, environment: Mapping[str, str]
) -> Iterator[Finding | Fixable]:
    """Hooks of an earlier version, which do not tell of all that is recorded today."""
    is_users = path in settings_files.paths(name, home, user=True)
    try:
        paths = [path] if is_users else settings_files.paths(name, root)
        lacking = list(dict.fromkeys(event for each in paths for event in integration.lacking(name, each)))
    except AgentosError as error:
        yield Finding("harness-outdated", "warning", f"whether {name} has all of our hooks is not known: {error}")
        return
    if lacking:
        message = (
            f"our hooks in '{path}' are of another version of git-agentos: {', '.join(lacking)} would be written now"
        )
        if is_users:
            yield Finding("harness-outdated", "warning", message, f"git agentos guard integrate --user {name}")
        else:
            add = functools.partial(_add_again, name, root, environment)
            yield fixable("harness-outdated", "warning", message, add, "git agentos init")


def _add_again(name: str, root: str, environment: Mapping[str, str]) -> str:
    integration.add(name, root, environment)
    return ""


def _override(name: str, location: Location) -> Iterator[Finding]:
    """A harness whose shell switches the guard off inside git, and that does not run below `guard exec`."""
    if not HARNESSES[name].override_variable:
        return
    last = recording.last_contact(name, location.git_dir)
    if last is None or not last.below_exec:
        state = "has not asked the guard here yet" if last is None else "was not started by 'git agentos guard exec'"
        message = f"{name} switches the guard off inside git and {state}: only commands that its hook sees are guarded"
        yield Finding("harness-without-exec", "info", message, f"git agentos guard exec -- {name}")


# -- inside ------------------------------------------------------------------------------------------------------------


def _is_set_up(location: Location) -> bool:
    """Whether anything of the guard is in the repository."""
    return activation.is_set(location) or os.path.isdir(scripts.folder(location.common_dir))


def _enabled(location: Location) -> bool:
    try:
        return activation.is_enabled(location)
    except AgentosError:
        return True  # its record is damaged


def _installed(location: Location) -> bool:
    try:
        return repository_hooks.is_installed(location)
    except AgentosError:
        return False


def _user_hooks(location: Location, environment: Mapping[str, str]) -> UserHooks:
    env = process.environment(base=environment)
    return user_hooks.read(location.root, location.git_dir, location.common_dir, env)


def _effective_hooks_dir(location: Location, environment: Mapping[str, str]) -> str:
    """The folder from which git takes hooks."""
    args = ["rev-parse", "--path-format=absolute", "--git-path", "hooks"]
    out = process.run(args, cwd=location.root, env=process.environment(base=environment), neutral_config=False)
    return os.fsdecode(out.removesuffix(b"\n"))


def _hooks_in(folder: str) -> list[tuple[str, bool]]:
    """The hooks in a folder by name, and whether git would run each. Samples do not count."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [(name, os.access(os.path.join(folder, name), os.X_OK)) for name in names if name in scripts.EVERY_HOOK]


def _manager(folder: str) -> str | None:
    """The hook manager that wrote the hooks in a folder, by their content."""
    if f"{os.sep}.husky" in folder:
        return "husky"
    for name, _ in _hooks_in(folder):
        try:
            text = files.read(os.path.realpath(os.path.join(folder, name)))
        except OSError:
            continue
        for manager, mark in scripts.MANAGERS:
            if mark in text:
                return manager
    return None


def _is_same_path(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
