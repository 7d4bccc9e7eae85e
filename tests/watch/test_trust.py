"""Whom a client believes, and for whom the daemon works: the user's own, who may do the same."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from git_agentos import __version__
from git_agentos.guard import signing
from git_agentos.process import table
from git_agentos.watch import client, place, proof, protocol
from git_agentos.watch.server import Request
from tests.support.patient import LAUNCH, checkpoints, run
from tests.support.patient import served as count
from tests.support.repo import Repo
from tests.support.watch import service as make_service

# -- whom a client believes --------------------------------------------------------------------------------------------


class _Impostor:
    """A program of the same user in the place of the daemon: it says yes to everything. `key` is what it proves itself
    with, if it has one; then it ends when the work may begin, as a process that is killed."""

    def __init__(self, repo: Repo, said: bytes, key: bytes | None = None) -> None:
        path = place.make(str(repo.git_dir))
        self._listener = socket.socket(socket.AF_UNIX)
        name, folder = place.address(path)
        self._listener.bind(name)
        if folder is not None:
            os.close(folder)
        self._listener.listen(8)
        self._said, self._key = said, key
        self.asked: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                try:
                    data = connection.recv(1 << 16)
                    said = self._said
                    if self._key is not None:
                        said = proof.answer(self._key, data.partition(b"\n")[2].partition(b"\0")[0])
                    connection.sendall(protocol.ready(__version__, said))
                    self.asked.append(data + connection.recv(1))
                    if self._key is None:
                        connection.sendall(protocol.accept(__version__, b"0"))
                except OSError:
                    pass

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("kind", ["none", "another key", "of another challenge"])
def test_an_impostor_is_not_believed(repo: Repo, kind: str) -> None:
    """Neither that a checkpoint was created, nor that a command may run."""
    key = signing.key(os.environ)
    assert key is not None
    said = {"none": b"", "another key": proof.answer(b"\1" * 32, b"x"), "of another challenge": proof.answer(key, b"x")}
    impostor = _Impostor(repo, said[kind])
    try:
        assert run(repo.path, "checkpoint", "-q").returncode == 0
        assert len(checkpoints(repo)) == 1
        done = subprocess.run(
            [sys.executable, "-c", "from git_agentos.launch import hook; hook()", "no-such-hook", "1"],
            cwd=repo.path, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert b"usage: git-agentos hook" in done.stderr
        assert not any(each.endswith(b"\n") for each in impostor.asked)
    finally:
        impostor.close()


def test_what_was_begun_and_killed(repo: Repo) -> None:
    """A hook has read its input, so nobody can do its work again; a command does its work itself."""
    impostor = _Impostor(repo, b"", signing.key(os.environ))
    try:
        done = run(repo.path, "hook", "no-such-hook", "1")
        said = b"git-agentos: the process that did this for the watch daemon was ended\n"
        assert (done.returncode, done.stderr) == (70, said)
        assert run(repo.path, "checkpoint", "-q").returncode == 0
        assert [each.endswith(b"\n") for each in impostor.asked] == [True, True]
        assert len(checkpoints(repo)) == 1
    finally:
        impostor.close()


@pytest.mark.parametrize("what", ["link", "link above", "owner", "owner above", "writable"])
def test_a_daemon_in_a_planted_folder_is_not_asked(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    impostor = _Impostor(repo, b"", signing.key(os.environ))
    planted = runtime if what.endswith("above") else runtime / "git-agentos"
    if what.startswith("link"):
        os.rename(planted, tmp_path / "elsewhere")
        planted.symlink_to(tmp_path / "elsewhere")
        reason = "is a symbolic link"
    elif what.startswith("owner"):
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(planted, 65534, 65534)
        reason = "belongs to another user"
    else:
        planted.chmod(0o777)
        reason = "others may write to"
    try:
        with pytest.raises(client.NoAnswer, match=f"'{planted}'.* {reason}|{reason} '{planted}'"):
            client.ask(str(repo.git_dir), __version__, "status", patience=10)
        assert run(repo.path, "checkpoint", "-q").returncode == 0
        assert impostor.asked == []
    finally:
        impostor.close()


def test_a_runtime_folder_without_a_root_is_none(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stands elsewhere would look for it elsewhere."""
    monkeypatch.chdir(repo.path)
    repo.mkdir("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    assert place.socket_path(str(repo.git_dir)) == place.file(str(repo.git_dir), "sock")


def test_a_key_of_the_agent_counts_for_nothing_below_guard_exec(served: Repo, tmp_path: Path) -> None:
    """Below `guard exec`, the key is that of the user who has started it."""
    own = tmp_path / "config" / "git-agentos"
    own.mkdir(parents=True)
    (own / "key").write_bytes(b"\7" * 32)
    (own / "key").chmod(0o600)
    script = tmp_path / "script.py"
    script.write_text("from git_agentos.watch import proof; print(proof.find_key() == bytes([7]) * 32)")
    inner = f"XDG_CONFIG_HOME={tmp_path / 'config'} {sys.executable} {script}; true"
    outside = subprocess.run(["sh", "-c", inner], capture_output=True, check=True)
    assert outside.stdout == b"True\n"
    below = {**os.environ, "AGENTOS_GUARD": "dev"}
    inside = subprocess.run(["sh", "-c", inner], env=below, capture_output=True, check=True)
    assert inside.stdout == b"False\n"


@pytest.mark.parametrize("what", ["others may write", "another user's", "short", "long", "folder", "pipe", "none"])
def test_a_key_that_is_not_safe_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "git-agentos" / "key"
    path.parent.mkdir()
    path.write_bytes(b"\7" * {"short": 31, "long": 33}.get(what, 32))
    path.chmod(0o622 if what == "others may write" else 0o600)
    if what in ("folder", "pipe", "none"):
        path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path, 0o600)
    elif what == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(path, 65534, 65534)
    assert proof.find_key() is None


