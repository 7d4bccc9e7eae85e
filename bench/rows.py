"""One function for each row of the table of targets. Each sets its repositories up, measures, and returns figures.

`ROWS` names them for `run.py --rows`.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import measure
import rows_fleet
import rows_guard
import rows_init
import rows_large
import rows_retention
import rows_run
import rows_secrets
import rows_sync
import rows_tdd
import rows_ui
import rows_watch
import rows_why
import rows_worktree
import toolbox
from harness import TIMES, Bench, Cell, add_ratio, bare_imports, ms, tool
from measure import Run, Series
from repositories import Arena, BenchError, Changes, GitDirectory, choose_changes, content, store_size, tree_paths


def checkpoint(bench: Bench) -> None:
    """Checkpoints of all contenders, at every size and number of changes; two targets at 100k files and 30 changes."""
    for size in bench.scale.sizes:
        for count in bench.scale.counts:
            bench.say(f"checkpoint: {size} files, {count} changes")
            bench.cells.append(_cell(bench, size, count))
    size = bench.size_near(100_000)
    cell = next(each for each in bench.cells if (each.size, each.count) == (size, bench.scale.changes))
    for other, limit in ((toolbox.STASH_CREATE, 0.75), (toolbox.STASH_PUSH, 0.22)):
        add_ratio(
            bench,
            "checkpoint",
            f"checkpoint, {size:,} files, {cell.count} changes ({cell.count // 3} untracked), against `{other}`",
            cell.series[toolbox.OURS],
            cell.series[other],
            limit,
            judged=size == 100_000,
        )


def _cell(bench: Bench, size: int, count: int) -> Cell:
    changes = choose_changes(size, count)
    still, moving = bench.arena(size, "a"), bench.arena(size, "b")
    contenders = bench.tools.contenders
    problems = {name: each.problem for name, each in contenders.items() if each.problem}
    still.fresh()
    still.dirty(changes, 1)
    still.settle()
    for name, each in contenders.items():  # so that every tool has a checkpoint of another state, and its caches
        if not each.moves and name not in problems:
            try:
                measure.run(each.argv, still.path, still.environment)
            except BenchError as error:
                problems[name] = str(error)
    still.dirty(changes, 2)
    still.settle()
    baseline = GitDirectory(still)
    if any(each.moves for each in contenders.values()):
        moving.fresh()
        if not count:
            problems |= {name: "nothing to put away" for name, each in contenders.items() if each.moves}

    def prepare(name: str, number: int) -> None:
        if contenders[name].moves:
            moving.dirty(changes, 10 + number)
            moving.settle()
        else:
            baseline.reset()

    def timed(name: str, _number: int) -> Run:
        arena = moving if contenders[name].moves else still
        return measure.run(contenders[name].argv, arena.path, arena.environment)

    def after(name: str, number: int) -> None:
        if contenders[name].moves:
            moving.git("stash", "drop", "-q")
            _check_state(moving, moving.expected(changes, 10 + number))
        elif not baseline.reset() and count:
            raise BenchError("exit code 0, but nothing was saved")

    runnable = [name for name in contenders if name not in problems]
    for name in runnable:  # one round that does not count
        prepare(name, -1)
        try:
            timed(name, -1)
            after(name, -1)
        except BenchError as error:
            problems[name] = str(error)
    series = measure.alternate([name for name in runnable if name not in problems], bench.rounds, prepare, timed, after)
    baseline.reset()
    return Cell(size, count, {name: series.get(name) or Series(problem=problems[name]) for name in contenders})


def startup(bench: Bench) -> None:
    """The commands that are used most, in a small repository: whole processes, against the bare imports."""
    size = bench.size_near(1_000)
    bench.say(f"startup: {size} files")
    arena, baseline = _checkpointed(bench, size)
    rows = {
        f"checkpoint, {size:,} files, {bench.scale.changes} changes": (("checkpoint", "-q", "-m", "bench"), 0.75),
        f"`git agentos status`, {size:,} files": (("status",), 0.8),
        f"`git agentos checkpoint list -n 20`, {size:,} files": (("checkpoint", "list", "-n", "20"), 0.8),
    }
    commands = {work: tool(bench, *argv) for work, (argv, _) in rows.items()} | {toolbox.IMPORTS: bare_imports(bench)}
    series = measure.alternate(
        tuple(commands),
        max(bench.rounds, 15) if bench.rounds > 1 else 1,
        lambda _name, _number: _ignore(baseline.reset()),
        lambda name, _number: measure.run(commands[name], arena.path, arena.environment),
    )
    baseline.reset()
    for work, (_, limit) in rows.items():
        add_ratio(
            bench,
            "startup",
            f"{work}, whole process, against `{toolbox.IMPORTS}`",
            series[work],
            series[toolbox.IMPORTS],
            limit,
            judged=size == 1_000,
        )


def untracked(bench: Bench) -> None:
    """The second checkpoint beside many large untracked files of which one changed; against that one file alone."""
    size, scale = bench.size_near(20_000), bench.scale
    each = scale.bulk_bytes // scale.bulk_files
    bench.say(f"untracked: {scale.bulk_files} files of {each} bytes")
    arenas = {"with": bench.arena(size, "a"), "without": bench.arena(size, "b")}
    names = [f"bulk/{i // 50:03d}/{i:05d}.bin" for i in range(scale.bulk_files)]
    changed = names[len(names) // 2]
    command = tool(bench, "checkpoint", "-q", "-m", "bench")
    first: dict[str, float] = {}
    try:
        for key, arena in arenas.items():
            arena.fresh()
            for i, name in enumerate(names if key == "with" else [changed]):
                arena.write(name, random.Random(i).randbytes(each))
            arena.settle()
            first[key] = measure.run(command, arena.path, arena.environment).seconds
            arena.write(changed, random.Random(-1).randbytes(each))
            arena.settle()
        baselines = {key: GitDirectory(arena) for key, arena in arenas.items()}
        series = measure.alternate(
            tuple(arenas),
            bench.rounds,
            lambda key, _number: _ignore(baselines[key].reset()),
            lambda key, _number: measure.run(command, arenas[key].path, arenas[key].environment),
        )
    finally:
        for arena in arenas.values():  # 2 GiB that the cache need not hold
            shutil.rmtree(arena.path / "bulk", ignore_errors=True)
            shutil.rmtree(arena.path / ".git", ignore_errors=True)
    add_ratio(
        bench,
        "untracked",
        f"second checkpoint with {_size(scale.bulk_bytes)} in {scale.bulk_files:,} untracked files, one changed "
        f"({size:,} files tracked), against the changed one alone",
        series["with"],
        series["without"],
        1.15,
        judged=size == 20_000,
        more=f"; the first took {first['with']:.1f} s",
    )


def restore(bench: Bench) -> None:
    """Back from a wreck: our restore, which saves the wreck first, against three git commands, which do not."""
    size = bench.size_near(100_000)
    bench.say(f"restore: {size} files")
    changes = choose_changes(size, bench.scale.changes)
    arenas = {toolbox.OURS: bench.arena(size, "a"), toolbox.RESTORE_STASH: bench.arena(size, "b")}
    for arena in arenas.values():
        arena.fresh()
        arena.dirty(changes, 1)
        arena.settle()
    ours = arenas[toolbox.OURS]
    taken = measure.run(tool(bench, "checkpoint", "--json", "-m", "bench"), ours.path, ours.environment)
    arenas[toolbox.RESTORE_STASH].git("stash", "push", "-q", "-u")
    commands = {
        toolbox.OURS: tool(bench, "restore", "-q", str(json.loads(taken.stdout)["id"])),
        toolbox.RESTORE_STASH: ("sh", "-c", "git reset -q --hard && git clean -qfd && git stash apply -q --index"),
    }
    status: dict[str, bytes] = {}

    def prepare(name: str, number: int) -> None:
        arenas[name].git("symbolic-ref", "HEAD", "refs/heads/main")
        arenas[name].wreck(changes, 10 + number)
        arenas[name].settle()

    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arenas[name].path, arenas[name].environment)

    def after(name: str, _number: int) -> None:
        _check_state(arenas[name], arenas[name].expected(changes, 1))
        found = arenas[name].git("status", "--porcelain", "-z", "--untracked-files=all")
        if status.setdefault("all", found) != found:
            raise BenchError("the restored states differ")

    for name in (toolbox.RESTORE_STASH, toolbox.OURS):
        prepare(name, -1)
        timed(name, -1)
        after(name, -1)
    series = measure.alternate(tuple(arenas), bench.rounds, prepare, timed, after)
    add_ratio(
        bench,
        "restore",
        f"restore, {size:,} files, {len(changes)} changes, against `{toolbox.RESTORE_STASH} --index`",
        series[toolbox.OURS],
        series[toolbox.RESTORE_STASH],
        0.7,
        judged=size == 100_000,
    )


_MAKE_MANY = """
import sys
from pathlib import Path
from git_agentos import open_workspace
workspace = open_workspace(".")
for number in range(int(sys.argv[1])):
    Path(sys.argv[2]).write_text(f"version {number}\\n")
    workspace.checkpoint(f"checkpoint {number}", task_id=f"task-{number // 100}")
