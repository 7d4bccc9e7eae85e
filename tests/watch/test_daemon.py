"""The daemon as a process: it begins, answers, withstands hostile clients, and ends by itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest

from git_agentos import __version__
from git_agentos.process import table
from git_agentos.watch import client, place, protocol
from tests.support import patient
from tests.support.command_line import Cli
from tests.support.env import PROJECT_ROOT
from tests.support.json_reference import check_document
from tests.support.repo import Repo, filled
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until
from tests.support.watch import ask, connect, daemon_log, daemon_pid


def test_start_status_stop(repo: Repo) -> None:
    none: dict[str, object] = {
        "running": False,
        "pid": None,
        "since": None,
        "version": None,
        "idle_seconds": None,
        "served": None,
        "worktrees": [],
    }
    assert _without_schema(run_ok(repo.path, "watch", "status")) == none
    started = run_ok(repo.path, "watch", "start")
    assert check_document(started) == "watch"
    assert started["running"] and started["version"] == __version__ and started["idle_seconds"] == 1800
    (worktree,) = started["worktrees"]
    assert worktree == {
        "path": str(repo.path),
        "watching": True,
        "folders": worktree["folders"],
        "reason": None,
        "checkpoints": False,
    }
    assert worktree["folders"] > 0
    assert run_ok(repo.path, "watch", "start") == started  # the same one goes on
    assert run(repo.path, "watch", "status", "-q").out == b"%d\n" % started["pid"]
    assert run_ok(repo.path, "watch", "status") == started
    assert table.cwd(started["pid"]) == "/"
    assert _without_schema(run_ok(repo.path, "watch", "stop")) == none
    wait_until(lambda: not table.is_alive(started["pid"]), "the daemon ends")
    assert not os.path.lexists(place.socket_path(str(repo.git_dir)))
    assert _without_schema(run_ok(repo.path, "watch", "stop")) == none
    assert run(repo.path, "watch", "status", "-q").out == b""
    assert "ends: it was asked to" in daemon_log(repo)


def _without_schema(document: dict[str, object]) -> dict[str, object]:
    assert document.pop("schema") == "agentos.watch.v1"
    return document


def test_a_second_one_is_refused(watched: Repo) -> None:
    done = run(watched.path, "watch", "start", "--foreground")
    assert done.code == 1 or done.code == 4, done
    assert b"a daemon watches this repository already" in done.err


def test_all_worktrees_have_one_daemon(watched: Repo) -> None:
    watched.git("worktree", "add", "-q", "../linked", "-b", "linked")
    linked = watched.path.parent / "linked"
    found = run_ok(linked, "watch", "start")
    assert found["pid"] == daemon_pid(watched)
    assert [each["path"] for each in found["worktrees"]] == sorted([str(linked), str(watched.path)])
    watched.git("worktree", "remove", "--force", "../linked")
    assert [each["path"] for each in run_ok(watched.path, "watch", "status")["worktrees"]] == [str(watched.path)]


def test_a_killed_one_leaves_nothing_that_matters(watched: Repo) -> None:
    pid = daemon_pid(watched)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    with pytest.raises(client.NotRunning):
        ask(watched, "status")
    assert not run_ok(watched.path, "watch", "status")["running"]
    again = run_ok(watched.path, "watch", "start")
    assert again["running"] and again["pid"] != pid


def test_it_ends_when_git_agentos_is_uninstalled(repo: Repo, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    shutil.copytree(PROJECT_ROOT / "git_agentos", packages / "git_agentos")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    argv = [str(tmp_path / "venv" / "bin" / "python"), "-m", "git_agentos", "-C", str(repo.path), "watch", "start"]
    subprocess.run(argv, check=True, cwd="/", stdout=subprocess.DEVNULL)
    pid = daemon_pid(repo)
    shutil.rmtree(packages / "git_agentos")
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    assert "ends: git-agentos is not installed any more" in daemon_log(repo)


def test_a_stopped_one_keeps_nobody_waiting_and_is_killed(watched: Repo) -> None:
    pid = daemon_pid(watched)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(client.NoAnswer, match="in time"):
        ask(watched, "changes", os.fsencode(watched.path), b"", patience=client.PATIENCE)
    done = run(watched.path, "watch", "stop")
    assert done.code == 0, done
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")


@pytest.mark.parametrize("what", ["deleted", "moved", "made again"])
@pytest.mark.parametrize("is_socket_there", [False, True])
def test_it_ends_with_its_repository(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, is_socket_there: bool
) -> None:
    """Whether its socket is in there, or in the runtime folder."""
    if is_socket_there:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
        (tmp_path / "runtime").mkdir(mode=0o700)
    pid = run_ok(repo.path, "watch", "start")["pid"]
    moved = repo.path.parent / "moved"
    os.rename(repo.path, moved)
    if what != "moved":
        shutil.rmtree(moved)
    if what == "made again":
        repo.path.mkdir()
        repo.git("init", "-q")
        assert not run_ok(repo.path, "watch", "status")["running"]
    try:
        wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_it_ends_when_it_has_nothing_to_do(repo: Repo) -> None:
    repo.config("agentos.watchIdle", "1s")
    pid = run_ok(repo.path, "watch", "start")["pid"]
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    assert "nothing has happened, and nobody has asked" in daemon_log(repo)


def test_a_bad_idle_time(repo: Repo) -> None:
    repo.config("agentos.watchIdle", "soon")
    done = run(repo.path, "watch", "start")
    assert done.code != 0
    assert b"bad value 'soon' for 'agentos.watchIdle'" in done.err
    assert not run_ok(repo.path, "watch", "status")["running"]


def test_it_ends_when_its_socket_is_gone(watched: Repo) -> None:
    """What is in its place is not removed."""
    pid = daemon_pid(watched)
    path = Path(place.socket_path(str(watched.git_dir)))
    path.unlink()
    path.write_text("of somebody else")
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    assert path.read_text() == "of somebody else"
    assert "ends: its socket is gone" in daemon_log(watched)


def test_it_does_not_end_while_it_works(repo: Repo) -> None:
    """A checkpoint may take longer than the time after which it ends."""
    repo.config("agentos.watchIdle", "1s")
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.config("filter.slow.clean", "touch .git/started; while [ ! -e .git/go ]; do sleep 0.01; done; cat")
    repo.write("a.slow", "x\n")
    pid = patient.run_ok(repo.path, "watch", "start")["pid"]
    child = subprocess.Popen([*patient.LAUNCH, "checkpoint", "-q"], cwd=repo.path, stdout=subprocess.DEVNULL)
    try:
        wait_until((repo.git_dir / "started").exists, "the filter runs")
        assert table.children(pid)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            connect(repo).close()  # it looks whether it has to end, but nobody asks
            time.sleep(0.1)
        assert table.is_alive(pid)
    finally:
        repo.write(".git/go", "")
        assert child.wait() == 0
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    assert "nothing has happened, and nobody has asked" in daemon_log(repo)


def test_files_of_somebody_else_are_not_written(repo: Repo, tmp_path: Path) -> None:
    """The lock and the log are in the git directory, where agents may write."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    common_dir = str(repo.git_dir)
    place.make(common_dir)
    os.symlink(precious, place.file(common_dir, "log"))
    assert run_ok(repo.path, "watch", "start")["running"]
    run_ok(repo.path, "watch", "stop")
    os.unlink(place.file(common_dir, "turn"))
    os.symlink(precious, place.file(common_dir, "turn"))
    done = run(repo.path, "watch", "start")
    assert done.code == 1 and b"the daemon cannot be started" in done.err, done
    assert precious.read_text() == "mine"


