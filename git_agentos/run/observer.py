"""Who is told how a run goes, while it goes."""

from __future__ import annotations

from typing import Protocol

from git_agentos.run.events import Run, Step


class Observer(Protocol):
    """Who is told how a run goes, while it goes."""

    def prepared(self, run: Run) -> None:
        """The workspace is ready."""

    def step_begins(self, run: Run, step: Step) -> None:
        """A step begins."""

    def output(self, line: bytes) -> None:
        """A line that the step's command said, without secrets."""

    def step_ended(self, run: Run, step: Step) -> None:
        """A step has ended."""


class SilentObserver:
    """Is told, and does nothing."""

    def prepared(self, run: Run) -> None:
        pass

    def step_begins(self, run: Run, step: Step) -> None:
        pass

    def output(self, line: bytes) -> None:
        pass

    def step_ended(self, run: Run, step: Step) -> None:
        pass
