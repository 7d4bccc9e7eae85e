"""Scans of the daemon's processes: they build on each other, and find what a whole scan finds."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.git import rescan
from git_agentos.git.rescan import Rescan
from git_agentos.git.scan import Scan
from git_agentos.watch import place, scans
from git_agentos.watch.scans import Scans
from tests.support import daemon
from tests.support.patient import LAUNCH, served
from tests.support.repo import Repo
from tests.support.watch import Watch, Writer, watching

_ALONE = [sys.executable, "-c", "from git_agentos.cli.entry import main; main()", "checkpoint", "--json"]
_SERVED = [*LAUNCH, "checkpoint", "--json"]


@pytest.fixture
def watch(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """A watched repository that counts as large."""
    monkeypatch.setattr(rescan, "_SETTLED", 0)
    monkeypatch.setattr(place, "_LARGE", 0)
    with watching(repo.path) as found:
        yield found


def scan_in_a_child(parent: Scans, root: Path) -> Scan:
    """Start and read a scan as a forked process does, and take what it hands back."""
    child = Scans(parent._repository)
    child._known = dict(parent._known)
    scan = child.start(str(root))
    scan.read()
    made = child.made()
    if made:
        parent.take(made)
    return scan.inner if isinstance(scan, scans._Noted) else scan


def test_one_builds_on_the_other(repo: Repo, watch: Watch) -> None:
    known = Scans(watch.repository)
    kinds = [type(scan_in_a_child(known, repo.path)) for _ in range(3)]
    assert kinds == [Scan, Rescan, Rescan]
    repo.write("new", "1\n")
    watch.repository.read()
    assert known.start(str(repo.path)).read().untracked == [b"new"]


def test_the_whole_worktree_is_scanned_from_time_to_time(
    repo: Repo, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Scans(watch.repository)
    scan_in_a_child(known, repo.path)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 599)
    assert type(scan_in_a_child(known, repo.path)) is Rescan
    monkeypatch.setattr(time, "monotonic", lambda: now + 602)
    assert type(scan_in_a_child(known, repo.path)) is Scan
    assert type(scan_in_a_child(known, repo.path)) is Rescan


@pytest.mark.parametrize("what", ("not watched", "small", "unwatchable", "another worktree"))
def test_the_whole_worktree_is_scanned_where_not_all_is_known(
    repo: Repo, watch: Watch, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    known, root = Scans(watch.repository), repo.path
    scan_in_a_child(known, root)
    if what == "not watched":
        watch.repository.worktrees.clear()
    elif what == "small":
        monkeypatch.setattr(place, "_LARGE", 1 << 20)
    elif what == "unwatchable":
        watch.worktree.end("a test")
    else:
        root = repo.scratch / "other"
        repo.git("worktree", "add", "-q", str(root))
    for _ in range(2):
        assert type(scan_in_a_child(known, root)) is Scan


def test_too_much_is_not_remembered(repo: Repo, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "_MOST_PATHS", 3)
    known = Scans(watch.repository)
    for number in range(4):
        repo.write(f"new{number}", "1\n")
    watch.repository.read()
    for _ in range(2):
        assert type(scan_in_a_child(known, repo.path)) is Scan


@pytest.fixture
def large(repo: Repo, tmp_path: Path) -> Iterator[tuple[Repo, Path]]:
    """A repository that counts as large to its daemon, and a file to which git's command lines are added."""
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "git").write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    started = subprocess.Popen(
        [sys.executable, "-c", daemon.EAGER, "-C", repo.path, "watch", "start", "--foreground"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert started.stdout is not None and started.stdout.readline() == b"Watching.\n"
    subprocess.run([sys.executable, "-m", "git_agentos", "watch", "start"], cwd=repo.path, check=True)
    try:
        yield repo, log
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def test_the_daemon_saves_what_a_command_saves_that_looks_at_everything(large: tuple[Repo, Path]) -> None:
    repo, log = large
    environment = {**os.environ, "PATH": f"{log.parent / 'bin'}:{os.environ['PATH']}"}
    chosen, writer, narrow = random.Random(5), Writer(5, repo.path), 0
    for number in range(25):
        for _ in range(chosen.randrange(6)):
            writer.edit()
        if chosen.random() < 0.3:
            repo.try_git("add", "-A")
        log.unlink(missing_ok=True)
        repo.write("number", f"{number}\n")  # so that there is something to save
        saved = _run(_SERVED, repo, environment)
        assert not saved["unchanged"]
        narrow += " status " not in log.read_text()
        again = _run([*_ALONE, "--trigger", "periodic"], repo, None)
        assert (again["id"], again["unchanged"]) == (saved["id"], True)
    writer.close()
    assert narrow >= 20


_CREATE = """\
import sys
from git_agentos import open_repository
from git_agentos.errors import UsageError
from git_agentos.watch import client, place
client.PATIENCE, place._LARGE = 60, 0
repo = open_repository(sys.argv[1], agent="dev-9")
for _ in range(2):
    made = repo.checkpoints.create("-m x\\n=", task_id="T-1", metadata={"a": "b=c"})
assert made == repo.checkpoints.find(made.id)
assert made.description == "-m x\\n=" and made.task_id == "T-1" and made.metadata == {"a": "b=c"}
assert made.created_by == "dev-9" and made.untracked == ("new",)
again = repo.checkpoints.create(trigger="periodic")
assert again.unchanged and again.id == made.id
made = repo.checkpoints.create(metadata={"a=b": "c"})
assert made.metadata == {"a=b": "c"}
try:
    repo.checkpoints.create(trigger="nonsense")
except UsageError as error:
    print(type(error).__name__, error)
"""


def test_a_process_that_stays_open_lets_the_daemon_create_checkpoints(large: tuple[Repo, Path]) -> None:
    repo, log = large
    repo.write("new", "1\n")
    environment = {**os.environ, "PATH": f"{log.parent / 'bin'}:{os.environ['PATH']}"}
    before = served(repo.path)
    argv = [sys.executable, "-c", _CREATE, str(repo.path)]
    done = subprocess.run(argv, capture_output=True, env=environment, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("UsageError "), done
    assert served(repo.path) == before + 4  # the two that have no wrong option, and the one that has


def _run(argv: list[str], repo: Repo, environment: dict[str, str] | None) -> dict[str, object]:
    done = subprocess.run(argv, cwd=repo.path, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done
    found: dict[str, object] = json.loads(done.stdout)
    return found
