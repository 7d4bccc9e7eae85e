"""How the guard stands in a worktree, and what of its set-up is not as it should be: `guard status`, `hooks status`,
and the guard's part of `doctor`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.doctor import Finding
from git_agentos.errors import AgentosError, ConfigurationError
from git_agentos.git import chained, process, worktrees
from git_agentos.git.chained import Chained
from git_agentos.git.location import Location
from git_agentos.guard import confirmation, identity, settings, signing, tampering
from git_agentos.guard.ancestry import MARKER
from git_agentos.guard.approval import approval_files, weakening
from git_agentos.guard.harness import findings as harness_findings
from git_agentos.guard.setup import effect, enable, install, manifest, place, probe
from git_agentos.guard.setup.probe import FSMONITOR, HOOK, Layer
from git_agentos.guard.shell import syntax
from git_agentos.util import files

MOVED = "guard-moved"
_FIX = "git agentos doctor --fix"
_ENABLE = f"{_FIX}, or git agentos guard enable"
_CONFIRM = "git agentos guard confirm, in a terminal, if you have set it; else put the value back"
_KEY_HINT = "chmod go-w it if nobody else has written to it; else remove it, and grant again what still waits"


@dataclass(frozen=True)
class GuardStatus:
    """How one worktree is guarded; the fields are the keys of JSON kind `guard-status`.

    `id` is the worktree's, `enabled` what `guard enable` has set, `mode` and `everyone` are the configuration's.
    `layers` are what was tried here, empty where the guard is not enabled.
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
    """Whether and how git's hooks are ours for everybody here; the fields are the keys of JSON kind `hooks-status`.

    `hooks_path` is the folder that git takes hooks from, `user_hooks_path` the one that it would without us,
    `user_hooks` the names of those in it that git would run, and `manager` who wrote them, where that is known.
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
    """Look at the guard of one worktree, and try its layers where it is on."""
    read = settings.read(location.root, environment)
    on = _enabled(location)
    layers = probe.try_layers(location, environment) if on else []
    findings = [*_set_up(location, environment), *_not_acting(layers), *_shim(location, environment)]
    findings += harnesses(location, environment, fix=False)
    findings += [*_elsewhere(location, environment), *_unconfirmed(read)]
    name = timeline.name_of(location)
    return GuardStatus(name, location.root, on, read.mode, read.everyone, layers, findings)


def hooks_status(location: Location, environment: Mapping[str, str]) -> HooksStatus:
    """Look at the hooks of a repository, and try them where ours are installed."""
    installed = _installed(location)
    users = _chained(location, environment)
    layers = probe.try_hooks(location, environment) if installed else []
    return HooksStatus(
        worktree_path=location.root,
        installed=installed,
        save=settings.read(location.root, environment).everyone,
        hooks_path=_effective(location, environment),
        user_hooks_path=users.hooks,
        user_hooks=[name for name, runs in _hooks_in(users.hooks) if runs],
        manager=_manager(users.hooks),
        layers=layers,
        findings=[*_set_up(location, environment), *_not_acting(layers)],
    )


def examine(location: Location, environment: Mapping[str, str], *, fix: bool) -> Iterator[Finding]:
    """All findings, in the worktree at `location` and of what all share; with `fix`, what can be mended is."""
    guarded = enable.is_set(location) or os.path.isdir(place.folder(location.common_dir))
    replaced = yield from _key(location, environment, fix=fix)
    yield from _approvals(location, fix=fix)
    if guarded and fix:
        if replaced:
            with contextlib.suppress(AgentosError):
                manifest.write(location.common_dir, manifest.read(location.common_dir))
        yield from _mended(location, environment)
    yield from _set_up(location, environment)
    if guarded and (_enabled(location) or _installed(location)):
        yield from _not_acting(probe.try_layers(location, environment))
    yield from _elsewhere(location, environment)
    yield from _shim(location, environment)
    yield from harnesses(location, environment, fix=fix)
    yield from _shell_reader()
    yield from _unguarded(location)
    yield from _settings(location, environment)


# -- mending -----------------------------------------------------------------------------------------------------------


def _mended(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Scripts of another version, or edited, are placed again, and what leads elsewhere, or was edited, is set
    again."""
    is_set = enable.is_set(location)
    changed, old = place.changed(location.common_dir), place.outdated(location.common_dir)
    if is_set and (changed or old):
        place.put(location)
        for path in changed:
            yield Finding("guard-tampered", "error", f"'{path}' was not what git-agentos placed there", None, True)
        if not changed:
            yield Finding("guard-outdated", "warning", "the guard's scripts were those of another version", None, True)
    found = problems(location, environment)
    left: list[Finding] = []
    if found:
        install.restore_record(location)
        enable.place_again(location)
        left = problems(location, environment)
    for each in found:
        if each not in left:  # `_set_up` finds what is left
            yield replace(each, message=f"{each.message}; it was set again", hint=None, fixed=True)
    if os.path.lexists(os.path.join(place.folder(location.common_dir), "warned")):
        os.unlink(os.path.join(place.folder(location.common_dir), "warned"))


