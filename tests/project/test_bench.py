"""The benchmark harness works: every row runs on a tiny repository. What it measures there means nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.env import PROJECT_ROOT

RUN = PROJECT_ROOT / "bench" / "run.py"
ROWS = (
    "checkpoint",
    "startup",
    "untracked",
    "restore",
    "large",
    "list",
    "forget",
    "growth",
    "memory",
    "database",
    "log",
    "why",
    "conflicts",
    "worktree",
    "guard",
    "sync",
    "ui",
    "rollback",
    "fleet",
    "tdd",
    "secrets",
)

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the harness reads /proc")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(RUN), *arguments], capture_output=True, text=True, timeout=900)


@pytest.mark.slow
def test_every_row_is_measured_and_the_report_holds_nothing_private(tmp_path: Path) -> None:
    report = tmp_path / "RESULTS.md"
    done = bench(
        *("--all", "--tiny", "--rounds", "1"),
        *("--venv", sys.prefix, "--cache", str(tmp_path / "cache"), "--output", str(report)),
    )
    assert done.returncode == 0, done.stderr
    text = report.read_text(encoding="utf-8")
    assert "not measured" not in text, done.stderr

    table = text.split("## Targets")[1].split("## ")[0].splitlines()
    figures = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("| ")][1:]
    assert len(figures) == 98
    assert {verdict for _, _, _, verdict, _ in figures} == {"not judged"}
    for _, target, measured, _, _ in figures:
        assert target.startswith("≤ ")
        assert re.match(r"-?\d", measured)
    for name in ("git-agentos", "git stash create", "git stash push + apply", "raw private index"):
        assert re.search(rf"^\| {re.escape(name)} \| (nothing to put away|\d+.*) \| \d+.* \|$", text, re.MULTILINE)

    for word in ("cores", "GiB memory", "git 2", "Python 3", "pygit2", os.uname().release):
        assert word in text
    for private in (str(tmp_path), sys.prefix, os.path.expanduser("~/")):
        assert private not in text


def test_rows_that_do_not_exist_are_refused() -> None:
    done = bench("--rows", "checkpoint,speed")
    assert done.returncode == 2
    assert "speed" in done.stderr


def test_help_names_every_row() -> None:
    said = bench("--help").stdout
    assert all(row in said for row in ROWS)