"""


def _many_checkpoints(bench: Bench) -> tuple[Arena, Path]:
    """A repository with many checkpoints, and the file that says that they are all there."""
    size, count = bench.size_near(1_000), bench.scale.listed
    arena = bench.arena(size, "list")
    done = arena.backup.parent / "listed"
    if not done.exists() or done.read_text() != str(count):
        bench.say(f"list: taking {count} checkpoints (kept in the cache)")
        arena.fresh()
        many = (bench.tools.python, "-c", _MAKE_MANY, str(count), tree_paths(size)[-1])
        measure.run(many, arena.path, arena.environment, timeout=7200)
        done.write_text(str(count))
    return arena, done


def listing(bench: Bench) -> None:
    """The list of many checkpoints, its newest 20, and `latest`. Objects lie loose, as they were written."""
    count = bench.scale.listed
    everything = tool(bench, "checkpoint", "list", "--json")
    arena, done = _many_checkpoints(bench)
    bench.say(f"list: {count} checkpoints")
    listed = len(json.loads(measure.run(everything, arena.path, arena.environment).stdout)["checkpoints"])
    if listed != count:
        done.unlink()
        raise BenchError(f"the list has {listed} checkpoints, not {count}")
    commands = {
        "whole": everything,
        "newest": tool(bench, "checkpoint", "list", "--json", "-n", "20"),
        "latest": tool(bench, "checkpoint", "show", "latest", "--json"),
        "version": tool(bench, "--version"),
        "imports": bare_imports(bench),
    }
    series = measure.alternate(
        tuple(commands),
        bench.rounds,
        lambda _name, _number: None,
        lambda name, _number: measure.run(commands[name], arena.path, arena.environment),
    )
    whole, judged = series["whole"], count == 10_000
    bench.add(
        "list",
        f"list of {count:,} checkpoints as JSON",
        "≤ 1.5 s",
        f"{whole.median:.2f} s",
        whole.median <= 1.5,
        f"{whole.spread()}; objects loose, never packed",
        judged=judged,
    )
    for key, work in (("newest", "newest 20"), ("latest", "`latest`")):
        over = series[key].median - series["imports"].median
        bench.add(
            "list",
            f"{work} of {count:,} checkpoints as JSON, over start-up (`{toolbox.IMPORTS}`)",
            "≤ 0.2 s",
            f"{over:.3f} s",
            over <= 0.2,
            f"{ms(series[key])} in all; imports {ms(series['imports'])}, `--version` {ms(series['version'])}",
            judged=judged,
        )


def growth(bench: Bench) -> None:
    """Many checkpoints of one changed file each: how the store grows, and whether the last are as fast as the first.

    Time is compared between two copies: one takes its last eight in turns with the other's 8th to 15th, so that both
    meet the same noise.
    """
    size, count = bench.size_near(20_000), bench.scale.grown
    bench.say(f"growth: {count} checkpoints, {size} files")
    old, young = bench.arena(size, "a"), bench.arena(size, "b")
    path = tree_paths(size)[-1]
    command = tool(bench, "checkpoint", "-q", "-m", "bench")
    neighbours = 8
    taken = {"old": 0, "young": 0}
    arenas = {"old": old, "young": young}

    def edit(key: str, _number: int = 0) -> None:
        taken[key] += 1
        arenas[key].write(path, content(path, taken[key]))

    def take(key: str, _number: int = 0) -> Run:
        return measure.run(command, arenas[key].path, arenas[key].environment)

    old.fresh()
    young.fresh()
    before = store_size(old.path / ".git")
    inorder = []
    for _ in range(count - neighbours):
        edit("old")
        inorder.append(take("old").seconds)
    for _ in range(neighbours - 1):
        edit("young")
        take("young")
    series = measure.alternate(("old", "young"), neighbours, edit, take)
    after = store_size(old.path / ".git")
    early = statistics.median(inorder[4:15])
    late = series["old"].median
    apparent, disk = ((now - then) / count / 1024 for then, now in zip(before, after, strict=True))
    judged = (size, count) == (20_000, 1_000)
    for name, grown, note in (
        ("bytes in files", apparent, "what the store holds, apparent sizes"),
        ("space on disk", disk, "the same as the file system allots it, folders included (`du`)"),
    ):
        bench.add(
            "growth",
            f"{count:,} checkpoints of one changed file each, {size:,} files: growth of the store, {name}",
            "≤ 8 KiB a checkpoint before gc",
            f"{grown:.1f} KiB",
            grown <= 8,
            note,
            judged=judged,
        )
    add_ratio(
        bench,
        "growth",
        f"time of the {count:,}th of them (median of the last 8) against the 10th (8th to 15th, taken in turns)",
        series["old"],
        series["young"],
        1.2,
        judged=judged,
        more=f"; the 5th to 15th in the order of one run {early * 1000:.0f} ms: {late / early:.2f} {TIMES}",
    )


def memory(bench: Bench) -> None:
    """Peak memory of a checkpoint, of all its processes together and of the largest."""
    size = bench.size_near(100_000)
    bench.say(f"memory: {size} files")
    arena, baseline = _checkpointed(bench, size)
    peaks: dict[str, tuple[float, float]] = {}
    contenders = bench.tools.contenders
    for name in (toolbox.OURS, toolbox.STASH_CREATE):
        found = []
        for _ in range(min(bench.rounds, 5)):
            baseline.reset()
            found.append(measure.peak_of_tree(contenders[name].argv, arena.path, arena.environment))
        peaks[name] = (
            statistics.median(largest for largest, _ in found) / 1024,
            statistics.median(together for _, together in found) / 1024,
        )
    baseline.reset()
    floor = measure.own_peak_kib() / 1024
    for which, name in ((1, "all processes together"), (0, "largest process")):
        ours, stash = peaks[toolbox.OURS][which], peaks[toolbox.STASH_CREATE][which]
        limit = max(1.5 * stash, 120)
        bench.add(
            "memory",
            f"peak memory of a checkpoint, {size:,} files, {bench.scale.changes} changes, {name}",
            f"≤ 1.5 {TIMES} `{toolbox.STASH_CREATE}` or 120 MiB: {limit:.0f} MiB",
            f"{ours:.0f} MiB",
            ours <= limit,
            f"`{toolbox.STASH_CREATE}` {stash:.0f} MiB"
            + ("" if which else f"; by `wait4`, which cannot see below the harness's own {floor:.0f} MiB"),
            judged=size == 100_000,
        )


_RESOLVE = """
import json, time
from git_agentos import get_checkpoint_db_path
found = []
for _ in range(30):
    begin = time.perf_counter()
    get_checkpoint_db_path()
    found.append(time.perf_counter() - begin)
