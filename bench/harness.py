"""What every row works with: how much of everything, the repositories and tools, and the figures found."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import toolbox
from measure import Series
from repositories import Arena, BenchError, open_arena

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Scale:
    """How much of everything; the defaults are what the targets are set for."""

    sizes: tuple[int, ...] = (1_000, 20_000, 100_000)
    counts: tuple[int, ...] = (0, 30, 1_000)
    changes: int = 30
    bulk_files: int = 2_000
    bulk_bytes: int = 1 << 30
    listed: int = 10_000
    grown: int = 1_000
    logged: int = 100_000
    agents: int = 20
    large: tuple[int, ...] = (1_000, 10_000, 50_000)
    hurried: bool = False


TINY = Scale(
    sizes=(60,),
    counts=(0, 6),
    changes=6,
    bulk_files=8,
    bulk_bytes=1 << 16,
    listed=25,
    grown=24,
    logged=400,
    agents=4,
    large=(20, 40),
    hurried=True,
)
"""Tries every row in seconds; its figures mean nothing and are not judged."""


@dataclass(frozen=True)
class Figure:
    """One row of the report. `met` is None where nothing can be judged: not measured, or not at the target's size."""

    row: str
    work: str
    target: str
    measured: str
    met: bool | None
    reason: str


@dataclass(frozen=True)
class Cell:
    """All contenders' series for one repository size and number of changes."""

    size: int
    count: int
    series: dict[str, Series]


@dataclass
class Bench:
    """What the rows work with, and what they found."""

    cache: Path
    tools: toolbox.Toolbox
    scale: Scale
    rounds: int
    say: Callable[[str], None]
    figures: list[Figure] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    def arena(self, size: int, name: str) -> Arena:
        return open_arena(self.cache, size, name, hurried=self.scale.hurried)

    def size_near(self, wanted: int) -> int:
        """The chosen size that is nearest to the target's."""
        return min(self.scale.sizes, key=lambda size: abs(size - wanted))

    def add(self, row: str, work: str, target: str, measured: str, met: bool, reason: str, *, judged: bool) -> None:
        full = self.scale == Scale(sizes=self.scale.sizes)
        note = "" if judged and full else "not the size the target is set for; "
        self.figures.append(Figure(row, work, target, measured, met if judged and full else None, note + reason))


def tool(bench: Bench, *arguments: str) -> tuple[str, ...]:
    problem = bench.tools.contenders[toolbox.OURS].problem
    if problem:
        raise BenchError(problem)
    return (bench.tools.script, *arguments)


def bare_imports(bench: Bench) -> tuple[str, ...]:
    return (bench.tools.python, "-c", toolbox.IMPORTS)


def add_ratio(
    bench: Bench,
    row: str,
    work: str,
    ours: Series,
    other: Series,
    limit: float,
    *,
    judged: bool,
    more: str = "",
) -> None:
    ratio = ours.median / other.median
    used = statistics.median(ours.processor) / statistics.median(other.processor)
    detail = (
        f"{ms(ours)} against {ms(other)} ({ours.spread()}; {other.spread()}), processor time {used:.2f} {TIMES}{more}"
    )
    bench.add(row, work, f"≤ {limit:g} {TIMES}", f"{ratio:.2f} {TIMES}", ratio <= limit, detail, judged=judged)


def ms(series: Series) -> str:
    return f"{series.median * 1000:.0f} ms"
