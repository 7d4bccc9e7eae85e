#!/usr/bin/env python3
"""What a fleet of many machines does to its remote: simulated, with costs that were measured with real git.

    python bench/fleet_simulation.py                     # 1,000 machines, 10,000 runs, several remotes; a minute
    python bench/fleet_simulation.py --machines 100 --minutes 1 --server own
    python bench/fleet_simulation.py --measure           # measure what an operation costs here first
    python bench/fleet_simulation.py --tiny              # a test of the script; the figures mean nothing

A remote has processors, a line, a limit of connections at once and limits of operations by time. Each operation of a
worker (`git_agentos/fleet/worker.py`) takes processor time and bytes there, which grow with the refs that there are:
git tells all of them to whoever lists or pushes. What the remote does not take is tried again, as workers do.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import os
import random
import selectors
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple  # noqa: TID251  (this runs without the package)

LIST, FETCH, LIVE, SETTLE = "list", "fetch", "live", "settle"
_PUSHES = (LIVE, SETTLE)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds: `git_agentos/fleet/remote.py`
_OTHER_SIZES = (0, 1_000, 10_000)  # refs, for which costs are measured


class Cost(NamedTuple):
    """What an operation costs a remote: processor seconds, and bytes in both directions."""

    seconds: float
    bytes: float


# Operation -> refs -> cost. Measured by `--measure` with git 2.39 and packed refs, on two busy processors of 2023.
MEASURED: Mapping[str, Mapping[int, Cost]] = {
    LIST: {0: Cost(0.0017, 537), 1_000: Cost(0.0019, 83_427), 10_000: Cost(0.0035, 839_427)},
    FETCH: {0: Cost(0.0040, 1_007), 1_000: Cost(0.0040, 1_007), 10_000: Cost(0.0040, 1_007)},
    LIVE: {0: Cost(0.0101, 783), 1_000: Cost(0.0112, 83_673), 10_000: Cost(0.0257, 839_673)},
    SETTLE: {0: Cost(0.0096, 891), 1_000: Cost(0.0114, 83_781), 10_000: Cost(0.0254, 839_781)},
}


@dataclass(frozen=True)
class Server:
    """A remote. `line` is in bytes a second, `connect` the processor seconds of a connection by ssh (measured as the
    costs below). `connections` is how many it serves at once, others are refused; `pushes` and `reads` are limits for a
    minute; None: there is none."""

    name: str
    processors: int = 4
    line: float = 125e6
    connect: float = 0.022
    connections: int | None = None
    pushes: float | None = None
    reads: float | None = None


SERVERS = (
    Server("own", connections=1000),
    Server("own, sshd as it comes", connections=10),
    Server("own, one processor and 100 Mbit/s", processors=1, line=12.5e6, connections=1000),
    Server("forge, 600 pushes and 600 reads a minute", processors=64, pushes=600, reads=600),
    Server("forge, 60 pushes a minute", processors=64, pushes=60, reads=900),
)


@dataclass(frozen=True)
class Work:
    """A fleet: runs of so many minutes on average, in so many steps; seconds at least between two times that a worker
    says how far it is (`agentos.fleet.liveInterval`); bytes of a result beside what an operation costs anyway; fleets
    that are submitted one after the other, each ended before the next; refs of other fleets that are there."""

    machines: int = 1000
    runs: int = 10_000
    minutes: float = 10.0
    steps: int = 3
    interval: float = 2.0
    content: float = 20e3
    fleets: int = 1
    others: int = 0


@dataclass
class Outcome:
    """What came of it. Times are in seconds; `ideal` is what the runs alone take, `longest` the longest wait for an
    operation, `busy` the processor time of the remote."""

    seconds: float = 0.0
    ideal: float = 0.0
    operations: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    bytes: float = 0.0
    busy: float = 0.0
    most_refs: int = 0
    longest: float = 0.0
    bytes_by_minute: Counter[int] = field(default_factory=Counter)

    @property
    def ratio(self) -> float:
        """How much longer it takes than with a remote that takes no time."""
        return self.seconds / self.ideal


def cost(measured: Mapping[str, Mapping[int, Cost]], operation: str, refs: int) -> Cost:
    """The cost with so many refs, between those that were measured, and beyond."""
    points = sorted(measured[operation].items())
    (low, first), (high, second) = next(
        ((a, b) for a, b in itertools.pairwise(points) if refs <= b[0]), (points[-2], points[-1])
    )
    part = (refs - low) / (high - low)
    return Cost(*(a + (b - a) * part for a, b in zip(first, second, strict=True)))


class _Limit:
    """At most so many in a minute that goes by; None: no limit."""

    def __init__(self, most: float | None) -> None:
        self._most = most
        self._taken: deque[float] = deque()

    def takes(self, now: float) -> bool:
        if self._most is None:
            return True
        while self._taken and self._taken[0] <= now - 60:
            self._taken.popleft()
        if len(self._taken) >= self._most:
            return False
        self._taken.append(now)
        return True


class _Simulation:
    def __init__(self, server: Server, work: Work, measured: Mapping[str, Mapping[int, Cost]], seed: int) -> None:
        self._server = server
        self._work = work
        self._measured = measured
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = itertools.count()
        self._processors = [0.0] * server.processors  # when each is free
        self._line_free = 0.0
        self._open = 0
        self._limits = {True: _Limit(server.pushes), False: _Limit(server.reads)}
        self._refs = 0
        self._waiting = 0  # runs of this fleet that nobody has begun
        self._running = 0
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Do all the fleets."""
        work, now, began = self._work, 0.0, 0.0
        for _ in range(work.fleets):
            self._refs, self._waiting = 1, work.runs // work.fleets
            began, lengths = now, []
            self._lengths = lengths
            for _ in range(min(work.machines, self._waiting)):
                self._at(began + self._random.uniform(0, 1), lambda at: self._machine(at, first=True))
            while self._events:
                now, _, do = heapq.heappop(self._events)
                do(now)
            self.outcome.ideal += _ideal(lengths, work.machines)
        self.outcome.seconds = now
        return self.outcome

    def _at(self, when: float, do: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), do))

    def _machine(self, now: float, *, first: bool = False) -> None:
        """A machine takes its next run."""
        if self._waiting == 0:
            return
        self._waiting -= 1
        length = self._random.lognormvariate(0, 0.5) / 1.1331 * self._work.minutes * 60
        self._lengths.append(length)
        fetches = (LIST, LIST, FETCH) if first else (LIST,)
        self._all(now, fetches, lambda at: self._begin(at, length))

    def _begin(self, now: float, length: float) -> None:
        """A run begins, and says how far it is as it goes on: one thing at a time, beside what it does."""
        steps, said, saying = self._work.steps, now, [False]
        for step in range(steps):  # first that it has begun; after its last step, its result says so
            at = max(now + length * step / steps, said + self._work.interval)
            if at >= now + length:
                break
            operations = (LIVE, LIST) if said == now else (LIVE,)
            self._at(at, lambda at, todo=operations: self._say(at, todo, saying))  # type: ignore[misc]
            said = at
        is_said = said > now
        todo = (SETTLE,) if is_said else (LIST, SETTLE)
        self._refs += is_said
        self._at(now + length, lambda at: self._all(at, todo, lambda end: self._ended(end, is_said)))

    def _say(self, now: float, operations: Sequence[str], saying: list[bool]) -> None:
        def said(_: float) -> None:
            saying[0] = False

        if not saying[0]:
            saying[0] = True
            self._all(now, operations, said)

    def _ended(self, now: float, is_said: bool) -> None:
        self._refs += not is_said
        self.outcome.most_refs = max(self.outcome.most_refs, self._refs)
        self._machine(now)

    def _all(self, now: float, operations: Sequence[str], then: Callable[[float], None]) -> None:
        """Do operations one after the other."""
        if not operations:
            then(now)
            return
        self._try(now, now, operations[0], _FIRST_PAUSE, lambda at: self._all(at, operations[1:], then))

    def _try(self, now: float, since: float, operation: str, pause: float, then: Callable[[float], None]) -> None:
        server, out = self._server, self.outcome
        is_full = server.connections is not None and self._open >= server.connections
        if is_full or not self._limits[operation in _PUSHES].takes(now):
            out.refused += 1
            later = now + pause * self._random.uniform(0.5, 1.0)
            longer = min(2 * pause, _LONGEST_PAUSE)
            self._at(later, lambda at: self._try(at, since, operation, longer, then))
            return
        found = cost(self._measured, operation, self._refs + self._work.others)
        seconds = found.seconds + server.connect
        size = found.bytes + (self._work.content if operation == SETTLE else 0)
        start = max(now, self._processors[0])
        heapq.heapreplace(self._processors, start + seconds)
        self._line_free = max(self._line_free, now) + size / server.line
        end = max(start + seconds, self._line_free)
        out.operations[operation] += 1
        out.bytes += size
        out.busy += seconds
        out.bytes_by_minute[int(end // 60)] += int(size)
        out.longest = max(out.longest, end - since)
        self._open += 1

        def done(at: float) -> None:
            self._open -= 1
            then(at)

        self._at(end, done)


def _ideal(lengths: Sequence[float], machines: int) -> float:
    """How long runs of these lengths take on so many machines, in this order."""
    free = [0.0] * machines
    for length in lengths:
        heapq.heapreplace(free, free[0] + length)
    return max(free)


def simulate(
    server: Server, work: Work, measured: Mapping[str, Mapping[int, Cost]] | None = None, seed: int = 1
) -> Outcome:
    """What the work does to the server; the same for the same seed."""
    return _Simulation(server, work, measured or MEASURED, seed).run()


def shortest(server: Server, work: Work, measured: Mapping[str, Mapping[int, Cost]] | None = None) -> float:
    """How many minutes runs must have at least, so that with these machines the fleet takes at most a quarter longer
    than with a remote that takes no time. Looked for with two runs for each machine, and as many refs as `work` has at
    its end."""
    some = replace(work, runs=2 * work.machines, fleets=1, others=work.runs // work.fleets)
    low, high = 1 / 60, 1e5
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        if simulate(server, replace(some, minutes=middle), measured).ratio <= 1.25:
            high = middle
        else:
            low = middle
    return high


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(sizes: Sequence[int], rounds: int) -> dict[str, dict[int, Cost]]:
    """What the operations cost a remote that has so many refs of a fleet."""
    found: dict[str, dict[int, Cost]] = {each: {} for each in (LIST, FETCH, LIVE, SETTLE)}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            place = _Place(Path(folder) / str(size), size)
            for operation, values in place.costs(rounds).items():
                found[operation][size] = Cost(*(sorted(each)[len(values) // 2] for each in zip(*values, strict=True)))
    return found


class _Place:
    """A remote with refs, and clones of it, whose operations go through this script, which counts."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._remote, self._clone, self._log = folder / "remote.git", folder / "clone", folder / "log"
        _git(folder, "init", "-q", "--bare", str(self._remote))
        _git(folder, "init", "-q", str(self._clone))
        serve = f"'{sys.executable}' '{os.path.abspath(__file__)}' --serve '{self._log}'"
        for key, value in {
            "user.name": "bench",
            "user.email": "bench@example.com",
            "remote.origin.url": str(self._remote),
            "remote.origin.uploadpack": f"{serve} git-upload-pack",
            "remote.origin.receivepack": f"{serve} git-receive-pack",
            "gc.auto": "0",
        }.items():
            _git(self._clone, "config", key, value)
        tree = _git(self._clone, "mktree", data=b"").strip()
        self._base = _git(self._clone, "commit-tree", "-m", "base", tree).strip()
        self._tree = tree
        _git(self._clone, "push", "-q", str(self._remote), f"{self._base}:refs/agentos/fleet/f/tasks")
        results = "".join(f"create refs/agentos/fleet/f/results/task-{n} {self._base}\n" for n in range(size))
        _git(self._remote, "update-ref", "--stdin", data=results.encode())
        _git(self._remote, "pack-refs", "--all")

    def costs(self, rounds: int) -> dict[str, list[Cost]]:
        found: dict[str, list[Cost]] = {each: [] for each in (LIST, FETCH, LIVE, SETTLE)}
        for number in range(rounds):
            live, result = (f"refs/agentos/fleet/f/{kind}/new-{number}" for kind in ("live", "results"))
            work = _git(self._clone, "commit-tree", "-p", self._base, "-m", str(number), self._tree).strip()
            found[LIST].append(self._count("ls-remote", "origin", "refs/agentos/fleet/*"))
            new = self._folder / f"new-{number}"
            _git(self._folder, "init", "-q", str(new))
            (new / ".git/config").write_bytes((self._clone / ".git/config").read_bytes())
            found[FETCH].append(self._count("fetch", "-q", "origin", "refs/agentos/fleet/f/tasks", at=new))
            found[LIVE].append(self._count("push", "-q", f"--force-with-lease={live}:", "origin", f"{work}:{live}"))
            leases = (f"--force-with-lease={result}:", f"--force-with-lease={live}:{work}")
            settle = ("push", "-q", "--atomic", *leases, "origin", f"{work}:{result}", f":{live}")
            found[SETTLE].append(self._count(*settle))
        return found

    def _count(self, *words: str, at: Path | None = None) -> Cost:
        self._log.unlink(missing_ok=True)
        _git(at or self._clone, *words)
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return Cost(sum(line[0] for line in lines), sum(line[1] for line in lines))


def _git(folder: Path, *words: str, data: bytes | None = None) -> str:
    out = subprocess.run(("git", *words), cwd=folder, input=data, stdout=subprocess.PIPE, check=True).stdout
    return out.decode().strip()


def serve(log: str, words: Sequence[str]) -> int:
    """Be git's program at a remote, and note what it takes: `[processor seconds, bytes]`."""
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None and child.stdout is not None
    count = 0
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ, child.stdin)
        selector.register(child.stdout, selectors.EVENT_READ, None)
        while child.stdout in {key.fileobj for key in selector.get_map().values()}:
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                count += len(data)
                if not data:
                    selector.unregister(key.fileobj)
                try:
                    if key.data is None:
                        os.write(1, data)
                    elif data:
                        child.stdin.write(data)
                    else:
                        child.stdin.close()
                except BrokenPipeError:
                    pass
    _, status, usage = os.wait4(child.pid, 0)
    with open(log, "a") as file:
        file.write(json.dumps([usage.ru_utime + usage.ru_stime, count]) + "\n")
    return os.waitstatus_to_exitcode(status)


# -- the report --------------------------------------------------------------------------------------------------------


def report(servers: Sequence[Server], work: Work, measured: Mapping[str, Mapping[int, Cost]]) -> Iterator[str]:
    """The lines of the report."""
    yield f"{work.machines:,} machines, {work.runs:,} runs of {work.minutes:g} minutes in {work.steps} steps"
    yield ""
    for operation, costs in measured.items():
        points = ", ".join(
            f"{refs:,} refs: {1000 * at.seconds:.0f} ms, {_size(at.bytes)}" for refs, at in costs.items()
        )
        yield f"{operation:8s}{points}"
    for server in servers:
        out = simulate(server, work, measured)
        peak = max(out.bytes_by_minute.values(), default=0) / 60
        yield ""
        yield f"{server.name}: {_time(out.seconds)}, {out.ratio:.2f} x as long as without any wait"
        counts = ", ".join(f"{out.operations[each]:,} {each}" for each in (LIST, FETCH, LIVE, SETTLE))
        yield f"    {counts}; {out.refused:,} refused and tried again"
        yield (
            f"    {_size(out.bytes)} in all, {_size(peak)} a second at most; processors "
            f"{100 * out.busy / out.seconds / server.processors:.0f} % busy; {out.most_refs:,} refs at most; "
            f"the longest wait {_time(out.longest)}"
        )
        yield f"    at most a quarter longer where runs have {_time(60 * shortest(server, work, measured))} or more"


def _size(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def _time(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 7200
        else f"{seconds / 60:.1f} min"
        if seconds >= 120
        else f"{seconds:.1f} s"
    )


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--serve"]:
        return serve(arguments[1], arguments[2:])
    parser = argparse.ArgumentParser(description="What a fleet of many machines does to its remote.")
    parser.add_argument("--machines", type=int, default=Work.machines)
    parser.add_argument("--runs", type=int, default=Work.runs)
    parser.add_argument("--minutes", type=float, default=Work.minutes, help="of a run, on average")
    parser.add_argument("--steps", type=int, default=Work.steps)
    parser.add_argument("--interval", type=float, default=Work.interval, help="agentos.fleet.liveInterval, in seconds")
    parser.add_argument("--fleets", type=int, default=Work.fleets, help="the runs are so many fleets, each ended")
    parser.add_argument("--server", help="only servers whose names begin so")
    parser.add_argument("--measure", action="store_true", help="measure the costs here, and use them")
    parser.add_argument("--tiny", action="store_true", help="a test of this script")
    given = parser.parse_args(arguments)
    work = Work(given.machines, given.runs, given.minutes, given.steps, given.interval, fleets=given.fleets)
    measured = MEASURED
    if given.tiny:
        work = replace(work, machines=10, runs=50)
        measured = measure((0, 50), 1)
    elif given.measure:
        measured = measure(_OTHER_SIZES, 7)
    servers = [each for each in SERVERS if each.name.startswith(given.server or "")]
    for line in report(servers, work, measured):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
