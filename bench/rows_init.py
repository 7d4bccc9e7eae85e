"""The row of `init`: a repository that nothing protects yet is protected."""

from __future__ import annotations

import json
import shutil

import measure
from harness import Bench, tool
from repositories import BenchError

_HARNESSES = ("claude-code", "opencode")


def init(bench: Bench) -> None:
    """Hooks, two harnesses and the daemon, whole process; what was set up is removed each time."""
    size = bench.size_near(20_000)
    bench.say(f"init: {size} files")
    arena = bench.arena(size, "init")
    arena.fresh()
    arena.git("config", "agentos.watch", "auto")
    command = tool(bench, "init", "--json", *(word for name in _HARNESSES for word in ("--harness", name)))
    answers = []

    def prepare(_name: str, _number: int) -> None:
        for words in (("init", "--remove", "-q"), ("watch", "stop")):
            measure.run(tool(bench, *words), arena.path, arena.environment)
        arena.settle()

    def timed(_name: str, _number: int) -> measure.Run:
        done = measure.run(command, arena.path, arena.environment)
        answers.append(json.loads(done.stdout))
        return done

    try:
        series = measure.alternate(("init",), bench.rounds, prepare, timed)["init"]
    finally:
        measure.run(tool(bench, "init", "--remove", "-q"), arena.path, arena.environment)
        measure.run(tool(bench, "watch", "stop"), arena.path, arena.environment)
        shutil.rmtree(arena.path / ".git", ignore_errors=True)
    wanted = {"git-commands", "refs", "history", *_HARNESSES}
    for each in answers:
        acts = {layer["name"] for layer in each["layers"] if layer["acts"]}
        if not each["written"] or not wanted <= acts:
            raise BenchError(f"init has not set up {', '.join(sorted(wanted - acts))}")
    work = f"`init` in a repository of {size:,} files: hooks, {len(_HARNESSES)} harnesses, the daemon"
    judged = size == 20_000
    bench.add("init", work, "≤ 2 s", f"{series.median:.2f} s", series.median <= 2.0, series.spread(), judged=judged)
