"""`hooks install`: our git hooks in all worktrees of a repository. They record, and with --save they save work before a
command that loses some.

    <common dir>/config                        [include] path = agentos/guard/people.config, added at its end
    <common dir>/agentos/guard/people.config   core.hooksPath, core.fsmonitor, core.fsmonitorHookVersion; with --save
                                               also agentos.guard.everyone

It is an include so that the user's core.hooksPath stays in their file: hook managers read it there, and set it again
whenever they are installed. Ours is read last, and its hooks run the user's. The config.worktree of a worktree is read
later still: where that sets core.hooksPath or core.fsmonitor, our settings are added there. What is added is removed
byte for byte (`config_edit`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_agentos.git import configuration, version, worktrees
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation, config_edit, manifest, own_files, scripts
from git_agentos.guard.setup.activation import REPOSITORY_COMMENT
from git_agentos.guard.setup.config_edit import Setting

_FILE = "people.config"
_INCLUDE = Setting("include", "path", f"agentos/guard/{_FILE}")
_SAVE_FOR_EVERYONE = Setting('agentos "guard"', "everyone", "true")


def is_installed(location: Location) -> bool:
    """Whether the hooks are installed (one small file is read; GuardError where it is damaged)."""
    return bool(manifest.read(location.common_dir).repository)


def saves(location: Location) -> bool:
    """Whether they were installed with --save."""
    return any(_SAVE_FOR_EVERYONE in each.values for each in manifest.read(location.common_dir).repository)


def settings_files(location: Location) -> list[str]:
    """The configuration files that `install` adds to, or has added to, without the one of our own."""
    recorded = [each.path for each in activation.read_current(location).repository]
    every = recorded or [os.path.join(location.common_dir, "config"), *_read_later(location)]
    return [each for each in every if each != _file(location)]


def edited_files(location: Location) -> list[str]:
    """Those of them that somebody has edited since: `uninstall` removes only our lines from them."""
    record = activation.read_current(location)
    return [each.path for each in record.repository if config_edit.read(each.path) not in (None, each.after)]


def restore_record(location: Location) -> None:
    """Install again what is set without a record. Takes the lock of the worktrees."""
    config = os.path.join(location.common_dir, "config")
    if not activation.read_current(location).repository and config_edit.has_block(config, REPOSITORY_COMMENT):
        install(location, save=b"everyone = true" in (config_edit.read(_file(location)) or b""))


def install(location: Location, *, save: bool) -> None:
    """Have git run our hooks in every worktree of the repository, or update them. Takes the lock of the worktrees."""
    version.require(version.read(location.root))
    with worktrees.lock(location):
        scripts.install(location)
        record = activation.read_current(location)
        values = activation.values(location)
        own_values = [*values, _SAVE_FOR_EVERYONE] if save else values
        own = config_edit.plan_new(_file(location), own_values, REPOSITORY_COMMENT)
        own_files.write(own.path, own.after, 0o644)
        config = os.path.join(location.common_dir, "config")
        present = {each.path: each for each in record.repository}
        edits = [present.get(config) or config_edit.plan(config, [_INCLUDE], REPOSITORY_COMMENT)]
        edits += [
            present.get(path) or config_edit.plan(path, values, REPOSITORY_COMMENT) for path in _read_later(location)
        ]
        record = record._replace(common=location.common_dir, repository=(*edits, own))
        manifest.write(location.common_dir, record)
        for each in edits:
            config_edit.apply(location, each)


def uninstall(location: Location) -> None:
    """Remove exactly what `install` has added. Takes the lock of the worktrees."""
    with worktrees.lock(location):
        record = activation.read_current(location)
        for each in record.repository:
            if each.path != _file(location) and os.path.isdir(os.path.dirname(each.path)):
                config_edit.undo(location, each)
        own_files.remove(_file(location))
        manifest.write(location.common_dir, record._replace(repository=()))
        activation.remove_if_unused(location)


def _read_later(location: Location) -> Iterator[str]:
    """The config.worktree files that set one of our keys to another value."""
    ours = {each.name.lower(): each.value for each in activation.values(location)}
    for path in activation.config_worktrees(location):
        actual = configuration.read_file(path, includes=True)
        if any(actual.get(key, [value])[-1] != value for key, value in ours.items()):
            yield path


def _file(location: Location) -> str:
    return os.path.join(scripts.folder(location.common_dir), _FILE)
