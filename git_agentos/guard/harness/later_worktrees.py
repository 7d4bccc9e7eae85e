"""Worktrees that are created after `git agentos init`: the harnesses that it has integrated are integrated there."""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location
from git_agentos.guard.harness import integration
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.guard.setup import init_record


def integrate(location: Location, environment: Mapping[str, str]) -> list[str]:
    """Add our hooks to the settings of these harnesses in the new worktree at `location`; why that could not be done,
    one sentence for each. Nothing is done where `init` was not called."""
    record = init_record.read(location.common_dir)
    problems = []
    for name in record.harnesses if record is not None else ():
        if name in HARNESSES:
            try:
                integration.require_inside(name, location.root)
                integration.add(name, location.root, environment)
            except (AgentosError, OSError) as error:
                problems.append(f"{name} does not ask the guard in '{location.root}': {error}")
    return problems