def test_a_client_of_another_version_goes_its_own_way(watched: Repo) -> None:
    pid = daemon_pid(watched)
    with pytest.raises(client.NoAnswer, match="versions differ"):
        client.ask(str(watched.git_dir), "9.9", "changes", os.fsencode(watched.path), b"", patience=10)
    wait_until(lambda: not table.is_alive(pid), "the daemon ends")
    assert "a client has version '9.9'" in daemon_log(watched)


def test_requests_that_are_none(watched: Repo) -> None:
    for data in (
        b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 300, b"agentos-watch\n", b"agentos-watch 1 status -1\n",
        b"agentos-watch 1 status 99999999999\n", b"agentos-watch 1 status 99999\n" + b"x" * 70_000,
        b"agentos-watch 1 status 1\nxyz",
    ):  # fmt: skip
        with connect(watched) as connection:
            try:
                connection.sendall(data)
                assert connection.recv(100) == b"", data
            except ConnectionError:
                pass
    for name in ("run", "watch", "changes", "grant"):
        with pytest.raises(client.NoAnswer, match=r"no such request|does not do that"):
            ask(watched, name)
    for folder in (b"/", b"relative", os.fsencode(watched.path.parent), b"\xff", b""):
        with pytest.raises(client.NoAnswer, match="no worktree of this repository"):
            ask(watched, "changes", folder, b"")
    other = filled(watched.path.parent / "other")
    for root in (other.path, watched.path / "src", watched.git_dir):
        with pytest.raises(client.NoAnswer, match="no worktree of this repository"):
            ask(watched, "watch", os.fsencode(root))
    assert run_ok(watched.path, "watch", "status")["pid"] == daemon_pid(watched)


def test_clients_that_say_nothing_or_never_take_their_answer(watched: Repo) -> None:
    pid = daemon_pid(watched)
    before = len(os.listdir(f"/proc/{pid}/fd"))
    silent = [connect(watched) for _ in range(90)]
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) > before, "it has accepted some")
    assert len(os.listdir(f"/proc/{pid}/fd")) <= before + 65
    deaf = [connect(watched) for _ in range(5)]
    for each in deaf:
        try:
            each.sendall(protocol.request(__version__, "changes", os.fsencode(watched.path), b""))
        except ConnectionError:
            pass
    wait_until(lambda: run_ok(watched.path, "watch", "status")["running"], "the daemon answers others again")
    for each in silent + deaf:
        each.close()
    assert run_ok(watched.path, "watch", "status")["pid"] == daemon_pid(watched)


