"""Timing of whole processes: one run, alternating rounds, peak memory of a process tree.

A run's time goes from before the process is started to after it has been waited for, as a user at a prompt has it. The
harness adds the same 1 to 2 ms to every contender.
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repositories import BenchError

TIMEOUT = 600.0
"""Seconds after which a run is killed and its contender left out."""

_PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Run:
    """One finished process: wall time, and the processor time of all its processes (itself and every descendant that
    was waited for)."""

    seconds: float
    processor: float
    stdout: bytes


@dataclass
class Series:
    """The timed runs of one contender; `problem` tells why they ended early, if they did."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    problem: str | None = None

    @property
    def median(self) -> float:
        """In seconds; BenchError where there is nothing to take it of."""
        if self.problem or not self.seconds:
            raise BenchError(self.problem or "was not run")
        return statistics.median(self.seconds)

    def spread(self) -> str:
        """Fastest to slowest, in milliseconds."""
        return f"{min(self.seconds) * 1000:.0f}-{max(self.seconds) * 1000:.0f} ms"


def run(
    argv: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout: float = TIMEOUT,
    codes: Sequence[int] = (0,),
) -> Run:
    """Run `argv` to its end; BenchError when its exit code is none of `codes`, and what it said on stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = _start(argv, folder, environment, out.fileno(), err.fileno())
        killer = threading.Timer(timeout, process.send_signal, (signal.SIGKILL,))
        killer.daemon = True
        killer.start()
        # Not Popen.wait: wait4 also tells what the child used.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode not in codes:
            raise BenchError(_failure(argv, process.returncode, err.read() or out.read()))
        return Run(seconds, usage.ru_utime + usage.ru_stime, out.read())


def peak_of_tree(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, int]:
    """Peak memory of one run in KiB: of its largest process, and of all its processes together.

    The second is the highest sum of resident sizes seen while sampling about every half millisecond; pages that two
    processes share count twice, for every contender alike. An untimed run: sampling takes processor time.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _start(argv, folder, environment, out.fileno(), err.fileno())
        highest = 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            highest = max(highest, sum(_resident(member) for member in _tree(process.pid)))
            time.sleep(0.0005)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            err.seek(0)
            raise BenchError(_failure(argv, process.returncode, err.read()))
        largest = usage.ru_maxrss
        return largest, max(highest * _PAGE // 1024, largest)


def alternate(
    names: Sequence[str],
    rounds: int,
    prepare: Callable[[str, int], None],
    timed: Callable[[str, int], Run],
    after: Callable[[str, int], None] | None = None,
) -> dict[str, Series]:
    """`rounds` rounds in which every contender runs once, each round beginning with another one.

    `prepare` and `after` are not timed; a BenchError of a run, or of `after`'s check of it, ends that contender. Dirty
    pages are written out before each run, so that none pays, at its fsync, for what the one before it left.
    """
    series = {name: Series() for name in names}
    for number in range(rounds):
        first = number % len(names) if names else 0
        for name in [*names[first:], *names[:first]]:
            if series[name].problem:
                continue
            prepare(name, number)
            os.sync()
            try:
                done = timed(name, number)
                series[name].seconds.append(done.seconds)
                series[name].processor.append(done.processor)
                if after is not None:
                    after(name, number)
            except BenchError as error:
                series[name].problem = str(error)
    return series


def own_peak_kib() -> int:
    """The harness's own peak: a floor of every child's figure, as Linux counts the size before `exec`."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _start(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], out: int, err: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
    except OSError as error:
        raise BenchError(f"{os.path.basename(argv[0])} cannot be started: {error.strerror}") from error


def _failure(argv: Sequence[str], code: int, said: bytes) -> str:
    text = said.decode(errors="replace").strip()
    print(f"{os.path.basename(argv[0])} (exit {code}): {text}", file=sys.stderr)
    return f"{os.path.basename(argv[0])} failed with exit code {code}"


def _tree(pid: int) -> list[int]:
    """`pid` and its descendants, as far as they live."""
    members, waiting = [], [pid]
    while waiting:
        member = waiting.pop()
        members.append(member)
        try:
            for thread in os.listdir(f"/proc/{member}/task"):
                with open(f"/proc/{member}/task/{thread}/children", "rb") as file:
                    waiting += map(int, file.read().split())
        except OSError:
            continue
    return members


def _resident(pid: int) -> int:
    """Pages in memory; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0
