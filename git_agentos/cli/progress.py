"""The progress of runs and workflows, and the prompt of a workflow's review.

On a terminal, each part that has ended stays as a line. Below them one line is overwritten: the current part, its
duration and the last line of its output. A thread redraws it, since an agent may print nothing for minutes. If stderr
is a log or a pipe, only plain lines are printed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import unicodedata
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from git_agentos.cli import authorization, quote
from git_agentos.cli.render.text import run as run_text
from git_agentos.cli.render.text import tdd as tdd_text
from git_agentos.cli.render.text.layout import clock
from git_agentos.errors import PolicyError

if TYPE_CHECKING:
    from git_agentos.cli.invocation import Invocation
    from git_agentos.cli.output import Output
    from git_agentos.run.events import Run, Step
    from git_agentos.tdd.state import Record, Review, Workflow

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REDRAW = 0.5  # seconds


class StatusLine:
    """The lines of progress; a context manager, so that its thread ends with it."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._width = output.terminal_width()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._label: str | None = None
        self._started = 0.0
        self._last = ""

    def __enter__(self) -> Self:
        if self._width is not None and not self._output.json and not self._output.quiet:
            self._thread = threading.Thread(target=self._redraw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._output.clear_status_line()

    @property
    def is_live(self) -> bool:
        """Whether there is a line that is overwritten."""
        return self._width is not None

    def print(self, line: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._output.progress(line)

    def start(self, label: str, last: str) -> None:
        """Start a part: `label` names it, `last` is shown until it has output."""
        with self._lock:
            self._label, self._last = label, last
            self._started = time.monotonic()
            self._draw()

    def update(self, line: str) -> None:
        """Show a line of output. The thread draws it: a flood of lines must not slow down the process that writes."""
        if line.strip():
            self._last = line.expandtabs(4)

    def finish(self, line: str) -> None:
        """End the part, and print the line that stays of it."""
        with self._lock:
            self._label = None
        self.print(line)

    def pause(self) -> None:
        """Stop drawing until the next part: a prompt follows."""
        with self._lock:
            self._label = None
            self._output.clear_status_line()

    def _redraw(self) -> None:
        while not self._ended.wait(_REDRAW):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._label is None or self._width is None:
            return
        line = f"{self._label}  {clock(time.monotonic() - self._started)}  {self._last}".rstrip()
        self._output.progress(truncate(line, self._width - 1), transient=True)


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


def truncate(line: str, width: int) -> str:
    """As much of a line as fits into `width` columns: some characters take two columns, and some none."""
    used = 0
    for at, char in enumerate(line):
        if unicodedata.combining(char):
            continue
        used += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > width:
            return line[:at]
    return line