def test_it_survives_the_end_of_its_descriptors(repo: Repo) -> None:
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)); sys.argv[1:] ="
        " ['watch', 'start', '--foreground']; from git_agentos.cli.entry import main; main()"
    )
    child = subprocess.Popen([sys.executable, "-c", script], cwd=repo.path, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"Watching.\n"
        assert table.cwd(child.pid) == "/"
        many = [connect(repo) for _ in range(40)]
        for each in many:
            each.close()
        wait_until(lambda: run_ok(repo.path, "watch", "status")["running"], "the daemon answers again")
    finally:
        child.terminate()
        child.communicate()
    assert child.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_answered(watched: Repo) -> None:
    path = place.socket_path(str(watched.git_dir))
    folder, name = os.path.split(path)
    os.chmod(folder, 0o711)
    os.chmod(path, 0o666)
    script = f"""
import os, socket
os.setgid(65534)
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.connect({name!r})
try:
    connection.sendall({protocol.request(__version__, "status")!r})
    print(connection.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"b''\n"), done
    assert run_ok(watched.path, "watch", "status")["running"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_daemon_of_another_user_is_not_believed(repo: Repo) -> None:
    path = place.make(str(repo.git_dir))
    listener = socket.socket(socket.AF_UNIX)
    child = os.fork()
    if not child:  # the one who listens is another user
        try:
            folder, name = os.path.split(path)
            os.chmod(folder, 0o777)
            descriptor = os.open(folder, os.O_RDONLY)  # the folders above it are closed to others
            os.setgid(65534)
            os.setuid(65534)
            listener.bind(f"/proc/self/fd/{descriptor}/{name}")
            listener.listen()
            connection, _ = listener.accept()
            connection.sendall(protocol.accept(__version__, b"lies"))
            time.sleep(60)
        finally:
            os._exit(0)  # whatever happens: this is a copy of the process that runs the tests
    try:
        wait_until(lambda: os.path.exists(path), "the other user listens")
        os.chmod(os.path.dirname(path), 0o700)
        with pytest.raises(client.NoAnswer, match="another user's"):
            ask(repo, "status")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        listener.close()


@pytest.mark.parametrize("what", ["link", "file", "writable", "owner"])
def test_a_planted_runtime_folder(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    folder = runtime / "git-agentos"
    if what == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
        reason = b"is a symbolic link"
    elif what == "file":
        folder.write_text("")
        reason = b"is not a folder"
    else:
        folder.mkdir(mode=0o700)
        if what == "owner":
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder away")
            os.chown(folder, 65534, 65534)
            reason = b"belongs to another user"
        else:
            folder.chmod(0o777)
            reason = b"others may write to"
    done = run(repo.path, "watch", "start")
    assert done.code == 1, done
    assert reason in done.err
    assert not run_ok(repo.path, "watch", "status")["running"]


def test_the_runtime_folder_is_used(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    try:
        assert run_ok(repo.path, "watch", "start")["running"]
        (found,) = (runtime / "git-agentos").iterdir()
        assert found.is_socket()
    finally:
        run_ok(repo.path, "watch", "stop")


def test_a_path_that_is_too_long_for_a_socket(empty_repo: Repo) -> None:
    deep = empty_repo.path / ("x" * 120)
    deep.mkdir()
    subprocess.run(["git", "init", "-q", deep], check=True)
    try:
        assert run_ok(deep, "watch", "start")["running"]
        assert os.path.lexists(place.file(str(deep / ".git"), "sock"))
    finally:
        run_ok(deep, "watch", "stop")


def test_the_log_is_bounded(repo: Repo) -> None:
    from git_agentos.watch.daemon import Log

    log = Log(str(repo.path / "log"), most=1000)
    for number in range(100):
        log.write(f"line {number} \udcff")
    assert (repo.path / "log").stat().st_size <= 1000
    assert (repo.path / "log.1").stat().st_size <= 1100


def test_a_service_file(repo: Repo) -> None:
    done = run(repo.path, "watch", "start", "--print-unit")
    assert done.code == 0
    assert f"-C {repo.path} watch start --foreground\n".encode() in done.out
    assert not run_ok(repo.path, "watch", "status")["running"]


def test_without_the_library(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "inotify_simple.py").write_text("raise ImportError\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PROJECT_ROOT}"}
    command = [sys.executable, "-m", "git_agentos", "watch", "start", "--foreground"]
    done = subprocess.run(command, cwd=repo.path, env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"pip install 'git-agentos[watch]'" in done.stderr


def test_doctor_asks_it_once(watched: Repo, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask_it = client.ask

    def ask_and_note(common_dir: str, version: str, request: str, *arguments: bytes, patience: float) -> bytes:
        asked.append(request)
        return ask_it(common_dir, version, request, *arguments, patience=60)

    monkeypatch.setattr(client, "ask", ask_and_note)
    found = cli("-C", str(watched.path), "--json", "doctor")
    assert asked == ["status"]
    assert found.json["watch"]["pid"] == daemon_pid(watched)


def test_status_is_json_that_a_client_can_read(watched: Repo) -> None:
    assert json.loads(ask(watched, "status"))["pid"] == daemon_pid(watched)
