"""The git hooks of git-agentos in people's repositories: recorders, and on demand a save before what loses work.

    <common dir>/config                        [include] path = agentos/guard/people.config, added at its end
    <common dir>/agentos/guard/people.config   core.hooksPath, core.fsmonitor, core.fsmonitorHookVersion; with --save
                                               also agentos.guard.everyone

An include, since the user's own core.hooksPath stays what it is in their file that way: hook managers ask for it there
and set it again at every install of theirs, and neither disturbs the other. Ours is read last, and its hooks run the
user's. Where a worktree has a core.hooksPath or core.fsmonitor in its own config.worktree, which is read later still,
the values are added there. No file of the user's is moved; what is added is taken out byte for byte (`configfile`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_agentos.git import configuration, worktrees
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation, config_edit, manifest, scripts
from git_agentos.guard.setup.activation import PEOPLE_COMMENT
from git_agentos.guard.setup.config_edit import Value

_FILE = "people.config"
_INCLUDED = f"agentos/guard/{_FILE}"
_EVERYONE = Value('agentos "guard"', "everyone", "true")


def is_installed(location: Location) -> bool:
    """Whether the hooks are installed for everybody (one small file is read; GuardError where it is damaged)."""
    return bool(manifest.read(location.common_dir).people)


def saves(location: Location) -> bool:
    """Whether `install` was told to save people's work, too."""
    return any(_EVERYONE in each.values for each in manifest.read(location.common_dir).people)


def restore_record(location: Location) -> None:
    """Install again what is set, and is not on record any more. Takes the worktrees' turn."""
    config = os.path.join(location.common_dir, "config")
    if not activation.read_swept(location).people and config_edit.mentions(config, PEOPLE_COMMENT):
        said = config_edit.read(_file(location)) or b""
        install(location, save=b"everyone = true" in said)


def install(location: Location, *, save: bool) -> None:
    """Have git run our hooks in every worktree of the repository; `save` has people's work saved before a command that
    loses some. What is installed already is brought up to date. Takes the worktrees' turn."""
    with worktrees.lock(location):
        scripts.install(location)
        known = activation.read_swept(location)
        values = activation.values(location)
        ours = config_edit.plan(_file(location), [*values, *([_EVERYONE] if save else [])], PEOPLE_COMMENT, fresh=True)
        scripts.write(ours.path, ours.after, 0o644)
        config = os.path.join(location.common_dir, "config")
        there = {each.path: each for each in known.people}
        added = [there.get(config) or config_edit.plan(config, [Value("include", "path", _INCLUDED)], PEOPLE_COMMENT)]
        added += [there.get(path) or config_edit.plan(path, values, PEOPLE_COMMENT) for path in _later(location)]
        manifest.write(location.common_dir, known._replace(common=location.common_dir, people=(*added, ours)))
        for each in added:
            config_edit.add(location, each)


def uninstall(location: Location) -> None:
    """Take away exactly what `install` added. Takes the worktrees' turn."""
    with worktrees.lock(location):
        known = activation.read_swept(location)
        for each in known.people:
            if each.path != _file(location) and os.path.isdir(os.path.dirname(each.path)):
                config_edit.take_away(location, each)
        scripts.remove(_file(location))
        manifest.write(location.common_dir, known._replace(people=()))
        activation.remove_if_unused(location)


def _later(location: Location) -> Iterator[str]:
    """The configuration files of single worktrees that have a say in what we set."""
    ours = {each.name.lower(): each.value for each in activation.values(location)}
    for git_dir in (location.common_dir, *worktrees.linked_git_dirs(location.common_dir)):
        path = os.path.join(git_dir, "config.worktree")
        said = configuration.read_file(path, includes=True)
        if any(said.get(key, [value])[-1] != value for key, value in ours.items()):
            yield path


def _file(location: Location) -> str:
    return os.path.join(scripts.folder(location.common_dir), _FILE)
