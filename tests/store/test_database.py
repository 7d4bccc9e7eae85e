"""The database file: WAL, migrations, other versions, other tables; and every kind of damage."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from git_agentos import log, memory, open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosWarning, DamagedDatabase, DatabaseError
from git_agentos.store import database, migrations
from tests.support.repo import Repo

FILE = ".agentos/issue_workflow.db"


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def summaries(repo: Repo) -> list[str]:
    return [entry.summary for entry in log.entries(context_of(repo), newest_first=False)]


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def filled(repo: Repo, count: int = 40) -> None:
    """Entries that a checkpoint carries, one that none does, and an item of memory."""
    context = context_of(repo)
    for n in range(count):
        log.add(context, "action", f"carried {n}", details={"text": "x" * 300})
    memory.artifact(context, type="code", path="readme.txt", description="carried")
    open_workspace(repo.path).checkpoint("the checkpoint")
    log.add(context, "decision", "waiting")


def test_settings_of_the_database(repo: Repo) -> None:
    log.add(context_of(repo), "action", "first")
    path = repo.path / FILE
    assert query(path, "PRAGMA journal_mode") == [("wal",)]
    assert query(path, "PRAGMA user_version") == [(migrations.LATEST,)]
    with database.opened(str(path)) as opened:
        assert opened.connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert opened.connection.execute("PRAGMA busy_timeout").fetchone()[0] >= 30_000
        assert opened.connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_migration_runs_in_its_own_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second fails in its middle: the first has happened, and nothing of the second."""
    path = str(tmp_path / "x.db")
    bad = ("CREATE TABLE agentos_second (x)", "CREATE TABLE agentos_second (y)")
    monkeypatch.setattr(database, "MIGRATIONS", (*migrations.MIGRATIONS, bad))
    monkeypatch.setattr(database, "LATEST", migrations.LATEST + 1)
    with pytest.raises(DatabaseError, match="already exists"), database.opened(path):
        pass
    assert query(Path(path), "PRAGMA user_version") == [(migrations.LATEST,)]
    assert query(Path(path), "SELECT name FROM sqlite_master WHERE name = 'agentos_second'") == []
    monkeypatch.setattr(database, "MIGRATIONS", (*migrations.MIGRATIONS, bad[:1]))
    with database.opened(path):
        pass
    assert query(Path(path), "PRAGMA user_version") == [(migrations.LATEST + 1,)]
    assert len(query(Path(path), "SELECT name FROM sqlite_master WHERE name = 'agentos_second'")) == 1


