"""The progress of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from git_agentos.cli.render.text import fleet as render
from git_agentos.cli.status_line import StatusLine
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.fleet.status import Status


class FleetProgress(StatusLine):
    """A `submission.Observer`: a line for each task that has a result, and how many there are of each state on the
    status line."""

    _states: dict[str, str] | None = None

    def changed(self, status: Status) -> None:
        before = self._states
        self._states = {task.id: task.state for task in status.tasks}
        if before is None:
            self.print(render.header(status))
        else:
            for task in status.tasks:
                if task.state != before.get(task.id):
                    self.print(render.task_line(task, self._output.style()))
        if self.is_live and not status.is_over:
            self.start(f"fleet {status.id}", render.counts(status), at_once=False)

    def away(self, reason: str) -> None:
        self.print(f"{quote.line(reason)}; it is tried again")

    def not_begun(self, tasks: Sequence[str], seconds: float, command: str) -> None:
        self.print(render.not_begun(tasks, seconds, command))
