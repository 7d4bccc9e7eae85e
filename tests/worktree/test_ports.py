"""Ports: no two worktrees of a user have the same ones, and they are free again when a worktree is gone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import AgentosWarning, ConfigurationError, WorktreeError
from git_agentos.worktree import creation, ports, record, removal, status
from tests.support.repo import Repo, filled
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run
from tests.support.waiting import wait_until

SEEN = 'printf "%s %s" "${AGENTOS_PORT_BASE-none}" "${AGENTOS_PORT_COUNT-none}"'


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has no worktrees yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))


@pytest.fixture
def ported(repo: Repo) -> Repo:
    """A repository whose worktrees get ten ports."""
    repo.git("config", "agentos.ports", "10")
    return repo


def make(repo: Repo, id_: str) -> Repo:
    return Repo(Path(str(creation.create(open_workspace(repo.path).context, id_, guard=False).path)))


def block(repo: Repo, id_: str) -> tuple[int | None, int]:
    found = record.find(str(repo.git_dir), id_).record
    return found.port_base, found.port_count


def registry() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"], "git-agentos", "ports.json")


def said(where: Path, *args: str) -> bytes:
    done = run(where, *args)
    assert done.code == 0, str(done)
    return done.out


@contextlib.contextmanager
def listening(port: int, address: str = "127.0.0.1") -> Iterator[None]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
        yield


def test_without_the_setting_there_are_none(repo: Repo) -> None:
    repo.git("config", "agentos.setup", f"{SEEN} >seen")
    there = make(repo, "dev")
    assert block(repo, "dev") == (None, 0)
    assert there.read("seen") == b"none none"
    assert said(there.path, "worktree", "env") == b""
    assert not registry().exists()


def test_each_worktree_has_its_own(ported: Repo) -> None:
    ported.git("config", "agentos.setup", f"{SEEN} >seen")
    first, second = make(ported, "one"), make(ported, "two")
    (base, count), (other, _) = block(ported, "one"), block(ported, "two")
    assert base is not None and other is not None
    assert (count, abs(base - other) >= 10) == (10, True)
    assert min(base, other) >= ports.FIRST and max(base, other) + 9 <= ports.LAST
    assert first.read("seen") == f"{base} 10".encode()
    assert second.read("seen") == f"{other} 10".encode()
    listed = {each.id: (each.port_base, each.port_count) for each in _list(ported)}
    assert listed == {"one": (base, 10), "two": (other, 10)}
    assert f"{base} to {base + 9}".encode() in said(ported.path, "worktree", "show", "one")


def _list(repo: Repo) -> list[status.Worktree]:
    return status.list_worktrees(open_workspace(repo.path).context).worktrees


def test_a_shell_and_a_guarded_command_get_them(ported: Repo) -> None:
    there = make(ported, "one")
    base, _ = block(ported, "one")
    expected = f"export AGENTOS_PORT_BASE={base}\nexport AGENTOS_PORT_COUNT=10\n".encode()
    assert said(there.path, "worktree", "env") == expected
    assert said(ported.path, "worktree", "env", "one") == expected
    assert said(there.path, "guard", "exec", "--", "sh", "-c", SEEN) == f"{base} 10".encode()


def test_the_caller_has_other_ports(ported: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent makes a worktree, and runs a command in the main one: its own ports are not passed on."""
    monkeypatch.setenv("AGENTOS_PORT_BASE", "1")
    monkeypatch.setenv("AGENTOS_PORT_COUNT", "2")
    ported.git("config", "agentos.ports", "0")
    ported.git("config", "agentos.setup", f"{SEEN} >seen")
    assert make(ported, "one").read("seen") == b"none none"
    assert said(ported.path, "guard", "exec", "--", "sh", "-c", SEEN) == b"none none"


