"""How a run goes, told while it goes.

On a terminal, each step that has ended stays as a line, and below them one line is written over again and again: the
step at hand, how long it has taken, and what its command said last. It is redrawn by a thread, since an agent may say
nothing for minutes. Elsewhere (a log, a pipe) it is plain lines, with everything that the commands say.
"""

from __future__ import annotations

import threading
import time
import unicodedata
from types import TracebackType
from typing import TYPE_CHECKING

from git_agentos.cli import quote, text_run
from git_agentos.cli.output import Output

if TYPE_CHECKING:
    from git_agentos.run.record.events import Run, Step

_REDRAW = 0.5


class Progress:
    """A `kernel.Watcher` that tells `output`; used as a context manager, so that its thread ends with the run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._columns = output.columns()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._head: str | None = None
        self._began = 0.0
        self._last = ""

    def __enter__(self) -> Progress:
        if self._columns is not None and not self._output.json and not self._output.quiet:
            self._thread = threading.Thread(target=self._redraw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._output.settle()

    def prepared(self, run: Run) -> None:
        self._say(text_run.begun(run))

    def step_begins(self, run: Run, step: Step) -> None:
        if self._columns is None:
            self._say(text_run.step_begins(run, step))
            return
        with self._lock:
            # Until it says something, what is seen is the command.
            self._head, self._last = text_run.which(run, step), quote.line(step.command or "")
            self._began = time.monotonic()
            self._draw()

    def output(self, line: bytes) -> None:
        shown = quote.contents(line.rstrip(b"\r\n"))
        if self._columns is None:
            self._say(f"  | {shown}")
        elif shown.strip():
            self._last = shown.expandtabs(4)  # drawn by the thread: a flood of lines must not slow the command down

    def step_ended(self, run: Run, step: Step) -> None:
        with self._lock:
            self._head = None
        self._say(text_run.step_ended(run, step, self._output.style()))

    def _say(self, line: str) -> None:
        with self._lock:
            self._output.progress(line)

    def _redraw(self) -> None:
        while not self._ended.wait(_REDRAW):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._head is None or self._columns is None:
            return
        line = f"{self._head}  {text_run.elapsed(time.monotonic() - self._began)}  {self._last}".rstrip()
        self._output.progress(cut(line, self._columns - 1), passing=True)


def cut(line: str, columns: int) -> str:
    """As much of a line as fits: some characters take two columns, and some none."""
    taken = 0
    for at, char in enumerate(line):
        if unicodedata.combining(char):
            continue
        taken += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if taken > columns:
            return line[:at]
    return line
