"""The row of `git agentos tdd`: all that stands before the first call of a model.

The design document and ten context files are read and held against every rule, secrets are looked for and tokens
estimated, and the guarded worktree of the workflow is made. LangGraph is not loaded for that, and no test is run.
"""

from __future__ import annotations

import json
import shutil
import statistics

import measure
from harness import Bench
from measure import Run
from repositories import content, tree_paths

_BRANCH = "feat/issue-1"
_FILES = 10
_DOCUMENT = 20 << 10  # bytes
_START = f"""
import json, sys, time
began = time.perf_counter()
from git_agentos import GitWorktreeWorkspaceService
from git_agentos.tdd.context import source_files
read = source_files.load(".", "design.md", sys.argv[2:])
loaded = time.perf_counter()
service = GitWorktreeWorkspaceService(".", branch="{_BRANCH}", tool="tdd")
run = service.prepare_pre_run(run_id=sys.argv[1])
times = [loaded - began, time.perf_counter() - loaded]
print(json.dumps([times, read.tokens, read.exact, len(read.context), run.worktree_path]))
"""


def tdd(bench: Bench) -> None:
    """Whole processes, in turns with git's own command for a worktree; every round removes what it has made."""
    size = bench.size_near(20_000)
    bench.say(f"tdd: {size} files")
    arena = bench.arena(size, "a")
    arena.fresh()
    arena.write("design.md", b"".join(content(f"design/{n}") for n in range(40))[:_DOCUMENT])
    folder = arena.path.with_name(arena.path.name + ".worktrees")
    command = (bench.tools.python, "-c", _START)
    add = ("git", "worktree", "add", "--quiet", "--no-track", "-b", "plain", str(folder / "plain"))
    found: list[Run] = []
    plain: list[float] = []
    try:
        for number in range(bench.rounds):
            done = measure.run((*command, f"b{number}", *tree_paths(size)[:_FILES]), arena.path, arena.environment)
            found.append(done)
            arena.git("worktree", "unlock", json.loads(done.stdout)[4], may_fail=True)
            arena.git("worktree", "remove", "--force", json.loads(done.stdout)[4])
            arena.git("branch", "-D", _BRANCH)
            plain.append(measure.run(add, arena.path, arena.environment).seconds)
            arena.git("worktree", "remove", "--force", str(folder / "plain"))
            arena.git("branch", "-D", "plain")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(arena.path / ".git", ignore_errors=True)
    seconds = [each.seconds for each in found]
    told = [json.loads(each.stdout) for each in found]
    loading, making = (statistics.median(each[0][which] for each in told) for which in (0, 1))
    _, tokens, exact, files, _ = told[0]
    counted = "counted" if exact else "estimated"
    median = statistics.median(seconds)
    bench.add(
        "tdd",
        f"a worktree made and the context loaded, as `tdd run` begins, {size:,} files, whole process",
        "≤ 2 s",
        f"{median:.2f} s",
        median <= 2,
        f"{min(seconds) * 1000:.0f}-{max(seconds) * 1000:.0f} ms; {files + 1} files, {tokens:,} tokens ({counted}),"
        f" read and checked in {loading * 1000:.0f} ms with the imports, the worktree made in {making * 1000:.0f} ms;"
        f" `git worktree add` alone, in turns, {statistics.median(plain) * 1000:.0f} ms",
        judged=size == 20_000,
    )
