"""Starting many processes at one moment, disturbing them with git, and looking at what is left."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.repo import Repo, git, git_run
from tests.support.state import State, complete_state
from tests.support.tool import IN_PROCESS


@dataclass(frozen=True)
class Turn:
    """One thing that a worker did: the id, or why not."""

    id: str | None
    error: str | None


class Workers:
    """Workers that begin together."""

    def __init__(self) -> None:
        self.workers: list[subprocess.Popen[bytes]] = []

    def add(self, verb: str, where: Path, count: int, *ids: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.support.concurrent_worker", verb, str(where), str(count), *ids]
        worker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.workers.append(worker)
        return worker

    def begin(self) -> None:
        for worker in self.workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.stdin = None

    def finish(self) -> list[list[Turn]]:
        """What each did; a worker that crashed fails the test."""
        turns = []
        for worker in self.workers:
            out, err = worker.communicate(timeout=120)
            assert worker.returncode == 0, err.decode(errors="replace")
            turns.append([Turn(item.get("id"), item.get("error")) for item in json.loads(out)])
        return turns


@contextlib.contextmanager
def workers() -> Iterator[Workers]:
    """A crowd; whoever is left at the end is killed."""
    people = Workers()
    try:
        yield people
    finally:
        for worker in people.workers:
            if worker.poll() is None:
                worker.kill()
            worker.communicate()


@contextlib.contextmanager
def in_background(*jobs: Callable[[int], None]) -> Iterator[list[BaseException]]:
    """Do each job again and again, in threads, as long as the block lasts; gives the list of their failures."""
    over = threading.Event()
    failures: list[BaseException] = []

    def loop(job: Callable[[int], None]) -> None:
        number = 0
        while not over.is_set() and not failures:
            try:
                job(number)
            except (AssertionError, OSError) as error:
                failures.append(error)
            number += 1

    threads = [threading.Thread(target=loop, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        over.set()
        for thread in threads:
            thread.join()


def git_retrying(where: Path, *args: str) -> None:
    """Run git; once more where its own gc took a folder from under it (git retries nothing)."""
    for _ in range(4):
        done = git_run(where, *args)
        if done.returncode == 0:
            return
        if b"unable to create temporary file" not in done.stderr:
            break
    raise AssertionError(f"git {' '.join(args)}: {done.stderr.decode(errors='replace')}")


def assert_timeline(where: Path, name: str, reported: list[str]) -> None:
    """Every reported checkpoint is on the timeline once, the walk is linear and ends in the root."""
    lines = git(where, "log", "--first-parent", "--format=%H %P", f"refs/agentos/timelines/{name}").decode().split("\n")
    rows = [line.split() for line in lines if line]
    assert len({row[0] for row in rows}) == len(rows)
    assert [len(row) > 2 for row in rows] == [True] * (len(rows) - 1) + [False]
    assert len(rows[-1]) == 1, "the timeline does not end in a root commit"
    for row, below in itertools.pairwise(rows):
        assert row[1] == below[0]
    held = [row[2] for row in rows[:-1]]
    assert len(set(held)) == len(held)
    assert sorted(reported) == sorted(set(reported)), "an id was reported twice"
    assert set(reported) <= set(held), f"lost: {set(reported) - set(held)}"


def assert_whole(where: Path) -> None:
    """git finds nothing broken, and no temporary object or lock of ours is left."""
    git(where, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
    git_dir = Repo(where).git_dir
    assert not list(git_dir.glob("**/*.lock")), list(git_dir.glob("**/*.lock"))
    assert not list((git_dir / "objects").glob("**/tmp_obj_*"))


def assert_restorable(where: Path, ids: list[str], check: Callable[[str, State], None] | None = None) -> None:
    """Restore each id; where HEAD, index and worktree are then what plain git finds in the checkpoint."""
    for oid in ids:
        IN_PROCESS.restore(where, oid)
        now = complete_state(where)
        assert now.head.oid == git(where, "rev-parse", f"{oid}^1").decode().strip()
        tree = git(where, "write-tree").decode().strip()
        assert tree == git(where, "rev-parse", f"{oid}^2^{{tree}}").decode().strip()
        assert git(where, "diff", "--name-only", oid) == b""
        untracked = git(where, "ls-tree", "-r", "-z", "--name-only", f"{oid}^3")
        assert untracked == git(where, "ls-files", "-z", "--others", "--exclude-standard")
        if check is not None:
            check(oid, now)
