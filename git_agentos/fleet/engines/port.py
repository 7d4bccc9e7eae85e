"""What an engine can do: start a worker for a task, say which have ended, end them.

An engine runs the words of an order as a process, wherever it likes, and starts it anew where the machine is lost. It
may start a task twice: the first result counts. How many it runs at once is its own affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from git_agentos.errors import UsageError
from git_agentos.util.named_tuple import NamedTuple

LOCAL, RAY, COMMAND = "local", "ray", "command"  # names of engines


@dataclass(frozen=True)
class Order:
    """A worker to start: the words of its command, of which the first is the program as the engine calls it
    (`Engine.program`); the variables that it gets by name (`--pass-env`); what it needs of a machine. `memory` is in
    bytes; None is the engine's default."""

    task: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: float | None = None
    gpus: float | None = None
    memory: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Ended(NamedTuple):
    """A worker that has ended, with its exit code (128 + N for signal N); None where the engine has given the task up,
    for the reason `detail`, or does not know the code."""

    task: str
    code: int | None
    detail: str | None = None


class Unfit(UsageError):
    """No machine of the engine has what `task` needs."""

    def __init__(self, task: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.task = task


class Engine(Protocol):
    """An engine. It is made with its own options, and connects to nothing before `check`."""

    @property
    def name(self) -> str:
        """One of the names above."""

    @property
    def program(self) -> tuple[str, ...]:
        """The words that start `git agentos` where its workers run."""

    @property
    def reports_ends(self) -> bool:
        """Whether `poll` reports each worker that has ended; else it reports none, or only some."""

    def check(self, orders: Sequence[Order], /) -> None:
        """Raise where these orders could never be done: Unfit where no machine has what a task needs, UsageError for an
        option that is wrong; FleetError where the engine cannot be reached, or is not installed. Nothing is started."""

    def start(self, order: Order, /) -> None:
        """Start the worker, or let it wait until there is room for it. FleetError where the engine refuses it."""

    def poll(self, patience: float, /) -> Sequence[Ended]:
        """The workers that have ended since the last call, each once; where none has, wait up to `patience` seconds
        for one."""

    def describe(self, task: str, /) -> str | None:
        """What was run to hand over the worker of a task, without secrets; None where the engine knows itself what
        becomes of its workers."""

    def cancel(self, task: str, /) -> None:
        """End the worker of a task with SIGTERM, or never start it; nothing where there is none. `poll` reports it."""

    def end(self) -> None:
        """Give back what the engine has here. Workers on other machines go on; those of this machine are ended."""
