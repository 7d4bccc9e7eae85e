"""The configuration of a run's worktree (`config.worktree`): restored as it was recorded, with the guard in it exactly
if the run is guarded.

The guard's settings are not part of what was recorded: they are written again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from git_agentos.errors import AgentosError
from git_agentos.git import configuration, process, state_dir
from git_agentos.git.location import Location
from git_agentos.guard.setup import activation
from git_agentos.run import baseline
from git_agentos.run.baseline import Baseline
from git_agentos.util import files

# Settings that are state of the worktree, which the rollback itself restores.
_SPARSE = ("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse")


def path_of(location: Location) -> str:
    """The file; there may be none."""
    return os.path.join(location.git_dir, "config.worktree")


def is_readable(location: Location) -> bool:
    """Whether git can read the file, or there is none."""
    try:
        configuration.read_file(path_of(location))
    except AgentosError:
        return False
    return True


def is_as_recorded(location: Location, known: Baseline) -> bool:
    """Whether it has the settings that were recorded, apart from the guard's."""
    if baseline.configuration(location) == known.config:
        return True
    guards = {(each.name.lower(), each.value) for each in activation.values(location)}
    try:
        with state_dir.scratch(location) as folder:
            recorded = os.path.join(folder, "config")
            with open(recorded, "wb") as file:
                file.write(known.config or b"")
            return _without(configuration.read_file(path_of(location)), guards) == _without(
                configuration.read_file(recorded), guards
            )
    except (AgentosError, OSError):
        return False


def write(location: Location, known: Baseline) -> None:
    """Write what was recorded."""
    path = path_of(location)
    if known.config is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    files.replace(path, known.config)


def sparse_settings(location: Location) -> dict[str, str]:
    """The settings of a sparse checkout in it."""
    with contextlib.suppress(AgentosError):
        values = configuration.read_file(path_of(location))
        return {key: values[key][-1] for key in _SPARSE if key in values}
    return {}


def add_settings(location: Location, settings: Mapping[str, str]) -> None:
    """Add settings to it."""
    for key, value in settings.items():
        process.run(["config", "--file", path_of(location), key, value], cwd=location.root)


def set_guard(location: Location, *, guarded: bool | None) -> None:
    """Enable the guard if the run is guarded, and disable it if not; where that is not known (None), update what there
    is of it."""
    try:
        there = activation.is_enabled(location)
    except AgentosError:
        there = True  # it cannot be read, so it is enabled again
    if guarded if guarded is not None else there:
        activation.enable(location)
    elif there:
        activation.disable(location)


def _without(values: Mapping[str, list[str]], pairs: set[tuple[str, str]]) -> dict[str, list[str]]:
    found = {key: [each for each in given if (key, each) not in pairs] for key, given in values.items()}
    return {key: rest for key, rest in found.items() if rest}
