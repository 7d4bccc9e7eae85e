"""Which engine is meant, and its options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from git_agentos.errors import UsageError
from git_agentos.fleet.engines import port
from git_agentos.fleet.engines.port import Engine

NAMES = (port.LOCAL, port.RAY, port.COMMAND)
_RAY_ADDRESS = "RAY_ADDRESS"  # the variable that Ray's own programs read


@dataclass(frozen=True)
class Options:
    """What is said of an engine. `most` is how many workers run at once (None: as many as there are processors, or as
    the engine likes), `retries` how often a worker is started again whose machine was lost."""

    engine: str = port.LOCAL
    most: int | None = None
    retries: int = 2
    address: str | None = None  # of a Ray cluster
    template: str | None = None  # of the engine `command`


def make(options: Options, folder: str, environment: Mapping[str, str]) -> Engine:
    """The engine; UsageError for one that is not known, and for options that it does not have. `folder` is that of the
    person's worktree. Nothing is started or connected to."""
    name = options.engine
    if name not in NAMES:
        raise UsageError(f"the engine '{name}' is not known", f"one of: {', '.join(NAMES)}")
    for option, value, engine in (
        ("--address", options.address, port.RAY),
        ("--command", options.template, port.COMMAND),
    ):
        if value is not None and name != engine:
            raise UsageError(f"{option} is for the engine '{engine}', not for '{name}'", f"--engine {engine}")
    # Each is imported when it is needed: one is enough.
    if name == port.COMMAND:
        from git_agentos.fleet.engines.command import CommandEngine

        if options.template is None:
            raise UsageError("the engine 'command' needs a template", "--command 'sbatch --wrap {command}'")
        if options.most is not None:
            raise UsageError("--max-parallel is not for the engine 'command', which has limits of its own")
        return CommandEngine(options.template, folder=folder, environment=environment)
    if name == port.RAY:
        from git_agentos.fleet.engines.ray import RayEngine

        address = options.address or environment.get(_RAY_ADDRESS) or None
        return RayEngine(address=address, retries=options.retries, most=options.most)
    from git_agentos.fleet.engines.local import LocalEngine

    return LocalEngine(options.most or _processors(), environment)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
