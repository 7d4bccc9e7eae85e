"""stdout and stderr: the only module that writes to either.

stdout carries the result and nothing else: one JSON document under `--json`, else text for a person (ids
alone under `-q`). stderr carries talk: errors, warnings, notes and hints, each line with its prefix as git
prints them. Colours appear only on a terminal, and never where NO_COLOR is set or TERM is `dumb`. What
`text` hands over is already safe for a terminal (`quote`); messages of errors are made so here.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

from git_agentos.cli import quote
from git_agentos.errors import AgentosError, AgentosWarning

_COLOURS = {"yellow": "33", "red": "31", "green": "32", "cyan": "36", "bold": "1"}


@dataclass(frozen=True)
class Style:
    """How a result is to be worded: `now` is the time that ages are counted from."""

    colour: bool = False
    terminal: bool = False
    now: float = field(default_factory=time.time)

    def paint(self, colour: str, text: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[m" if self.colour else text


@dataclass(frozen=True)
class Text:
    """A result in words. `result` goes to stdout (bytes as they are), the rest to stderr.

    `brief` is what is left of `result` under `-q`, where notes and hints are left out too; warnings stay.
    """

    result: str | bytes = ""
    brief: str | bytes | None = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass
class Output:
    """The two streams of one command; `json` and `quiet` are set as soon as the options are read."""

    stdout: TextIO | None
    stderr: TextIO | None
    json: bool = False
    quiet: bool = False
    _passing: bool = False

    @classmethod
    def standard(cls, *, json: bool = False) -> Output:
        return cls(sys.stdout, sys.stderr, json)

    def show(self, kind: str, fields: object, wording: Callable[[Style], Text]) -> None:
        """Print a result: as the document `agentos.<kind>.v1` made of `fields`, or in the words of `wording`."""
        if self.json:
            from git_agentos.cli.render import json as documents

            self._write(documents.dump(documents.document(kind, fields)) + "\n")
            return
        text = wording(_style(self.stdout))
        self._write(text.brief if self.quiet and text.brief is not None else text.result)
        for warning in text.warnings:
            self._say("warning", "yellow", warning)
        if not self.quiet:
            for note in text.notes:
                self._talk(f"{note}\n")
            for hint in text.hints:
                self._say("hint", "yellow", hint)

    def warn(self, message: str, hint: str) -> None:
        """Print a warning beside the result, on stderr, in every mode; and what to do, but for `-q`."""
        self._say("warning", "yellow", quote.block(message))
        if not self.quiet:
            self._say("hint", "yellow", quote.block(hint))

    def print(self, text: str) -> None:
        """Print text that was asked for as such, the same in every mode: help, a completion script."""
        self._write(text)

    def fail(self, error: AgentosError, *, nothing_changed: bool = False) -> int:
        """Tell an error, as a document on stdout or in words on stderr; returns its exit code.

        With `nothing_changed`, say so, unless the error does.
        """
        if self.json:
            from git_agentos.cli.render import json as documents

            try:
                self._write(documents.dump(documents.error(error)) + "\n")
            except AgentosError:
                pass  # stdout cannot be written: the exit code has to speak
            return error.exit_code
        self._say("error", "red", quote.block(error.message))
        for line in (error.hint or "").splitlines():
            shown = quote.line(line)
            if shown.startswith("usage: "):
                self._talk(f"{shown}\n")
            else:
                self._say("hint", "yellow", shown)
        if nothing_changed and "nothing was changed" not in (error.hint or ""):
            self._talk("nothing was changed\n")
        return error.exit_code

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Print, on stderr, what the domain warns of meanwhile."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", AgentosWarning)
            others = warnings.showwarning

            def show(
                message: Warning | str,
                category: type[Warning],
                filename: str,
                lineno: int,
                file: TextIO | None = None,
                line: str | None = None,
            ) -> None:
                if issubclass(category, AgentosWarning):
                    self._say("warning", "yellow", quote.block(str(message)))
                else:
                    others(message, category, filename, lineno, file, line)

            warnings.showwarning = show
            yield

    def columns(self) -> int | None:
        """How wide the terminal is that progress is shown on; None where stderr is none that can overwrite a line."""
        if self.stderr is None or not self.stderr.isatty() or os.environ.get("TERM") == "dumb":
            return None
        try:
            return os.get_terminal_size(self.stderr.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def progress(self, line: str, *, passing: bool = False) -> None:
        """Say how it goes, on stderr, where neither a document nor ids alone were asked for.

        A `passing` line is overwritten by the next that is said there.
        """
        if self.json or self.quiet:
            return
        self._talk(line if passing else f"{line}\n")
        self._passing = passing

    def settle(self) -> None:
        """Erase a passing line that is still there: what comes next may go to stdout."""
        if self._passing:
            self._talk("")

    def style(self) -> Style:
        """How what goes to stderr is to be worded."""
        return _style(self.stderr)

    def can_ask(self) -> bool:
        """Whether a person can be asked: stdin and stderr are a terminal, and neither a document nor ids alone are
        wanted."""
        return not self.json and not self.quiet and _is_terminal(sys.stdin) and _is_terminal(self.stderr)

    def ask(self, question: str) -> str | None:
        """What a person types, without the end of its line; None where there is no more. What was typed before it was
        asked is no answer: it was not meant for this question, and may not even have been typed by a person."""
        if sys.stdin is None:
            return None
        try:
            import termios

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except (ImportError, OSError, ValueError):
            pass  # no terminal, or none of that kind
        self._talk(question)
        line = b""
        try:
            line = sys.stdin.buffer.readline()
        finally:
            if not line.endswith(b"\n"):
                self._talk("\n")
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape") if line else None

    def is_read(self) -> bool:
        """Whether anybody still reads stdout, as far as can be told: the other end of a pipe may be gone."""
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
        try:
            _put(self.stdout, data)
        except BrokenPipeError:
            # The reader has seen what it wanted. The stream must not be flushed again at exit.
            self.stdout = None
            _silence(1)
        except OSError as error:
            raise AgentosError(f"the result could not be written: {(error.strerror or str(error)).lower()}") from error

    def _say(self, prefix: str, colour: str, text: str) -> None:
        style = _style(self.stderr)
        for line in text.split("\n"):
            self._talk(f"{style.paint(colour, prefix + ':')} {line}\n")

    def _talk(self, text: str) -> None:
        if self.stderr is None:
            return
        # A line that was only to be seen in passing gives way: back to its beginning, and erase it.
        text, self._passing = ("\r\x1b[K" if self._passing else "") + text, False
        try:
            _put(self.stderr, text)
        except OSError:
            self.stderr = None  # nobody can be told


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _put(stream: TextIO, data: str | bytes) -> None:
    if isinstance(data, str):
        # What the terminal's encoding cannot say is escaped rather than refused.
        data = data.encode(stream.encoding or "utf-8", "backslashreplace")
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _silence(descriptor: int) -> None:
    """Point a broken descriptor to nowhere, so that the interpreter's last flush does not complain."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except OSError:
        pass


def _style(stream: TextIO | None) -> Style:
    terminal = stream is not None and stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colour=colour, terminal=terminal)
