"""More of the row of worktrees: one brought up to its base, and many of which those that are merged are archived."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import measure
from harness import TIMES, Bench, ms, tool
from measure import Run, Series
from repositories import Arena, BenchError, choose_changes

_MERGE, _SYNC = "git merge", "worktree sync"
_REMOVE, _CLEAN = "git worktree remove, git branch -D", "worktree cleanup"
_MORE = 0.5  # seconds that a checkpoint before, and the start of the program, may cost
_EACH = 0.35  # the same for each worktree that is archived
_AGENTS = 10


def synced(bench: Bench) -> None:
    """A worktree with a commit of its own, whose base has one more, against `git merge` of the base in it."""
    size = bench.size_near(20_000)
    bench.say(f"worktree: {size} files brought up to their base")
    arena = bench.arena(size, "a")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    there = folder / "dev"
    commands = {
        _MERGE: ("git", "-C", str(there), "merge", "-q", "--no-edit", "main"),
        _SYNC: tool(bench, "worktree", "sync", "dev"),
    }
    try:
        measure.run(tool(bench, "worktree", "create", "-q", "--no-guard", "dev"), arena.path, arena.environment)
        _commit(arena, there, "own.txt")
        own = arena.git("rev-parse", "agent/dev").decode().strip()
        arena.dirty(choose_changes(size, bench.scale.changes), 5)
        arena.git("add", "-A")
        arena.git("commit", "-q", "-m", "the base moves on")

        def prepare(_name: str, _number: int) -> None:
            arena.git("-C", str(there), "reset", "-q", "--hard", own)
            arena.settle()

        series = measure.alternate(tuple(commands), bench.rounds, prepare, _timed(arena, commands))
        arena.git("merge-base", "--is-ancestor", "main", "agent/dev")  # else nothing was done
    finally:
        for each in (folder, arena.path / ".git"):
            shutil.rmtree(each, ignore_errors=True)
    work = f"a worktree of {size:,} files brought up to its base, {bench.scale.changes} changes, against `{_MERGE}`"
    _add(bench, work, series[_SYNC], series[_MERGE], _MORE, judged=size == 20_000)


def cleaned(bench: Bench) -> None:
    """Worktrees of which half are merged: these are saved, removed, and their branches deleted."""
    size = bench.size_near(1_000)
    count = 2 if bench.scale.hurried else _AGENTS // 2
    bench.say(f"worktree: {count} of {2 * count} archived")
    arena = bench.arena(size, "a")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    names = [f"dev-{number}" for number in range(2 * count)]
    merged = names[:count]
    remove = " && ".join(f"git worktree remove {folder / each} && git branch -q -D agent/{each}" for each in merged)
    commands = {_REMOVE: ("sh", "-c", remove), _CLEAN: tool(bench, "worktree", "cleanup", "-q")}

    def prepare(name: str, number: int) -> None:
        for each in names:
            if not (folder / each).exists():
                arena.git("branch", "-q", "-D", f"agent/{each}", may_fail=True)
                measure.run(tool(bench, "worktree", "create", "-q", "--no-guard", each), arena.path, arena.environment)
                _commit(arena, folder / each, f"{each}-{name.split(maxsplit=1)[0]}-{number}.txt")
        for each in merged:
            arena.git("merge", "-q", "--no-edit", f"agent/{each}")
        arena.settle()

    try:
        series = measure.alternate(tuple(commands), bench.rounds, prepare, _timed(arena, commands))
        if any((folder / each).exists() for each in merged):
            raise BenchError("what is merged was not archived")
    finally:
        for each in (folder, arena.path / ".git"):
            shutil.rmtree(each, ignore_errors=True)
    work = f"{count} merged worktrees of {2 * count} archived, {size:,} files each, against `{_REMOVE}`"
    _add(bench, work, series[_CLEAN], series[_REMOVE], _EACH * count, judged=size == 1_000)


def _add(bench: Bench, work: str, ours: Series, git: Series, most: float, *, judged: bool) -> None:
    more = ours.median - git.median
    used = statistics.median(ours.processor) - statistics.median(git.processor)
    bench.add(
        "worktree", work, f"≤ {most:g} s more", f"{more:.2f} s more", more <= most,
        f"everything is saved before; {ms(ours)} against {ms(git)} ({ours.spread()}; {git.spread()}), {used:.2f} s more"
        f" of processor time; {ours.median / git.median:.1f} {TIMES}",
        judged=judged,
    )  # fmt: skip


def _timed(arena: Arena, commands: dict[str, tuple[str, ...]]) -> Callable[[str, int], Run]:
    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arena.path, arena.environment)

    return timed


def _commit(arena: Arena, folder: Path, name: str) -> None:
    (folder / name).write_text(f"{name}\n")
    arena.git("-C", str(folder), "add", name)
    arena.git("-C", str(folder), "commit", "-q", "-m", name)