def _key(location: Location, environment: Mapping[str, str], *, fix: bool) -> Generator[Finding, None, bool]:
    """What is wrong with the user's key; whether it was replaced."""
    said = signing.problem(environment)
    if said is None:
        return False
    if not said.endswith(signing.DAMAGED):
        yield Finding("guard-key", "error", f"{said}: nothing that it signs counts", _KEY_HINT, False)
        return False
    if not fix:
        yield Finding("guard-key", "error", f"{said}: nothing that it signed counts", _FIX, False)
        return False
    place.remove(os.path.join(signing.folder(environment), "key"))
    if os.path.isdir(place.folder(location.common_dir)):
        signing.key(environment)
    yield Finding("guard-key", "error", f"{said}; it was replaced: grant again what still waits", None, True)
    return True


def _approvals(location: Location, *, fix: bool) -> Iterator[Finding]:
    """Files of requests and decisions that are none. Notes of used grants are left: without them, these count again."""
    for path in approval_files.damaged(location.common_dir):
        message = f"'{path}' is not what git-agentos wrote there: it does not count"
        if fix:
            try:
                place.remove(path)
            except OSError as error:
                yield Finding("guard-approvals", "warning", message, f"remove it ({error.strerror})", False)
                continue
        yield Finding("guard-approvals", "warning", message, None if fix else _FIX, fix)


# -- looking -----------------------------------------------------------------------------------------------------------


def problems(location: Location, environment: Mapping[str, str]) -> list[Finding]:
    """What `enable.place_again` mends, of all worktrees: what leads elsewhere, was edited, or cannot be started."""
    found = []
    paths = enable.misplaced(location)
    if paths:
        names = ", ".join(f"'{each}'" for each in dict.fromkeys(enable.whose(path) for path in paths))
        message = f"the guard of {names} leads to where the repository was before, and does not act"
        found.append(Finding(MOVED, "error", message, _FIX, False))
    messages = tampering.found_anywhere(location)
    found += [Finding("guard-tampered", "error", each, _ENABLE, False) for each in messages]
    reason = effect.program(location.common_dir, environment)
    if reason is not None:
        found.append(Finding("guard-program", "error", f"the guard cannot decide or save: {reason}", _FIX, False))
    return found


