"""The line on the terminal that shows the progress of what is running: its name, its duration and the last line of its
output.

It is overwritten, and a thread redraws it, since nothing may happen for minutes. If stderr is a log or a pipe, there is
none.
"""

from __future__ import annotations

import threading
import time
import unicodedata
from types import TracebackType
from typing import TYPE_CHECKING, Self

from git_agentos.cli.render.text.layout import clock

if TYPE_CHECKING:
    from git_agentos.cli.output import Output

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

    def start(self, label: str, last: str, *, at_once: bool = True) -> None:
        """Start a part: `label` names it, `last` is shown until it has output. Without `at_once`, nothing is drawn for
        what is over in a moment."""
        with self._lock:
            self._label, self._last = label, last
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


class CaptureProgress(StatusLine):
    """The progress of a checkpoint (`checkpoint.capture.observer.Progress`)."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._show("looking for changes")
        return self

    def scanned(self, untracked: int) -> None:
        self._show(f"{untracked} untracked files" if untracked else "saving what has changed")

    def reading(self, done: int, total: int) -> None:
        self.update(f"{done} of {total} files")

    def _show(self, what: str) -> None:
        self.start("checkpoint", what, at_once=False)


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
