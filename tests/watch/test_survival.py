"""What a daemon lives through: git's housekeeping, worktrees that git adds and removes, a full disk, limits of the
system, a machine that sleeps and a clock that jumps. Afterwards it serves, and no answer is stale."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.process import table
from git_agentos.watch import client
from tests.support import patient
from tests.support.disk import fill_disk
from tests.support.git_version import needs_git
from tests.support.repo import Repo, filled
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until
from tests.support.watch import ask, covers, daemon_log, daemon_pid, newest

_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


def _changes(repo: Repo, root: Path, token: bytes = b"") -> tuple[bytes, set[str] | None]:
    """The present token, and what the daemon says has changed in a worktree; None for everything."""
    try:
        new, *paths = ask(repo, "changes", os.fsencode(root), token, patience=60).split(b"\0")[:-1]
    except client.NoAnswer:
        return b"", None
    return new, None if b"/" in paths else {os.fsdecode(path) for path in paths}


@contextlib.contextmanager
def _daemon(folder: Path, before: str = "", prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in the foreground; `before` is what its process does first."""
    code = f"import sys; {before}\nsys.argv[1:] = ['watch', 'start', '--foreground']\n"
    code += "from git_agentos.cli.entry import main; main()"
    command = [*prefix, sys.executable, "-c", code]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.terminate()
        child.communicate()


def _serves(child: subprocess.Popen[bytes]) -> bool:
    assert child.stdout is not None
    return child.stdout.readline() == b"Watching.\n"


# -- git -------------------------------------------------------------------------------------------------------------


def _goes_on(repo: Repo, housekeeping: list[list[str]]) -> None:
    """Checkpoints and answers are the same before, and after git has rewritten the repository."""
    pid = daemon_pid(repo)
    repo.write("new.txt", "one\n")
    first = patient.run_ok(repo.path, "checkpoint", "-m", "one")["id"]
    token, _ = _changes(repo, repo.path)
    for words in housekeeping:
        repo.git(*words)
        repo.write("new.txt", f"{words}\n")
    token, paths = _changes(repo, repo.path, token)
    assert covers(paths, "new.txt")
    before = patient.served(repo.path)
    second = patient.run_ok(repo.path, "checkpoint", "-m", "two")["id"]
    assert patient.served(repo.path) == before + 1
    listed = patient.run_ok(repo.path, "checkpoint", "list")["checkpoints"]
    assert [each["id"] for each in listed] == [second, first]
    assert _changes(repo, repo.path, token)[1] == set()
    patient.run_ok(repo.path, "restore", first, "--no-branch")
    assert repo.read("new.txt") == b"one\n"
    assert covers(_changes(repo, repo.path, token)[1], "new.txt")
    assert daemon_pid(repo) == pid and patient.run_ok(repo.path, "watch", "status")["pid"] == pid


def test_git_gc(served: Repo) -> None:
    _goes_on(
        served,
        [["pack-refs", "--all", "--prune"], ["gc", "-q", "--prune=now"], ["repack", "-adq"],
         ["reflog", "expire", "--expire=now", "--all"], ["gc", "-q", "--prune=now", "--aggressive"]],
    )  # fmt: skip


@needs_git(2, 48)  # before, it could not migrate reflogs
def test_git_refs_migrate(served: Repo) -> None:
    now = served.text("rev-parse", "--show-ref-format").strip()
    other = "files" if now == "reftable" else "reftable"
    _goes_on(served, [["refs", "migrate", f"--ref-format={other}"]])
    listed = patient.run_ok(served.path, "checkpoint", "list")["checkpoints"]
    served.git("refs", "migrate", f"--ref-format={now}")
    assert patient.run_ok(served.path, "checkpoint", "list")["checkpoints"] == listed
    served.write("later.txt", "x\n")
    made = patient.run_ok(served.path, "checkpoint")["id"]
    assert patient.run_ok(served.path, "checkpoint", "list")["checkpoints"][0]["id"] == made