print(json.dumps(found))
"""


def database(bench: Bench) -> None:
    """Where the workflow database is, asked in process: the first time, which makes its folder, and then again."""
    size = bench.size_near(100_000)
    bench.say(f"database: {size} files")
    arena = bench.arena(size, "a")
    arena.fresh()
    found = json.loads(measure.run((bench.tools.python, "-c", _RESOLVE), arena.path, arena.environment).stdout)
    median = statistics.median(found)
    bench.add(
        "database",
        f"the workflow database's path resolved in process, {size:,} files",
        "≤ 50 ms",
        f"{median * 1000:.1f} ms",
        median <= 0.05,
        f"median of {len(found)}; the first, which makes the folder, {found[0] * 1000:.1f} ms; "
        f"{min(found) * 1000:.1f}-{max(found) * 1000:.1f} ms",
        judged=size == 100_000,
    )


_FILL_AND_SEARCH = """
import json, random, sys, time
from git_agentos import log, open_workspace
from git_agentos.checkpoint import log_sync
from git_agentos.store import database, rows
count = int(sys.argv[1])
context = open_workspace(".").context
chosen = random.Random(1)
words = [a + b for a in "parse render token merge index queue lock cache graph route".split()
         for b in "r s d ing Error Test File Node Map Tree".split()]
