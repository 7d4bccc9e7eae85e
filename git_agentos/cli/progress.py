"""The progress of runs and workflows, and the prompt of a workflow's review.

On a terminal, each part that has ended stays as a line. Below them is the status line (`status_line`). If stderr is a
log or a pipe, only plain lines are printed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from git_agentos.cli import authorization
from git_agentos.cli.render.text import run as run_text
from git_agentos.cli.render.text import tdd as tdd_text
from git_agentos.cli.status_line import StatusLine
from git_agentos.errors import PolicyError
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.run.events import Run, Step
    from git_agentos.tdd.state import Record, Review, Workflow

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunProgress(StatusLine):
    """A `run.step.Observer`. Without a status line, all output of the commands is printed."""

    def prepared(self, run: Run) -> None:
        self.print(run_text.run_header(run))

    def step_begins(self, run: Run, step: Step) -> None:
        if self.is_live:
            self.start(run_text.step_label(run, step), quote.line(step.command or ""))
        else:
            self.print(run_text.step_started(run, step))

    def output(self, line: bytes) -> None:
        shown = quote.contents(line.rstrip(b"\r\n"))
        if self.is_live:
            self.update(shown)
        else:
            self.print(f"  | {shown}")

    def step_ended(self, run: Run, step: Step) -> None:
        self.finish(run_text.step_ended(run, step, self._output.style()))


class WorkerProgress(RunProgress):
    """A `fleet.worker.Observer`: as of a run."""

    def away(self, reason: str) -> None:
        self.print(f"{quote.line(reason)}; it is tried again")


class WorkflowProgress(StatusLine):
    """A `tdd.state.Observer`: one line for each node. Output of agents and tests is shown only in the status line; all
    of it is in the evidence. Without `asks`, a workflow that comes to its review waits."""

    def __init__(self, invocation: Invocation, *, asks: bool = True) -> None:
        super().__init__(invocation.output)
        self._invocation = invocation
        self._asks = asks

    def began(self, workflow: Workflow) -> None:
        self.print(tdd_text.header(workflow))

    def node_begins(self, workflow: Workflow, node: str) -> None:
        if self.is_live:
            self.start(tdd_text.node_label(workflow, node), "")

    def output(self, line: bytes) -> None:
        if self.is_live:
            self.update(quote.contents(line.rstrip(b"\r\n")))

    def node_ended(self, workflow: Workflow, record: Record) -> None:  # noqa: ARG002 (the protocol's)
        self.finish(tdd_text.node_ended(record, self._output.style()))

    def ask(self, review: Review) -> str | None:
        """Ask a person for one of the choices; None if nobody can be asked, or the input ends."""
        self.pause()
        if not self._asks or not self._output.is_interactive():
            return None
        workspace = self._invocation.workspace()
        try:
            authorization.require_operator(self._invocation, workspace.context.location, "deciding about a workflow")
        except PolicyError as refusal:
            self.print(f"no prompt: {quote.line(refusal.message)}")
            return None
        for line in tdd_text.review(review, self._output.style()):
            self.print(line)
        return interruptible(lambda: self.choose(review.workflow))

    def choose(self, workflow: Workflow) -> str | None:
        """Ask until the answer is one of the choices; None at the end of the input."""
        while True:
            answer = self._output.prompt(tdd_text.question(workflow))
            if answer is None or answer in workflow.words:
                return answer
            self.print(tdd_text.invalid_answer(workflow, answer))


class _Signal(BaseException):
    """Raised by the handlers of `interruptible`."""


def interruptible(prompt: Callable[[], str | None]) -> str | None:
    """The result of `prompt`, or None if a signal ends it.

    The signal is sent again to its former handler: that may only take note of it, and would not end the prompt.
    """
    if threading.current_thread() is not threading.main_thread():
        return prompt()

    def raise_signal(number: int, _: FrameType | None) -> None:
        raise _Signal(number)

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    replaced = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    caught: int | None = None
    try:
        for number in replaced:
            signal.signal(number, raise_signal)
        return prompt()
    except _Signal as signalled:
        caught = signalled.args[0]
        return None
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if caught is not None:
            os.kill(os.getpid(), caught)
