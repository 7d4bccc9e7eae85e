"""The rows of the watch daemon: what it takes, what git and commands gain by it, and what one costs that does not
answer."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import measure
import toolbox
from harness import Bench, add_ratio, bare_imports, ms, tool
from measure import Run, Series
from repositories import Arena, BenchError, Changes, choose_changes
from rows_guard import Guarded

_CREATE = """\
import os, sys, time
from git_agentos import open_repository
repo = open_repository(sys.argv[1])
repo.checkpoints.create("first")
for line in sys.stdin:
    begin = time.perf_counter()
    repo.checkpoints.create("bench")
    print(time.perf_counter() - begin, flush=True)
"""
_TICKS = os.sysconf("SC_CLK_TCK")
_BREATH = 0.1  # seconds between an edit and the command
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


def served(bench: Bench) -> None:
    """Checkpoints that the daemon takes for the command, and those of a Python process that stays open."""
    for size, against, argv, limit, longest in (
        (bench.size_near(1_000), toolbox.IMPORTS, bare_imports(bench), 0.4, 15),
        (bench.size_near(100_000), toolbox.STASH_CREATE, ("git", "stash", "create"), 0.15, 60),
    ):
        bench.say(f"served: {size} files")
        judged = size in (1_000, 100_000)
        arena = bench.arena(size, "a")
        changes = choose_changes(size, bench.scale.changes)
        arena.fresh()
        measure.run(tool(bench, "watch", "start"), arena.path, arena.environment)
        try:
            _serve(bench, arena, changes, (against, argv, limit), judged)
            _keep_open(bench, arena, changes, longest, judged)
        finally:
            measure.run(tool(bench, "watch", "stop"), arena.path, arena.environment)


def _serve(
    bench: Bench, arena: Arena, changes: Changes, other: tuple[str, tuple[str, ...], float], judged: bool
) -> None:
    against, argv, limit = other
    commands = {"served": tool(bench, "checkpoint", "-q", "-m", "bench"), against: argv}
    if against == toolbox.IMPORTS:
        commands |= {"nothing": tool(bench, "hook", "none"), "python": (bench.tools.python, "-I", "-c", "pass")}

    def prepare(_name: str, number: int) -> None:
        arena.dirty(changes, 10 + number)
        time.sleep(_BREATH)

    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arena.path, arena.environment, codes=(0, 2))

    rounds = 1 if bench.scale.hurried else max(bench.rounds, 15)
    series = measure.alternate(tuple(commands), rounds, prepare, timed)
    work = f"checkpoint through the daemon, {arena.size:,} files, {bench.scale.changes} changes, against `{against}`"
    add_ratio(bench, "served", work, series["served"], series[against], limit, judged=judged)
    if "nothing" in series:
        work = "a command whose work is nothing, through the daemon, against `python3 -I -c pass`"
        add_ratio(bench, "served", work, series["nothing"], series["python"], 1.6, judged=judged)


def _keep_open(bench: Bench, arena: Arena, changes: Changes, longest: int, judged: bool) -> None:
    argv = (bench.tools.python, "-I", "-c", _CREATE, str(arena.path))
    times = []
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=arena.environment, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for number in range(1 if bench.scale.hurried else max(bench.rounds, 15)):
            arena.dirty(changes, 100 + number)
            process.stdin.write("\n")
            process.stdin.flush()
            times.append(float(process.stdout.readline()) * 1000)
        process.stdin.close()
    found, spread = statistics.median(times), f"{min(times):.0f} to {max(times):.0f} ms"
    bench.add(
        "served", f"`repo.checkpoints.create` in an open process, {arena.size:,} files, {bench.scale.changes} changes",
        f"≤ {longest} ms", f"{found:.0f} ms", found <= longest, spread, judged=judged,
    )  # fmt: skip


def many(bench: Bench) -> None:
    """Many worktrees that one daemon watches, some of them busy."""
    hurried = bench.scale.hurried
    count, busy, size = (4, 1, 60) if hurried else (50, 10, 2_000)
    bench.say(f"many: {count} worktrees of {size} files")
    arena = bench.arena(size, "many")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    shutil.rmtree(folder, ignore_errors=True)
    arena.git("config", "agentos.watch", "true")
    arena.git("config", "agentos.auto.periodic", "5s")
    command = tool(bench, "checkpoint", "-q", "-m", "bench")
    rounds = 1 if hurried else max(bench.rounds, 15)
    try:
        started = measure.run(tool(bench, "watch", "start", "--json"), arena.path, arena.environment)
        pid = json.loads(started.stdout)["pid"]
        alone = _checkpoints(arena, arena.path, command, rounds)
        for number in range(count):
            arena.git("worktree", "add", "-q", "--detach", str(folder / f"{number}"))
        _wait_for(bench, arena, count + 1)
        edited = [folder / f"{number}" / "edited.txt" for number in range(busy)]
        before, begin = _ticks(pid), time.monotonic()
        with _editing(edited):
            time.sleep(0.5 if hurried else 2 * _QUIET)
            share = (_ticks(pid) - before) / _TICKS / (time.monotonic() - begin)
            among = _checkpoints(arena, folder / "0", command, rounds)
    finally:
        measure.run(tool(bench, "watch", "stop"), arena.path, arena.environment)
        shutil.rmtree(folder, ignore_errors=True)
    judged, work = not hurried, f"{count} worktrees of {size:,} files, {busy} of them busy"
    bench.add(
        "many", f"{work}: processor time of the daemon besides the checkpoints", "≤ 5 % of a core",
        f"{share * 100:.1f} %", share <= 0.05, "two edits a second in each; a checkpoint every 5 s", judged=judged,
    )  # fmt: skip
    beside = f"{work}: a checkpoint in one, against one in a single worktree"
    add_ratio(bench, "many", beside, among, alone, 2, judged=judged)


def _checkpoints(arena: Arena, place: Path, command: tuple[str, ...], rounds: int) -> Series:
    def prepare(_name: str, number: int) -> None:
        (place / "new.txt").write_text(f"{number} {time.time_ns()}\n")
        time.sleep(_BREATH)

    return measure.alternate(
        ("checkpoint",), rounds, prepare, lambda _name, _number: measure.run(command, place, arena.environment)
    )["checkpoint"]


def _wait_for(bench: Bench, arena: Arena, count: int) -> None:
    """Until so many worktrees are watched, and their first checkpoints are taken."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = json.loads(measure.run(tool(bench, "watch", "status", "--json"), arena.path, arena.environment).stdout)
        timelines = arena.git("for-each-ref", "refs/agentos/timelines").count(b"\n")
        if sum(each["watching"] for each in found["worktrees"]) == count == timelines:
            time.sleep(0 if bench.scale.hurried else _SETTLING)
            return
        time.sleep(0.5)
    raise BenchError("the worktrees are not watched")


@contextlib.contextmanager
def _editing(files: list[Path]) -> Iterator[None]:
    """Edit each of the files twice a second."""
    end = threading.Event()

    def edit() -> None:
        while not end.wait(0.5):
            for each in files:
                each.write_text(f"{time.time_ns()}\n")

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


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
