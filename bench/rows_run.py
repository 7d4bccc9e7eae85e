"""The row of runs: taking a run's worktree back, against git removing it and making it again.

git deletes and writes every file, and saves nothing of what it deletes. Ours saves everything first, ignored files too,
so that it can be undone, and touches what the run has touched.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import measure
from harness import Bench, add_ratio, tool
from measure import Run
from repositories import Arena, BenchError, choose_changes

_GIT, _ROLLBACK = "git worktree remove --force, git worktree add", "rollback"
_RUN = "bench"
_PREPARE = f"""
import sys
from git_agentos import GitWorktreeWorkspaceService
print(GitWorktreeWorkspaceService(sys.argv[1], guard=False).prepare_pre_run(run_id="{_RUN}").worktree_path, end="")
"""


def rollback(bench: Bench) -> None:
    """A run that has changed 30 files, some of them ignored ones, is taken back to where it began."""
    size = bench.size_near(100_000)
    bench.say(f"rollback: {size} files")
    arena = bench.arena(size, "a")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    shutil.rmtree(folder, ignore_errors=True)
    plain = folder / "plain"
    (arena.path / ".git/info/exclude").write_text("*.o\n")
    try:
        arena.git("worktree", "add", "--quiet", "--no-track", "-b", "plain", str(plain))
        made = measure.run((bench.tools.python, "-c", _PREPARE, str(arena.path)), arena.path, arena.environment)
        places = {_GIT: plain, _ROLLBACK: Path(made.stdout.decode())}
        again = f"git worktree remove --force '{plain}' && git worktree add --quiet '{plain}' plain"
        commands = {_GIT: ("sh", "-c", again), _ROLLBACK: tool(bench, "rollback", "-q", _RUN)}

        def prepare(name: str, number: int) -> None:
            _work(bench, replace(arena, path=places[name]), number + 1)

        def run(name: str, _number: int) -> Run:
            found = measure.run(commands[name], arena.path, arena.environment)
            _check(replace(arena, path=places[name]))
            return found

        series = measure.alternate(tuple(commands), bench.rounds, prepare, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(arena.path / ".git", ignore_errors=True)
    add_ratio(
        bench,
        "rollback",
        f"`rollback` of a run that changed {bench.scale.changes} of {size:,} files, against `{_GIT}`",
        series[_ROLLBACK],
        series[_GIT],
        0.05,
        judged=size == 100_000,
    )


def _work(bench: Bench, there: Arena, generation: int) -> None:
    """What an agent does: 30 files changed or new, and a few that are ignored."""
    there.dirty(choose_changes(there.size, bench.scale.changes), generation)
    for number in range(3):
        there.write(f"built/{number}.o", b"%d" % generation)
    if not there.hurried:
        time.sleep(1.1)  # so that no stat data is suspect


def _check(there: Arena) -> None:
    found = there.git("status", "--porcelain", "--ignored").splitlines()
    if any(line != b"!! .agentos/" for line in found):
        raise BenchError("the worktree is not as it was made")
