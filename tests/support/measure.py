"""Measure all tests, and choose those of `make test`: `make quick-list` writes tests/quick.txt.

As a plugin of pytest (`-p tests.support.measure`) this notes, of each test, the seconds of CPU that it and its children
take, and the lines of the package that it executes in the process of the test run (what it starts in processes of its
own is not counted). `python -m tests.support.measure FOLDER SECONDS` then chooses: tests whose slowest case takes long
are left out, so that the rest takes at most SECONDS of CPU; and to that are added the cases with the most new lines for
their time, until every line is executed that all tests execute.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.env import PROJECT_ROOT
from tests.support.sampling import QUICK_CASES, QUICK_LIST, evenly

_PACKAGE = str(PROJECT_ROOT / "git_agentos")
_HEAD = "# Written by `make quick-list`: tests that `make test` leaves out (-), cases that it runs nevertheless (+).\n"
_LIMITS = (5.0, 3.0, 2.0, 1.5, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05)


@dataclass(frozen=True, eq=False)
class Measured:
    """One case: seconds of CPU, and lines as pairs of a file and a number."""

    id: str
    seconds: float
    lines: frozenset[tuple[str, int]]

    @property
    def function(self) -> str:
        return self.id.partition("[")[0]


class Plugin:
    """One process of the test run."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.folder = folder
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(data_file=None, source=[_PACKAGE], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.coverage.switch_context(item.nodeid)
        before = _cpu()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(_cpu() - before, 3)
            self.coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        executed: dict[str, dict[str, list[int]]] = {id_: {} for id_ in self.seconds}
        for name in data.measured_files():
            for number, contexts in data.contexts_by_lineno(name).items():
                for id_ in contexts:
                    if id_ in executed:
                        executed[id_].setdefault(os.path.relpath(name, _PACKAGE), []).append(number)
        rows = [[id_, self.seconds[id_], lines] for id_, lines in executed.items()]
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(rows))


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get("AGENTOS_TEST_MEASURE")
    if folder and hasattr(config, "workerinput"):
        config.pluginmanager.register(Plugin(Path(folder)))


def _cpu() -> float:
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in found)


def read(folder: Path) -> list[Measured]:
    return [
        Measured(id_, seconds, frozenset((name, n) for name, each in lines.items() for n in each))
        for path in sorted(folder.glob("*.json"))
        for id_, seconds, lines in json.loads(path.read_text())
    ]


def choose(cases: list[Measured], seconds: float) -> tuple[set[str], list[Measured]]:
    """The functions that are left out, and the cases that are run nevertheless."""
    functions: dict[str, list[Measured]] = {}
    for case in cases:
        functions.setdefault(case.function, []).append(case)
    for limit in _LIMITS:
        left_out = {name for name, each in functions.items() if max(case.seconds for case in each) > limit}
        kept = [each[n] for name, each in functions.items() if name not in left_out for n in _picked(len(each))]
        more = cover(cases, lines_of(cases) - lines_of(kept))
        if sum(case.seconds for case in [*kept, *more]) <= seconds:
            break
    return left_out, more


def cover(cases: Iterable[Measured], missing: frozenset[tuple[str, int]]) -> list[Measured]:
    """Cases that execute every missing line: the next is always the one with the most new lines for its time."""
    left = {case: case.lines & missing for case in cases}
    chosen = []
    while missing:
        best = max(left, key=lambda case: len(left[case] & missing) / (case.seconds + 0.01))
        chosen.append(best)
        missing -= best.lines
        left = {case: lines & missing for case, lines in left.items() if lines & missing}
    return chosen


def lines_of(cases: Iterable[Measured]) -> frozenset[tuple[str, int]]:
    return frozenset().union(*(case.lines for case in cases))


def _picked(count: int) -> list[int]:
    return evenly(list(range(count)), QUICK_CASES)


def main(folder: str, seconds: str) -> None:
    cases = read(Path(folder))
    left_out, more = choose(cases, float(seconds))
    known = {case.function for case in cases}
    QUICK_LIST.write_text(
        _HEAD
        + "".join(f"- {name}\n" for name in sorted(left_out))
        + "".join(f"+ {id_}\n" for id_ in sorted(case.id for case in more))
    )
    kept = [case for case in cases if case.function not in left_out]
    print(
        f"{len(cases)} cases of {len(known)} tests take {sum(case.seconds for case in cases):.0f} s of CPU and execute "
        f"{len(lines_of(cases))} lines; {len(left_out)} tests are left out, {len(more)} cases run nevertheless: "
        f"{len(lines_of([*kept, *more]))} lines"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
