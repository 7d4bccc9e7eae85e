"""What is protected from what in a worktree, and what is not. Each row is looked at: git is made to start our hooks,
the harnesses' settings are read, the daemon is asked.

    git-commands       git reset --hard, checkout --force, clean …     core.fsmonitor, and the settings of the guard
    refs               branches and stashes that git deletes           the git hooks, and the same settings
    history            commits, merges, rebases, switches              the git hooks
    files              what any program does to files                  the watch daemon
    <harness>          commands and edits of a harness                 its settings
    new-worktrees      worktrees that are created later                the repository's configuration
    ignored-files      files that git ignores                          agentos.includeIgnored
    removed-worktrees  worktrees and git directories that are deleted  nothing here
    lost-disk          the loss of this machine                        agentos.sync.auto
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from git_agentos import config
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, ConfigurationError
from git_agentos.guard.configuration import settings
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.diagnosis import probe
from git_agentos.guard.enforcement.safeguard import FSMONITOR, HOOK
from git_agentos.guard.setup import init_record, repository_hooks
from git_agentos.protection import harnesses
from git_agentos.sync import automatic as sync_automatic
from git_agentos.sync import remotes
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import control

GIT_COMMANDS, REFS, HISTORY, FILES = "git-commands", "refs", "history", "files"
NEW_WORKTREES, IGNORED, REMOVED, DISK = "new-worktrees", "ignored-files", "removed-worktrees", "lost-disk"
_NO_HOOKS = "the hooks are not installed"
_PATIENCE = 1.0  # seconds until the daemon has looked which worktrees there are
_PAUSE = 0.02


@dataclass(frozen=True)
class Layer:
    """One row: what is protected from (`name`), whether it is (`acts`), and how, or why not (`detail`)."""

    name: str
    acts: bool
    detail: str


class _Git(NamedTuple):
    """Why `core.fsmonitor` and the git hooks do not act here, or None where they do; `covers_new` tells whether they
    act in worktrees that are created later."""

    fsmonitor: str | None
    hook: str | None
    covers_new: bool


def examine(context: OpenWorktree, environment: Mapping[str, str], problems: Mapping[str, str]) -> list[Layer]:
    """All rows, for the worktree of `context`. `problems` says by name why something could not be set up."""
    location = context.location
    read = settings.read(location.root, environment)
    git = _git(context, environment)
    asked = list(harnesses.examine(location, environment, problems))
    return [
        *_saved(read, git),
        _files(context, problems),
        *(Layer(each.name, each.state == harnesses.INTEGRATED, each.detail) for each in asked),
        _new_worktrees(context, git, asked),
        _ignored(context),
        Layer(REMOVED, False, "use git agentos worktree archive"),
        _disk(context),
    ]


def _git(context: OpenWorktree, environment: Mapping[str, str]) -> _Git:
    location = context.location
    layers = {each.name: each for each in probe.try_hooks(location, environment)}
    fsmonitor, hook = layers[FSMONITOR], layers[HOOK]
    try:
        is_installed = repository_hooks.is_installed(location)
    except AgentosError as error:
        return _Git(error.message, error.message, False)
    if not is_installed and not hook.acts:
        return _Git(_NO_HOOKS, _NO_HOOKS, False)
    return _Git(fsmonitor.reason, hook.reason, is_installed and hook.acts)


def _saved(read: GuardSettings, git: _Git) -> Iterator[Layer]:
    """What the hooks save."""
    off = None
    if not read.everyone:
        off = "not saved: git agentos init"
    elif not read.auto_on("beforeRisky", person=True):
        off = "'agentos.auto.beforeRisky' is false"
    reason = git.fsmonitor or off
    yield Layer(GIT_COMMANDS, reason is None, reason or "saved first; can be undone")
    reason = git.hook or off
    yield Layer(REFS, reason is None, reason or "a checkpoint keeps their commits")
    reason = git.hook or (None if read.auto_on("afterCommit") else "'agentos.auto.afterCommit' is false")
    yield Layer(HISTORY, reason is None, reason or "each becomes a checkpoint")


def _files(context: OpenWorktree, problems: Mapping[str, str]) -> Layer:
    """Whether the daemon creates checkpoints here."""
    try:
        every = config.periodic(context.settings.values)
    except ConfigurationError as error:
        return Layer(FILES, False, error.message)
    if every is None:
        return Layer(FILES, False, "'agentos.auto.periodic' is off")
    deadline = time.monotonic() + (_PATIENCE if init_record.is_watched(context.location.common_dir) else 0.0)
    while True:
        found = control.status(context.location)
        if not found.running:
            return Layer(FILES, False, problems.get(FILES, "no daemon: git agentos watch start"))
        here = next((each for each in found.worktrees if each["path"] == context.location.root), None)
        if here is not None and not here["watching"]:
            return Layer(FILES, False, f"this worktree cannot be watched: {here['reason']}")
        if here is not None and here["checkpoints"]:
            return Layer(FILES, True, "saved 2 s after the last change")
        if time.monotonic() > deadline:
            return Layer(FILES, False, "the daemon saves guarded worktrees, and this one is not")
        time.sleep(_PAUSE)


def _new_worktrees(context: OpenWorktree, git: _Git, asked: Sequence[harnesses.HarnessState]) -> Layer:
    """Whether worktrees that are created later are protected in the same way."""
    if not git.covers_new:
        return Layer(NEW_WORKTREES, False, git.hook or _NO_HOOKS)
    record = init_record.read(context.location.common_dir)
    known = record.harnesses if record is not None else {}
    left = [each.name for each in asked if each.name not in known]
    if left:
        return Layer(NEW_WORKTREES, True, f"as this one, but for {', '.join(left)}")
    return Layer(NEW_WORKTREES, True, "as this one")


def _ignored(context: OpenWorktree) -> Layer:
    patterns = context.settings.include_ignored
    if patterns:
        shown = ", ".join(patterns[:3]) + (" …" if len(patterns) > 3 else "")
        return Layer(IGNORED, True, f"those that agentos.includeIgnored names: {shown}")
    return Layer(IGNORED, False, "set agentos.includeIgnored to save")


def _disk(context: OpenWorktree) -> Layer:
    try:
        mode = sync_automatic.mode(context.location)
    except ConfigurationError as error:
        return Layer(DISK, False, error.message)
    remote = remotes.default(context.settings.values)
    if remote is None:
        return Layer(DISK, False, "no remote; see git agentos sync")
    if mode == "off":
        return Layer(DISK, False, f"git agentos sync pushes to '{remote}'")
    if mode == "periodic" and not control.status(context.location).running:
        return Layer(DISK, False, f"the daemon pushes checkpoints to '{remote}', and none runs")
    when = "while you work" if mode == "periodic" else "when a worktree is complete"
    return Layer(DISK, True, f"pushed to '{remote}' {when} (agentos.sync.auto)")