def _set_up(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What is not as it was set up, and what else there is that has a say in hooks."""
    try:
        known = manifest.read(location.common_dir)
        here = enable.tampered(location)
        set_up = not known.empty or bool(here)
        found = problems(location, environment)
        yield from found
        said = {each.message for each in found}
        if not any(each.code == MOVED for each in found):
            for message in here:
                if message not in said:
                    yield Finding("guard-tampered", "error", message, _ENABLE, False)
        if set_up and not found and place.outdated(location.common_dir):
            message = "the guard's scripts are those of another version"
            yield Finding("guard-outdated", "warning", message, _FIX, False)
    except AgentosError as error:
        set_up = True
        yield Finding("guard-tampered", "error", error.message, error.hint, False)
    yield from _hooks_path(location, environment)
    if set_up:
        yield from _fsmonitor(location, environment)


def _hooks_path(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Who else names a folder for hooks, and hooks that are there and are not run."""
    ours = place.hooks_dir(location.common_dir)
    users = _chained(location, environment)
    effective = _effective(location, environment)
    if (_enabled(location) or _installed(location)) and not _same(effective, ours):
        yield Finding(
            "guard-hooks-path",
            "error",
            f"git takes hooks from '{effective}': those of git-agentos are not run",
            "git config --show-origin --show-scope --get-all core.hooksPath tells who says so",
            False,
        )
    default = os.path.join(location.common_dir, "hooks")
    if not _same(users.hooks, default):
        silenced = [name for name, runs in _hooks_in(default) if runs]
        if silenced:
            who = _manager(users.hooks) or "core.hooksPath"
            yield Finding(
                "silenced-hooks",
                "warning",
                f"{', '.join(silenced)} in '{default}' {'are' if len(silenced) > 1 else 'is'} not run:"
                f" {who} has git take hooks from '{users.hooks}'",
                "put what they do where hooks are taken from, or git config --unset core.hooksPath",
                False,
            )
        if not os.path.isdir(users.hooks):
            yield Finding(
                "missing-hooks",
                "warning",
                f"core.hooksPath names '{users.hooks}', which is not there: none of your own hooks is run here",
                "a relative path is looked for in each worktree; make it absolute, or put the folder there",
                False,
            )
    for name, runs in _hooks_in(users.hooks):
        if not runs:
            path = os.path.join(users.hooks, name)
            yield Finding("hook-not-executable", "warning", f"git does not run '{path}'", f"chmod +x '{path}'", False)


def _fsmonitor(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    users = _chained(location, environment)
    if users.version == chained.BUILTIN:
        message = "git's own file system monitor (core.fsmonitor) is not asked in guarded worktrees"
        yield Finding("other-fsmonitor", "info", message, None, False)
    elif users.version != chained.NONE:
        message = f"your file system monitor is asked through the guard's: {users.fsmonitor}"
        yield Finding("other-fsmonitor", "info", message, None, False)


def _not_acting(layers: list[Layer]) -> Iterator[Finding]:
    """Layers 1 and 2 are set up, so they have to act."""
    for each in layers:
        if each.name in (FSMONITOR, HOOK) and not each.acts:
            message = f"the guard's layer '{each.name}' does not act here: {each.reason}"
            yield Finding("guard-layer", "error", message, _FIX, False)


def _elsewhere(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """The same of the repository's other guarded worktrees, as git reads its configuration in each."""
    for each in worktrees.living(location):
        if each.git_dir == location.git_dir or not _enabled(each):
            continue
        try:
            reasons = effect.overridden(each, environment)
        except AgentosError as error:
            reasons = (error.message, error.message)
        id_ = timeline.name_of(each)
        for name, reason in zip((FSMONITOR, HOOK), reasons, strict=True):
            if reason is not None:
                message = f"the guard's layer '{name}' does not act in the worktree '{id_}': {reason}"
                yield Finding("guard-layer", "error", message, _FIX, False)


def _shim(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    if MARKER in environment:
        found = probe.first_on_path(location, environment)
        if not found.acts:
            message = f"the guard's git is not the first on PATH below guard exec: {found.reason}"
            yield Finding("guard-shim", "warning", message, "something puts another folder in front of it", False)


def harnesses(location: Location, environment: Mapping[str, str], *, fix: bool) -> Iterator[Finding]:
    """What keeps an integrated harness from asking the guard; with `fix`, our hooks are put back into its settings."""
    for each in harness_findings.examine(location, environment, fix=fix):
        if each.kind == harness_findings.MISSING:
            yield Finding("harness-missing", "warning", each.message, each.hint, each.fixed)
        elif each.kind == harness_findings.UNREAD:
            yield Finding("harness-unread", "warning", each.message, each.hint, each.fixed)
        else:
            yield Finding("harness-without-exec", "info", each.message, each.hint, each.fixed)


def _shell_reader() -> Iterator[Finding]:
    """Whether shell text can be read: a harness that asks the guard may run nothing else."""
    if syntax.program() is None:
        error = syntax.missing()
        yield Finding("guard-shell", "error", error.message, error.hint, False)


def _unguarded(location: Location) -> Iterator[Finding]:
    """Agents' worktrees that nothing guards."""
    for git_dir in worktrees.entries(location.common_dir):
        id_ = identity.recorded(git_dir)
        if id_ and not _enabled(location._replace(git_dir=git_dir)):
            yield Finding(
                "guard-off", "info", f"the worktree '{id_}' is not guarded", f"git agentos guard enable {id_}", False
            )


def _settings(location: Location, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Settings that do not count, and what says which do."""
    wrong = confirmation.problem(environment)
    if wrong is not None:
        yield Finding("confirmations-damaged", "warning", wrong, "remove it, and git agentos guard confirm", False)
    with contextlib.suppress(ConfigurationError):  # that is told by whoever needs the value
        yield from _unconfirmed(settings.read(location.root, environment))


def _unconfirmed(read: settings.GuardSettings) -> Iterator[Finding]:
    for each in read.pending:
        message = f"{weakening.worded(each)} in '{each.source}' makes the guard weaker, and nobody has confirmed it"
        yield Finding("unconfirmed-setting", "warning", message, _CONFIRM, False)


# -- inside ------------------------------------------------------------------------------------------------------------


def _enabled(location: Location) -> bool:
    try:
        return enable.is_enabled(location)
    except AgentosError:
        return True  # its record is damaged


def _installed(location: Location) -> bool:
    try:
        return install.is_installed(location)
    except AgentosError:
        return False


def _chained(location: Location, environment: Mapping[str, str]) -> Chained:
    env = process.environment(base=environment)
    return chained.read(location.root, location.git_dir, location.common_dir, env)


def _effective(location: Location, environment: Mapping[str, str]) -> str:
    """The folder that git takes hooks from."""
    args = ["rev-parse", "--path-format=absolute", "--git-path", "hooks"]
    out = process.run(args, cwd=location.root, env=process.environment(base=environment), fixed=False)
    return os.fsdecode(out.removesuffix(b"\n"))


def _hooks_in(folder: str) -> list[tuple[str, bool]]:
    """The hooks in a folder by name, and whether git would run each; samples are none."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [(name, os.access(os.path.join(folder, name), os.X_OK)) for name in names if name in place.EVERY_HOOK]


def _manager(folder: str) -> str | None:
    """Which hook manager wrote what is in a folder, by what it writes."""
    if f"{os.sep}.husky" in folder:
        return "husky"
    for name, _ in _hooks_in(folder):
        try:
            text = files.read(os.path.realpath(os.path.join(folder, name)))
        except OSError:
            continue
        for manager, mark in place.MANAGERS:
            if mark in text:
                return manager
    return None


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
