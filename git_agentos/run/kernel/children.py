"""Running a command of a step: in a process group of its own, with a time limit, and nothing left of it afterwards.

The command runs below `guard.shim.supervise` (a subreaper): whatever it leaves behind (daemons that made a session of
their own too) comes to that process, which ends it. It ends everything as well when the kernel itself is gone. Every
process has the run's mark in its environment (`AGENTOS_RUN_MARK`), by which `sweep` finds what even that missed.

What an agent has another service start for it (cron, systemd, a container) is none of its processes, and is not ended.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from git_agentos import processes
from git_agentos.git.location import Location
from git_agentos.guard.shim import shim, supervise
from git_agentos.run.kernel import streams
from git_agentos.store import location

MARK = "AGENTOS_RUN_MARK"
GRACE = 5.0  # seconds between asking the processes of a command to end and ending them
_TICK = 0.1
_LONGEST = 20 * 86400.0  # seconds: what the supervisor can wait for at once (poll(2))
_CHUNK = 1 << 16
_LOST = 128 + signal.SIGKILL
# Of ours, what another run, or another workflow, has said to the one who starts this one.
_OF_A_RUN = (
    "AGENTOS_TASK_ID", "AGENTOS_RUN_ID", "AGENTOS_ATTEMPT", "AGENTOS_STEP", "AGENTOS_FEEDBACK_FILE", MARK,
    "AGENTOS_PROMPT_FILE", "AGENTOS_TDD_NODE",
)  # fmt: skip


@dataclass(frozen=True)
class Child:
    """What to run: shell text, where, with what environment. `limit` is in seconds, None for none. `guarded` runs it
    with the shim's git first on PATH. `stdin` is a file that it reads; None: there is nothing to read."""

    command: str
    location: Location
    agent: str
    environment: Mapping[str, str]
    limit: float | None
    guarded: bool
    stdin: str | None = None


@dataclass(frozen=True)
class Finished:
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


def run(
    child: Child, stdout: BinaryIO, stderr: BinaryIO, *, show: Callable[[bytes], None], stop: Callable[[], bool]
) -> Finished:
    """Run it to its end. What it says goes line by line, secrets redacted, to `stdout` and `stderr` and to `show`
    (without the end of the line); `stop` is asked several times a second whether to end it. When this returns, or
    raises, no process of it is left. Where there is no folder to run it in, it has failed (126)."""
    began = time.monotonic()
    values = streams.secrets_of(child.environment)
    out, err = (streams.Stream(file, show, values) for file in (stdout, stderr))
    try:
        supervised = _Supervised(child)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        if os.path.isdir(child.location.root) and os.access(child.location.root, os.X_OK):
            raise
        err.note(f"cannot run anything in '{child.location.root}': there is no such folder")
        err.end()
        return Finished(126, False, False, time.monotonic() - began, 0)
    try:
        with selectors.DefaultSelector() as selector:
            _follow(supervised, selector, dict(zip(supervised.pipes, (out, err), strict=True)), stop)
    finally:
        supervised.end()
        left = sweep(child.environment[MARK]) if MARK in child.environment else ()
        supervised.close()
    if supervised.stayed:
        err.note(f"{supervised.stayed} processes could not be ended")
    out.end()
    err.end()
    return Finished(
        supervised.code if supervised.code is not None else _LOST,
        supervised.why == supervise.LIMIT,
        supervised.why == supervise.TOLD,
        time.monotonic() - began,
        supervised.left + len(left),
    )


def environment(base: Mapping[str, str], *, run_id: str, agent: str, task: str | None, mark: str) -> dict[str, str]:
    """What a command of a run gets: nothing of git's own variables, no URL of a database, and the run's identity."""
    found = {
        key: value
        for key, value in base.items()
        if not key.startswith("GIT_") and key not in _OF_A_RUN and key != "OLDPWD"
    }
    if "://" in found.get(location.VARIABLE, ""):  # there may be a password in it
        del found[location.VARIABLE]
    found |= {"AGENTOS_AGENT_ID": agent, "AGENTOS_RUN_ID": run_id, MARK: mark}
    if task is not None:
        found["AGENTOS_TASK_ID"] = task
    return found


def sweep(mark: str) -> Sequence[int]:
    """End every process that has a run's mark, or descends from one that has; their ids. This process and those above
    it are spared."""
    return _end_all(lambda: processes.carrying(MARK, mark))