def test_a_run_gets_them(ported: Repo) -> None:
    said(ported.path, "run", "start", "--id", "r1", "--agent", f"{SEEN} >seen")
    there = Repo(Path(said(ported.path, "-q", "worktree", "path", "run-r1").decode().strip()))
    base, _ = block(ported, "run-r1")
    assert there.read("seen") == f"{base} 10".encode()


def test_two_repositories_of_a_user(ported: Repo, tmp_path: Path) -> None:
    other = filled(tmp_path / "other")
    other.git("config", "agentos.ports", "7")
    make(ported, "one")
    make(other, "one")
    make(ported, "two")
    taken = [(block(each, id_)) for each, id_ in ((ported, "one"), (other, "one"), (ported, "two"))]
    numbers = [base + n for base, count in taken if base is not None for n in range(count)]
    assert len(numbers) == len(set(numbers)) == 27


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_port_on_which_a_program_listens(ported: Repo, address: str) -> None:
    make(ported, "one")
    base, _ = block(ported, "one")
    assert base is not None
    try:
        with listening(base + 15, address):
            make(ported, "two")
    except OSError as error:
        assert error.errno == errno.EADDRNOTAVAIL  # this system has no ::1
        return
    found, _ = block(ported, "two")
    assert found is not None
    assert not found <= base + 15 < found + 10


@pytest.mark.parametrize("how", ["archive", "remove", "git", "lost"])
def test_they_are_free_when_the_worktree_is_gone(ported: Repo, how: str) -> None:
    there = make(ported, "one")
    before = block(ported, "one")
    context = open_workspace(ported.path).context
    if how == "archive":
        removal.archive(context, "one")
    elif how == "remove":
        removal.remove(context, "one")
    elif how == "git":
        ported.git("worktree", "remove", "--force", str(there.path))
    else:
        shutil.rmtree(there.path)
        ported.git("worktree", "prune", "--expire=now")
    make(ported, "two")
    assert block(ported, "two") == before
    rows = json.loads(registry().read_bytes())["blocks"]
    assert [os.path.basename(row["git_dir"]) for row in rows] == ["two"]


def test_a_revived_worktree(ported: Repo) -> None:
    """It gets its own ones, also where the setting is gone; others where another worktree has them by then."""
    make(ported, "one")
    before = block(ported, "one")
    context = open_workspace(ported.path).context
    removal.archive(context, "one")
    ported.git("config", "agentos.ports", "0")
    creation.create(open_workspace(ported.path).context, "one", revive=True, guard=False)
    assert block(ported, "one") == before
    removal.archive(context, "one")
    ported.git("config", "agentos.ports", "10")
    make(ported, "two")
    assert block(ported, "two") == before
    creation.create(context, "one", revive=True, guard=False)
    base, count = block(ported, "one")
    assert base is not None and before[0] is not None
    assert (count, abs(base - before[0]) >= 10) == (10, True)


@pytest.mark.parametrize(
    ("base", "count"), [(80, 10), (70000, 10), (20005, 1 << 40), (-1, 5), (20000, -3), (32767, 10)]
)
def test_ports_in_a_record_that_no_worktree_can_have(ported: Repo, base: int, count: int) -> None:
    """A record that was fetched, or that an agent has written, is revived."""
    make(ported, "one")
    known = record.find(str(ported.git_dir), "one")
    record.write(known.git_dir, replace(known.record, port_base=base, port_count=count))
    make(ported, "two")
    context = open_workspace(ported.path).context
    removal.archive(context, "one")
    creation.create(context, "one", revive=True, guard=False)
    found, number = block(ported, "one")
    assert found is not None
    assert (number, ports.is_possible(found, number)) == (10, True)
    assert block(ported, "two") != (found, number)


def test_a_repository_that_is_missing_keeps_them(ported: Repo, tmp_path: Path) -> None:
    """They are only taken when there are no others."""
    other = filled(tmp_path / "other")
    other.git("config", "agentos.ports", "10")
    make(other, "far")
    kept = block(other, "far")
    os.rename(other.path, tmp_path / "away")
    make(ported, "one")
    assert block(ported, "one") != kept
    base, _ = kept
    assert base is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ports, "LAST", ports.FIRST + 19)
        make(ported, "two")
        with pytest.raises(WorktreeError, match="no 10 ports in a row are free"):
            make(ported, "three")
    assert block(ported, "two") == kept
    assert [each.id for each in _list(ported)] == ["one", "two"]


