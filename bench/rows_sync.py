"""The rows of `sync`: checkpoints pushed against git's own push of the same refs, a sync with nothing new against the
one question that it asks, and a restore of what was fetched against one of what is here."""

from __future__ import annotations

import shutil
from pathlib import Path

import measure
from harness import Bench, add_ratio, tool
from measure import Run
from repositories import Arena, GitDirectory, choose_changes

_CHECKPOINTS = 100
_TIMELINES = 50
_PUSH, _SYNC = "git push", "sync --push"
_ASK, _NOTHING = "git ls-remote", "sync --all"
_HERE, _FETCHED = "restore", "restore --host"
_MAIN = "refs/agentos/timelines/main"


def sync(bench: Bench) -> None:
    """Of a repository of 20,000 files and a bare repository on the same disk."""
    size = bench.size_near(20_000)
    bench.say(f"sync: {size} files")
    judged = size == 20_000
    arena = bench.arena(size, "a")
    arena.fresh()
    shared = arena.path.with_name(arena.path.name + ".shared")
    kept = arena.path.with_name(arena.path.name + ".kept")
    try:
        _make_remote(arena, shared)
        changes = choose_changes(size, bench.scale.changes)
        for number in range(4 if bench.scale.hurried else _CHECKPOINTS):
            arena.dirty(changes, 10 + number)
            measure.run(tool(bench, "checkpoint", "-q", "-m", "bench"), arena.path, arena.environment)
        shutil.copytree(shared, kept)
        _pushed(bench, arena, shared, kept, judged)
        _nothing_new(bench, arena, judged)
        _restored(bench, arena, judged)
    finally:
        for each in (shared, kept, arena.path / ".git"):
            shutil.rmtree(each, ignore_errors=True)


def _make_remote(arena: Arena, shared: Path) -> None:
    """A bare repository that has the branch."""
    shutil.rmtree(shared, ignore_errors=True)
    arena.git("init", "-q", "--bare", str(shared))
    arena.git("remote", "add", "origin", shared.as_uri())
    arena.git("push", "-q", "origin", "HEAD:refs/heads/main")
    arena.git("config", "agentos.sync.host", "bench")


def _pushed(bench: Bench, arena: Arena, shared: Path, kept: Path, judged: bool) -> None:
    commands = {
        _PUSH: ("git", "push", "-q", "origin", f"{_MAIN}:refs/agentos/hosts/bench/timelines/main"),
        _SYNC: tool(bench, "sync", "-q", "--push"),
    }
    before = GitDirectory(arena)

    def prepare(_name: str, _number: int) -> None:
        before.reset()
        shutil.rmtree(shared)
        shutil.copytree(kept, shared)

    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arena.path, arena.environment)

    series = measure.alternate(tuple(commands), bench.rounds, prepare, timed)
    count = arena.git("rev-list", "--first-parent", "--count", "--min-parents=2", _MAIN).decode().strip()
    work = f"{count} checkpoints of {bench.scale.changes} changes pushed, {arena.size:,} files, against `{_PUSH}`"
    add_ratio(bench, "sync", work, series[_SYNC], series[_PUSH], 1.3, judged=judged)


def _nothing_new(bench: Bench, arena: Arena, judged: bool) -> None:
    tip = arena.git("rev-parse", _MAIN).decode().strip()
    lines = "".join(f"create refs/agentos/timelines/dev-{number} {tip}\n" for number in range(_TIMELINES - 1))
    arena.git("update-ref", "--stdin", stdin=lines.encode())
    commands = {_ASK: ("git", "ls-remote", "-q", "origin"), _NOTHING: tool(bench, "sync", "-q", "--all")}
    measure.run(commands[_NOTHING], arena.path, arena.environment)

    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arena.path, arena.environment)

    series = measure.alternate(tuple(commands), max(bench.rounds, 5), lambda _name, _number: None, timed)
    work = f"sync with nothing new, {_TIMELINES} timelines, against `{_ASK}`"
    add_ratio(bench, "sync", work, series[_NOTHING], series[_ASK], 1.5, judged=judged)


def _restored(bench: Bench, arena: Arena, judged: bool) -> None:
    arena.git("push", "-q", "origin", f"{_MAIN}:refs/agentos/hosts/other/timelines/main")
    measure.run(tool(bench, "sync", "-q", "--fetch"), arena.path, arena.environment)
    changes = choose_changes(arena.size, bench.scale.changes)
    commands = {
        _HERE: tool(bench, "restore", "-q", "--no-branch", "@{1}"),
        _FETCHED: tool(bench, "restore", "-q", "--no-branch", "@{1}", "--host", "other"),
    }
    before = GitDirectory(arena)

    def prepare(_name: str, number: int) -> None:
        before.reset()
        arena.wreck(changes, 1000 + number)

    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arena.path, arena.environment)

    series = measure.alternate(tuple(commands), bench.rounds, prepare, timed)
    work = f"a fetched checkpoint restored, {arena.size:,} files, against one of this clone"
    add_ratio(bench, "sync", work, series[_FETCHED], series[_HERE], 1.1, judged=judged)
