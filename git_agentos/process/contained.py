"""Running a command so that no process of it is left: in a process group of its own, below a supervisor.

What the command leaves behind (daemons in sessions of their own too) is reparented to the supervisor, which ends it; it
ends everything as well when this process is gone. Every process has a mark in its environment (`marked.MARK`), by which
those are found that even the supervisor missed.

What a command has another service start for it (cron, systemd, a container) is no process of it, and is not ended.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from git_agentos import redact_lines
from git_agentos.process import marked, programs, supervisor
from git_agentos.process.output import RedactingWriter

GRACE = 5.0  # seconds between SIGTERM and SIGKILL for the processes of a command
_TICK = 0.1
_MAX_LIMIT = 20 * 86400.0  # seconds that the supervisor can wait for at once (poll(2))
_CHUNK = 1 << 16
_LOST = 128 + signal.SIGKILL


@dataclass(frozen=True)
class Command:
    """What to run: its words, in which folder, with what environment. `limit` is in seconds, None for none; `stdin` is
    a file that it reads, None for nothing to read."""

    argv: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    limit: float | None = None
    stdin: str | None = None


@dataclass(frozen=True)
class Result:
    """How it ended: `exit_code` is 128 + N for signal N; `left_behind` is how many processes had to be ended."""

    exit_code: int
    timed_out: bool
    interrupted: bool
    seconds: float
    left_behind: int

    @property
    def is_killed(self) -> bool:
        """Whether processes of it may have been ended from outside, in the middle of what they did."""
        return self.interrupted or self.timed_out or self.left_behind > 0 or self.exit_code >= 128


def shell(text: str) -> tuple[str, ...]:
    """The words that run shell text."""
    return ("/bin/sh", "-c", text)


def run(
    command: Command, stdout: BinaryIO, stderr: BinaryIO, *, show: Callable[[bytes], None], stop: Callable[[], bool]
) -> Result:
    """Run a command to its end. Its output goes line by line, secrets redacted, to `stdout` and `stderr` and to `show`
    (without the end of the line); `stop` is called several times a second, and ends it by returning True. When this
    returns, or raises, no process of it is left. Where its folder is missing, it has failed (126)."""
    began = time.monotonic()
    values = redact_lines.secrets_of(command.environment)
    out, err = (RedactingWriter(file, show, values) for file in (stdout, stderr))
    try:
        running = _Running(command)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        if os.path.isdir(command.folder) and os.access(command.folder, os.X_OK):
            raise
        err.note(f"cannot run anything in '{command.folder}': there is no such folder")
        err.close()
        return Result(126, False, False, time.monotonic() - began, 0)
    try:
        with selectors.DefaultSelector() as selector:
            _read_until_ended(running, selector, dict(zip(running.pipes, (out, err), strict=True)), stop)
    finally:
        running.end()
        swept = marked.sweep(command.environment[marked.MARK]) if marked.MARK in command.environment else ()
        running.close()
    if running.stayed:
        err.note(f"{running.stayed} processes could not be ended")
    out.close()
    err.close()
    return Result(
        running.code if running.code is not None else _LOST,
        running.why == supervisor.LIMIT,
        running.why == supervisor.STOPPED,
        time.monotonic() - began,
        running.left + len(swept),
    )


class _Running:
    """A command below its supervisor, while it runs."""

    def __init__(self, command: Command) -> None:
        self.code: int | None = None
        self.why = supervisor.ITSELF
        self.left = self.stayed = 0
        self._limit = command.limit
        self._lower: int | None = None
        self._unread = b""
        self._stopped_at: float | None = None
        ours: list[int] = []
        theirs: list[int] = []
        try:
            reader, self._lifeline = os.pipe()
            theirs.append(reader)
            ours.append(self._lifeline)
            self.report, writer = os.pipe()
            theirs.append(writer)
            ours.append(self.report)
            # What is too long for the supervisor's clock is left to ours.
            limit = command.limit if command.limit is not None and command.limit <= _MAX_LIMIT else 0.0
            options = ("--contain", str(reader), str(writer), repr(limit), repr(GRACE))
            if command.stdin is not None:
                theirs.append(os.open(command.stdin, os.O_RDONLY | os.O_CLOEXEC))
            self._began = time.monotonic()
            self._process = programs.start_piped(
                (*supervisor.command_line(options), *command.argv),
                cwd=command.folder,
                env={**command.environment, "PWD": command.folder},
                keep=(reader, writer),
                stdin=theirs[2] if command.stdin is not None else None,
            )
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pipes = (self._process.stdout.fileno(), self._process.stderr.fileno())

    def read_report(self) -> bool:
        """Read what the supervisor reports; whether there may be more."""
        data = os.read(self.report, _CHUNK)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            kind, *fields = line.decode("ascii", "replace").split()
            if kind == "supervisor":
                self._lower = int(fields[0])
            elif kind == "ended" and self.code is None:
                self.code, self.left, self.stayed = int(fields[0]), int(fields[2]), int(fields[3])
                # A signal from anybody may have stopped it; only what was decided here counts as stopped.
                if fields[1] == supervisor.LIMIT and self._stopped_at is None:
                    self.why = supervisor.LIMIT
        return data != b""

    def poll(self, *, stop: Callable[[], bool]) -> bool:
        """Stop the command where it is time; whether to keep waiting for it. The supervisor has a clock too: this one
        is for a supervisor that the command has stopped."""
        now = time.monotonic()
        # The upper supervisor may be stopped, and has not noticed; or the command has killed it, and not every system
        # tells that to the lower one.
        if self.code is not None or self._process.poll() is not None:
            self.stop()
        if self._stopped_at is not None:
            return now < self._stopped_at + GRACE + 2 * supervisor.PATIENCE
        if self._limit is not None and now > self._began + self._limit + 1.0:
            self.why = supervisor.LIMIT
            self.stop()
        elif stop():
            self.why = supervisor.STOPPED
            self.stop()
        return True

    def stop(self) -> None:
        """Have the supervisor end everything."""
        if self._stopped_at is not None:
            return
        self._stopped_at = time.monotonic()
        os.close(self._lifeline)
        for pid in (self._process.pid, self._lower):
            if pid is not None and self._process.poll() is None:
                marked.send(pid, signal.SIGCONT)

    def end(self) -> None:
        """Make sure that all of it has ended."""
        self.stop()
        with contextlib.suppress(programs.TimeoutExpired):
            self._process.wait(GRACE + 2 * supervisor.PATIENCE)
        if self._process.poll() is None:
            self.left += len(marked.end_all(lambda: [self._process.pid]))
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        os.close(self.report)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _read_until_ended(
    running: _Running,
    selector: selectors.BaseSelector,
    writers: Mapping[int, RedactingWriter],
    stop: Callable[[], bool],
) -> None:
    """Pass on what the command writes until its supervisors are gone."""
    for pipe in writers:
        os.set_blocking(pipe, False)
        selector.register(pipe, selectors.EVENT_READ)
    selector.register(running.report, selectors.EVENT_READ)
    reports = True
    while reports:
        for key, _ in selector.select(_TICK):
            if key.fd == running.report:
                reports = running.read_report()
            elif not _pass_on(key.fd, writers[key.fd]):
                selector.unregister(key.fd)
        if reports and not running.poll(stop=stop):
            break
    for pipe, writer in writers.items():
        # An escaped process may hold the pipe open: do not wait for its end.
        while _pass_on(pipe, writer, waits=False):
            pass


def _pass_on(descriptor: int, writer: RedactingWriter, *, waits: bool = True) -> bool:
    """Read once; whether there may be more."""
    try:
        data = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return waits
    writer.write(data)
    return data != b""