# -- for whom it works -------------------------------------------------------------------------------------------------


def test_who_has_connected_is_the_one_who_is_served() -> None:
    """A process that was started after the connection is another one, which has got the number of a client."""
    ours, other = socket.socketpair()
    arguments = [proof.challenge(), b"2", b"git-agentos", b"status"]
    service = make_service(b"\7" * 32, lambda _: 0)
    try:
        early = Request(__version__, "run", arguments, ours, 1.0)
        assert service.serve(early) == "it may not do what the caller may, or it may do more"
        now = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        assert service.serve(early._replace(since=now)) == ""
        assert other.recv(1000) == protocol.ready(__version__, proof.answer(b"\7" * 32, arguments[0]))
        assert service.served == 1
    finally:
        other.close()
        ours.close()


def test_its_work_is_that_of_the_process_that_asks(tmp_path: Path) -> None:
    """Who acts is found out by that process."""
    seen = tmp_path / "seen"

    def work(argv: Sequence[str]) -> int:
        seen.write_text(f"{argv} {table.own_pid()} {os.getpid() == table.own_pid()}")
        return 7

    ours, other = socket.socketpair()
    now = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    request = Request(__version__, "run", [b"x", b"2", b"git-agentos", b"status"], ours, now)
    with ours, other:
        assert make_service(b"\7" * 32, work).serve(request) == ""
        assert b" ready " in other.recv(1000)
        assert not seen.exists()
        client._hand_over(other, (0, 1, 2))
        assert other.recv(1000) == protocol.accept(__version__, b"7")
    assert seen.read_text() == f"['status'] {os.getpid()} False"


def test_without_a_key_it_works_for_nobody() -> None:
    ours, other = socket.socketpair()
    with ours, other:
        request = Request(__version__, "run", [b"x", b"2", b"git-agentos", b"status"], ours, time.monotonic())
        assert make_service(None, lambda _: 0).serve(request) == "the user has no key"


def test_who_has_higher_limits_does_its_work_itself(repo: Repo) -> None:
    """A child cannot raise its limits."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most <= 512:
        pytest.skip("the limit is low here")
    limited = ["sh", "-c", 'ulimit -n 512 && exec "$@"', "sh", *LAUNCH]
    subprocess.run([*limited, "watch", "start"], cwd=repo.path, capture_output=True, check=True)
    try:
        assert run(repo.path, "status").returncode == 0
        assert count(repo.path) == 0
        subprocess.run([*limited, "status"], cwd=repo.path, capture_output=True, check=True)
        assert count(repo.path) == 1
    finally:
        run(repo.path, "watch", "stop")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")
@pytest.mark.parametrize("options", [["--no-new-privs"], ["--bounding-set", "-sys_admin"], ["--groups", "4"]])
def test_who_may_less_gets_no_more_by_it(served: Repo, options: list[str]) -> None:
    if os.geteuid() != 0 and options != ["--no-new-privs"]:
        pytest.skip("only root can give these up")
    before = count(served.path)
    subprocess.run(["setpriv", *options, *LAUNCH, "checkpoint", "-q"], cwd=served.path, capture_output=True, check=True)
    assert count(served.path) == before
    assert len(checkpoints(served)) == 1


def test_another_mount_namespace_is_another_place(served: Repo) -> None:
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--mount"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace can be made here")
    before = count(served.path)
    subprocess.run([*unshare, *LAUNCH, "checkpoint", "-q"], cwd=served.path, capture_output=True, check=False)
    assert count(served.path) == before
