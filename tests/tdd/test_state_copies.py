"""`git clean -fdx` takes the workflow database and the evidence: a workflow continues from its copy in git."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import log, open_workspace
from git_agentos.errors import TddError
from git_agentos.run import evidence_copy, evidence_store
from git_agentos.tdd import query, state_copies
from tests.support.command_line import Cli
from tests.support.repo import Repo
from tests.support.tdd_project import context_of, decide, environment, project, resume, script, start


def cleaned(repo: Repo) -> None:
    repo.git("clean", "-fdxq")
    assert not repo.exists(".agentos")


def cleaned_and_logged(repo: Repo) -> None:
    """Another command has made a new database since."""
    cleaned(repo)
    log.add(open_workspace(repo.path).context, "action", "since")


def without_database(repo: Repo) -> None:
    for each in (repo.path / ".agentos").glob("issue_workflow.db*"):
        each.unlink()


def without_evidence(repo: Repo) -> None:
    shutil.rmtree(repo.path / ".agentos/runs")


LOSSES = {each.__name__: each for each in (cleaned, cleaned_and_logged, without_database)}


def test_waiting_workflow(repo: Repo, tmp_path: Path) -> None:
    code = project(repo)
    agent = script(tmp_path)
    waiting = start(code, agent)
    assert waiting.state == "waiting"
    kept = evidence_copy.find_copy(context_of(code).location, waiting.id)
    assert kept is not None
    for lose in LOSSES.values():
        lose(code)
        assert query.list_workflows(context_of(code), environment()) == [waiting], lose
        assert query.show(context_of(code), "87", environment()) == waiting
        lose(code)
        with pytest.raises(TddError, match="unfinished workflow"):
            start(code, agent)
        assert waiting.evidence is not None
        assert evidence_store.open_existing(context_of(code).location, waiting.id).record().problem is None
    cleaned(code)
    assert resume(code, waiting.id) == waiting
    cleaned(code)
    merged = decide(code, waiting.id, "approve")
    assert merged.state == "merged"
    cleaned(code)
    (listed,) = query.list_workflows(context_of(code), environment())
    assert (listed.state, listed.merge_commit) == ("merged", merged.merge_commit)
    assert evidence_store.open_existing(context_of(code).location, waiting.id).record().problem is None


@pytest.mark.parametrize("lose", [*LOSSES.values(), without_evidence])
def test_commands(repo: Repo, tmp_path: Path, cli: Cli, lose: Callable[[Repo], None]) -> None:
    code = project(repo)
    waiting = start(code, script(tmp_path, [{"unusable": "no"}]))
    lose(code)
    for words in (("list",), ("status", "87"), ("show", "87"), ("list", "-q")):
        done = cli("-C", str(code.path), "tdd", *words)
        assert (done.code, waiting.id in done.text, "tampered" in done.text) == (0, True, False), words
        lose(code)
    done = cli("-C", str(code.path), "tdd", "abort", "87", "--json")
    assert json.loads(done.out)["state"] == "aborted"


def test_forged_copy_is_refused(repo: Repo, tmp_path: Path) -> None:
    """An older one, one of another workflow, and one that names a file elsewhere."""
    code = project(repo)
    waiting = start(code, script(tmp_path, [{"unusable": "no"}]))
    name = state_copies.PREFIX + waiting.id
    place, rows = (code.git("cat-file", "blob", f"{name}:{each}") for each in ("place.json", "rows.json"))
    forged = {
        "green": (place, rows.replace(b'"checkpoints"', b'"checkpoint"')),
        "cut": (place, rows[:-20]),
        "elsewhere": (place.replace(b".agentos/issue_workflow.db", b"elsewhere.db"), rows),
    }
    oid = code.oid(name)
    for what, (other_place, other_rows) in forged.items():
        shutil.rmtree(code.path / ".agentos")
        entries = b"".join(
            b"100644 blob %s\t%s\n" % (_blob(code, data), path)
            for path, data in ((b"place.json", other_place), (b"rows.json", other_rows))
        )
        code.git("update-ref", name, _tree(code, entries))
        (found,) = query.list_workflows(context_of(code), environment())
        assert found.state == ("waiting" if what == "elsewhere" else "tampered"), what
        assert not list(code.scratch.parent.rglob("elsewhere.db"))
    shutil.rmtree(code.path / ".agentos")
    code.git("update-ref", name, oid)
    assert query.list_workflows(context_of(code), environment()) == [waiting]


def test_workflow_started_in_a_linked_worktree(repo: Repo, tmp_path: Path) -> None:
    """Its database is there, the evidence in the main one: either may be cleaned, and the linked one may be gone."""
    code = project(repo)
    code.git("stash", "-q", "--include-untracked")
    code.git("worktree", "add", "-q", "-b", "mine", str(tmp_path / "linked"))
    linked = Repo(tmp_path / "linked")
    other = start(code, script(tmp_path, [{"unusable": "no"}]))
    decide(code, other.id, "abort")
    waiting = start(linked, script(tmp_path, [{"unusable": "no"}]))
    for lost in ([linked], [code], [linked, code]):
        for each in lost:
            each.git("clean", "-fdxq")
        for at in (code, linked):
            assert waiting in query.list_workflows(context_of(at), environment()), lost
    code.git("worktree", "remove", "--force", str(linked.path))
    code.git("worktree", "add", "-q", "-b", "third", str(tmp_path / "third"))
    for at in (code, Repo(tmp_path / "third")):
        assert waiting in query.list_workflows(context_of(at), environment())
    assert decide(code, waiting.id, "abort").state == "aborted"
    assert {each.state for each in query.list_workflows(context_of(code), environment())} == {"aborted"}


def test_working_workflow_cannot_be_resumed(repo: Repo, tmp_path: Path) -> None:
    """As an agent does that wants to get rid of its record: it ends, and says why; what it did is saved."""
    code = project(repo)
    with pytest.raises(TddError, match="was tampered with: the folder"):
        start(code, script(tmp_path, [{"write": {"work.py": "work = 1\n"}, "run": f"rm -rf '{code.path}/.agentos'"}]))
    (found,) = query.list_workflows(context_of(code), environment())
    assert (found.state, found.words) == ("tampered", ["abort"])
    assert found.worktree_path is not None
    assert Path(found.worktree_path, "work.py").exists()
    cleaned(code)
    assert query.list_workflows(context_of(code), environment())[0].state == "tampered"
    assert decide(code, found.id, "abort").state == "aborted"


def test_workflow_of_a_version_without_copies(repo: Repo, tmp_path: Path, cli: Cli) -> None:
    """It gets one from the next command of `tdd`."""
    code = project(repo)
    waiting = start(code, script(tmp_path, [{"unusable": "no"}]))
    for name in (state_copies.PREFIX, evidence_copy.PREFIX):
        code.git("update-ref", "-d", name + waiting.id)
    assert cli("-C", str(code.path), "tdd", "list").code == 0
    cleaned(code)
    assert query.list_workflows(context_of(code), environment()) == [waiting]


def test_a_database_that_a_newer_version_has_used(repo: Repo, tmp_path: Path, cli: Cli) -> None:
    """It is refused: nobody has tampered with anything, and nothing is put on record."""
    code = project(repo)
    waiting = start(code, script(tmp_path, [{"unusable": "no"}]))
    path = code.path / ".agentos/issue_workflow.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9001")
    for words in (("list",), ("status",), ("show", "87"), ("resume", "87"), ("abort", "87")):
        done = cli("-C", str(code.path), "tdd", *words)
        assert (done.code, b"version 9001" in done.err) == (1, True), words
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (9001,)
        connection.execute("PRAGMA user_version = 1")
    assert query.list_workflows(context_of(code), environment()) == [waiting]


def _blob(repo: Repo, data: bytes) -> bytes:
    (repo.scratch / "object").write_bytes(data)
    return repo.git("hash-object", "-w", str(repo.scratch / "object")).strip()


def _tree(repo: Repo, entries: bytes) -> str:
    (repo.scratch / "object").write_bytes(b"".join(
        b"100644 %s\0" % row.partition(b"\t")[2] + bytes.fromhex(row.split()[2].decode())
        for row in entries.splitlines()
    ))  # fmt: skip
    return repo.git("hash-object", "-t", "tree", "-w", str(repo.scratch / "object")).decode().strip()
