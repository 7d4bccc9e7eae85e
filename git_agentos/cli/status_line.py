"""How something that takes long goes, told while it goes.

On a terminal, each part that has ended stays as a line, and below them one line is written over again and again: the
part at hand, how long it has taken, and what was said last. It is redrawn by a thread, since an agent may say nothing
for minutes. Elsewhere (a log, a pipe) it is plain lines.
"""

from __future__ import annotations

import threading
import time
import unicodedata
from types import TracebackType
from typing import TYPE_CHECKING, Self

from git_agentos.cli import quote
from git_agentos.cli.output import Output
from git_agentos.cli.render.text import run as text_run

if TYPE_CHECKING:
    from git_agentos.run.events import Run, Step

_REDRAW = 0.5


class Live:
    """The lines; used as a context manager, so that its thread ends with what is told."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._columns = output.columns()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._head: str | None = None
        self._began = 0.0
        self._last = ""

    def __enter__(self) -> Self:
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

    @property
    def is_drawn(self) -> bool:
        """Whether there is a line that is written over."""
        return self._columns is not None

    def say(self, line: str) -> None:
        """A line that stays."""
        with self._lock:
            self._output.progress(line)

    def begin(self, head: str, last: str) -> None:
        """A part begins: `head` names it, `last` is seen until something is said."""
        with self._lock:
            self._head, self._last = head, last
            self._began = time.monotonic()
            self._draw()

    def heard(self, shown: str) -> None:
        """A line was said: drawn by the thread, since a flood of lines must not slow down whoever says them."""
        if shown.strip():
            self._last = shown.expandtabs(4)

    def end(self, line: str) -> None:
        """The part has ended, and this is what stays of it."""
        with self._lock:
            self._head = None
        self.say(line)

    def rest(self) -> None:
        """Draw nothing for now: somebody else is going to write here."""
        with self._lock:
            self._head = None
            self._output.settle()

    def _redraw(self) -> None:
        while not self._ended.wait(_REDRAW):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._head is None or self._columns is None:
            return
        line = f"{self._head}  {text_run.elapsed(time.monotonic() - self._began)}  {self._last}".rstrip()
        self._output.progress(cut(line, self._columns - 1), passing=True)


class Progress(Live):
    """A `kernel.Watcher`: how a run goes. Where nothing is written over, everything is told that the commands say."""

    def prepared(self, run: Run) -> None:
        self.say(text_run.begun(run))

    def step_begins(self, run: Run, step: Step) -> None:
        if self.is_drawn:
            self.begin(text_run.which(run, step), quote.line(step.command or ""))
        else:
            self.say(text_run.step_begins(run, step))

    def output(self, line: bytes) -> None:
        shown = quote.contents(line.rstrip(b"\r\n"))
        if self.is_drawn:
            self.heard(shown)
        else:
            self.say(f"  | {shown}")

    def step_ended(self, run: Run, step: Step) -> None:
        self.end(text_run.step_ended(run, step, self._output.style()))


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