def say(n):
    return " ".join(chosen.choice(words) for _ in range(n))
def make(n):
    return rows.Entry(
        id=f"{n:032x}",
        timestamp=f"2026-{1 + n * 11 // count:02d}-{1 + n % 28:02d}T{n % 24:02d}:{n % 60:02d}:00.{n % 1000:03d}Z",
        type=("action", "decision", "error", "nudge")[n % 4], summary=f"{say(4)} number {n}", details={"why": say(8)},
        commit=None, files_changed=[f"src/{say(1)}/{say(1)}.py"], task_id=None, checkpoint_id=None,
        agent_id=f"dev-{n % 20:03d}", worktree="main")
def fill(connection, scope):
    with database.transaction(connection):
        rows.insert_entries(connection, scope, map(make, range(count)), "0" * 40)
log_sync.with_database(context, fill, make=True)
asked = {
    "one entry": {"text": f"number {count // 3}"},
    "two words": {"text": "queueTest lockFile"},
    "the newest 50 of a word in every entry": {"text": "number", "limit": 50},
    "nothing": {"text": "there is no such thing"},
}
found = {}
for name, wanted in asked.items():
    found[name] = []
    for _ in range(9):
        begin = time.perf_counter()
        got = log.entries(context, **wanted)
        found[name].append(time.perf_counter() - begin)
    assert bool(got) == (name != "nothing") or name == "two words"  # which a short log need not have
