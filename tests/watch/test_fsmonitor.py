"""git asks the daemon in a guarded worktree that is large: it sees what a git sees that looks at all files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.process import table
from git_agentos.watch import place
from tests.support.repo import Repo
from tests.support.tool import run_ok
from tests.support.waiting import wait_until
from tests.support.watch import Writer

_LOOK = ("-c", "core.fsmonitor=false")


@pytest.fixture
def large(repo: Repo) -> Iterator[Repo]:
    """A guarded worktree whose index is so large that git asks; the daemon watches it."""
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"one\n").strip()
    stage = b"".join(
        b"100644 %s 0\tmany/d%d/a-file-with-a-long-name-%d\0" % (blob, number % 97, number) for number in range(13_000)
    )
    repo.git("update-index", "-z", "--index-info", stdin=stage)
    repo.git("commit", "-qm", "many files")
    root = Path(run_ok(repo.path, "worktree", "create", "dev")["path"])
    run_ok(root, "watch", "start")
    try:
        yield Repo(root)
    finally:
        run_ok(repo.path, "watch", "stop")


def _git_dir(repo: Repo) -> str:
    return repo.text("rev-parse", "--absolute-git-dir").strip()


def _status(repo: Repo, *options: str) -> bytes:
    return repo.git(*options, "status", "--porcelain=v2", "-z", "--untracked-files=all")


def _is_trusted(repo: Repo) -> bool:
    """Whether the index says of files that git need not look at them."""
    return b"\nh " in b"\n" + repo.git("ls-files", "-f")


def test_git_sees_the_same(large: Repo) -> None:
    assert os.path.exists(place.watched(_git_dir(large)))
    wait_until(lambda: _status(large) == b"" and _is_trusted(large), "the daemon answers in time")
    writer = Writer(7, large.path)
    for number in range(60):
        for _ in range(number % 4):
            writer.edit()
        name = f"many/d{number % 97}/a-file-with-a-long-name-{number}"
        if number % 3 == 0:
            large.write(name, f"{number}\n")
        elif number % 7 == 0:
            large.remove(name)
        assert _status(large) == _status(large, *_LOOK), number
        if number % 11 == 0:
            large.git("add", "--all", "--", "many")
    writer.close()


def test_what_is_restored_is_looked_at(large: Repo) -> None:
    name = "many/d0/a-file-with-a-long-name-0"
    large.write(name, "saved\n")
    saved = run_ok(large.path, "checkpoint")["id"]
    large.write(name, "later\n")
    _status(large)
    run_ok(large.path, "restore", saved, "--no-branch")
    assert large.read(name) == b"saved\n"
    assert _status(large) == _status(large, *_LOOK) != b""
    run_ok(large.path, "undo")
    assert large.read(name) == b"later\n"
    assert _status(large) == _status(large, *_LOOK) != b""


def test_without_the_daemon_git_looks_itself(large: Repo) -> None:
    assert _status(large) == b""
    pid = int(Path(place.file(str(Path(_git_dir(large)).parents[1]), "turn")).read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        large.write("many/d1/a-file-with-a-long-name-1", "1\n")
        assert b"a-file-with-a-long-name-1" in _status(large)
    finally:
        os.kill(pid, signal.SIGKILL)
    large.write("many/d2/a-file-with-a-long-name-2", "1\n")
    assert b"a-file-with-a-long-name-2" in _status(large)
    wait_until(lambda: not os.path.exists(place.watched(_git_dir(large))), "git does not ask any more")


def test_git_looks_itself_once_the_daemon_is_dead(large: Repo) -> None:
    """Also where its index says that git need not look."""
    wait_until(lambda: _status(large) == b"" and _is_trusted(large), "the daemon answers in time")
    pid = int(Path(place.file(str(Path(_git_dir(large)).parents[1]), "turn")).read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not table.is_alive(pid), "it is dead")
    large.write("many/d2/a-file-with-a-long-name-2", "1\n")
    assert b"a-file-with-a-long-name-2" in _status(large)


def test_a_small_worktree_is_not_asked_for(repo: Repo) -> None:
    root = Path(run_ok(repo.path, "worktree", "create", "dev")["path"])
    run_ok(root, "watch", "start")
    try:
        assert not os.path.exists(place.watched(_git_dir(Repo(root))))
        assert _status(Repo(root)) == b""
        assert not _is_trusted(Repo(root))
    finally:
        run_ok(repo.path, "watch", "stop")
