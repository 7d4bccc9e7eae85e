"""`forget --secret` outside of checkpoints: the state of workflows, small files, remotes, and other processes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from git_agentos import workspace
from git_agentos.run import evidence_store
from git_agentos.tdd import query
from tests.support.forgotten import holders, take, timeline
from tests.support.remotes import clone, refs_on, sync
from tests.support.repo import Repo, git
from tests.support.tdd_project import GOOD_SCAFFOLD, context_of, decide, environment, project, script
from tests.support.tdd_project import start as start_workflow
from tests.support.tool import run, run_ok

SECRET = "Blue-Horse_77"


def forget(repo: Repo, *args: str) -> Any:
    done = run(repo.path, "forget", "--secret", "--json", *args, stdin=SECRET.encode())
    assert done.code == 0, done
    return done.json


# -- workflows ---------------------------------------------------------------------------------------------------------


def _rows(path: Path) -> bytes:
    """All that the rows of workflows have, decompressed."""
    connection = sqlite3.connect(path)
    found = b""
    for table, column in (("checkpoints", "checkpoint"), ("writes", "value"), ("checkpoints", "metadata")):
        for (value,) in connection.execute(f"SELECT {column} FROM {table}"):
            data = value if isinstance(value, bytes) else str(value).encode()
            found += data
            for start in range(len(data)):
                if data[start : start + 1] == b"x":
                    try:
                        found += zlib.decompressobj().decompress(data[start:])
                    except zlib.error:
                        continue
    connection.close()
    return found


def test_a_waiting_workflow_goes_on(repo: Repo, tmp_path: Path) -> None:
    code = project(repo)
    talk = f"I use {SECRET}, " + "and much more that is compressed. " * 200
    agent = script(tmp_path, [{"say": talk, **GOOD_SCAFFOLD}], [{"unusable": f"no {SECRET}"}])
    waiting = start_workflow(code, agent)
    assert waiting.state == "waiting"
    database = code.path / ".agentos/issue_workflow.db"
    assert SECRET.encode() in _rows(database)
    done = forget(code)
    assert done["unreachable"] == [], done
    assert SECRET.encode() not in _rows(database)
    assert holders(code, SECRET.encode()) == []
    # It is still believed, here and from its copy in git, and it goes on.
    shown = query.show(context_of(code), "87", environment())
    assert (shown.state, shown.id) == ("waiting", waiting.id)
    for each in (code.path / ".agentos").glob("issue_workflow.db*"):
        each.unlink()
    assert query.show(context_of(code), "87", environment()).state == "waiting"
    assert "(forgotten)" in str(query.show(context_of(code), "87", environment()).history)
    assert decide(code, waiting.id, "abort").state == "aborted"
    assert evidence_store.verify(context_of(code), waiting.id).problems == []


def test_what_sqlite_leaves_in_a_file(repo: Repo) -> None:
    """Deleted rows are in free pages, and all that was written is in the log while another process reads."""
    run_ok(repo.path, "log", "add", "decision", "one")
    database = repo.path / ".agentos/issue_workflow.db"
    with contextlib.closing(sqlite3.connect(database)) as reader:
        reader.execute("PRAGMA secure_delete = OFF")  # some systems have it on
        reader.execute("CREATE TABLE theirs (value TEXT)")
        reader.execute("INSERT INTO theirs VALUES (?)", (f"deleted {SECRET} " * 300,))
        reader.commit()
        reader.execute("DELETE FROM theirs")
        reader.commit()
        run_ok(repo.path, "log", "add", "decision", f"because of {SECRET}")
        reader.execute("SELECT count(*) FROM theirs").fetchone()
        assert holders(repo, SECRET.encode())
        assert forget(repo)["unreachable"] == []
        assert holders(repo, SECRET.encode()) == []


# -- small files -------------------------------------------------------------------------------------------------------


def test_small_files(repo: Repo) -> None:
    take(repo, 1)
    ours = repo.git_dir / "agentos"
    (ours / "approvals/requests").mkdir(parents=True, exist_ok=True)
    signed = ours / "approvals/requests/abc.json"
    signed.write_text(json.dumps({"argv": ["rm", SECRET], "mac": "0" * 64}))
    crash = ours / "crash-20260101.txt"
    crash.write_text(f"Traceback: {SECRET}\n")
    odd = ours / "some-cache"
    odd.write_bytes(b"\0" + SECRET.encode())
    kept = ours / "kept/abc/inner/file.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text(SECRET)
    done = forget(repo)
    assert not signed.exists()
    assert not odd.exists()
    assert crash.read_text() == "Traceback: (forgotten)\n"
    assert done["unreachable"] == [f"'{kept}', which was moved aside: delete it when you need it no more"]
    assert holders(repo, SECRET.encode()) == [str(kept)]


def test_reflogs_of_our_refs(repo: Repo) -> None:
    name = "refs/agentos/timelines/main"
    repo.write("notes.txt", SECRET)
    run_ok(repo.path, "checkpoint", "-m", f"with {SECRET}")
    repo.git("update-ref", "--create-reflog", "-m", f"with {SECRET}", name, name)
    repo.write("notes.txt", "")
    assert holders(repo, f"with {SECRET}\n".encode())
    forget(repo)
    assert repo.text("reflog", "show", name) == ""
    assert holders(repo, SECRET.encode()) == []


# -- remotes -----------------------------------------------------------------------------------------------------------


def _ids(repo: Repo, *words: str) -> list[str]:
    return [each["id"] for each in run_ok(repo.path, "checkpoint", "list", *words)["checkpoints"]]


def test_the_next_sync_replaces_the_timeline_on_the_remote(repo: Repo, shared: Path, tmp_path: Path) -> None:
    repo.write("notes.txt", SECRET)
    run_ok(repo.path, "checkpoint", "-m", "with it")
    repo.write("notes.txt", "without\n")
    run_ok(repo.path, "checkpoint", "-m", "without it")
    there = clone(tmp_path, shared, "lap")
    sync(repo)
    sync(there)
    assert forget(repo, "--dry-run")["unreachable"] == forget(repo)["unreachable"]
    assert holders(repo, SECRET.encode()) == []
    done = sync(repo)
    assert (done["refused"], done["held_back"]) == ([], [])
    assert holders(repo, SECRET.encode()) == [], "what is replaced was not meant to be fetched"
    assert sorted(refs_on(shared)) == ["desk/timelines/main@2"]
    git(shared, "gc", "-q", "--prune=now")
    assert SECRET.encode() not in git(shared, "cat-file", "--batch-all-objects", "--batch")
    sync(there)
    assert _ids(there, "--host", "desk") == _ids(repo)
    run_ok(repo.path, "checkpoint", "-m", "later")
    assert sync(repo)["pushed"] == [{"timeline": "main", "host": "desk", "checkpoints": 1}]
    assert run_ok(repo.path, "sync", "status")["timelines"][0]["behind"] == 0


def test_timelines_of_other_hosts_are_dropped_and_named(repo: Repo, shared: Path, tmp_path: Path) -> None:
    there = clone(tmp_path, shared, "lap")
    there.write("notes.txt", SECRET)
    run_ok(there.path, "checkpoint", "-m", "with it")
    sync(there)
    sync(repo)
    assert holders(repo, SECRET.encode())
    [text] = forget(repo)["unreachable"]
    assert text.startswith("the timeline 'main' of the host 'lap' on the remote 'origin': it was dropped here")
    assert holders(repo, SECRET.encode()) == []


# -- other processes ---------------------------------------------------------------------------------------------------


def test_checkpoints_taken_meanwhile_are_rewritten_too(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    from git_agentos.retention import forgetting, rewriting
    from git_agentos.retention.redaction import Wanted

    take(repo, 2)
    repo.write("notes.txt", SECRET)
    run_ok(repo.path, "checkpoint", "-m", "with it")
    real = forgetting.move
    added: list[str] = []

    def add() -> None:
        if len(added) < 4:
            repo.write("notes.txt", f"{SECRET} again {len(added)}")
            added.append(run_ok(repo.path, "checkpoint", "-m", f"{SECRET} meanwhile")["id"])

    def move(*args: Any) -> str:
        """Before and after the timeline moves, others go on."""
        add()
        tip = real(*args)
        add()
        return tip

    monkeypatch.setattr(forgetting, "move", move)
    done = rewriting.rewrite(workspace.open_workspace(repo.path).context, Wanted((), (SECRET.encode(),)))
    assert len(added) == 4
    repo.write("notes.txt", "")
    assert len(timeline(repo)) == 7
    assert {each.old for each in done.rewritten} >= set(added)
    assert not [each for each in holders(repo, SECRET.encode()) if not each.startswith("blob")]
    again = forget(repo)
    assert (again["rewritten"], again["unreachable"]) == ([], [])
    assert holders(repo, SECRET.encode()) == []
