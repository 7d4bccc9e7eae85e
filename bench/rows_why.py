"""The row of `why`: which turn each line of a file comes from, in a worktree with many checkpoints."""

from __future__ import annotations

import json

import measure
from harness import Bench, tool
from repositories import BenchError, tree_paths

_LINES = 400
_STEPS = 5  # checkpoints of a turn
_MAKE_TURNS = """
import json, os, sys
from pathlib import Path
from git_agentos.guard.harness import handler
count, lines, steps = map(int, sys.argv[1:4])
paths = [Path(each) for each in sys.argv[4:]]
def send(event, **more):
    body = {"session_id": "bench", "cwd": os.getcwd(), "hook_event_name": event, **more}
    caller = handler.Caller(os.getcwd(), dict(os.environ), os.getpid())
    handler.respond("claude-code", json.dumps(body).encode(), caller)
for path in paths:
    path.write_text("".join(f"line {n}\\n" for n in range(lines)))
for number in range(count):
    if number % steps == 0:
        send("UserPromptSubmit", prompt=f"prompt {number}")
        continue
    path = paths[number % len(paths)]
    text = path.read_text().splitlines()
    text[number * 7 % lines] = f"changed by {number}"
    path.write_text("\\n".join(text) + "\\n")
    send("PostToolUse", tool_name="Edit", tool_input={"file_path": str(path)}, tool_response={})
    if number % steps == steps - 1:
        send("Stop")
"""


def why(bench: Bench) -> None:
    """Every line of one of three files that turns have changed, asked for by the command."""
    size, count = bench.size_near(20_000), bench.scale.grown
    arena = bench.arena(size, "why")
    paths = tree_paths(size)[-3:]
    done = arena.backup.parent / "turns"
    if not done.exists() or done.read_text() != str(count):
        bench.say(f"why: {size} files, {count} checkpoints")
        arena.fresh()
        command = (bench.tools.python, "-c", _MAKE_TURNS, *map(str, (count, _LINES, _STEPS)), *paths)
        measure.run(command, arena.path, arena.environment, timeout=7200)
        done.write_text(str(count))
    command = tool(bench, "why", "--json", paths[0])
    series = measure.alternate(
        ("why",),
        bench.rounds,
        lambda _name, _number: None,
        lambda _name, _number: measure.run(command, arena.path, arena.environment),
    )["why"]
    lines = json.loads(measure.run(command, arena.path, arena.environment).stdout)["lines"]
    if len(lines) != _LINES or not any(each["turn"] for each in lines):
        raise BenchError("no turn was found")
    work = f"`why` of a file of {_LINES} lines, {size:,} files, {count:,} checkpoints"
    judged = size == 20_000 and count == 1_000
    bench.add("why", work, "≤ 1 s", f"{series.median:.2f} s", series.median <= 1.0, series.spread(), judged=judged)
