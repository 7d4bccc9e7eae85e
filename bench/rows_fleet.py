"""The row of fleets: short runs by the engines `local` and `ray`, against the same runs by xargs without any fleet; and
what each leaves on the remote."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import measure
from harness import Bench, add_ratio, tool
from measure import Run
from repositories import Arena

_FILES = 2_000
_RUNS = 200
_XARGS, _LOCAL, _RAY = "xargs -P 2 git agentos run start", "fleet submit", "fleet submit --engine ray"
_LEAVES = 40 << 10  # bytes
_NODES = 4  # of one processor each
_CLUSTER = """
import sys
from ray.cluster_utils import Cluster

node = {"num_cpus": 1, "object_store_memory": 100 << 20}
cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **node})
for _ in range(int(sys.argv[1]) - 1):
    cluster.add_node(**node)
cluster.wait_for_nodes(300)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def fleet(bench: Bench) -> None:
    """Runs that write one line, two at a time."""
    hurried = bench.scale.hurried
    size, runs = (bench.scale.sizes[0], 4) if hurried else (_FILES, _RUNS)
    bench.say(f"fleet: {runs} runs, {size} files")
    arena = bench.arena(size, "a")
    place = arena.path.with_name(arena.path.name + ".fleet")
    row = f"{runs} runs of `echo {{n}} >f`, {size:,} files, 2 at a time"
    commands = {
        _XARGS: _by_xargs(bench, runs),
        _LOCAL: tool(bench, "-q", "fleet", "submit", str(place / "f.toml"), "--max-parallel", "2"),
    }
    leaves: dict[str, tuple[int, int]] = {}

    def prepare(_name: str, _number: int) -> None:
        _make(arena, place, runs)

    def timed(name: str, _number: int) -> Run:
        return measure.run(commands[name], arena.path, {**arena.environment, **_clones(place)})

    def after(name: str, _number: int) -> None:
        if name != _XARGS:
            leaves[name] = _left(place)

    try:
        with contextlib.ExitStack() as stack:
            if not hurried and _has_ray(bench):
                address = stack.enter_context(_cluster(bench, arena, place))
                commands[_RAY] = (*commands[_LOCAL], "--engine", "ray", "--address", address)
            series = measure.alternate(tuple(commands), min(bench.rounds, 3), prepare, timed, after)
        add_ratio(
            bench, "fleet", f"{row}, against `{_XARGS}`", series[_LOCAL], series[_XARGS], 1.25, judged=not hurried
        )
        if _RAY in series:
            work = f"{row}, by Ray ({_NODES} nodes), against local"
            add_ratio(bench, "fleet", work, series[_RAY], series[_LOCAL], 1.43, judged=not hurried)
        refs, size = leaves[_LOCAL]
        each = size / runs
        bench.add("fleet", "what a run leaves on the remote", "≤ 40 KiB, 1 ref", f"{each / 1024:.1f} KiB",
                  refs == runs + 1 and each <= _LEAVES, f"{refs} refs for {runs} runs", judged=not hurried)  # fmt: skip
    finally:
        for folder in (place, arena.path.with_name(arena.path.name + ".worktrees"), arena.path / ".git"):
            shutil.rmtree(folder, ignore_errors=True)


def _clones(place: Path) -> dict[str, str]:
    return {"AGENTOS_FLEET_DIR": str(place / "clones")}


@contextlib.contextmanager
def _cluster(bench: Bench, arena: Arena, place: Path) -> Iterator[str]:
    """A Ray cluster of several nodes on this machine; its address. Workers have the variables of the nodes."""
    argv = (bench.tools.python, "-c", _CLUSTER, str(_NODES))
    path = os.pathsep.join([os.path.dirname(bench.tools.python), arena.environment["PATH"]])
    # Workers run at nice 15 otherwise, and get little of a machine on which anything else runs.
    environment = {**arena.environment, **_clones(place), "PATH": path, "RAY_worker_niceness": "0"}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            *_, address = child.stdout.readline().split()
            yield address
        finally:
            child.stdin.close()
            child.stdout.read()


def _make(arena: Arena, place: Path, runs: int) -> None:
    """The repository as new, a remote with its branch, and the file of tasks."""
    for folder in (place, arena.path.with_name(arena.path.name + ".worktrees")):
        shutil.rmtree(folder, ignore_errors=True)
    arena.fresh()
    place.mkdir()
    arena.git("init", "-q", "--bare", str(place / "shared.git"))
    arena.git("remote", "add", "origin", (place / "shared.git").as_uri())
    arena.git("push", "-q", "origin", "HEAD:refs/heads/main")
    tasks = (f"[[task]]\nid = 'r{n}'\nagent = 'echo {n} >f'\nvalidate = 'true'\n" for n in range(runs))
    (place / "f.toml").write_text("\n".join(tasks))
    before = _size(place)
    (place / "before").write_text(str(before))


def _left(place: Path) -> tuple[int, int]:
    """How many refs of the fleet the remote has, and how many bytes more than before."""
    words = ("git", "for-each-ref", "--format=%(refname)", "refs/agentos/fleet/")
    refs = subprocess.run(words, cwd=place / "shared.git", capture_output=True, check=True).stdout.split()
    return len(refs), _size(place) - int((place / "before").read_text())


def _size(place: Path) -> int:
    return sum(each.stat().st_size for each in (place / "shared.git").rglob("*") if each.is_file())


def _by_xargs(bench: Bench, runs: int) -> tuple[str, ...]:
    start = " ".join(tool(bench, "-q", "run", "start", "--id", "r{}", "--agent", "'echo {} >f'", "--validate", "true"))
    return ("sh", "-c", f'seq {runs} | xargs -P 2 -I {{}} sh -c "{start}"')


def _has_ray(bench: Bench) -> bool:
    words = (bench.tools.python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('ray') is None)")
    return subprocess.run(words, check=False, env={"PATH": os.environ.get("PATH", os.defpath)}).returncode == 0
