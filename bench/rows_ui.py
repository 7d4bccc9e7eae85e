"""The row of the terminal interface: its first screen, a key in a long timeline, and what it takes while nothing
happens. It runs on a terminal that is read here."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import statistics
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import measure
from harness import Bench, tool
from repositories import Arena, BenchError

_AGENTS = 50
_FILES = 2_000
_SIZE = (70, 140)  # lines and columns of the terminal
_KEYS = 200
_TYPED = b"jjjk>kk<j\x06"  # each moves the cursor, wherever it is then
_QUIET = 0.03  # seconds without output after which a key has been answered
_SETTLED = 0.4  # after which nothing more comes: a preview is made a moment after a key
_IDLE = 30.0  # seconds
_LONGEST = 120.0
_ALL = re.compile(rb"[0-9] in all")  # of the events; before, it is `200+ in all`
_TICKS = os.sysconf("SC_CLK_TCK")


def ui(bench: Bench, many: Callable[[Bench], Arena]) -> None:
    """Of many agents, and of the timeline of `many(bench)`."""
    size, count = min(_FILES, bench.scale.bulk_files), 3 if bench.scale.hurried else _AGENTS
    judged = (size, count) == (_FILES, _AGENTS)
    bench.say(f"ui: {count} worktrees of {size} files")
    arena = bench.arena(size, "ui")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    shutil.rmtree(folder, ignore_errors=True)
    work = f"{count} worktrees of {size:,} files"
    try:
        for n in range(count):
            measure.run(
                tool(bench, "worktree", "create", "-q", "--no-fetch", f"dev-{n}"), arena.path, arena.environment
            )
        last = re.compile(rb"dev-%d" % (count - 1))
        for name, action, limit in (("with the daemon", "start", 1.0), ("without the daemon", "stop", 2.5)):
            measure.run(tool(bench, "watch", action), arena.path, arena.environment)
            if action == "start":
                _have_all_watched(bench, arena, folder, count)
            times = [_first_screen(bench, arena, last) for _ in range(bench.rounds)]
            middle = statistics.median(times)
            bench.add(
                "ui", f"the first screen of {work}, {name}", f"≤ {limit:g} s", f"{middle:.2f} s", middle <= limit,
                f"{min(times):.2f} to {max(times):.2f} s, until all rows are there", judged=judged,
            )  # fmt: skip
            share = _idle(bench, arena, last, _daemons(arena) if action == "start" else [])
            bench.add(
                "ui", f"watching {work} in which nothing happens, {name}", "≤ 1 % of a core", f"{share:.2f} %",
                share <= 1, "with the processes that it starts, and the daemon's", judged=judged,
            )  # fmt: skip
    finally:
        measure.run(tool(bench, "watch", "stop"), arena.path, arena.environment)
        for each in (folder, arena.path / ".git"):
            shutil.rmtree(each, ignore_errors=True)
    _keys(bench, many(bench))


def _keys(bench: Bench, arena: Arena) -> None:
    """Keys in a timeline, until the screen has changed."""
    bench.say(f"ui: keys in {bench.scale.listed} checkpoints")
    with _shown(bench, arena) as terminal:
        terminal.wait_for(re.compile(b"Agents"))
        terminal.type(b"2")
        terminal.wait_for(_ALL)
        time.sleep(1)
        times = sorted(terminal.answered(_TYPED[n % 10 : n % 10 + 1]) for n in range(_KEYS))
    late = times[int(len(times) * 0.95)]
    bench.add(
        "ui", f"a key in a timeline of {bench.scale.listed:,} checkpoints, 95th percentile", "≤ 100 ms",
        f"{late * 1000:.0f} ms", late <= 0.1, f"median {statistics.median(times) * 1000:.0f} ms of {_KEYS} keys",
        judged=bench.scale.listed == 10_000,
    )  # fmt: skip


class _Terminal:
    """The interface on a terminal, and its user."""

    def __init__(self, argv: Sequence[str], arena: Arena) -> None:
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, _SIZE)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            argv, cwd=arena.path, env={**arena.environment, "TERM": "xterm-256color"}, stdin=theirs, stdout=theirs,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._written = b""

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def wait_for(self, text: re.Pattern[bytes]) -> float:
        """Seconds from the start until a text is on the screen."""
        while not text.search(self._written):
            if time.perf_counter() > self.began + _LONGEST or (not self._read(1.0) and self.process.poll() is not None):
                raise BenchError(f"{text.pattern!r} does not come on the screen")
        return time.perf_counter() - self.began

    def answered(self, key: bytes) -> float:
        """Seconds from a key until the last change of the screen that it makes."""
        while self._read(_SETTLED):
            pass
        begin = last = time.perf_counter()
        self.type(key)
        while self._read(_QUIET if last > begin else 1.0):
            last = time.perf_counter()
        return last - begin

    def _read(self, longest: float) -> bool:
        if not select.select([self.ours], [], [], longest)[0]:
            return False
        with contextlib.suppress(OSError):
            self._written += os.read(self.ours, 1 << 16)
            return True
        return False

    def watch(self, seconds: float) -> None:
        """Let it be, and read what it writes."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._read(left)


@contextlib.contextmanager
def _shown(bench: Bench, arena: Arena) -> Iterator[_Terminal]:
    terminal = _Terminal(tool(bench, "ui"), arena)
    try:
        yield terminal
        terminal.process.send_signal(signal.SIGTERM)
        terminal.watch(0.5)
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.ours)


def _first_screen(bench: Bench, arena: Arena, last: re.Pattern[bytes]) -> float:
    with _shown(bench, arena) as terminal:
        return terminal.wait_for(last)


def _processor(pid: int) -> float:
    """Seconds of processor time that a process has taken, with its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / _TICKS


def _daemons(arena: Arena) -> list[int]:
    """The process of the daemon, by the file that it holds as its lock."""
    return [int(each.read_text()) for each in (arena.path / ".git" / "agentos" / "watch").glob("*.turn")]


def _idle(bench: Bench, arena: Arena, last: re.Pattern[bytes], others: Sequence[int]) -> float:
    """Percents of a core, with those of `others`."""
    longest = 2.0 if bench.scale.hurried else _IDLE
    with _shown(bench, arena) as terminal:
        terminal.wait_for(last)
        terminal.watch(longest / 2)
        pids = (terminal.process.pid, *others)
        before, begin = sum(map(_processor, pids)), time.perf_counter()
        terminal.watch(longest)
        return 100 * (sum(map(_processor, pids)) - before) / (time.perf_counter() - begin)


def _have_all_watched(bench: Bench, arena: Arena, folder: Path, count: int) -> None:
    for n in range(count):
        measure.run(tool(bench, "status", "-q"), folder / f"dev-{n}", arena.environment)
