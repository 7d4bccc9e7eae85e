"""The row of the scan for secrets: made-up keys that it misses, ordinary files that it holds, and how long it takes."""

from __future__ import annotations

import json
import statistics

import measure
import toolbox
from harness import Bench

_SCAN = f"""
import json, pathlib, sys, sysconfig, time
sys.path[:0] = [{str(toolbox.PROJECT)!r}, {str(toolbox.PROJECT / "bench")!r}]
from tests.support import made_up_keys
from repositories import content
from git_agentos.secrets.scanner import Scanner

keys, files, blobs = map(int, sys.argv[1:])
scanner = Scanner(bytes(32))
scanner.scan(b"warm", b"key = 0a1b2c3d4e5f60718293a4b5c6d7e8f9 ghp_")

def timed(of):
    begin, used = time.perf_counter(), time.process_time()
    held = sum(bool(scanner.scan(path, data)) for path, data in of)
    return held, time.perf_counter() - begin, time.process_time() - used

missed = 0
for seed in (1, 2):
    for each in made_up_keys.hidden(seed, keys):
        missed += each.line not in [found.line for found in scanner.scan(each.path, each.data)]
top = pathlib.Path(sysconfig.get_path("stdlib"))
left_out = {{"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}}
library = [each for each in sorted(top.rglob("*.py")) if left_out.isdisjoint(each.relative_to(top).parts)]
sources = [(bytes(each), each.read_bytes()) for each in library[: files // 2]]
made_up = [(each.path, each.data) for each in made_up_keys.ordinary(1, files - len(sources))]
held, _, _ = timed(sources + made_up)
print(json.dumps({{
    "missed": missed / keys / 2,
    "held": held,
    "sources": [sum(len(data) for _, data in sources), *timed(sources)[1:]],
    "made_up": [sum(len(data) for _, data in made_up), *timed(made_up)[1:]],
    "changes": [*timed([(b"file", content(f"change/{{n}}")) for n in range(blobs)])],
}}))
"""
_CHECKPOINTS = 100


def secrets(bench: Bench) -> None:
    """In a process of its own, which loads the rules first; rounds of the same."""
    judged = not bench.scale.hurried
    keys, files = (200, 2_000) if judged else (40, 100)
    blobs = _CHECKPOINTS * bench.scale.changes
    bench.say(f"secrets: {keys} keys, {files} files")
    command = (bench.tools.python, "-c", _SCAN, str(keys), str(files), str(blobs))
    rounds = 1 if bench.scale.hurried else min(bench.rounds, 5)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(bench.cache)}
    told = [json.loads(measure.run(command, bench.cache, environment).stdout) for _ in range(rounds)]
    missed, held = told[0]["missed"], told[0]["held"]
    bench.add(
        "secrets", f"made-up keys of 20 providers that a scan misses, {keys} of each of two seeds", "≤ 2 %",
        f"{missed:.1%}".replace("%", " %"), missed <= 0.02, "the finding has to name the right line", judged=judged,
    )  # fmt: skip
    bench.add(
        "secrets", f"ordinary files that a scan holds for nothing, of {files:,}", "≤ 2",
        str(held), held <= 2, "half of them Python's library, half made up to look as if they had keys", judged=judged,
    )  # fmt: skip
    times = [each["changes"][1] for each in told]
    rates = [
        f"{told[0][kind][0] / statistics.median(each[kind][2] for each in told) / 1e6:.0f} MB/s of {what}"
        for kind, what in (
            ("sources", "Python's library"),
            ("made_up", "lock files, hashes, minified code and the like"),
        )
    ]
    median = statistics.median(times)
    bench.add(
        "secrets", f"scan of what {_CHECKPOINTS} checkpoints of {bench.scale.changes} changes bring, {blobs:,} blobs",
        "≤ 2 s", f"{median:.2f} s", median <= 2,
        f"{min(times) * 1000:.0f}-{max(times) * 1000:.0f} ms; by processor time {' and '.join(rates)}", judged=judged,
    )  # fmt: skip
