"""`git agentos db path`, as a command."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.tool import run, run_ok


@pytest.fixture
def old(home: Path) -> Iterator[Path]:
    """A database of older tools, in the home folder."""
    path = home / ".agentos" / "issue_workflow.db"
    path.parent.mkdir()
    path.write_bytes(b"old\n")
    yield path
    path.unlink()
    path.parent.rmdir()


def test_db_path_prints_the_path(repo: Repo, tmp_path: Path) -> None:
    own = str(repo.path / ".agentos" / "issue_workflow.db")
    repo.mkdir("deep")
    for cwd, args in ((repo.path, []), (repo.path / "deep", []), (tmp_path, ["-C", str(repo.path / "deep")])):
        done = run(cwd, *args, "db", "path")
        assert (done.code, done.out, done.err) == (0, f"{own}\n".encode(), b""), str(done)
        assert run(cwd, *args, "db", "path", "-q").out == f"{own}\n".encode()
        assert run_ok(cwd, *args, "db", "path") == {"schema": "agentos.db.v1", "path": own}
    assert sorted(os.listdir(repo.path / ".agentos")) == [".gitignore"]


def test_the_variable(repo: Repo, tmp_path: Path) -> None:
    for value, expected in (
        ("~/x/y.db", os.path.expanduser("~/x/y.db")),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        (str(tmp_path / "z.db"), str(tmp_path / "z.db")),
    ):
        for cwd in (repo.path, tmp_path):
            done = run(cwd, "db", "path", env={"AGENTOS_WORKFLOW_DB": value})
            assert (done.code, done.out) == (0, f"{expected}\n".encode()), str(done)
    assert not repo.exists(".agentos")


def test_db_path_without_a_location(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], check=True)
    for where in (tmp_path, tmp_path / "bare"):
        done = run(where, "db", "path")
        assert (done.code, done.out) == (1, b""), str(done)
        assert b"AGENTOS_WORKFLOW_DB" in done.err
        document = run(where, "--json", "db", "path")
        assert (document.code, document.json["error"]["kind"]) == (1, "workflow-configuration")


def test_a_global_database_is_told_of_once_and_never_touched(repo: Repo, old: Path) -> None:
    before = (old.read_bytes(), old.stat().st_mtime_ns, sorted(os.listdir(old.parent)))
    assert run_ok(repo.path, "db", "path")["path"].startswith(str(repo.path))
    first = run(repo.path, "db", "path")
    assert first.out == f"{repo.path}/.agentos/issue_workflow.db\n".encode()
    assert b"AGENTOS_WORKFLOW_DB=~/.agentos/issue_workflow.db" in first.err
    assert str(old).encode() in first.err
    assert run(repo.path, "db", "path").err == b""
    linked = repo.scratch / "linked"
    repo.git("worktree", "add", "-q", "--detach", str(linked))
    assert b"AGENTOS_WORKFLOW_DB" in run(linked, "db", "path").err
    for args in (["log", "add", "action", "x"], ["log", "list"], ["checkpoint"], ["log", "rebuild"]):
        assert run(repo.path, *args).code == 0
    assert (old.read_bytes(), old.stat().st_mtime_ns, sorted(os.listdir(old.parent))) == before


def test_old_database_is_not_mentioned_where_one_exists(repo: Repo, old: Path) -> None:
    assert run(repo.path, "log", "add", "action", "x").code == 0
    assert run(repo.path, "db", "path").err == b""
    assert old.read_bytes() == b"old\n"


def test_the_global_one_can_be_used(repo: Repo, old: Path) -> None:
    """As docs/workflow-database.md says: with the tables that are in it."""
    import sqlite3

    old.unlink()
    connection = sqlite3.connect(old)
    connection.execute("CREATE TABLE issue_workflows (id TEXT)")
    connection.execute("INSERT INTO issue_workflows VALUES ('theirs')")
    connection.commit()
    connection.close()
    env = {"AGENTOS_WORKFLOW_DB": "~/.agentos/issue_workflow.db"}
    assert run(repo.path, "log", "add", "action", "ours", env=env).code == 0
    assert b"ours" in run(repo.path, "log", "list", env=env).out
    assert not repo.exists(".agentos")
    connection = sqlite3.connect(old)
    assert connection.execute("SELECT * FROM issue_workflows").fetchall() == [("theirs",)]
    connection.close()
    for end in ("-wal", "-shm", ".lock"):
        Path(f"{old}{end}").unlink(missing_ok=True)
