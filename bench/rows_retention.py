"""The row of forgetting: most of many checkpoints are forgotten, and what is left is listed and measured."""

from __future__ import annotations

import json
import shutil

import measure
from harness import Bench, add_ratio, tool
from repositories import Arena, BenchError, tree_paths

_MAKE_MANY = """
import sys
from pathlib import Path
from git_agentos import open_workspace
workspace = open_workspace(".")
for number in range(int(sys.argv[1])):
    Path(sys.argv[2]).write_text(f"version {number}\\n")
    workspace.checkpoint(f"checkpoint {number}", task_id=f"task-{number // 100}", trigger="periodic")
"""
_KEPT = 10  # one of so many stays


def forget(bench: Bench) -> None:
    """Nine of ten checkpoints, all over the timeline, are forgotten by their ids; once the newest tenth is kept by a
    rule. Then the rest is listed, in turns with a timeline that never had more."""
    size, count = bench.size_near(1_000), bench.scale.listed
    kept = -(-count // _KEPT)
    many, few = _with_checkpoints(bench, "many", size, count), _with_checkpoints(bench, "few", size, kept)
    environment, judged = many.environment, count == 10_000
    everything = tool(bench, "checkpoint", "list", "--json")
    git_dir, backup = many.path / ".git", many.backup.parent / "forget-backup"
    shutil.rmtree(backup, ignore_errors=True)
    shutil.copytree(git_dir, backup, symlinks=True)
    listed = json.loads(measure.run(everything, many.path, environment).stdout)["checkpoints"]
    ids = [each["id"] for number, each in enumerate(listed) if number % _KEPT]
    commands = {
        "storage": tool(bench, "storage", "--json"),
        "ids": tool(bench, "forget", "--json", *ids),
        "rule": tool(bench, "forget", "--json", "--keep-last", str(kept - 1)),
    }

    def fresh(_name: str, _number: int) -> None:
        shutil.rmtree(git_dir, ignore_errors=True)
        shutil.copytree(backup, git_dir, symlinks=True)

    series = measure.alternate(
        tuple(commands),
        min(bench.rounds, 3),
        fresh,
        lambda name, _number: measure.run(commands[name], many.path, environment),
    )
    for key, work, limit in (
        ("ids", f"forget {len(ids):,} of {count:,} checkpoints, nine of each ten, by their ids", 10),
        ("rule", f"forget {count - kept:,} of {count:,} checkpoints by `--keep-last`", 10),
        ("storage", f"`storage` of {count:,} checkpoints", 3),
    ):
        found = series[key]
        bench.add("forget", work, f"≤ {limit} s", f"{found.median:.2f} s", found.median <= limit, found.spread(),
                  judged=judged)  # fmt: skip
    fresh("", 0)
    measure.run(commands["ids"], many.path, environment)
    arenas = {"many": many, "few": few}
    lists = measure.alternate(
        ("many", "few"),
        bench.rounds,
        lambda _name, _number: None,
        lambda name, _number: measure.run(everything, arenas[name].path, environment),
    )
    if len(json.loads(measure.run(everything, many.path, environment).stdout)["checkpoints"]) != kept:
        raise BenchError("not as many checkpoints are left as were kept")
    work = f"list of the {kept:,} that are left, against a timeline that never had more"
    add_ratio(bench, "forget", work, lists["many"], lists["few"], 1.2, judged=judged)
    shutil.rmtree(backup, ignore_errors=True)
    (many.backup.parent / "taken").unlink()  # it has not so many any more


def _with_checkpoints(bench: Bench, name: str, size: int, count: int) -> Arena:
    arena = bench.arena(size, f"forget-{name}")
    done = arena.backup.parent / "taken"
    if not done.exists() or done.read_text() != str(count):
        bench.say(f"forget: taking {count} checkpoints")
        arena.fresh()
        command = (bench.tools.python, "-c", _MAKE_MANY, str(count), tree_paths(size)[-1])
        measure.run(command, arena.path, arena.environment, timeout=7200)
        done.write_text(str(count))
    return arena
