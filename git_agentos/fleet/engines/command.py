"""The engine `command`: shell text that hands a worker to a program that runs it somewhere (Slurm, Kubernetes, ssh).

Such a program has queues, retries and limits of its own. What becomes of a worker is seen by the fleet's refs alone.

These stand for something in the text; all but `{command}` may be left out, and are not asked for then:

    {command}    the worker's command, as one quoted word of shell text
    {name}       a name for it: letters, digits and dashes, at most 50, other for each task of each fleet
    {cpus}       what it needs of a machine: a number (1 where the task says nothing)
    {gpus}       (0 where it says nothing)
    {memory}     in MiB, rounded up (1024 where it says nothing)

Braces that are none of these are left as they are, and so is `${name}`, which is the shell's.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence

from git_agentos import redact_lines
from git_agentos.errors import FleetError, UsageError
from git_agentos.fleet.engines import port
from git_agentos.fleet.engines.port import Ended, Order
from git_agentos.process import programs

_PLACE = re.compile(r"(?<!\$)\{(command|name|cpus|gpus|memory)\}")
_DEFAULT_MEMORY = 1 << 30  # bytes
_LONGEST_NAME = 50  # Kubernetes adds to the names of jobs, which may have 63
_HASH = 10
_PATIENCE = 120.0  # seconds that the text may take


class CommandEngine:
    """Runs `template` by `sh -c` for each worker, in the folder `folder` and the environment `environment`."""

    name = port.COMMAND
    reports_ends = False
    program = ("git-agentos",)

    def __init__(self, template: str, *, folder: str, environment: Mapping[str, str]) -> None:
        self._template = template
        self._folder = folder
        self._environment = environment
        self._orders: dict[str, Order] = {}  # for which the text has run

    def check(self, _orders: Sequence[Order], /) -> None:
        if not any(found[1] == "command" for found in _PLACE.finditer(self._template)):
            raise UsageError(
                "the template has no '{command}'",
                "it stands for the worker's command, as one quoted word: --command 'sbatch --wrap {command}'",
            )
        ended = programs.run(("/bin/sh", "-n", "-c", self._template), cwd=self._folder, env=self._environment)
        if ended.code != 0:
            raise UsageError(f"the template is no shell text: {_last_line(ended.output, {})}")

    def start(self, order: Order, /) -> None:
        environment = {**self._environment, **order.environment}
        text = expand(self._template, order)
        ended = programs.run_shell(text, cwd=self._folder, env=environment, timeout=_PATIENCE)
        if ended.code == 0:
            self._orders[order.task] = order
            return
        what = f"exit code {ended.code}"
        if ended.timed_out:
            what = f"it has not ended after {_PATIENCE:.0f} seconds"
        elif said := _last_line(ended.output, order.environment):
            what = f"{said} ({what})"
        raise FleetError(
            f"the template has failed for the task '{order.task}': {what}",
            "it must end with 0 as soon as the worker is queued; submit again when it does",
        )

    def poll(self, patience: float, /) -> Sequence[Ended]:
        """What runs the workers reports nothing here: what becomes of them is seen by the fleet's refs."""
        time.sleep(patience)
        return ()

    def describe(self, task: str, /) -> str | None:
        order = self._orders.get(task)
        if order is None:
            return None
        text = expand(self._template, order).encode("utf-8", "surrogateescape")
        return os.fsdecode(b"\n".join(_clean(text.splitlines(), order.environment)))

    def cancel(self, _task: str, /) -> None:
        """Nothing: the worker ends when it sees that its task has a result."""

    def end(self) -> None:
        """Nothing is kept here."""


def expand(template: str, order: Order) -> str:
    """The shell text that starts the worker of an order."""
    memory = _DEFAULT_MEMORY if order.memory is None else order.memory
    values = {
        "command": shlex.quote(shlex.join(order.argv)),
        "name": _name(order),
        "cpus": _number(order.cpus, 1),
        "gpus": _number(order.gpus, 0),
        "memory": str(-(-memory // (1 << 20))),
    }
    return _PLACE.sub(lambda found: values[found[1]], template)


def _name(order: Order) -> str:
    digits = hashlib.sha256("\0".join(order.argv).encode()).hexdigest()[:_HASH]
    words = re.sub("[^a-z0-9]+", "-", order.task.lower())[: _LONGEST_NAME - _HASH - len("agentos--")].strip("-")
    return f"agentos-{words}-{digits}" if words else f"agentos-{digits}"


def _number(value: float | None, default: float) -> str:
    return f"{default if value is None else value:g}"


def _last_line(output: bytes, environment: Mapping[str, str]) -> str:
    lines = _clean(output.splitlines(), environment)
    return next((os.fsdecode(line).strip() for line in reversed(lines) if line.strip()), "")


def _clean(lines: list[bytes], environment: Mapping[str, str]) -> Sequence[bytes]:
    """Lines without secrets, of which some are values of variables."""
    return redact_lines.clean_lines(lines, redact_lines.secrets_of(environment))