def test_worktrees_that_git_adds_moves_and_removes(asked: Repo) -> None:
    asked.config("agentos.watch", "true")
    run_ok(asked.path, "watch", "start")

    def looked_after() -> set[str]:
        found = run_ok(asked.path, "watch", "status")["worktrees"]
        return {each["path"] for each in found if each["checkpoints"] and each["watching"]}

    above = asked.path.parent
    asked.git("worktree", "add", "-q", "--detach", str(above / "linked"))
    wait_until(lambda: str(above / "linked") in looked_after(), "the new one is looked after")
    asked.git("worktree", "move", str(above / "linked"), str(above / "moved"))
    moved = Repo(above / "moved")
    wait_until(lambda: looked_after() == {str(asked.path), str(moved.path)}, "it is looked after where it is now")
    moved.write("new.txt", "x\n")
    wait_until(lambda: (newest(moved) or {}).get("untracked_files") == ["new.txt"], "it is saved")
    asked.git("worktree", "remove", "--force", str(moved.path))
    wait_until(lambda: looked_after() == {str(asked.path)}, "it is forgotten")
    asked.git("worktree", "add", "-q", "--detach", str(moved.path))
    moved.write("again.txt", "x\n")
    wait_until(lambda: (newest(moved) or {}).get("untracked_files") == ["again.txt"], "the next one there is saved")
    assert "no checkpoint" not in daemon_log(asked)


# -- the system ------------------------------------------------------------------------------------------------------


def test_a_full_disk(small_disk: Path) -> None:
    repo = filled(small_disk / "repo")
    patient.run_ok(repo.path, "watch", "start")
    try:
        pid = daemon_pid(repo)
        token, _ = _changes(repo, repo.path)
        filler = fill_disk(small_disk, 0)
        repo.chmod("readme.txt", 0o755)
        assert covers(_changes(repo, repo.path, token)[1], "readme.txt")
        done = patient.run(repo.path, "checkpoint")
        assert done.returncode == 1 and b"no space left" in done.stderr.lower(), done
        assert patient.run(repo.path, "status").returncode == 0
        filler.unlink()
        before = patient.served(repo.path)
        assert patient.run(repo.path, "checkpoint", "-q").returncode == 0
        assert patient.served(repo.path) == before + 1
        assert daemon_pid(repo) == pid
    finally:
        patient.run(repo.path, "watch", "stop")


def test_one_cannot_begin_on_a_full_disk(small_disk: Path) -> None:
    repo = filled(small_disk / "repo")
    filler = fill_disk(small_disk, 0)
    done = run(repo.path, "watch", "start")
    assert done.code == 1
    assert done.err.startswith(b"error: the daemon cannot be started: No space left on device\n"), done
    filler.unlink()
    try:
        assert run_ok(repo.path, "watch", "start")["running"]
    finally:
        run_ok(repo.path, "watch", "stop")


@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
def test_limits_of_the_system(repo: Repo, limit: str) -> None:
    """Those of a user namespace are as those of a user: the system counts."""
    namespace = ("unshare", "--user", "--map-root-user")
    set_limit = f"open('/proc/sys/user/{limit}', 'w').write('{0 if 'instances' in limit else 3}')"
    if subprocess.run([*namespace, sys.executable, "-c", set_limit], capture_output=True, check=False).returncode:
        pytest.skip("no limit can be set here")
    with _daemon(repo.path, set_limit, namespace) as child:
        if limit == "max_inotify_instances":
            _, said = child.communicate(timeout=60)
            assert (child.returncode, b"raise fs.inotify.max_user_instances with sysctl(8)" in said) == (1, True), said
            assert not run_ok(repo.path, "watch", "status")["running"]
            return
        assert _serves(child)
        assert _changes(repo, repo.path)[1] is None
        (worktree,) = run_ok(repo.path, "watch", "status")["worktrees"]
        assert (worktree["watching"], worktree["folders"]) == (False, 0)
        assert worktree["reason"].endswith("raise fs.inotify.max_user_watches with sysctl(8)")
        said_of_it = [each for each in run_ok(repo.path, "doctor")["findings"] if each["code"] == "not-watched"]
        assert [each["message"] for each in said_of_it] == [f"'{repo.path}' is not watched: {worktree['reason']}"]


