"""Commands whose work the daemon does: the result is the same as without it, and other programs get nothing done."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos import __version__
from git_agentos.guard import signing
from git_agentos.process import table
from git_agentos.watch import client, protocol
from tests.support.patient import LAUNCH, LAUNCH_CODE, checkpoints, run, run_ok
from tests.support.patient import served as count
from tests.support.repo import Repo
from tests.support.signals import with_default_handlers
from tests.support.terminal import at_terminal
from tests.support.waiting import wait_until
from tests.support.watch import connect


def _filter_slowly(repo: Repo, command: str) -> None:
    """Have a file that a checkpoint reads by a filter, which takes its time."""
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.config("filter.slow.clean", command)
    repo.write("a.slow", "x\n")


def test_it_does_checkpoints_status_and_lists_and_nothing_else(served: Repo) -> None:
    for words in (["checkpoint", "-m", "one"], ["status"], ["checkpoint", "list"], ["-C", "src", "checkpoint", "-q"]):
        before = count(served.path)
        assert run(served.path, *words).returncode == 0
        assert count(served.path) == before + 1, words
    before = count(served.path)
    assert run(served.path.parent, "-C", "repo", "status").returncode == 0
    assert count(served.path) == before + 1
    before = count(served.path)
    for words in (
        ["log", "list"],
        ["restore", "latest", "--dry-run"],
        ["approvals", "list"],
        ["guard", "disable"],
        ["doctor"],
    ):
        run(served.path, *words)
    assert count(served.path) == before


def test_the_folder_of_the_command_that_a_hook_works_for(
    served: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_RECORD_IN", str(served.path))
    before = count(served.path)
    assert run(tmp_path, "hook", "no-such-hook", "1").returncode == 2
    assert count(served.path) == before + 1


def test_text_exit_code_and_errors_are_the_same(served: Repo, repo: Repo) -> None:
    lines = (
        ["checkpoint", "--bad"],
        ["checkpoint", "show", "ffff"],
        ["status", "--json"],
        ["checkpoint", "list", "-h"],
    )
    with_daemon = [run(served.path, *words) for words in lines]
    run_ok(served.path, "watch", "stop")
    without = [run(served.path, *words) for words in lines]
    for one, other in zip(with_daemon, without, strict=True):
        assert (one.returncode, one.stderr) == (other.returncode, other.stderr)
    assert [each.stdout for each in with_daemon[:2]] == [each.stdout for each in without[:2]]
    assert with_daemon[3].stdout == without[3].stdout


def test_it_acts_as_the_client(served: Repo) -> None:
    """Environment, arguments, folder, umask, limits and descriptors are those of the client."""
    _filter_slowly(served, "{ umask; ulimit -c; echo $AGENTOS_AGENT_ID $OWN; } >.git/seen; cat")
    script = (
        "import os, resource, sys; os.umask(0o027); resource.setrlimit(resource.RLIMIT_CORE, (0, 0));"
        "os.chdir('src'); sys.argv[1:] = ['checkpoint', '-m', 'as ada', '-q'];"
    )
    before = count(served.path)
    done = subprocess.run(
        [sys.executable, "-c", script + LAUNCH_CODE],
        cwd=served.path,
        env={**os.environ, "AGENTOS_AGENT_ID": "ada", "OWN": "x"},
        capture_output=True,
        check=True,
    )
    assert count(served.path) == before + 1
    assert done.stdout.strip()
    newest = checkpoints(served)[0]
    assert (newest["created_by"], newest["description"]) == ("ada", "as ada")
    assert served.read(".git/seen") == b"0027\n0\nada x\n"


def test_variables_of_the_daemon_are_not_the_clients(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    _filter_slowly(repo, "echo ${OF_THE_DAEMON-none} >.git/seen; cat")
    monkeypatch.setenv("OF_THE_DAEMON", "x")
    run_ok(repo.path, "watch", "start")
    monkeypatch.delenv("OF_THE_DAEMON")
    try:
        assert run(repo.path, "checkpoint", "-q").returncode == 0
        assert count(repo.path) == 1
    finally:
        run(repo.path, "watch", "stop")
    assert repo.read(".git/seen") == b"none\n"


def test_an_agent_stays_who_it_is(served: Repo) -> None:
    """By the processes above the client, not by those above the daemon."""
    run_ok(served.path, "worktree", "create", "dev-1")
    made = Repo(served.path.parent / "repo.worktrees" / "dev-1")
    before = count(served.path)
    inner = subprocess.run([*LAUNCH, "checkpoint", "-q"], cwd=made.path, capture_output=True, check=True)
    assert count(served.path) == before + 1, inner
    assert checkpoints(made)[0]["created_by"] == "dev-1"


def test_a_folder_that_is_gone_is_the_clients_affair(served: Repo, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {shlex.join(LAUNCH)} -C {served.path} checkpoint -q"
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done
    assert len(checkpoints(served)) == 1


def test_a_closed_output(served: Repo) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join(LAUNCH)} checkpoint -q >&-"],
        cwd=served.path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done
    assert len(checkpoints(served)) == 1


def test_ctrl_c_interrupts_the_work(served: Repo) -> None:
    """A file system that answers slowly: a pipe of a filter that never ends."""
    _filter_slowly(served, "touch started; sleep 60; cat")
    with with_default_handlers(signal.SIGINT):
        child = subprocess.Popen([*LAUNCH, "checkpoint"], cwd=served.path, stderr=subprocess.PIPE)
    try:
        wait_until((served.path / "started").exists, "the filter runs")
        before = count(served.path)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=20)
        assert said.startswith(b"error: interrupted\n")
        assert child.returncode == 130
        assert before == 1
    finally:
        child.kill()
        child.wait()
    assert checkpoints(served) == []


def test_work_of_a_client_that_is_killed_is_stopped(served: Repo) -> None:
    _filter_slowly(served, "echo $$ >started; exec sleep 60")
    child = subprocess.Popen([*LAUNCH, "checkpoint"], cwd=served.path, stderr=subprocess.DEVNULL)
    started = served.path / "started"
    wait_until(lambda: started.exists() and started.read_text().strip(), "the filter runs")
    child.kill()
    child.wait()
    pid = int(run_ok(served.path, "watch", "status")["pid"])
    wait_until(lambda: not table.children(pid), "the work is stopped")
    assert checkpoints(served) == []


def test_a_killed_daemon_loses_nothing(served: Repo) -> None:
    """Neither before it has begun nor while its child works."""
    _filter_slowly(served, "touch started; while [ ! -e go ]; do sleep 0.01; done; cat")
    child = subprocess.Popen([*LAUNCH, "checkpoint", "-q"], cwd=served.path, stdout=subprocess.DEVNULL)
    wait_until((served.path / "started").exists, "the filter runs")
    pid = int(run_ok(served.path, "watch", "status")["pid"])
    worker = table.children(pid)
    held = [os.readlink(each) for each in Path(f"/proc/{worker[0]}/fd").iterdir()]
    assert "anon_inode:inotify" not in held  # it has nothing of the daemon but its connection with the client
    assert len([each for each in held if each.startswith("socket:")]) == 1
    os.kill(pid, signal.SIGKILL)
    served.write("go", "")
    assert child.wait(timeout=30) == 0  # its child goes on
    assert len(checkpoints(served)) == 1
    assert run(served.path, "checkpoint", "-q").returncode == 0
    assert len(checkpoints(served)) == 2


def test_work_that_is_killed_is_done_by_the_command_itself(served: Repo) -> None:
    _filter_slowly(served, "touch started; while [ ! -e go ]; do sleep 0.01; done; cat")
    child = subprocess.Popen([*LAUNCH, "checkpoint", "-q"], cwd=served.path, stdout=subprocess.DEVNULL)
    wait_until((served.path / "started").exists, "the filter runs")
    [worker] = table.children(int(run_ok(served.path, "watch", "status")["pid"]))
    os.kill(worker, signal.SIGKILL)
    served.write("go", "")
    assert child.wait(timeout=30) == 0
    assert len(checkpoints(served)) == 1


@pytest.mark.parametrize(
    "words",
    [[b"x", b"9", b"git", b"status"], [b"x", b"-1"], [b"x", b"9" * 5000, b"git"],
     [b"x", b"3", b"git", b"approvals", b"grant"],
     [b"x", b"3", b"git", b"hook", b"shim"], [b"x", b"0"], [b"x"], []],
)  # fmt: skip
def test_requests_that_are_malformed(served: Repo, words: list[bytes]) -> None:
    """It declines, keeps no descriptor that came with one, and goes on."""
    pid = int(run_ok(served.path, "watch", "status")["pid"])
    before = len(os.listdir(f"/proc/{pid}/fd"))
    with connect(served) as connection:
        socket.send_fds(connection, [protocol.request(__version__, "run", *words)], [0, 1, 2, 0, 1, 2])
        try:
            answer = connection.recv(1 << 16)
        except ConnectionResetError:
            answer = b""
        assert b" ready " not in answer
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before, "all descriptors are closed")
    assert count(served.path) == 0
    assert run(served.path, "status").returncode == 0
    assert count(served.path) == 1


@pytest.mark.parametrize("descriptors", [[], [0, 1, 2], [0, 1, 2, 0, 1], [0] * 20])
def test_descriptors_that_are_missing_or_too_many(served: Repo, descriptors: list[int]) -> None:
    """Nothing is done."""
    with connect(served) as connection:
        connection.sendall(protocol.request(__version__, "run", b"x", b"2", b"git", b"checkpoint"))
        assert b" ready " in connection.recv(1 << 16)
        socket.send_fds(connection, [b"\n"], descriptors)
        assert connection.recv(1 << 16) == b""
    assert checkpoints(served) == []


def test_a_stopped_daemon_keeps_no_output_open(served: Repo) -> None:
    """Whoever reads what a command prints waits for the end of it."""
    pid = int(run_ok(served.path, "watch", "status")["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "git_agentos", "checkpoint", "-q"],
            cwd=served.path,
            capture_output=True,
            timeout=30,
            check=True,
        )
        assert len(done.stdout) == 9
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_daemon_that_does_not_answer_is_waited_for_once(served: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(served.path)
    monkeypatch.setattr(client, "_silent", {})
    pid = int(run_ok(served.path, "watch", "status")["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        assert client.run(["status"], __version__) is None
        with pytest.raises(client.NoAnswer, match="it has not answered in time"):
            client.ask(str(served.git_dir), __version__, "status")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_client_that_never_says_go_holds_nothing_up(served: Repo) -> None:
    key = signing.key(os.environ)
    assert key is not None
    waiting = []
    for _ in range(40):
        connection = connect(served)
        connection.sendall(protocol.request(__version__, "run", b"0" * 64, b"2", b"git", b"status"))
        waiting.append(connection)
    pid = int(run_ok(served.path, "watch", "status")["pid"])
    assert len(table.children(pid)) <= 32
    wait_until(
        lambda: run(served.path, "watch", "status").returncode == 0 and not table.children(pid), "they have given up"
    )
    for each in waiting:
        each.close()
    before = count(served.path)
    assert run(served.path, "checkpoint", "-q").returncode == 0
    assert count(served.path) == before + 1


def test_limits_that_are_lower_are_kept(served: Repo) -> None:
    """A file may grow to 4096 bytes: the checkpoint fails, as it does without a daemon."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    served.write("large", os.urandom(20_000).hex())
    before = count(served.path)
    done = subprocess.run(
        [*LAUNCH, "checkpoint"],
        cwd=served.path,
        preexec_fn=limit,
        capture_output=True,
        check=False,
    )
    assert (count(served.path), done.returncode) == (before + 1, 1), done
    assert checkpoints(served) == []


def test_a_client_knows_what_is_served() -> None:
    for line in (
        "checkpoint",
        "status",
        "--json status",
        "-C a -C b checkpoint -m x",
        "hook fsmonitor 1",
        "guard harness x",
    ):
        assert client.is_served(line.split()), line
    for line in ("", "hook shim a", "guard disable", "approvals grant", "--help", "-C", "restore latest", "forget"):
        assert not client.is_served(line.split()), line


def test_progress_is_shown_on_the_terminal_of_the_command(served: Repo) -> None:
    for n in range(20):
        served.write(f"many/{n}.txt", "x\n")
    before = count(served.path)
    done = at_terminal(served.path, "checkpoint", program=LAUNCH)
    assert done.code == 0
    assert count(served.path) == before + 1, "the daemon did it"
    assert "Saving files" in done.phases
    assert done.left == ""
    served.write("one-more.txt", "x\n")
    assert at_terminal(served.path, "-q", "checkpoint", program=LAUNCH).written == b""
