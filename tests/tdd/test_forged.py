"""What an agent writes into the database and the evidence of its workflow counts for nothing: it is never merged."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.errors import TddError
from git_agentos.run import evidence_store
from git_agentos.tdd import query, state_database
from git_agentos.tdd.graph import Graph
from git_agentos.tdd.state import Workflow
from git_agentos.worktree import creation
from tests.support.repo import Repo
from tests.support.tdd_project import context_of, decide, environment, project, resume, script, start


@pytest.fixture
def waiting(repo: Repo, tmp_path: Path) -> Workflow:
    """One whose tests are none: it waits, and cannot be approved."""
    found = start(project(repo), script(tmp_path, [{"unusable": "no"}]))
    assert (found.state, found.words) == ("waiting", ["abort", "retry"])
    return found


def database(repo: Repo) -> Path:
    return Path(state_database.location_of(context_of(repo).location, environment()))


def sql(*statements: str) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for each in statements:
                assert connection.execute(each).rowcount > 0, each

    return forge


NEWEST = "checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)"
ROWS = [
    sql("UPDATE checkpoints SET metadata = json_remove(metadata, '$.agentos_mac')"),
    sql(f"UPDATE checkpoints SET checkpoint = (SELECT checkpoint FROM checkpoints LIMIT 1) WHERE {NEWEST}"),
    sql(f"DELETE FROM checkpoints WHERE {NEWEST}", f"DELETE FROM checkpoints WHERE {NEWEST}"),
    sql(
        "INSERT INTO writes SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, -4, '__resume__', 'agentos-json',"
        f" '\"approve\"', '' FROM writes WHERE {NEWEST} LIMIT 1",
    ),
    sql("UPDATE writes SET checkpoint_id = checkpoint_id, value = (SELECT value FROM writes LIMIT 1)"),
    sql("UPDATE checkpoints SET checkpoint = x'00'"),
    sql("UPDATE checkpoints SET metadata = 'null'"),
    sql("UPDATE checkpoints SET metadata = '{'"),
    sql("UPDATE checkpoints SET metadata = '[]', type = 'pickle'"),
    sql("UPDATE checkpoints SET type = NULL"),
    sql("DELETE FROM checkpoints"),
]


def test_edited_rows_are_reported_and_refused(
    repo: Repo, waiting: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at it says so, and nothing else is disturbed; deciding about it is refused."""
    path = database(repo)
    saved = tmp_path / "saved.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, saved)

    def forged() -> Workflow:
        (listed,) = query.list_workflows(context_of(repo), environment())
        shown = query.show(context_of(repo), waiting.id, environment())
        assert shown == listed == query.show(context_of(repo), "87", environment())
        assert query.review(context_of(repo), waiting.id, environment()).workflow == shown
        return shown

    def restore() -> None:
        for each in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            each.unlink(missing_ok=True)
        shutil.copy(saved, path)

    for number, forge in enumerate(ROWS):
        forge(path)
        found = forged()
        assert (found.state, found.words, found.worktree_path) == ("tampered", ["abort"], waiting.worktree_path), number
        restore()

    for data in (b"", b"null", b"\0" * 10_000_000, saved.read_bytes()[:5000]):
        path.write_bytes(data)
        assert forged().state == "tampered"
        restore()
    path.unlink()
    path.mkdir()
    assert forged().state == "tampered"
    path.rmdir()
    restore()
    assert forged() == waiting

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "agents"))
    with state_database.open_checkpointer(str(path)) as opened:
        opened.is_trusting = True  # type: ignore[attr-defined]
        Graph(None, opened).set_decision(waiting.id, {"green": True, "human_decision": "approve"})
    monkeypatch.undo()
    assert (forged().state, forged().reason) == ("tampered", "it was written with another key")

    base = repo.oid("main")
    refused = pytest.raises(TddError, match="was tampered with: it was written with another key")
    with refused:
        decide(repo, waiting.id, "approve")
    with refused:
        resume(repo, waiting.id)
    assert repo.oid("main") == base
    restore()  # it stays: its run's record says so
    assert forged().state == "tampered"
    problems = evidence_store.verify(context_of(repo), waiting.id).problems
    assert any("tampered" in each for each in problems), problems
    ended = decide(repo, waiting.id, "abort")
    assert (ended.state, ended.merge_commit, repo.oid("main")) == ("aborted", None, base)
    assert repo.text("for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main", "other"]
    assert query.show(context_of(repo), waiting.id, environment()).state == "aborted"
    made = creation.create(context_of(repo), f"run-{waiting.id}", revive=True)
    assert Path(str(made.path)).is_dir()


def test_edited_evidence_is_reported_and_refused(repo: Repo, waiting: Workflow, tmp_path: Path) -> None:
    assert waiting.evidence is not None
    events = Path(waiting.evidence, "events.jsonl")
    data = events.read_bytes()
    for forged in (data + b'{"event":"node-begun","at":"","n":9}\n', data[: data.rindex(b"{")], b"", b"\0\n", b"[]\n"):
        events.write_bytes(forged)
        assert query.show(context_of(repo), waiting.id, environment()).state == "tampered"
        events.write_bytes(data)
    folder, aside = Path(waiting.evidence), tmp_path / "aside"
    for each in (events, folder, folder.parent):
        each.rename(aside)
        for kind in ("nothing", "a folder", "a file", "a link"):
            if kind == "a folder":
                each.mkdir()
            elif kind == "a file":
                each.touch()
            elif kind == "a link":
                each.symlink_to(aside)
            (listed,) = query.list_workflows(context_of(repo), environment())
            assert (listed.state, listed.words) == ("tampered", ["abort"]), (each, kind)
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)
        aside.rename(each)
    assert query.show(context_of(repo), waiting.id, environment()) == waiting
    shutil.rmtree(folder)
    assert decide(repo, waiting.id, "abort").state == "aborted"
    assert not Path(str(waiting.worktree_path)).exists()


def test_database_changed_by_a_working_agent_is_detected(repo: Repo, tmp_path: Path) -> None:
    """A row in the newest's place, written while the process is at work, is seen by that process."""
    code = project(repo)
    copy = (
        "INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, '9' || checkpoint_id, parent_checkpoint_id, type,"
        " checkpoint, metadata FROM checkpoints"
    )
    forge = tmp_path / "forge.py"
    forge.write_text(f"import sqlite3\nwith sqlite3.connect({str(database(code))!r}) as c: c.execute({copy!r})\n")
    text = f"'{sys.executable}' '{forge}'"
    with pytest.raises(TddError, match="rows were changed while a process worked on it"):
        start(code, script(tmp_path, [{"run": text, "unusable": "no"}]))
    (found,) = query.list_workflows(context_of(code), environment())
    assert found.state == "tampered"
    database(code).unlink()
    assert [each.state for each in query.list_workflows(context_of(code), environment())] == ["tampered"]
    assert decide(code, found.id, "abort").state == "aborted"
    assert not Path(str(found.worktree_path)).exists()
    assert query.show(context_of(code), found.id, environment()).state == "aborted"
