"""The row of the watch daemon: what it takes, what git gains by it, and what one costs that does not answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator

import measure
from harness import Bench, add_ratio, ms, tool
from measure import Run, Series
from rows_guard import Guarded

_TICKS = os.sysconf("SC_CLK_TCK")
_SETTLING = 8.0  # seconds: a fresh checkout is read as a whole, which the daemon cannot follow
_QUIET = 10.0  # seconds in which nothing happens


def watch(bench: Bench) -> None:
    """Of a guarded worktree of 100,000 files."""
    size = bench.size_near(100_000)
    judged = size == 100_000
    bench.say(f"watch: {size} files")
    place = Guarded(bench, size)
    environment = _environment(place)
    begin = time.perf_counter()
    started = json.loads(measure.run(tool(bench, "watch", "start", "--json"), place.path, environment).stdout)
    took = time.perf_counter() - begin
    pid, folders = started["pid"], started["worktrees"][0]["folders"]
    try:
        bench.add(
            "watch", f"the watch daemon, {size:,} files: time until it serves", "≤ 3 s", f"{took:.2f} s", took <= 3,
            f"{folders:,} folders", judged=judged,
        )  # fmt: skip
        for which, value in (("", "keep"), (" with core.untrackedCache", "true")):
            place.arena.git("config", "core.untrackedCache", value)
            for _ in range(3):  # git writes what it has learnt into its index
                measure.run(("git", "status"), place.arena.path, environment)
                measure.run(("git", "status"), place.path, environment)
                time.sleep(_SETTLING)
            _status(bench, place, which, judged)
        _resources(bench, pid, size, judged)
        for name, number in (("stopped (SIGSTOP)", signal.SIGSTOP), ("dead", signal.SIGKILL)):
            with _hit(pid, number):
                _delay(bench, place, name, judged)
    finally:
        measure.run(tool(bench, "watch", "stop"), place.path, environment)


def _environment(place: Guarded) -> dict[str, str]:
    """git may write what it has learnt into its index, as it does for people."""
    return {**place.arena.environment, "GIT_OPTIONAL_LOCKS": "1"}


def _status(bench: Bench, place: Guarded, which: str, judged: bool) -> None:
    where = {"guarded": place.path, "plain": place.arena.path}
    series = measure.alternate(
        tuple(where),
        1 if bench.scale.hurried else max(bench.rounds, 11),
        lambda _name, _number: None,
        lambda name, _number: measure.run(("git", "status"), where[name], _environment(place)),
    )
    add_ratio(
        bench,
        "watch",
        f"`git status`{which} in a guarded worktree that the daemon watches, nothing changed, against an unguarded one",
        series["guarded"],
        series["plain"],
        0.5,
        judged=judged,
    )


def _resources(bench: Bench, pid: int, size: int, judged: bool) -> None:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        kib = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    bench.add(
        "watch", f"the watch daemon, {size:,} files: memory at most", "≤ 120 MiB", f"{kib / 1024:.0f} MiB",
        kib <= 120 << 10, "resident; the kernel's watches are not in it", judged=judged,
    )  # fmt: skip
    before = _ticks(pid)
    time.sleep(0.1 if bench.scale.hurried else _QUIET)
    share = (_ticks(pid) - before) / _TICKS / _QUIET
    bench.add(
        "watch", f"the watch daemon, {size:,} files: processor time while nothing happens", "≤ 0.1 % of a core",
        f"{share * 100:.2f} %", share <= 0.001, f"in {_QUIET:.0f} s; the system counts in steps of 10 ms",
        judged=judged,
    )  # fmt: skip


def _delay(bench: Bench, place: Guarded, name: str, judged: bool) -> None:
    """`git diff --quiet` of one path asks as `status` does, and looks at little."""
    commands = {"asks": ("git", "ls-files", "-m", "--", "no-such-file"), "does not": ("git", "-c", "core.fsmonitor=")}
    commands["does not"] += commands["asks"][1:]

    def timed(which: str, _number: int) -> Run:
        return measure.run(commands[which], place.path, _environment(place))

    rounds = 1 if bench.scale.hurried else max(bench.rounds, 11)
    series: dict[str, Series] = measure.alternate(tuple(commands), rounds, lambda _name, _number: None, timed)
    more = (series["asks"].median - series["does not"].median) * 1000
    most = 100 if "stopped" in name else 50
    bench.add(
        "watch", f"a git command that asks a daemon that is {name}, over one that asks nobody", f"≤ {most} ms",
        f"{more:.0f} ms", more <= most, f"{ms(series['asks'])} against {ms(series['does not'])}", judged=judged,
    )  # fmt: skip


@contextlib.contextmanager
def _hit(pid: int, number: signal.Signals) -> Iterator[None]:
    os.kill(pid, number)
    try:
        yield
    finally:
        if number == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])
