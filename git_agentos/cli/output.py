"""stdout and stderr: the only module that writes to either.

stdout carries the result and nothing else: one JSON document under `--json`, else text for people (only ids
under `-q`). stderr carries errors, warnings, notes and hints, each line with its prefix as git prints them.
Colours appear only on a terminal, and not if NO_COLOR is set or TERM is `dumb`. `render/text` makes its text safe
for a terminal (`quote`); messages of errors are made safe here.
"""

from __future__ import annotations

import _thread  # `threading` takes long to import
import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from git_agentos.cli.text import Style, Text
from git_agentos.errors import AgentosError, AgentosWarning, system_reason
from git_agentos.util import quote

if TYPE_CHECKING:
    from typing import Protocol

    class Drawn(Protocol):
        """A line of progress that a thread draws."""

        def close(self) -> None: ...


class Output:
    """The two streams of one command; `json` and `quiet` are set when the options are read."""

    def __init__(self, stdout: TextIO | None, stderr: TextIO | None, json: bool = False) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.json = json
        self.quiet = False
        self.began = time.monotonic()
        self.has_status_line = False  # of what runs commands of others: no other progress is drawn then
        self._transient = False
        self._drawn: Drawn | None = None
        # Of a thread that draws, and whatever else writes to stderr.
        self._lock = _thread.allocate_lock()

    @classmethod
    def standard(cls, *, json: bool = False) -> Output:
        return cls(sys.stdout, sys.stderr, json)

    @property
    def ids_only(self) -> bool:
        """Whether `-q` asks for ids only: commands then skip what takes long."""
        return self.quiet and not self.json

    def show(self, kind: str, fields: object, render: Callable[[Style], Text]) -> None:
        """Print a result: as the document `agentos.<kind>.v1` made of `fields`, or as the text that `render` makes."""
        if self.json:
            from git_agentos.cli.render import json as documents

            self._write(documents.dump(documents.document(kind, fields)) + "\n")
            return
        self.end_progress()
        text = render(_style(self.stdout))
        self._write(text.quiet if self.quiet and text.quiet is not None else text.result)
        for warning in text.warnings:
            self._write_prefixed("warning", "yellow", warning)
        if not self.quiet:
            for note in text.notes:
                self._write_stderr(f"{note}\n")
            for hint in text.hints:
                self._write_prefixed("hint", "yellow", hint)

    def warn(self, message: str, hint: str) -> None:
        """Print a warning on stderr, and unless `-q` is given a hint."""
        self._write_prefixed("warning", "yellow", quote.block(message))
        if not self.quiet:
            self._write_prefixed("hint", "yellow", quote.block(hint))

    def print(self, text: str) -> None:
        """Print text that is the same in every mode: help, a completion script."""
        self._write(text)

    def fail(self, error: AgentosError, *, nothing_changed: bool = False) -> int:
        """Report an error, as a document on stdout or as text on stderr, and return its exit code.

        With `nothing_changed`, add that nothing was changed, unless the hint says so.
        """
        self.end_progress()
        if self.json:
            from git_agentos.cli.render import json as documents

            try:
                self._write(documents.dump(documents.error(error)) + "\n")
            except AgentosError:
                pass  # stdout cannot be written: only the exit code is left
            return error.exit_code
        self._write_prefixed("error", "red", quote.block(error.message))
        for line in (error.hint or "").splitlines():
            shown = quote.line(line)
            if shown.startswith("usage: "):
                self._write_stderr(f"{shown}\n")
            else:
                self._write_prefixed("hint", "yellow", shown)
        if nothing_changed and "nothing was changed" not in (error.hint or ""):
            self._write_stderr("nothing was changed\n")
        return error.exit_code

    @contextlib.contextmanager
    def show_warnings(self) -> Iterator[None]:
        """Print the domain's warnings on stderr while the context lasts."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", AgentosWarning)
            default = warnings.showwarning

            def show(
                message: Warning | str,
                category: type[Warning],
                filename: str,
                lineno: int,
                file: TextIO | None = None,
                line: str | None = None,
            ) -> None:
                if issubclass(category, AgentosWarning):
                    self._write_prefixed("warning", "yellow", quote.block(str(message)))
                else:
                    default(message, category, filename, lineno, file, line)

            warnings.showwarning = show
            yield

    def terminal_width(self) -> int | None:
        """The columns of the terminal at stderr; None if it is not a terminal on which a line can be overwritten."""
        if self.stderr is None or not self.stderr.isatty() or os.environ.get("TERM") == "dumb":
            return None
        if os.environ.get("CI"):
            return None  # a log that only looks like a terminal
        try:
            return os.get_terminal_size(self.stderr.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def progress(self, line: str, *, transient: bool = False) -> None:
        """Print a line of progress on stderr, unless `--json` or `-q` is given.

        The next line overwrites a transient one.
        """
        if self.json or self.quiet:
            return
        self._write_stderr(line if transient else f"{line}\n", transient=transient)

    def draws(self, drawn: Drawn) -> None:
        """From now on, `drawn` draws a line of progress, until the result or an error is printed."""
        self._drawn = drawn

    def end_progress(self) -> None:
        """Show no progress any more, and erase what is shown."""
        if self._drawn is not None:
            self._drawn.close()

    def is_in_foreground(self) -> bool:
        """Whether this process may write to the terminal at stderr now; as git, which does not show its progress in the
        background. True where that terminal is not the one that controls this process."""
        try:
            return self.stderr is not None and os.tcgetpgrp(self.stderr.fileno()) == os.getpgrp()
        except (OSError, ValueError):
            return True

    def clear_status_line(self) -> None:
        """Erase a transient line: the next output may go to stdout."""
        if self._transient:
            self._write_stderr("")

    def style(self) -> Style:
        """The style of text for stderr."""
        return _style(self.stderr)

    def is_interactive(self) -> bool:
        """Whether a person can be asked: stdin and stderr are a terminal, and neither `--json` nor `-q` is given."""
        return not self.json and not self.quiet and _is_terminal(sys.stdin) and _is_terminal(self.stderr)

    def prompt(self, question: str) -> str | None:
        """Ask a question and return the line that is typed, or None at the end of the input.

        Type-ahead is discarded: it was not meant for this question, and may not have been typed by a person.
        """
        if sys.stdin is None:
            return None
        try:
            import termios

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except (ImportError, OSError, ValueError):
            pass  # not a terminal
        self._write_stderr(question)
        line, shown, self.has_status_line = b"", self.has_status_line, True  # nothing is drawn over the question
        try:
            line = sys.stdin.buffer.readline()
        finally:
            self.has_status_line = shown
            if not line.endswith(b"\n"):
                self._write_stderr("\n")
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape") if line else None

    def stdout_is_open(self) -> bool:
        """False if stdout is a pipe and its reader is gone."""
        if self.stdout is None:
            return False
        try:
            import select

            watch = select.poll()
            watch.register(self.stdout.fileno(), 0)
            return not any(event & (select.POLLERR | select.POLLNVAL) for _, event in watch.poll(0))
        except (OSError, ValueError):
            return True  # not a descriptor

    def _write(self, data: str | bytes) -> None:
        if not data or self.stdout is None:
            return
        self.clear_status_line()
        try:
            _put(self.stdout, data)
        except BrokenPipeError:
            # The reader has read enough. The stream must not be flushed again at exit.
            self.stdout = None
            _silence(1)
        except OSError as error:
            raise AgentosError(f"the result could not be written: {system_reason(error)}") from error

    def _write_prefixed(self, prefix: str, colour: str, text: str) -> None:
        style = _style(self.stderr)
        for line in text.split("\n"):
            self._write_stderr(f"{style.paint(colour, prefix + ':')} {line}\n")

    def _write_stderr(self, text: str, *, transient: bool = False) -> None:
        with self._lock:
            if self.stderr is None:
                return
            # Return to the beginning of a transient line and erase it.
            text, self._transient = ("\r\x1b[K" if self._transient else "") + text, transient
            try:
                _put(self.stderr, text)
            except OSError:
                self.stderr = None  # nowhere to report that


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _put(stream: TextIO, data: str | bytes) -> None:
    if isinstance(data, str):
        # Characters that the terminal's encoding lacks are escaped rather than refused.
        data = data.encode(stream.encoding or "utf-8", "backslashreplace")
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _silence(descriptor: int) -> None:
    """Point a broken descriptor to /dev/null, so that the interpreter's last flush does not complain."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    except OSError:
        pass


def _style(stream: TextIO | None) -> Style:
    terminal = stream is not None and stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colour=colour, terminal=terminal)
