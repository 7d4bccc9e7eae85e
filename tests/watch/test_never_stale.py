"""An answer names everything that changed: whatever is written, by however many processes, while others ask."""

from __future__ import annotations

import bisect
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from git_agentos.watch import worktree
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE
from tests.support.watch import Writer, covers, watching

_EDITS = 34_000 if EXHAUSTIVE else 1_500  # of each of the three writers
_BY_ANOTHER_MOUNT = ("unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh")


def _start_writer(seed: int, top: Path, log: Path, other: Path | None) -> subprocess.Popen[bytes]:
    """A process that writes; with `other`, by that path to the same folder, which is mounted there for it alone."""
    prefix = () if other is None else (*_BY_ANOTHER_MOUNT, str(top), str(other))
    argv = (sys.executable, "-m", "tests.support.watch", str(seed), str(other or top), str(log), str(_EDITS))
    return subprocess.Popen([*prefix, *argv], cwd=PROJECT_ROOT)


def _can_mount(top: Path, other: Path) -> bool:
    done = subprocess.run([*_BY_ANOTHER_MOUNT, str(top), str(other), "true"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.slow
def test_every_answer_covers_what_was_done_before_it(empty_repo: Repo, tmp_path: Path) -> None:
    seed = int(os.environ.get("AGENTOS_TEST_SEED", "1"))
    logs = [tmp_path / f"log-{number}" for number in range(3)]
    chosen = random.Random(seed)
    other = tmp_path / "other"
    other.mkdir()
    others = [None, None, other if _can_mount(empty_repo.path, other) else None]
    with watching(empty_repo.path) as watch:
        writers = [
            _start_writer(seed * 10 + number, empty_repo.path, log, others[number]) for number, log in enumerate(logs)
        ]
        asked: list[tuple[int, int, frozenset[bytes] | None]] = []
        tokens = [(time.monotonic_ns(), watch.token)]
        while any(each.poll() is None for each in writers):
            time.sleep(chosen.random() * 0.02)
            since, token = chosen.choice(tokens[-30:])
            before = time.monotonic_ns()
            now, paths = watch.ask(token)
            tokens.append((time.monotonic_ns(), now))
            asked.append((since, before, paths))
        assert all(each.wait() == 0 for each in writers)
        assert not watch.worktree.problem
    done = sorted(tuple(json.loads(line)) for log in logs for line in log.read_text().splitlines())
    assert len(done) > _EDITS
    checked = 0
    for since, before, paths in asked:
        if paths is None:
            continue
        names = {os.fsdecode(path) for path in paths}
        edits = done[bisect.bisect(done, (since,)) : bisect.bisect(done, (before,))]
        within = [path for begin, end, path in edits if begin > since and end < before]
        missing = [path for path in set(within) if not covers(names, path)]
        assert not missing, (missing, sorted(names))
        checked += len(within)
    assert checked > len(done)


@pytest.mark.parametrize("seed", range(4))
def test_one_edit_after_the_other(empty_repo: Repo, seed: int) -> None:
    writer = Writer(seed, empty_repo.path)
    with watching(empty_repo.path) as watch:
        for _ in range(400):
            done = writer.edit()
            changed = watch.changed()
            assert all(covers(changed, path) for _, _, path in done), (done, changed)
    writer.close()


def test_the_same_folder_by_another_mount(empty_repo: Repo, tmp_path: Path) -> None:
    empty_repo.write("d/f", "one\n")
    other = tmp_path / "other"
    other.mkdir()
    script = (
        f"mount --bind '{empty_repo.path}' '{other}' && echo ready && read _ && echo two >'{other}/d/f' && echo done"
    )
    with watching(empty_repo.path) as watch:
        child = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdin is not None and child.stdout is not None
        if child.stdout.readline() != b"ready\n":
            child.communicate()
            pytest.skip("nothing can be mounted here")
        watch.changed()
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"done\n"
        assert covers(watch.changed(), "d/f")
        child.communicate()


def test_a_mapping_of_another_mount_stays_known(
    empty_repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is open is compared with what processes have open: by inode, for this one has another path for the file."""
    monkeypatch.setattr(worktree, "_MANY_OPEN", 0)
    monkeypatch.setattr(worktree, "_PRUNE", 0.0)
    empty_repo.write("f", "one\n")
    empty_repo.write("g", "one\n")
    other = tmp_path / "other"
    other.mkdir()
    if not _can_mount(empty_repo.path, other):
        pytest.skip("nothing can be mounted here")
    script = (
        "import mmap, sys\n"
        "with open(sys.argv[1], 'r+b') as file: mapped = mmap.mmap(file.fileno(), 4)\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin: mapped[:3] = line[:3].encode(); print('done', flush=True)"
    )
    argv = [*_BY_ANOTHER_MOUNT, str(empty_repo.path), str(other), sys.executable, "-c", script, str(other / "f")]
    with watching(empty_repo.path) as watch:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for text in ("two\n", "six\n"):
            watch.changed()
            child.stdin.write(text)
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            assert empty_repo.read("f").decode() == text
            changed = watch.changed()
            assert covers(changed, "f") and not covers(changed, "g")
        child.communicate()
        watch.changed()
        assert not covers(watch.changed(), "f")