# -- time ------------------------------------------------------------------------------------------------------------


def test_it_was_stopped_for_a_while(watched: Repo) -> None:
    """As a machine that sleeps, or is too busy: what has happened meanwhile is in the next answer."""
    token, _ = _changes(watched, watched.path)
    pid = daemon_pid(watched)
    os.kill(pid, signal.SIGSTOP)
    watched.write("new/deep/f", "1\n")
    watched.remove("readme.txt")
    os.rename(watched.at("src"), watched.at("moved"))
    watched.write("moved/app.py", "2\n")
    os.kill(pid, signal.SIGCONT)
    _, paths = _changes(watched, watched.path, token)
    assert paths is not None
    for name in ("new/deep/f", "readme.txt", "src/lib/util.py", "moved/lib/util.py", "moved/app.py"):
        assert covers(paths, name), (name, paths)


def test_more_happened_than_the_system_remembers(watched: Repo) -> None:
    """The reader is stopped until the queue is full. No worktree has a stale answer, and all are watched again."""
    most = int(_QUEUE.read_text())
    if most > 100_000:
        pytest.skip("the queue is too long here")
    roots = [watched.path]
    for name in ("ada", "bob"):
        watched.git("worktree", "add", "-q", "--detach", f"../{name}")
        roots.append(watched.path.parent / name)
    tokens = [_changes(watched, root)[0] for root in roots]
    assert all(tokens)
    pid = daemon_pid(watched)
    os.kill(pid, signal.SIGSTOP)
    for number in range(most // 2 + 100):  # at least two events each
        (roots[number % 3] / f"n{number}").touch()
    for root in roots:
        (root / "readme.txt").write_text("after the queue was full\n")
    os.kill(pid, signal.SIGCONT)
    for root, token in zip(roots, tokens, strict=True):
        assert _changes(watched, root, token)[1] is None, root

    def are_watched() -> bool:
        found = run_ok(watched.path, "watch", "status")["worktrees"]
        return [each["watching"] for each in found] == [True] * 3

    wait_until(are_watched, "all are watched again")
    for root, token in zip(roots, tokens, strict=True):
        assert _changes(watched, root, token)[1] is None, root
        now, _ = _changes(watched, root)
        (root / "readme.txt").write_text("again\n")
        assert _changes(watched, root, now)[1] == {"readme.txt"}


def test_a_clock_that_jumps(repo: Repo) -> None:
    """By a day, each time that somebody looks."""
    repo.config("agentos.watch", "true")
    repo.config("agentos.watchIdle", "1h")
    jumps = "import itertools, time; real = time.time; jumps = itertools.cycle((0, 86400, -86400)); "
    jumps += "time.time = lambda: real() + next(jumps)"
    try:
        with _daemon(repo.path, jumps) as child:
            assert _serves(child)
            token, _ = _changes(repo, repo.path)
            repo.write("new.txt", "x\n")
            assert covers(_changes(repo, repo.path, token)[1], "new.txt")
            wait_until(lambda: (newest(repo) or {}).get("untracked_files") == ["new.txt"], "it is saved")
            assert (newest(repo) or {}).get("trigger") == "periodic"
            assert child.poll() is None
    finally:
        repo.config("agentos.watch", "false")
    assert "no checkpoint" not in daemon_log(repo)


def test_starts_of_a_clock_that_was_set_back_do_not_count(asked: Repo) -> None:
    from git_agentos.watch import place

    asked.config("agentos.watch", "true")
    run_ok(asked.path, "log", "list")
    wait_until(lambda: run_ok(asked.path, "watch", "status")["running"], "it runs")
    pid = daemon_pid(asked)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not table.is_alive(pid), "it is dead")
    tomorrow = f"{time.time() + 86400:.0f}\n"
    Path(place.file(str(asked.git_dir), "starts")).write_text(tomorrow * 3)
    assert b"warning" not in run(asked.path, "log", "list").err
    wait_until(lambda: run_ok(asked.path, "watch", "status")["running"], "it runs again")
