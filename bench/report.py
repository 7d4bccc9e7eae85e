"""The report: which machine, one table of figures against targets, one table of all contenders."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

from harness import TIMES, Bench, Cell, Figure
from repositories import BenchError
from toolbox import OURS, Toolbox

VERDICTS = {True: "met", False: "**missed**", None: "not judged"}


def machine(cache: Path, tools: Toolbox, load: tuple[float, float, float]) -> list[str]:
    """What a reader needs to know to compare; no names of hosts or folders."""
    versions = dict(tools.versions)
    python = versions.pop("Python", platform.python_version())
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = next(int(line.split()[1]) for line in file if line.startswith("MemTotal:"))
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    lines = [
        f"{os.cpu_count()} cores ({_processor()}), {kib / (1 << 20):.0f} GiB memory, {_file_system(cache)}",
        f"{platform.system()} {platform.release()}, {_distribution()}",
        f"git {git}, Python {python}, " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"load average over the minute before the run {load[0]:.1f}",
    ]
    return [f"* {line}" for line in lines]


def render(
    bench: Bench, head: Sequence[str], when: str, reasons: dict[str, str], took: float, load: tuple[float, float, float]
) -> str:
    lines = [
        "# Benchmark results",
        "",
        f"Written by `python bench/run.py` on {when}; what is measured and how is in [README.md](README.md).",
        "",
        *head,
        f"* medians of {bench.rounds} rounds or more, in one run of {took / 60:.0f} minutes",
        f"* load average over the last minute of the run {load[0]:.1f}",
        "",
        "## Targets",
        "",
        "| work | target | measured | | reason |",
        "|---|---|---|---|---|",
        *(_figure(figure, reasons) for figure in bench.figures),
        "",
    ]
    if bench.cells:
        lines += [
            "## Checkpoints, all contenders",
            "",
            "Median in milliseconds, and as a multiple of ours where ours ran.",
            "",
        ]
        for size in dict.fromkeys(cell.size for cell in bench.cells):
            lines += _matrix(bench, [cell for cell in bench.cells if cell.size == size])
        lines += ["What each runs:", ""]
        lines += [
            f"* {each.name}: {each.what}" + (f" — cannot run: {each.problem}" if each.problem else "")
            for each in bench.tools.contenders.values()
        ]
        lines.append("")
    return "\n".join(lines)


def read_reasons(path: Path) -> dict[str, str]:
    """Why a target is missed, by hand: row name (as in `--rows`) to one sentence."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _figure(figure: Figure, reasons: dict[str, str]) -> str:
    reason = figure.reason
    if figure.met is False and figure.row in reasons:
        reason = f"{reasons[figure.row]} ({reason})"
    return f"| {figure.work} | {figure.target} | {figure.measured} | {VERDICTS[figure.met]} | {reason} |"


def _matrix(bench: Bench, cells: list[Cell]) -> list[str]:
    heads = " | ".join(f"{cell.count:,} changes" for cell in cells)
    lines = [f"| {cells[0].size:,} files | {heads} |", "|---|" + "---:|" * len(cells)]
    lines += [
        f"| {name} | " + " | ".join(_entry(cell, name) for cell in cells) + " |" for name in bench.tools.contenders
    ]
    return [*lines, ""]


def _entry(cell: Cell, name: str) -> str:
    try:
        median = cell.series[name].median
    except BenchError as problem:
        return str(problem)
    try:
        ratio = "" if name == OURS else f" ({median / cell.series[OURS].median:.2f} {TIMES})"
    except BenchError:
        ratio = ""
    return f"{median * 1000:.0f}{ratio}"


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return found or platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _file_system(folder: Path) -> str:
    """The type of the file system that holds the repositories: that of the longest mount point above them."""
    best = ("", "unknown file system")
    with open("/proc/mounts", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, point, kind, *_ = line.split()
            if folder.is_relative_to(point) and len(point) >= len(best[0]):
                best = (point, kind)
    return best[1]