def test_concurrent_setup(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    failures: list[BaseException] = []
    barrier = threading.Barrier(12)

    def work() -> None:
        barrier.wait()
        try:
            with database.opened(path) as opened:
                opened.connection.execute("SELECT count(*) FROM agentos_log").fetchone()
        except BaseException as error:  # noqa: BLE001 (looked at below)
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_newer_version_is_refused_untouched(repo: Repo) -> None:
    filled(repo, 3)
    path = repo.path / FILE
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = {name: (repo.path / ".agentos" / name).read_bytes() for name in os.listdir(repo.path / ".agentos")}
    for use in (
        lambda: log.add(context_of(repo), "action", "x"),
        lambda: log.rebuild(context_of(repo)),
        lambda: memory.artifact(context_of(repo), type="t", path="p", description="d"),
    ):
        with pytest.raises(DatabaseError, match="version 99"):
            use()
    with pytest.warns(AgentosWarning, match="version 99"):
        made = open_workspace(repo.path).checkpoint("goes on")
    with pytest.warns(AgentosWarning, match="version 99"):
        assert summaries(repo)[-1] == "goes on"
    assert open_workspace(repo.path).find("latest").id == made.id
    after = {name: (repo.path / ".agentos" / name).read_bytes() for name in os.listdir(repo.path / ".agentos")}
    assert after == before


def test_tables_of_others_stay(repo: Repo) -> None:
    """An older tool's database, and what others keep in the same file."""
    repo.write(".agentos/x", "")
    connection = sqlite3.connect(repo.path / FILE)
    connection.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    connection.execute("INSERT INTO checkpoints VALUES ('theirs')")
    connection.commit()
    connection.close()
    log.add(context_of(repo), "action", "ours")
    assert query(repo.path / FILE, "SELECT * FROM checkpoints") == [("theirs",)]
    assert summaries(repo) == ["ours"]


def test_a_versioned_database_of_others_is_refused(repo: Repo) -> None:
    repo.write(".agentos/x", "")
    connection = sqlite3.connect(repo.path / FILE)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    before = repo.read(FILE)
    with pytest.raises(DatabaseError, match="git-agentos did not create it"):
        log.add(context_of(repo), "action", "ours")
    assert repo.read(FILE) == before


def header(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(b"garbage" * 20)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def few(path: Path) -> None:
    os.truncate(path, 700)


def pages(path: Path) -> None:
    size = path.stat().st_size
    with open(path, "r+b") as file:
        for page in range(1, size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 900)


def schema(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 3000)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("damage", [header, half, few, pages, schema])
@pytest.mark.parametrize("use", ["add", "list", "checkpoint", "rebuild", "memory"])
def test_damage(repo: Repo, damage: object, use: str) -> None:
    """It is moved aside and rebuilt from the checkpoints, with a warning, by whichever command finds it first."""
    filled(repo)
    path = repo.path / FILE
    assert not os.path.exists(f"{path}-wal")
    assert callable(damage)
    damage(path)
    damaged = path.read_bytes()
    context = context_of(repo)
    with pytest.warns(AgentosWarning, match=r"was damaged .* moved to"):
        if use == "add":
            log.add(context, "action", "new")
        elif use == "list":
            log.entries(context)
        elif use == "checkpoint":
            open_workspace(repo.path).checkpoint("over it")
        elif use == "rebuild":
            assert log.rebuild(context).moved_aside is not None
        else:
            memory.artifact(context, type="t", path="p", description="new")
    (aside,) = [each for each in repo.path.glob(f"{FILE}.damaged-*") if not each.name.endswith(("-wal", "-shm"))]
    assert aside.read_bytes() == damaged
    told = summaries(repo)
    assert [each for each in told if each.startswith("carried")] == [f"carried {n}" for n in range(40)]
    assert told.count("the checkpoint") == 1
    assert (told[-1] == "new") == (use == "add")
    assert "carried" in [item.description for item in memory.items(context)]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_empty_file_is_a_new_one(repo: Repo) -> None:
    filled(repo)
    emptied(repo.path / FILE)
    assert len(summaries(repo)) == 41
    assert list(repo.path.glob(f"{FILE}.damaged-*")) == []


def test_rows_in_no_checkpoint_are_salvaged_from_the_damaged_file(repo: Repo) -> None:
    """A torn search index alone: every row can still be read."""
    filled(repo)
    path = repo.path / FILE
    connection = sqlite3.connect(path)
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'agentos_log_search_data'").fetchone()[0]
    connection.close()
    with open(path, "r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    with pytest.warns(AgentosWarning, match="1 rows that were in no checkpoint"):
        done = log.rebuild(context_of(repo))
    assert done.moved_aside is not None
    assert (done.entries, done.items, done.uncarried) == (42, 1, 1)
    assert summaries(repo)[-1] == "waiting"


def test_rebuild_after_a_kill_reads_the_file_moved_aside(repo: Repo) -> None:
    """Before anything was read out of it: `rebuild` looks there too."""
    filled(repo)
    found = os.stat(repo.at(FILE))
    assert database.move_aside(str(repo.path / FILE), (found.st_ino, found.st_dev)) is not None
    assert "waiting" not in summaries(repo)
    assert log.rebuild(context_of(repo)).uncarried == 1
    assert summaries(repo)[-1] == "waiting"
    assert log.rebuild(context_of(repo)).uncarried == 1


def test_concurrent_recovery_of_a_damaged_database(repo: Repo) -> None:
    """One moves it aside, the other finds a sound one; nobody moves that."""
    filled(repo)
    path = str(repo.path / FILE)
    header(repo.path / FILE)
    found: list[DamagedDatabase] = []
    for _ in range(2):
        with pytest.raises(DamagedDatabase) as caught, database.opened(path):
            pass
        found.append(caught.value)
    assert database.move_aside(path, found[0].inode) is not None
    with database.opened(path):
        pass
    assert database.move_aside(path, found[1].inode) is None
    assert os.path.exists(path)


def test_open_database_is_not_moved(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(repo, 1)
    path = repo.path / FILE
    found = path.stat()
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    with database.opened(str(path)), pytest.raises(DatabaseError, match="in use"):
        database.move_aside(str(path), (found.st_ino, found.st_dev))
    assert path.exists()


def test_foreign_file_is_not_moved(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("shopping list: milk, bread, a very long line that is no SQLite header at all\n")
    monkeypatch.setenv("AGENTOS_WORKFLOW_DB", str(notes))
    with pytest.raises(DatabaseError, match="is not a database"):
        log.add(context_of(repo), "action", "x")
    assert notes.read_text().startswith("shopping")
    assert sorted(tmp_path.glob("notes*")) == [notes]