def test_a_repository_that_was_moved(ported: Repo) -> None:
    make(ported, "one")
    before = block(ported, "one")
    moved = Repo(ported.path.with_name("moved"))
    os.rename(ported.path, moved.path)
    make(moved, "two")
    assert block(moved, "one") == before
    assert block(moved, "two") != before
    rows = json.loads(registry().read_bytes())["blocks"]
    assert sorted(os.path.basename(row["git_dir"]) for row in rows) == ["one", "two"]


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"blocks": [1]}', b'{"blocks": [{"base": "x"}]}'])
def test_a_damaged_file(ported: Repo, text: bytes) -> None:
    make(ported, "one")
    registry().write_bytes(text)
    with pytest.warns(AgentosWarning, match="was damaged"):
        make(ported, "two")
    assert block(ported, "one") != block(ported, "two")
    assert len(json.loads(registry().read_bytes())["blocks"]) == 2


def test_a_folder_that_cannot_be_written(ported: Repo) -> None:
    registry().parent.mkdir(parents=True, exist_ok=True)
    registry().with_name("ports.lock").mkdir()
    before = snapshot(ported)
    with pytest.raises(WorktreeError, match="no ports can be reserved"):
        make(ported, "one")
    assert_nothing_left(before, ported)


@pytest.mark.parametrize("value", ["ten", "-1", "1001", "99999", "1.5"])
def test_a_bad_number(ported: Repo, value: str) -> None:
    ported.git("config", "agentos.ports", value)
    before = snapshot(ported)
    with pytest.raises(ConfigurationError, match=r"agentos\.ports"):
        make(ported, "one")
    assert_nothing_left(before, ported)


WORKER = (
    "import sys\n"
    "from git_agentos import open_workspace\n"
    "from git_agentos.worktree import create\n"
    "print('ready', flush=True)\n"
    "sys.stdin.read()\n"
    "create.create(open_workspace(sys.argv[1]).context, sys.argv[2], guard=False)\n"
)


def test_twenty_at_once_in_two_repositories(ported: Repo, tmp_path: Path) -> None:
    other = filled(tmp_path / "other")
    other.git("config", "agentos.ports", "7")
    jobs = [(ported if n % 2 else other, f"dev-{n}") for n in range(20)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(where.path), id_],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for where, id_ in jobs
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    for worker in workers:
        assert worker.wait(timeout=300) == 0, worker.stderr.read() if worker.stderr else b""
        for stream in (worker.stdout, worker.stderr):
            assert stream is not None
            stream.close()
    taken = [block(where, id_) for where, id_ in jobs]
    numbers = [base + n for base, count in taken if base is not None for n in range(count)]
    assert len(numbers) == len(set(numbers)) == 10 * 10 + 10 * 7


def test_a_creation_that_is_killed(ported: Repo) -> None:
    """Its ports are free when what it left is removed."""
    ported.git("config", "agentos.setup", "echo $$ >new && mv new begun; sleep 60")
    child = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(ported.path), "one"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    folder = ported.path.with_name("repo.worktrees") / "one"
    wait_until((folder / "begun").exists, "the set-up command has not begun")
    of_setup = int((folder / "begun").read_text())
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    os.killpg(of_setup, signal.SIGKILL)
    (taken,) = json.loads(registry().read_bytes())["blocks"]
    ported.git("config", "--unset", "agentos.setup")
    make(ported, "two")
    assert block(ported, "two")[0] != taken["base"]
    said(ported.path, "worktree", "repair")
    make(ported, "three")
    assert block(ported, "three")[0] == taken["base"]
