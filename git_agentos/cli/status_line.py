"""The line on the terminal that shows the progress of what is running.

It is overwritten, and a thread redraws it, since nothing may happen for minutes. If stderr is a log or a pipe, there is
none. There are two kinds: `StatusLine` for what runs commands of others (their name, duration and last line of output),
`OperationProgress` for our own work, which looks as git's progress does (`Saving files:  45% (450/1000)`).
"""

from __future__ import annotations

import _thread  # `threading` takes long to import
import os
import time
import unicodedata
from types import TracebackType
from typing import TYPE_CHECKING, Self

from git_agentos.cli.render.text.layout import clock
from git_agentos.util import quote

if TYPE_CHECKING:
    from git_agentos.cli.output import Output

_REDRAW = 0.5  # seconds
_DELAY = 1.0  # seconds after which a command shows its progress


class _Redrawing:
    """A thread that calls a function from time to time."""

    def __init__(self) -> None:
        self._end, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._is_running = False

    def start(self, line: Line) -> None:
        """Start it, unless it runs."""
        if self._is_running:
            return
        self._end.acquire()
        self._ended.acquire()
        self._is_running = True
        _thread.start_new_thread(self._run, (line,))

    def stop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._end.release()
            self._ended.acquire()
            self._ended.release()

    def _run(self, line: Line) -> None:
        try:
            while not self._end.acquire(timeout=_REDRAW):
                line.redraw()
            self._end.release()
        finally:
            self._ended.release()


class Line:
    """A line that is overwritten; a subclass says what is in it."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._width = output.terminal_width()
        self._lock = _thread.allocate_lock()
        self._redrawing = _Redrawing()

    def redraw(self) -> None:
        """Draw the line as it is now."""
        with self._lock:
            self._draw()

    def _text(self) -> str | None:
        """What is in the line now; None: there is none."""
        raise NotImplementedError

    def _draw(self) -> None:
        text = self._text()
        if text is not None and self._width is not None:
            self._output.progress(truncate(text, self._width - 1), transient=True)


class StatusLine(Line):
    """The progress of commands of others; a context manager, so that its thread ends with it."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._label: str | None = None
        self._started = 0.0
        self._last = ""

    def __enter__(self) -> Self:
        if self._width is not None and not self._output.json and not self._output.quiet:
            self._redrawing.start(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redrawing.stop()
        self._show(None)
        self._output.clear_status_line()

    @property
    def is_live(self) -> bool:
        """Whether there is a line that is overwritten."""
        return self._width is not None

    def print(self, line: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._output.progress(line)

    def start(self, label: str, last: str, *, at_once: bool = True) -> None:
        """Start a part: `label` names it, `last` is shown until it has output. Without `at_once`, nothing is drawn for
        what is over in a moment."""
        with self._lock:
            self._show(label)
            self._last = last
            self._started = time.monotonic()
            if at_once:
                self._draw()

    def update(self, line: str) -> None:
        """Show a line of output. The thread draws it: a flood of lines must not slow down the process that writes."""
        if line.strip():
            self._last = line.expandtabs(4)

    def finish(self, line: str) -> None:
        """End the part, and print the line that stays of it."""
        with self._lock:
            self._show(None)
        self.print(line)

    def pause(self) -> None:
        """Stop drawing until the next part: a prompt follows."""
        with self._lock:
            self._show(None)
            self._output.clear_status_line()

    def _show(self, label: str | None) -> None:
        self._label = label
        self._output.has_status_line = label is not None

    def _text(self) -> str | None:
        if self._label is None:
            return None
        return f"{self._label}  {clock(time.monotonic() - self._started)}  {self._last}".rstrip()


class OperationProgress(Line):
    """The progress of a command (`util.progress.Progress`): the innermost of the phases that are going on.

    Nothing is drawn before the command has taken a second (`GIT_PROGRESS_DELAY`, as for git), and nothing while it is
    in the background.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._due = output.began + _delay()
        self._phases: list[_Phase] = []
        self._is_open = True

    def begins(self, what: str, total: int | None = None, /) -> _Phase:
        if self._is_open:
            self._redrawing.start(self)
        phase = _Phase(self, what, total)
        with self._lock:
            self._phases.append(phase)
            self._draw()
        return phase

    def drop(self, phase: _Phase) -> None:
        """A phase is over."""
        with self._lock:
            if phase in self._phases:
                self._phases.remove(phase)
            is_last = not self._phases
        if is_last:
            self._output.clear_status_line()

    def close(self) -> None:
        """Show nothing any more: the result or an error follows."""
        self._is_open = False
        self._redrawing.stop()
        self._output.clear_status_line()

    def _text(self) -> str | None:
        if not self._is_open or self._output.has_status_line or time.monotonic() < self._due:
            return None
        return self._phases[-1].text() if self._phases and self._output.is_in_foreground() else None


class _Phase:
    """A phase of an operation (`util.progress.Phase`)."""

    def __init__(self, progress: OperationProgress, what: str, total: int | None) -> None:
        self._progress = progress
        self._what, self._total = what, total
        self._began = time.monotonic()
        self._done: int | None = None if total is None else 0
        self._output = ""

    def reached(self, done: int, /) -> None:
        self._done = done

    def output(self, line: str, /) -> None:
        if line.strip():
            self._output = line

    def ended(self) -> None:
        self._progress.drop(self)

    def text(self) -> str:
        """As git shows it."""
        what = quote.line(self._what)
        if self._output:
            return f"{what}: {quote.line(self._output)}"
        if self._done is None:
            return f"{what} ({clock(time.monotonic() - self._began)})"
        if not self._total:
            return f"{what}: {self._done}"
        return f"{what}: {100 * self._done // self._total:3}% ({self._done}/{self._total})"


def _delay() -> float:
    try:
        return float(os.environ["GIT_PROGRESS_DELAY"])
    except (KeyError, ValueError):
        return _DELAY


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