print(json.dumps(found))
"""


def log(bench: Bench) -> None:
    """Searches of a long log, in process, each opening the database anew."""
    size, count = bench.size_near(1_000), bench.scale.logged
    bench.say(f"log: {count} entries")
    arena = bench.arena(size, "a")
    arena.fresh()
    script = (bench.tools.python, "-c", _FILL_AND_SEARCH, str(count))
    found = json.loads(measure.run(script, arena.path, arena.environment).stdout)
    medians = {name: statistics.median(times) for name, times in found.items()}
    slowest = max(medians.values())
    bench.add(
        "log",
        f"search of {count:,} log entries in process, slowest of {len(medians)} kinds of search (medians of 9)",
        "≤ 0.1 s",
        f"{slowest:.3f} s",
        slowest <= 0.1,
        "; ".join(f"{name} {median * 1000:.0f} ms" for name, median in medians.items()),
        judged=count == 100_000,
    )


_MAKE_AGENTS = """
import json, os, random, sys
from git_agentos import open_workspace
from git_agentos.git import trees
from git_agentos.worktree import record
count, paths = int(sys.argv[1]), json.load(sys.stdin)
context = open_workspace(".").context
repository, location = context.repository, context.location
base = repository.git("rev-parse", "HEAD").decode().strip()
hot = paths[:: max(1, len(paths) // 40)]
for n in range(count):
    chosen, id_ = random.Random(n), f"dev-{n:03d}"
    root = os.path.join(os.path.dirname(location.root), "agents", id_)
    repository.git("worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", "agent/" + id_, root, base)
    changes = {}
    with repository.writer() as writer:
        for path in sorted({*chosen.sample(paths, min(25, len(paths))), *chosen.sample(hot, min(5, len(hot)))}):
            mode, oid = trees.find(repository, repository.commit_tree(base), path.encode())
            lines = repository.blob(oid).split(b"\\n")
            lines[chosen.randrange(len(lines))] = b"changed by " + id_.encode()
            changes[path.encode()] = (mode, writer.write("blob", b"\\n".join(lines)))
        tree = trees.edit(writer, repository.commit_tree(base), changes)
        commit = writer.write_commit(tree, [base], b"work\\n", b"bench <bench@localhost>", 1_800_000_000)
        writer.flush()
    repository.git("update-ref", "refs/heads/agent/" + id_, commit)
    made = record.Record(id_, "agent/" + id_, root, "main", base, "2026-01-01T00:00:00.000Z", "bench")
    record.write(os.path.join(location.common_dir, "worktrees", id_), made)
"""


def conflicts(bench: Bench) -> None:
    """Every two of many agents' branches merged in memory; the worktrees themselves are not looked at."""
    size, count = bench.size_near(20_000), bench.scale.agents
    bench.say(f"conflicts: {size} files, {count} agents")
    arena = bench.arena(size, "conflicts")
    arena.fresh()
    shutil.rmtree(arena.path.parent / "agents", ignore_errors=True)
    arena.git("worktree", "prune")
    for name in arena.git("for-each-ref", "--format=%(refname)", "refs/heads/agent").decode().split():
        arena.git("update-ref", "-d", name)
    script = f"import io, sys; sys.stdin = io.StringIO({json.dumps(list(tree_paths(size)))!r})\n{_MAKE_AGENTS}"
    made = arena.path.parent / "make_agents.py"
    made.write_text(script, encoding="utf-8")
    measure.run((bench.tools.python, str(made), str(count)), arena.path, arena.environment)
    command = tool(bench, "worktree", "conflicts", "--json")
    pairs = json.loads(measure.run(command, arena.path, arena.environment).stdout)["pairs"]
    series = measure.alternate(
        ("conflicts",),
        bench.rounds,
        lambda _name, _number: None,
        lambda _name, _number: measure.run(command, arena.path, arena.environment),
    )["conflicts"]
    bench.add(
        "conflicts",
        f"`worktree conflicts` of {count} agents ({count * (count - 1) // 2} pairs), {size:,} files, whole process",
        "≤ 2 s",
        f"{series.median:.2f} s",
        series.median <= 2.0,
        f"{series.spread()}; up to 30 files changed by each, {len(pairs)} pairs in conflict",
        judged=size == 20_000 and count == 20,
    )


ROWS: dict[str, Callable[[Bench], None]] = {
    "checkpoint": checkpoint,
    "startup": startup,
    "untracked": untracked,
    "restore": restore,
    "large": rows_large.large,
    "list": listing,
    "forget": rows_retention.forget,
    "growth": growth,
    "memory": memory,
    "database": database,
    "log": log,
    "why": rows_why.why,
    "conflicts": conflicts,
    "worktree": rows_worktree.worktree,
    "guard": rows_guard.guard,
    "init": rows_init.init,
    "watch": rows_watch.watch,
    "served": rows_watch.served,
    "many": rows_watch.many,
    "sync": rows_sync.sync,
    "ui": lambda bench: rows_ui.ui(bench, lambda each: _many_checkpoints(each)[0]),
    "rollback": rows_run.rollback,
    "fleet": rows_fleet.fleet,
    "tdd": rows_tdd.tdd,
    "secrets": rows_secrets.secrets,
}


def _checkpointed(bench: Bench, size: int) -> tuple[Arena, GitDirectory]:
    """A dirty arena that has a checkpoint of another dirty state, and its git folder as it is now."""
    changes: Changes = choose_changes(size, bench.scale.changes)
    arena = bench.arena(size, "a")
    arena.fresh()
    arena.dirty(changes, 1)
    arena.settle()
    measure.run(tool(bench, "checkpoint", "-q", "-m", "bench"), arena.path, arena.environment)
    arena.dirty(changes, 2)
    arena.settle()
    return arena, GitDirectory(arena)


def _check_state(arena: Arena, expected: dict[str, bytes]) -> None:
    """The worktree holds these bytes, or the contender has not done its work."""
    for path, data in expected.items():
        found = arena.path / path
        if not found.is_file() or found.read_bytes() != data:
            raise BenchError("the worktree was not brought back")


def _size(count: int) -> str:
    return f"{count / (1 << 30):g} GiB" if count >= 1 << 30 else f"{count // 1024:,} KiB"


def _ignore(_value: object) -> None:
    """For a callback whose answer nobody needs."""