class _Supervised:
    """A command below its supervisor, while it runs."""

    def __init__(self, child: Child) -> None:
        self.code: int | None = None
        self.why = supervise.ITSELF
        self.left = self.stayed = 0
        self._limit = child.limit
        self._lower: int | None = None
        self._said = b""
        self._told_at: float | None = None
        ours: list[int] = []
        theirs: list[int] = []
        try:
            reader, self._lifeline = os.pipe()
            theirs.append(reader)
            ours.append(self._lifeline)
            self.report, writer = os.pipe()
            theirs.append(writer)
            ours.append(self.report)
            limit = child.limit if child.limit is not None and child.limit <= _LONGEST else 0.0  # else ours alone
            options = ("--contain", str(reader), str(writer), repr(limit), repr(GRACE))
            words = ("/bin/sh", "-c", child.command)
            env = {**child.environment, "PWD": child.location.root}
            if child.guarded:
                start = shim.start(child.location, child.agent, words, env, options=options)
            else:
                start = shim.Start((*shim.supervisor(options), *words), env)
            if child.stdin is not None:
                theirs.append(os.open(child.stdin, os.O_RDONLY | os.O_CLOEXEC))
            self._began = time.monotonic()
            self._process = processes.start_piped(
                start.argv,
                cwd=child.location.root,
                env=start.environment,
                keep=(reader, writer),
                stdin=theirs[2] if child.stdin is not None else None,
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

    def hear(self) -> bool:
        """Take in what the supervisor reports; whether it has more to say."""
        data = os.read(self.report, _CHUNK)
        self._said += data
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            kind, *fields = line.decode("ascii", "replace").split()
            if kind == "supervisor":
                self._lower = int(fields[0])
            elif kind == "ended" and self.code is None:
                self.code, self.left, self.stayed = int(fields[0]), int(fields[2]), int(fields[3])
                # Anybody may have told it to end; only what we know of counts as that.
                if fields[1] == supervise.LIMIT and self._told_at is None:
                    self.why = supervise.LIMIT
        return data != b""

    def watch(self, *, stop: Callable[[], bool]) -> bool:
        """Whether it may go on; ends it where it is time. The supervisor has a clock too; ours is for one that an agent
        has stopped."""
        now = time.monotonic()
        if self.code is not None:
            self.tell()  # the upper one may have been stopped, and has not noticed
        if self._told_at is not None:
            return now < self._told_at + GRACE + 2 * supervise.PATIENCE
        if self._limit is not None and now > self._began + self._limit + 1.0:
            self.why = supervise.LIMIT
            self.tell()
        elif stop():
            self.why = supervise.TOLD
            self.tell()
        return True

    def tell(self) -> None:
        """Tell the supervisor to end everything."""
        if self._told_at is not None:
            return
        self._told_at = time.monotonic()
        os.close(self._lifeline)
        for pid in (self._process.pid, self._lower):
            if pid is not None and self._process.poll() is None:
                supervise.send(pid, signal.SIGCONT)

    def end(self) -> None:
        """Make sure that all of it has ended."""
        self.tell()
        with contextlib.suppress(processes.TooLate):
            self._process.wait(GRACE + 2 * supervise.PATIENCE)
        if self._process.poll() is None:
            self.left += len(_end_all(lambda: [self._process.pid]))
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        os.close(self.report)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _follow(
    supervised: _Supervised,
    selector: selectors.BaseSelector,
    pipes: Mapping[int, streams.Stream],
    stop: Callable[[], bool],
) -> None:
    """Hand on what the command says until its supervisors are gone."""
    for pipe in pipes:
        os.set_blocking(pipe, False)
        selector.register(pipe, selectors.EVENT_READ)
    selector.register(supervised.report, selectors.EVENT_READ)
    listening = True
    while listening:
        for key, _ in selector.select(_TICK):
            if key.fd == supervised.report:
                listening = supervised.hear()
            elif not _hand_on(key.fd, pipes[key.fd]):
                selector.unregister(key.fd)
        if listening and not supervised.watch(stop=stop):
            break
    for pipe, stream in pipes.items():
        # Who has the other end by now is none of ours: nobody waits for him.
        while _hand_on(pipe, stream, waits=False):
            pass


def _hand_on(descriptor: int, stream: streams.Stream, *, waits: bool = True) -> bool:
    """Read once; whether there may be more."""
    try:
        data = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return waits
    stream.feed(data)
    return data != b""


def _end_all(seeds: Callable[[], Iterable[int]]) -> list[int]:
    """End processes and all that descend from them; those that were alive.

    All are stopped before the first is killed: so what has cleaned its environment is still seen below one that has
    not.
    """
    spared = {os.getpid(), *processes.above()}
    ended: dict[int, None] = {}
    quiet = 0
    for _ in range(20):
        stopped: set[int] = set()
        while new := {each for seed in seeds() for each in (seed, *supervise.below(seed))} - stopped - spared:
            for pid in new:
                supervise.send(pid, signal.SIGSTOP)
            stopped |= new
        alive = [pid for pid in sorted(stopped) if supervise.is_alive(pid)]
        quiet = 0 if alive else quiet + 1
        if quiet == 2:  # what is just becoming another program has no environment for a moment
            break
        ended |= dict.fromkeys(alive)
        for pid in alive:
            supervise.send(pid, signal.SIGKILL)
        time.sleep(0.01)
    return sorted(ended)
