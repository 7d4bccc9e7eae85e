"""`worktree repair`: from whatever a kill, a move or a power cut left, back to a sound state."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import worktrees
from git_agentos.worktree import creation, journal, record, removal, repair, status, trash
from tests.support import ref_storage
from tests.support.repo import Repo, git_run
from tests.support.snapshot import snapshot
from tests.support.state import complete_state, differences
from tests.support.tool import run, run_ok
from tests.support.waiting import running_process
from tests.support.worktrees import assert_removed


def context(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def make(repo: Repo, id_: str = "dev-001", **options: Any) -> Repo:
    made = creation.create(context(repo), id_, **options)
    assert made.path is not None
    return Repo(Path(made.path))


def mended(repo: Repo, id_: str | None = None) -> dict[str, bool]:
    """What repair found: code -> whether it is mended."""
    return {each.code: each.fixed for each in repair.repair(context(repo), id_).findings}


def entry(repo: Repo, id_: str = "dev-001") -> Path:
    return repo.path / ".git/worktrees" / id_


def test_repair_of_a_sound_repository_changes_nothing(repo: Repo) -> None:
    there = make(repo)
    there.write("dirty.txt", "dirty\n")
    before, state = snapshot(repo), complete_state(there.path, strict=True)
    done = run_ok(repo.path, "worktree", "repair")
    assert done == {"schema": "agentos.worktree-repair.v1", "findings": []}
    assert run(repo.path, "worktree", "repair", "dev-001").out == b"Nothing to repair.\n"
    assert snapshot(repo) == before
    assert not differences(state, complete_state(there.path, strict=True), strict=True)


def test_unknown_id(repo: Repo) -> None:
    done = run(repo.path, "worktree", "repair", "nobody")
    assert (done.code, b"no agent's worktree 'nobody'" in done.err) == (1, True)


def test_a_moved_worktree_is_found_beside_where_it_was(repo: Repo) -> None:
    there = make(repo)
    there.write("dirty.txt", "dirty\n")
    before = complete_state(there.path)
    other = there.path.with_name("renamed")
    os.rename(there.path, other)
    assert status.show(context(repo), "dev-001").state == "broken"
    assert mended(repo) == {"moved": True}
    assert not differences(before, complete_state(other), permissions="all", refs=True)
    assert f"worktree {other}" in repo.text("worktree", "list", "--porcelain")
    assert status.show(context(repo), "dev-001").path == str(other)
    assert mended(repo) == {}


def test_a_moved_worktree_tells_when_one_stands_in_it(repo: Repo, tmp_path: Path) -> None:
    there = make(repo)
    other = tmp_path / "far" / "away"
    other.parent.mkdir()
    os.rename(there.path, other)
    assert mended(repo) == {"missing-folder": False}, "nothing is dropped"
    assert entry(repo).is_dir()
    done = run_ok(other, "worktree", "repair")
    assert [(each["code"], each["fixed"]) for each in done["findings"]] == [("moved", True)]
    assert f"worktree {other}" in repo.text("worktree", "list", "--porcelain")


def test_a_moved_repository(repo: Repo) -> None:
    there = make(repo)
    there.write("dirty.txt", "dirty\n")
    before = complete_state(there.path)
    moved = Repo(repo.path.with_name("renamed"))
    os.rename(repo.path, moved.path)
    assert mended(moved) == {"disconnected": True}
    assert not differences(before, complete_state(there.path), permissions="all", refs=True)
    assert mended(moved) == {}


def test_a_repository_that_moved_with_its_worktrees(repo: Repo, tmp_path: Path) -> None:
    there = make(repo)
    make(repo, "dev-002")
    before = complete_state(there.path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in (repo.path, there.path.parent):
        shutil.move(path, elsewhere / path.name)
    moved = Repo(elsewhere / repo.path.name)
    assert [(each.id, each.code, each.fixed) for each in repair.repair(context(moved)).findings] == [
        ("dev-001", "moved", True),
        ("dev-002", "moved", True),
    ]
    found = elsewhere / there.path.parent.name / "dev-001"
    assert not differences(before, complete_state(found), permissions="all", refs=True)
    assert mended(moved) == {}


def test_a_missing_folder_is_told_and_nothing_is_dropped(repo: Repo) -> None:
    there = make(repo)
    before = repo.text("for-each-ref")
    shutil.rmtree(there.path)
    done = run(repo.path, "worktree", "repair", "dev-001")
    assert done.code == 1
    assert b"the folder of the worktree 'dev-001' is missing" in done.out
    assert entry(repo).is_dir()
    assert repo.text("for-each-ref") == before


@pytest.mark.parametrize("content", [None, "", "garbage\n"])
def test_a_damaged_git_file_is_written_anew(repo: Repo, content: str | None) -> None:
    there = make(repo)
    there.write("dirty.txt", "dirty\n")
    before = complete_state(there.path)
    os.unlink(there.path / ".git")
    if content is not None:
        (there.path / ".git").write_text(content)
    assert mended(repo) == {"disconnected": True}
    assert not differences(before, complete_state(there.path), permissions="all", refs=True)


def test_another_repository_in_the_folder_is_left_alone(repo: Repo) -> None:
    there = make(repo)
    os.unlink(there.path / ".git")
    Repo.init(there.path)
    assert mended(repo) == {"folder-taken": False}
    assert (there.path / ".git").is_dir()


@pytest.mark.parametrize("content", [None, "", "{", "[]"])
def test_a_damaged_record_is_made_anew(repo: Repo, content: str | None) -> None:
    there = make(repo, task="T-7")
    path = entry(repo) / "agentos/worktree.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert mended(repo) == {"damaged-record": True}
    kept = record.find(str(repo.git_dir), "dev-001").record
    assert (kept.id, kept.branch, kept.path, kept.task) == ("dev-001", "agent/dev-001", str(there.path), "T-7")
    assert kept.base_sha == repo.oid()
    removal.remove(context(repo), "dev-001")


@pytest.mark.parametrize("name", ["HEAD", "commondir"])
@pytest.mark.parametrize("content", [None, b"", b"\0" * 41])
def test_an_entry_that_a_power_cut_damaged(repo: Repo, name: str, content: bytes | None) -> None:
    there = make(repo)
    there.write("dirty.txt", "dirty\n")
    run_ok(there.path, "checkpoint")
    before = complete_state(there.path)
    (entry(repo) / name).unlink()
    if content is not None:
        (entry(repo) / name).write_bytes(content)
    assert list(mended(repo).values()) == [True]
    assert not differences(before, complete_state(there.path), permissions="all", refs=True)


def test_locks_of_killed_gits_go_and_those_of_living_ones_stay(repo: Repo) -> None:
    there = make(repo)
    stale = [
        entry(repo) / "index.lock",
        ref_storage.lock_of(there, "HEAD"),
        ref_storage.lock_of(there, "refs/heads/agent/dev-001"),
        repo.path / ".git/packed-refs.lock",
        repo.path / ".git/index.lock",
    ]
    for path in stale:
        path.write_bytes(b"")
    with (
        open(repo.path / ".git/config.lock", "w") as file,
        running_process("sleep", "600", cwd=Path("/"), pass_fds=[file.fileno()]),
    ):
        file.close()
        found = repair.repair(context(repo)).findings
    assert [(each.code, each.fixed) for each in found if not each.fixed] == [("locked", False)]
    assert len([each for each in found if each.code == "stale-git-lock"]) == len(stale)
    assert not any(path.exists() for path in stale)
    assert (repo.path / ".git/config.lock").exists()
    there.git("commit", "-q", "--allow-empty", "-m", "git works again")


def test_locks_stay_while_a_git_works_in_any_of_the_worktrees(repo: Repo) -> None:
    there = make(repo)
    lock = entry(repo) / "index.lock"
    lock.write_bytes(b"")
    reader, writer = os.pipe()
    child = subprocess.Popen(["git", "cat-file", "--batch"], cwd=there.path, stdin=reader, stdout=subprocess.PIPE)
    try:
        os.write(writer, b"HEAD\n")
        assert child.stdout is not None
        child.stdout.readline()
        assert mended(repo) == {"locked": False}
        assert lock.exists()
    finally:
        os.close(writer)
        os.close(reader)
        child.communicate()
    assert mended(repo) == {"stale-git-lock": True}


def test_with_an_id_others_are_left_alone(repo: Repo) -> None:
    make(repo)
    make(repo, "dev-002")
    for id_ in ("dev-001", "dev-002"):
        (entry(repo, id_) / "index.lock").write_bytes(b"")
    assert mended(repo, "dev-002") == {"stale-git-lock": True}
    assert (entry(repo) / "index.lock").exists()
    assert not (entry(repo, "dev-002") / "index.lock").exists()


@pytest.mark.parametrize("begun", [False, True])
def test_a_killed_worktree_add_of_git(repo: Repo, tmp_path: Path, begun: bool) -> None:
    """Its entry is locked with the reason `initializing`: prune passes it over, and its branch cannot be deleted."""
    path = tmp_path / "theirs"
    repo.git("worktree", "add", "-q", *([] if begun else ["--no-checkout"]), "-b", "theirs", str(path))
    (entry(repo, "theirs") / "locked").write_text("initializing")
    if begun:
        (path / "readme.txt").unlink()
    assert mended(repo) == {"initializing": True}
    assert not (entry(repo, "theirs") / "locked").exists()
    assert path.exists() == begun, "what has files keeps them"
    assert repo.try_git("rev-parse", "--verify", "theirs") == 0
    assert git_run(repo.path, "fsck", "--strict").returncode == 0


def test_interrupted_command_is_reported_until_repaired(repo: Repo) -> None:
    there = make(repo)
    location = context(repo).location
    with worktrees.lock(location):
        journal.release(journal.start(location, "dev-001", "archive"))
    assert run_ok(repo.path, "status")["interrupted_worktrees"] == ["dev-001"]
    assert b"Interrupted: a command on the worktree dev-001" in run(there.path, "status").out
    told = run(repo.path, "doctor")
    assert told.code == 1
    assert b"git agentos worktree repair dev-001" in told.out
    assert mended(repo) == {"interrupted": True}
    assert mended(repo) == {}
    assert run_ok(repo.path, "status")["interrupted_worktrees"] == []
    assert there.exists("readme.txt")


def test_command_of_a_living_process_is_left_alone(repo: Repo) -> None:
    make(repo)
    location = context(repo).location
    with worktrees.lock(location):
        begun = journal.start(location, "dev-001", "archive")
    assert mended(repo, "dev-001") == {"at-work": False}
    assert mended(repo) == {}
    journal.remove(begun)


def test_a_creation_that_was_recorded_is_complete(repo: Repo) -> None:
    """Somebody may have been working in it since: it must not be taken back."""
    there = make(repo)
    location = context(repo).location
    with worktrees.lock(location):
        begun = journal.start(
            location, "dev-001", "create", path=str(there.path), entries=[], branch="refs/heads/agent/dev-001"
        )
    journal.release(begun)
    there.write("work.txt", "done since\n")
    assert mended(repo) == {"interrupted": True}
    assert there.read("work.txt") == b"done since\n"


def _thrown(repo: Repo, there: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal that is killed when the folder is in the trash."""
    code = (
        "import os; from git_agentos import open_workspace; from git_agentos.worktree import removal;"
        "removal.in_use_or_changed = lambda folder, since: os.kill(os.getpid(), 9);"
        f"removal.remove(open_workspace({str(repo.path)!r}).context, 'dev-001')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo.path)
    assert done.returncode == -9
    assert not there.path.exists()


def test_a_removal_goes_on_where_the_folder_has_moved(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    there.write("dirty.txt", "dirty\n")
    _thrown(repo, there, monkeypatch)
    assert status.show(context(repo), "dev-001").state == "broken"
    assert mended(repo) == {"interrupted": True}
    assert "dev-001" not in repo.text("worktree", "list", "--porcelain")
    creation.create(context(repo), "dev-001", revive=True)
    assert there.read("dirty.txt") == b"dirty\n"


def test_a_removal_is_taken_back_where_somebody_has_written_since(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    _thrown(repo, there, monkeypatch)
    folder = next((there.path.parent / trash.FOLDER).iterdir())
    (folder / "late.txt").write_text("by a process that had the folder open\n")
    assert mended(repo) == {"interrupted": True}
    assert there.read("late.txt") == b"by a process that had the folder open\n"
    assert not (there.path.parent / trash.FOLDER).exists()
    assert mended(repo) == {}


def test_leftover_trash_is_reported_and_deleted(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    there.write("large.bin", b"x" * 100_000)
    monkeypatch.setattr(trash, "delete", lambda bins: None)
    removal.remove(context(repo), "dev-001")
    monkeypatch.undo()
    told = run_ok_or_told(repo, "doctor")
    assert [each["code"] for each in told["findings"]] == ["worktree-trash"]
    assert "bytes" in told["findings"][0]["message"]
    done = run_ok(repo.path, "doctor", "--fix")
    assert [(each["code"], each["fixed"]) for each in done["findings"]] == [("worktree-trash", True)]
    assert_removed(repo, there)


def run_ok_or_told(repo: Repo, *args: str) -> Any:
    """The document of a command that may end with 1 for what it found."""
    done = run(repo.path, "--json", *args)
    assert done.code in (0, 1), str(done)
    return done.json


def test_no_other_worktree_is_pruned(repo: Repo, tmp_path: Path, make_repo: Callable[[str], Repo]) -> None:
    """A missing folder may be an unmounted disk."""
    repo.git("worktree", "add", "-q", "-b", "theirs", str(tmp_path / "disk"))
    there = make(repo)
    shutil.move(tmp_path / "disk", tmp_path / "unmounted")
    removal.remove(context(repo), "dev-001")
    mended(repo)
    shutil.move(tmp_path / "unmounted", tmp_path / "disk")
    assert Repo(tmp_path / "disk").text("symbolic-ref", "HEAD") == "refs/heads/theirs"
    assert not there.path.exists()
    assert journal.ARCHIVE == "archive"
