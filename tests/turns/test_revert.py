"""`git agentos revert`: one turn is taken back, later edits stay."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from git_agentos import log
from git_agentos.checkpoint.restore import commands, transaction
from git_agentos.checkpoint.restore.request import RestoreOptions
from git_agentos.errors import CheckpointNotFound, LockedError, RestoreError, UsageError
from git_agentos.turns import listing
from git_agentos.turns.revert import Revert, revert
from tests.support.command_line import Cli
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.runs import context_of
from tests.support.sessions import ClaudeSession
from tests.support.state import complete_state
from tests.support.tool import run_ok

LINES = [f"line {n}\n" for n in range(30)]


def text(**changed: str) -> str:
    """A file of 30 lines; `l5="x\n"` replaces the fifth."""
    lines = list(LINES)
    for key, value in changed.items():
        lines[int(key[1:])] = value
    return "".join(lines)


def turn_in(repo: Repo) -> str:
    """The newest turn of the worktree."""
    return listing.list_turns(context_of(repo), limit=1).turns[0].id


@pytest.fixture
def session(repo: Repo) -> ClaudeSession:
    repo.write("code.py", text())
    repo.git("add", "code.py")
    repo.commit("code")
    return ClaudeSession(repo)


def test_later_edits_stay(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("first")
    repo.write("code.py", text(l5="of the first\n"))
    repo.write("made.txt", "made\n")
    session.stop()
    first = turn_in(repo)
    session.prompt("second")
    repo.write("code.py", text(l5="of the first\n", l20="of the second\n"))
    session.stop()
    repo.write("code.py", text(l0="of the user\n", l5="of the first\n", l20="of the second\n"))
    repo.write("own.txt", "of the user\n")
    before = complete_state(repo.path)
    planned = revert(context_of(repo), first, dry_run=True)
    assert complete_state(repo.path) == before
    done = revert(context_of(repo), first[:14])
    assert done == Revert(first, done.saved, ["code.py", "made.txt"], [])
    assert planned == done._replace(saved=None, dry_run=True)
    assert repo.read("code.py").decode() == text(l0="of the user\n", l20="of the second\n")
    assert not repo.exists("made.txt")
    assert repo.read("own.txt") == b"of the user\n"
    assert repo.git("status", "--porcelain") == b" M code.py\n?? own.txt\n"
    entry = log.entries(context_of(repo), limit=1, kinds=["action"])[0]
    assert (entry.summary, entry.files_changed) == (f"reverted turn {first[:12]}", ["code.py", "made.txt"])
    workspace = context_of(repo)
    commands.undo(workspace, workspace.metadata(), RestoreOptions())
    assert complete_state(repo.path) == before
    assert revert(context_of(repo), first).changed == ["code.py", "made.txt"]
    assert revert(context_of(repo), first).changed == []


def test_every_kind_of_change_is_taken_back(repo: Repo, session: ClaudeSession) -> None:
    repo.write("tool.sh", "#!/bin/sh\n")
    repo.link("link", "code.py")
    repo.write("binary", b"\0\1\2" * 100)
    repo.write(b"odd\xff", "1\n")
    repo.write("gone.txt", "gone\n")
    repo.write("folder", "a file\n")
    repo.write("untracked.txt", "u\n")
    repo.git("add", "tool.sh", "link", "binary", b"odd\xff", "gone.txt", "folder")
    repo.commit("all")
    before = complete_state(repo.path)
    session.prompt("change all")
    repo.chmod("tool.sh", 0o755)
    repo.remove("link")
    repo.link("link", "binary")
    repo.write("binary", b"\0\1\2" * 90 + b"\0new")
    repo.write(b"odd\xff", "2\n")
    repo.remove("gone.txt", "untracked.txt", "folder")
    repo.write("folder/inside", "now a folder\n")
    repo.write(b"deep/new\xfe", "n\n")
    session.stop()
    done = revert(context_of(repo), turn_in(repo))
    assert complete_state(repo.path) == before
    assert done.conflicts == []
    assert set(done.changed) == {
        "tool.sh", "link", "binary", os.fsdecode(b"odd\xff"), "gone.txt", "untracked.txt", "folder",
        "folder/inside", os.fsdecode(b"deep/new\xfe"),
    }  # fmt: skip


def test_a_file_that_was_renamed_since(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("edit")
    repo.write("code.py", text(l5="of the turn\n"))
    session.stop()
    repo.git("mv", "code.py", "renamed.py")
    repo.write("renamed.py", text(l5="of the turn\n", l25="later\n"))
    revert(context_of(repo), turn_in(repo))
    assert repo.read("renamed.py").decode() == text(l25="later\n")
    assert not repo.exists("code.py")


def test_the_index_follows_where_nothing_was_staged_since(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("commit it")
    repo.write("code.py", text(l5="of the turn\n"))
    repo.write("more.txt", "more\n")
    repo.git("add", "code.py", "more.txt")
    head = repo.commit("of the turn")
    session.stop()
    repo.write("staged.txt", "s\n")
    repo.git("add", "staged.txt")
    revert(context_of(repo), turn_in(repo))
    assert repo.oid() == head
    assert repo.text("status", "--porcelain").splitlines() == ["M  code.py", "D  more.txt", "A  staged.txt"]
    assert repo.read("code.py").decode() == text()


def test_what_was_only_staged_is_unstaged(repo: Repo, session: ClaudeSession) -> None:
    repo.write("code.py", text(l5="by hand\n"))
    session.prompt("stage it")
    repo.git("add", "code.py")
    session.stop()
    done = revert(context_of(repo), turn_in(repo))
    assert repo.git("status", "--porcelain") == b" M code.py\n"
    assert repo.read("code.py").decode() == text(l5="by hand\n")
    assert (done.changed, done.saved is None) == ([], False)


def test_line_ends_are_those_of_a_checkout(repo: Repo, session: ClaudeSession) -> None:
    repo.write(".gitattributes", "*.py text eol=crlf\n")
    repo.git("add", ".gitattributes")
    repo.commit("attributes")
    repo.write("code.py", text().replace("\n", "\r\n"))
    session.prompt("edit")
    repo.write("code.py", text(l5="of the turn\n").replace("\n", "\r\n"))
    session.stop()
    repo.write("code.py", text(l5="of the turn\n", l25="later\n").replace("\n", "\r\n"))
    revert(context_of(repo), turn_in(repo))
    assert repo.read("code.py").decode() == text(l25="later\n").replace("\n", "\r\n")


# -- conflicts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def conflicting(repo: Repo, session: ClaudeSession) -> str:
    """A turn that changed two files, one of which was changed in the same place later."""
    session.prompt("first")
    repo.write("code.py", text(l5="of the turn\n"))
    repo.write("other.txt", "of the turn\n")
    session.stop()
    repo.write("code.py", text(l5="of the user\n"))
    return turn_in(repo)


def test_a_conflict_changes_nothing(repo: Repo, conflicting: str, cli: Cli) -> None:
    before = complete_state(repo.path)
    newest = run_ok(repo.path, "checkpoint", "list")
    for options in ((), ("--dry-run",)):
        done = cli("-C", str(repo.path), "--json", "revert", conflicting, *options)
        assert check_document(done.json) == "revert"
        assert (done.code, done.json["changed"], done.json["conflicts"]) == (4, [], ["code.py"])
        assert complete_state(repo.path) == before
    assert run_ok(repo.path, "checkpoint", "list") == newest
    answer = cli("-C", str(repo.path), "revert", conflicting)
    assert answer.text == (
        f"Turn {conflicting[:12]} conflicts with later edits in 1 path:\n  code.py\nNothing was changed.\n"
    )
    assert "--conflict=markers" in answer.talk


def test_markers_name_the_sides(repo: Repo, conflicting: str, cli: Cli) -> None:
    before = complete_state(repo.path)
    dry = cli("-C", str(repo.path), "--json", "revert", "--conflict=markers", "--dry-run", conflicting).json
    assert complete_state(repo.path) == before
    done = cli("-C", str(repo.path), "--json", "revert", "--conflict=markers", conflicting)
    assert done.code == 4
    assert {**done.json, "saved": None, "dry_run": True} == dry
    assert (done.json["changed"], done.json["conflicts"]) == (["code.py", "other.txt"], ["code.py"])
    marked = "<<<<<<< now\nof the user\n=======\nline 5\n>>>>>>> before the turn\n"
    assert repo.read("code.py").decode() == text(l5=marked)
    assert repo.text("diff", "--name-only", "--diff-filter=U") == ""
    assert cli("-C", str(repo.path), "undo").code == 0
    assert complete_state(repo.path) == before


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_turns_that_cannot_be_reverted(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("edit")
    repo.write("code.py", text(l5="of the turn\n"))
    turn = turn_in(repo)
    before = complete_state(repo.path)
    with pytest.raises(RestoreError, match=f"turn {turn[:12]} has not ended"):
        revert(context_of(repo), turn)
    session.stop()
    with pytest.raises(CheckpointNotFound, match="there is no turn 'deadbeef'"):
        revert(context_of(repo), "deadbeef")
    with pytest.raises(UsageError, match="'ours' is no way to handle a conflict"):
        revert(context_of(repo), turn, conflict="ours")
    ids = [each["id"] for each in run_ok(repo.path, "checkpoint", "list")["checkpoints"]]
    run_ok(repo.path, "checkpoint", "-m", "kept")
    run_ok(repo.path, "forget", *ids)
    with pytest.raises(
        CheckpointNotFound, match=f"turn {turn[:12]} cannot be reverted: a checkpoint of it is forgotten"
    ):
        revert(context_of(repo), turn)
    assert complete_state(repo.path) == before


def test_an_unresolved_conflict_of_git_is_in_the_way(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("edit")
    repo.write("code.py", text(l5="of the turn\n"))
    session.stop()
    blob = repo.text("hash-object", "-w", "code.py").strip()
    entries = "".join(f"100644 {blob} {stage}\tcode.py\n" for stage in (1, 2, 3))
    repo.git("rm", "-q", "--cached", "code.py")
    repo.git("update-index", "--index-info", stdin=entries.encode())
    before = complete_state(repo.path)
    with pytest.raises(RestoreError, match=r"'code\.py' has a conflict that is not resolved"):
        revert(context_of(repo), turn_in(repo))
    assert complete_state(repo.path) == before


def test_an_edit_that_comes_in_between_is_not_overwritten(
    repo: Repo, session: ClaudeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.prompt("edit")
    repo.write("code.py", text(l5="of the turn\n"))
    session.stop()
    whole = transaction.run

    def run(*args: Any) -> Any:
        repo.write("code.py", text(l5="of the turn\n", l9="in between\n"))
        return whole(*args)

    monkeypatch.setattr(transaction, "run", run)
    with pytest.raises(RestoreError, match=r"'code\.py' has changed while this was prepared"):
        revert(context_of(repo), turn_in(repo))
    assert repo.read("code.py").decode() == text(l5="of the turn\n", l9="in between\n")


def test_a_lock_of_git_is_respected(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("edit")
    repo.write("code.py", text(l5="of the turn\n"))
    session.stop()
    (repo.git_dir / "index.lock").touch()
    with pytest.raises(LockedError):
        revert(context_of(repo), turn_in(repo))
    (repo.git_dir / "index.lock").unlink()
    assert repo.read("code.py").decode() == text(l5="of the turn\n")
    run_ok(repo.path, "checkpoint", "-m", "carries the log")
    shutil.rmtree(repo.path / ".agentos")
    assert revert(context_of(repo), turn_in(repo)).changed == ["code.py"]
