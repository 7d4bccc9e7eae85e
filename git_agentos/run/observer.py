"""Observing a run while it runs."""

from __future__ import annotations

from typing import Protocol

from git_agentos.run.events import Run, Step


class Observer(Protocol):
    """Gets called as a run proceeds."""

    def prepared(self, run: Run) -> None:
        """The workspace is ready."""

    def step_begins(self, run: Run, step: Step) -> None:
        """A step begins."""

    def output(self, line: bytes) -> None:
        """The step's command has written a line; secrets are redacted."""

    def step_ended(self, run: Run, step: Step) -> None:
        """A step has ended."""


class SilentObserver:
    """An Observer that does nothing; others derive from it, and override what they need."""

    def prepared(self, run: Run) -> None:
        pass

    def step_begins(self, run: Run, step: Step) -> None:
        pass

    def output(self, line: bytes) -> None:
        pass

    def step_ended(self, run: Run, step: Step) -> None:
        pass
