"""The row of worktrees: made, made from the pool, and removed, against git's own commands.

In the rounds of `_made` nothing is deleted: what a round has made is put aside, and goes when all are done. (Some file
systems are slow to make files where many were just deleted; ext4 without a journal takes up to twenty times as long.)
"""

from __future__ import annotations

import shutil
import statistics
import time

import measure
import rows_upkeep
from harness import TIMES, Bench, add_ratio, ms, tool
from repositories import Arena, BenchError

_ADD, _PLAIN, _CLAIM = "git worktree add", "worktree create", "worktree create, from the pool"
_START = 0.35  # seconds that the start of the program, and what a first checkpoint of 1,000 files takes, may cost
_GIT_REMOVE, _REMOVE = "git worktree remove", "worktree remove"


def worktree(bench: Bench) -> None:
    """Small and middle-sized worktrees made; the whole life of large ones."""
    for size in sorted({bench.size_near(1_000), bench.size_near(20_000)}):
        _made(bench, size)
    rows_upkeep.synced(bench)
    rows_upkeep.cleaned(bench)
    _whole_life(bench)


def _made(bench: Bench, size: int) -> None:
    """`worktree create` against `git worktree add`."""
    bench.say(f"worktree: {size} files made")
    arena = bench.arena(size, "a")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    aside = arena.path.with_name(arena.path.name + ".aside")
    commands = {
        _ADD: ("git", "worktree", "add", "--quiet", "--no-track", "-b", "plain", str(folder / "plain")),
        _PLAIN: tool(bench, "worktree", "create", "-q", "dev"),
    }

    def prepare(name: str, number: int) -> None:
        if folder.exists():
            aside.mkdir(exist_ok=True)
            folder.rename(aside / f"{number} {name}")
        arena.git("worktree", "prune")
        for ref in ("refs/heads/plain", "refs/heads/agent/dev", "refs/agentos/timelines/dev"):
            arena.git("update-ref", "-d", ref)

    try:
        series = measure.alternate(
            tuple(commands),
            bench.rounds,
            prepare,
            lambda name, _number: measure.run(commands[name], arena.path, arena.environment),
        )
    finally:
        for each in (folder, aside, arena.path / ".git"):
            shutil.rmtree(each, ignore_errors=True)
    ours, git = series[_PLAIN], series[_ADD]
    work = f"a worktree of {size:,} files made, against `{_ADD}`"
    if size != bench.size_near(1_000):
        add_ratio(bench, "worktree", work, ours, git, 1.5, judged=size == 20_000)
        return
    more = ours.median - git.median
    used = statistics.median(ours.processor) - statistics.median(git.processor)
    bench.add(
        "worktree",
        work,
        f"≤ {_START:g} s more",
        f"{more:.2f} s more",
        more <= _START,
        f"{ms(ours)} against {ms(git)} ({ours.spread()}; {git.spread()}), {used:.2f} s more of processor time,"
        f" mostly to start Python; {ours.median / git.median:.1f} {TIMES}",
        judged=size == 1_000,
    )


def _whole_life(bench: Bench) -> None:
    """Worktrees made, plainly and from the pool, and removed, against git's own commands for it.

    Ours also takes a checkpoint and writes a log entry, at the beginning and at the end. Every round removes what the
    one before it has made, and waits for what is deleted in the background.
    """
    size = bench.size_near(100_000)
    bench.say(f"worktree: {size} files")
    arena = bench.arena(size, "a")
    arena.fresh()
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    plain = folder / "plain"
    commands = {
        _ADD: ("git", "worktree", "add", "--quiet", "--no-track", "-b", "plain", str(plain)),
        _PLAIN: tool(bench, "worktree", "create", "-q", "dev"),
        _CLAIM: tool(bench, "worktree", "create", "-q", "dev"),
        _GIT_REMOVE: ("git", "worktree", "remove", str(plain)),
        _REMOVE: tool(bench, "worktree", "remove", "-q", "dev"),
    }
    ended = tool(bench, "worktree", "remove", "-q", "--delete-branch", "dev")

    def clear() -> None:
        """No worktree but the main one, none prepared, and nothing in the trash."""
        if plain.exists():
            arena.git("worktree", "remove", "--force", str(plain))
        arena.git("branch", "-D", "plain", may_fail=True)
        if (folder / "dev").exists():
            measure.run(ended, arena.path, arena.environment)
        arena.git("branch", "-D", "agent/dev", may_fail=True)
        _fill_pool(bench, arena, 0)
        waiting = [folder / ".agentos-trash", arena.path / ".git/agentos/trash"]
        deadline = time.monotonic() + 300
        while any(path.is_dir() and any(path.iterdir()) for path in waiting):
            if time.monotonic() > deadline:
                raise BenchError("what was removed is not deleted after five minutes")
            time.sleep(0.1)

    def prepare(name: str, _number: int) -> None:
        clear()
        if name == _CLAIM:
            _fill_pool(bench, arena, 1)
            arena.git("config", "agentos.pool", "0")  # so that nothing is prepared while others are timed
        if name in (_GIT_REMOVE, _REMOVE):
            measure.run(commands[_ADD if name == _GIT_REMOVE else _PLAIN], arena.path, arena.environment)
            if not arena.hurried:
                time.sleep(1.1)  # so that no stat data is suspect

    try:
        series = measure.alternate(
            tuple(commands),
            bench.rounds,
            prepare,
            lambda name, _number: measure.run(commands[name], arena.path, arena.environment),
        )
        clear()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(arena.path / ".git", ignore_errors=True)
    for what, ours, other, limit in (
        ("made", _PLAIN, _ADD, 1.15),
        ("made from the pool", _CLAIM, _ADD, 0.1),
        ("removed", _REMOVE, _GIT_REMOVE, 0.05),
    ):
        work = f"a worktree of {size:,} files {what}, against `{other}`"
        add_ratio(bench, "worktree", work, series[ours], series[other], limit, judged=size == 100_000)


def _fill_pool(bench: Bench, arena: Arena, number: int) -> None:
    arena.git("config", "agentos.pool", str(number))
    measure.run(tool(bench, "worktree", "refill", "-q"), arena.path, arena.environment)
