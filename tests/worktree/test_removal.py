"""`worktree remove` and `archive`: everything is saved, then it is gone; and everything comes back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint.creation import capture_worktree
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import (
    AgentosError,
    IncompleteCaptureError,
    InterruptedRestore,
    LockedError,
    StorageError,
    UsageError,
    WorktreeError,
)
from git_agentos.git import refs, worktrees
from git_agentos.worktree import creation, final_checkpoint, journal, losses, removal, revival, status, trash
from tests.support.operations import OPERATIONS
from tests.support.repo import ZERO, Repo, filled, git_run
from tests.support.snapshot import assert_nothing_left, snapshot
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


def settle(there: Repo) -> None:
    """Let what has just been written grow older than the tick of the kernel's clock."""
    time.sleep(0.03)


def work(there: Repo) -> str:
    """Dirty in every way that there is; the commit that only the reflog has."""
    there.write("committed.txt", "committed\n")
    there.commit("work of the agent")
    there.git("checkout", "-q", "--detach")
    there.write("aside.txt", "committed aside\n")
    aside = there.commit("nobody has this one")
    there.git("checkout", "-q", "agent/dev-001")
    there.write(".gitignore", "build/\n*.log\nvendor/\n")
    there.write("notes.txt", "staged\n")
    there.add("notes.txt")
    there.append("notes.txt", "not staged\n")
    there.remove("data.bin")
    there.chmod("docs/guide.md", 0o755)
    there.write("new/untracked.txt", "untracked\n")
    there.write(b"bad\xff", "a name that is not UTF-8\n")
    there.mkdir("empty")
    there.write("build/deep/out.bin", bytes(range(256)), 0o755)
    there.link("build/link", "deep/out.bin")
    there.write(b"build/\xfe.log", "ignored, and a bad name\n")
    inner = filled(there.path / "nested")
    inner.append("readme.txt", "dirty\n")
    inner.write(".gitignore", "secret\n")
    inner.write("secret", "ignored inside\n")
    hidden = filled(there.path / "vendor/lib")
    hidden.write("patch.txt", "untracked in a repository that is ignored\n")
    settle(there)
    return aside


def reached(repo: Repo, commit: str, id_: str = "dev-001") -> bool:
    return repo.try_git("merge-base", "--is-ancestor", commit, f"refs/agentos/timelines/{id_}") == 0


# -- everything is saved, and comes back -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["remove", "remove-with-branch", "archive"])
def test_archived_worktree_comes_back_completely(repo: Repo, how: str) -> None:
    there = make(repo, task="T-1")
    aside = work(there)
    tip = there.oid("agent/dev-001")
    run_ok(there.path, "log", "add", "decision", "to do it this way")
    before, main = complete_state(there.path), complete_state(repo.path)

    if how == "archive":
        done = removal.archive(context(repo), "dev-001")
    else:
        done = removal.remove(context(repo), "dev-001", delete_branch=how == "remove-with-branch")

    assert done.losses.dirty == ["data.bin", "docs/guide.md", "notes.txt"]
    assert done.losses.untracked == [".gitignore", os.fsdecode(b"bad\xff"), "new/untracked.txt"]
    ignored = ["build/deep/out.bin", "build/link", os.fsdecode(b"build/\xfe.log")]
    assert done.losses.ignored == ignored
    assert done.losses.submodules == ["nested", "vendor/lib"]
    assert (
        done.losses.commits[:1] == ([tip] if how == "remove-with-branch" else [aside]) or aside in done.losses.commits
    )
    assert (done.discarded, done.not_saved) == ([], [])
    assert_removed(repo, there)
    assert not differences(main, complete_state(repo.path), permissions="all")
    assert reached(repo, aside)
    assert reached(repo, tip)
    if how == "remove-with-branch":
        assert (done.branch_deleted, done.branch_sha) == (True, tip)
        assert repo.try_git("rev-parse", "--verify", "agent/dev-001") != 0
    else:
        assert repo.oid("agent/dev-001") == tip
    if how == "archive":
        assert status.show(context(repo), "dev-001").state == "archived"
    # Nothing of it depends on anything that a gc would take.
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert git_run(repo.path, "fsck", "--strict", "--no-dangling").returncode == 0

    back = creation.create(context(repo), "dev-001", revive=True)

    assert back.state == "active"
    assert back.task == "T-1"
    lines = differences(before, complete_state(there.path), permissions="all", refs=True)
    assert not lines, lines
    assert b"to do it this way" in run(there.path, "log", "list").out
    assert Repo(there.path / "nested").read("secret") == b"ignored inside\n"


def test_printed_commands_restore_the_worktree(repo: Repo) -> None:
    there = make(repo)
    work(there)
    tip = there.oid()
    done = run_ok(repo.path, "worktree", "remove", "dev-001", "--delete-branch")
    assert done["schema"] == "agentos.worktree-remove.v1"
    revive, beside, single, branch = done["get_back"]

    def shell(command: str) -> None:
        words = command.replace("git agentos", f"{sys.executable} -m git_agentos")
        subprocess.run(words, shell=True, cwd=repo.path, check=True, capture_output=True)

    shell(branch)
    assert repo.oid("agent/dev-001") == tip
    shell(single.replace("PATH", "build/deep/out.bin"))
    assert repo.read("build/deep/out.bin") == bytes(range(256))
    shell(beside)
    assert Repo(there.path.with_name("dev-001-restored")).read("new/untracked.txt") == b"untracked\n"
    shell(revive)
    assert there.read("build/deep/out.bin") == bytes(range(256))
    assert there.text("symbolic-ref", "HEAD") == "refs/heads/agent/dev-001"


def test_the_answer_for_people(repo: Repo) -> None:
    there = make(repo)
    work(there)
    done = run(repo.path, "worktree", "remove", "dev-001")
    out, err = done.out.decode(), done.err.decode()
    assert done.code == 0
    for words in ("changed files: 3", "untracked files: 3", "ignored files: 3", "commits that are on no other ref: 1"):
        assert words in out, out
    assert "submodules and nested repositories: 2" in out
    assert "Branch 'agent/dev-001' is kept" in out
    assert "git agentos worktree create dev-001 --revive" in err


def test_remove_of_a_clean_worktree_says_that_it_had_no_uncommitted_work(repo: Repo) -> None:
    make(repo)
    done = run(repo.path, "worktree", "remove", "dev-001")
    assert done.code == 0
    assert "It had no uncommitted work" in done.out.decode()


def test_submodules_come_back_with_what_only_they_had(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    library = make_repo("library")
    repo.git("submodule", "add", "-q", str(library.path), "lib")
    repo.commit("with a submodule")
    there = make(repo)
    there.git("submodule", "update", "--init", "-q")
    inside = Repo(there.path / "lib")
    inside.write("fix.txt", "committed in the submodule only\n")
    fix = inside.commit("fix")
    inside.append("readme.txt", "dirty\n")
    there.add("lib")
    settle(there)
    before = complete_state(there.path)

    done = removal.remove(context(repo), "dev-001")

    assert done.losses.submodules == ["lib"]
    assert_removed(repo, there)
    assert reached(repo, fix)
    creation.create(context(repo), "dev-001", revive=True)
    lines = differences(before, complete_state(there.path), permissions="all")
    assert not lines, lines
    assert Repo(there.path / "lib").oid() == fix


def test_a_removed_worktree_may_be_made_anew(repo: Repo) -> None:
    there = make(repo)
    there.write("new.txt", "new\n")
    settle(there)
    removal.remove(context(repo), "dev-001", delete_branch=True)
    fresh = make(repo)
    assert not fresh.exists("new.txt")


def test_a_branch_that_has_moved_on_is_left_alone(repo: Repo) -> None:
    there = make(repo)
    there.write("new.txt", "new\n")
    there.commit("mine")
    there.write("dirty.txt", "dirty\n")
    settle(there)
    left = there.oid()
    removal.archive(context(repo), "dev-001")
    repo.git("branch", "-f", "agent/dev-001", "other")
    back = revival.revive(context(repo), "dev-001").restored
    assert back.branch is not None
    assert back.branch.startswith("restore/")
    assert (there.oid(), repo.oid("agent/dev-001")) == (left, repo.oid("other"))
    assert there.read("dirty.txt") == b"dirty\n"


def test_a_branch_that_is_checked_out_elsewhere_is_left_alone(repo: Repo) -> None:
    there = make(repo)
    removal.archive(context(repo), "dev-001")
    repo.git("checkout", "-q", "agent/dev-001")
    back = revival.revive(context(repo), "dev-001").restored
    assert back.branch is not None
    assert back.branch.startswith("restore/")
    assert repo.text("symbolic-ref", "HEAD") == "refs/heads/agent/dev-001"
    assert there.path.exists()


def test_a_worktree_that_was_destroyed_comes_back_from_its_last_checkpoint(repo: Repo) -> None:
    there = make(repo, task="T-9")
    there.write("new.txt", "new\n")
    run_ok(there.path, "checkpoint")
    subprocess.run(["rm", "-rf", str(there.path)], check=True)
    repo.git("worktree", "prune")
    back = creation.create(context(repo), "dev-001", revive=True)
    assert there.read("new.txt") == b"new\n"
    assert (back.task, back.base_sha) == ("T-9", repo.oid())


def test_there_is_nothing_to_revive(repo: Repo) -> None:
    before = snapshot(repo)
    with pytest.raises(WorktreeError, match="nothing to revive"):
        creation.create(context(repo), "dev-001", revive=True)
    assert_nothing_left(before, repo)


def test_a_worktree_on_a_detached_head_comes_back_detached(repo: Repo) -> None:
    there = make(repo)
    there.git("checkout", "-q", "--detach")
    there.write("aside.txt", "aside\n")
    aside = there.commit("aside")
    settle(there)
    before = complete_state(there.path)
    removal.remove(context(repo), "dev-001", delete_branch=True)
    revival.revive(context(repo), "dev-001")
    assert not differences(before, complete_state(there.path), permissions="all")
    assert there.oid() == aside


def test_a_packed_branch_is_deleted_alone(repo: Repo) -> None:
    make(repo)
    repo.git("tag", "-a", "-m", "annotated", "v2")
    repo.git("pack-refs", "--all")
    before = dict(
        line.split(" ") for line in repo.text("for-each-ref", "--format=%(refname) %(objectname)").split("\n")
    )
    removal.remove(context(repo), "dev-001", delete_branch=True)
    after = dict(line.split(" ") for line in repo.text("for-each-ref", "--format=%(refname) %(objectname)").split("\n"))
    assert before.keys() - after.keys() == {"refs/heads/agent/dev-001"}
    same = {name: oid for name, oid in before.items() if "dev-001" not in name}
    assert same == {name: after[name] for name in same}
    assert repo.text("rev-parse", "v2^{commit}") == repo.oid()


# -- what cannot be saved ----------------------------------------------------------------------------------------------


def refused(repo: Repo, there: Repo, error: type[AgentosError], match: str, **options: Any) -> str:
    """The removal is refused, and has changed nothing but for a checkpoint at most; the hint."""
    before, main = complete_state(there.path, strict=False), complete_state(repo.path)
    listed = repo.text("worktree", "list", "--porcelain")
    with pytest.raises(error, match=match) as caught:
        removal.remove(context(repo), "dev-001", **options)
    assert not differences(before, complete_state(there.path), permissions="all", refs=True)
    assert not differences(main, complete_state(repo.path), permissions="all", refs=True)
    assert repo.text("worktree", "list", "--porcelain") == listed
    assert not list((repo.path / ".git/agentos/worktrees").glob("*"))
    assert not (there.path.parent / trash.FOLDER).exists()
    return caught.value.hint or ""


def test_an_ignored_file_over_the_limit_stops_it_unless_it_may_be_lost(repo: Repo) -> None:
    there = make(repo)
    repo.config("agentos.maxFileSize", "1k")
    there.write(".gitignore", "*.iso\nsmall\n")
    there.write("disk.iso", b"x" * 2000)
    there.write("small", "small\n")
    settle(there)
    hint = refused(repo, there, IncompleteCaptureError, "disk.iso")
    assert "--discard-ignored" in hint
    assert "agentos.maxFileSize" in hint
    done = removal.remove(context(repo), "dev-001", discard_ignored=True)
    assert [each.path for each in done.discarded] == ["disk.iso"]
    assert done.losses.ignored == ["small"], "what can be saved is saved all the same"


def test_an_untracked_file_over_the_limit_stops_it_in_any_case(repo: Repo) -> None:
    there = make(repo)
    repo.config("agentos.maxFileSize", "1k")
    there.write("disk.iso", b"x" * 2000)
    settle(there)
    assert "--discard-ignored" not in refused(repo, there, IncompleteCaptureError, "disk.iso", discard_ignored=True)


def test_an_archive_cannot_lose_anything(repo: Repo) -> None:
    there = make(repo)
    repo.config("agentos.maxFileSize", "1k")
    there.write(".gitignore", "*.iso\n")
    there.write("disk.iso", b"x" * 2000)
    with pytest.raises(IncompleteCaptureError) as caught:
        removal.archive(context(repo), "dev-001")
    assert "--discard-ignored" not in (caught.value.hint or "")
    assert there.exists("disk.iso")


def test_unreadable_file_stops_the_removal(repo: Repo) -> None:
    there = make(repo)
    there.write(".gitignore", "closed\nsecret\n")
    there.write("secret", "unreadable\n", 0o000)
    there.write("closed/file", "in a folder that cannot be read\n")
    there.chmod("closed", 0o000)
    there.commit("rules")
    done = run(repo.path, "worktree", "remove", "dev-001", unprivileged=True)
    there.chmod("closed", 0o755)
    assert done.code == 1, str(done)
    assert b"'closed/'" in done.err, str(done)
    assert b"'secret'" in done.err, str(done)
    assert there.exists("closed/file")


def test_sockets_and_pipes_are_named(repo: Repo) -> None:
    there = make(repo)
    os.mkfifo(there.path / "pipe")
    os.chdir(there.path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    os.chdir(repo.path)
    settle(there)
    done = removal.remove(context(repo), "dev-001")
    assert [each.path for each in done.not_saved] == ["pipe", "socket"]


def test_nested_repository_without_history_stops_the_removal(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    other = make_repo("other")
    there = make(repo)
    there.git("clone", "-q", "--depth=1", f"file://{other.path}", "shallow")
    settle(there)
    assert "unshallow" in refused(repo, there, IncompleteCaptureError, "shallow")


def test_a_worktree_of_another_repository_stops_it(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    other = make_repo("other")
    there = make(repo)
    other.git("worktree", "add", "-q", str(there.path / "theirs"), "-b", "theirs")
    settle(there)
    refused(repo, there, IncompleteCaptureError, "theirs")


def test_invalid_git_file_stops_the_removal(repo: Repo) -> None:
    there = make(repo)
    there.write("folder/.git", "not what git expects\n")
    there.write("folder/file", "file\n")
    settle(there)
    refused(repo, there, IncompleteCaptureError, r"folder/\.git")


# -- what speaks against it --------------------------------------------------------------------------------------------


def test_a_locked_worktree_stays(repo: Repo) -> None:
    there = make(repo, lock=True)
    hint = refused(repo, there, WorktreeError, "locked")
    assert "git worktree unlock" in hint
    repo.git("worktree", "unlock", str(there.path))
    removal.remove(context(repo), "dev-001")


def test_a_worktree_with_a_process_in_it_stays(repo: Repo) -> None:
    there = make(repo)
    there.mkdir("deep")
    with running_process("sleep", "600", cwd=there.path / "deep") as child:
        assert f"process {child.pid}" in refused(repo, there, WorktreeError, "sleep 600")
    removal.remove(context(repo), "dev-001")


def test_current_worktree_is_not_removed(repo: Repo) -> None:
    there = make(repo)
    there.mkdir("deep")
    done = run(repo.path, "-C", str(there.path / "deep"), "worktree", "remove", "dev-001")
    assert done.code == 1
    assert b"the worktree that you are in" in done.err
    assert f"git -C {repo.path} agentos worktree remove dev-001".encode() in done.err
    # Whoever stands there counts as its agent, wherever the command works.
    for words in (["worktree", "remove", "dev-001"], ["-C", str(repo.path), "worktree", "remove", "dev-001"]):
        assert run(there.path / "deep", *words).code == 3
    assert there.path.exists()


def test_the_main_worktree_and_unknown_ones(repo: Repo) -> None:
    with pytest.raises(WorktreeError, match="main worktree"):
        removal.remove(context(repo), "main")
    with pytest.raises(WorktreeError, match="no agent's worktree 'nobody'"):
        removal.remove(context(repo), "nobody")
    with pytest.raises(UsageError):
        removal.remove(context(repo), "a..b")
    repo.git("worktree", "add", "-q", str(repo.path.parent / "theirs"), "-b", "theirs")
    with pytest.raises(WorktreeError, match="git-agentos did not make"):
        removal.remove(context(repo), "theirs")


def test_a_worktree_inside_of_it_stops_it(repo: Repo) -> None:
    there = make(repo)
    repo.git("worktree", "add", "-q", str(there.path / "inner"), "-b", "inner")
    refused(repo, there, WorktreeError, "another worktree lies inside")


def test_a_link_to_the_folder_stops_it(repo: Repo) -> None:
    there = make(repo)
    elsewhere = repo.path.parent / "elsewhere"
    os.rename(there.path, elsewhere)
    os.symlink(elsewhere, there.path)
    with pytest.raises(WorktreeError, match="symbolic link"):
        removal.remove(context(repo), "dev-001")
    assert (elsewhere / "readme.txt").exists()


def test_an_interrupted_restore_stops_it(repo: Repo) -> None:
    there = make(repo)
    state = repo.path / ".git/worktrees/dev-001/agentos"
    journal = {
        "version": 1, "command": "restore", "saved": ZERO, "target": ZERO, "head_ref": None,
        "head_commit": None, "create": False, "paths": None, "keep_new": False, "with_operation": True,
        "original": ZERO, "stamp": "x",
    }  # fmt: skip
    (state / "journal.json").write_text(json.dumps(journal))
    refused(repo, there, InterruptedRestore, "a restore in this worktree was interrupted")


def test_a_folder_that_is_something_else_by_now_stays(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    there = make(repo)
    os.unlink(there.path / ".git")
    Repo.init(there.path)
    there.write("precious.txt", "of another repository\n")
    with pytest.raises(WorktreeError, match="no longer the worktree"):
        removal.remove(context(repo), "dev-001")
    assert there.read("precious.txt") == b"of another repository\n"


def test_a_git_at_work_stops_it_and_a_stale_lock_does_not(repo: Repo) -> None:
    there = make(repo)
    lock = repo.path / ".git/worktrees/dev-001/index.lock"
    with open(lock, "w") as file, running_process("sleep", "600", cwd=Path("/"), pass_fds=[file.fileno()]):
        file.close()
        with pytest.raises(LockedError, match="has it open"):
            removal.remove(context(repo), "dev-001")
    removal.remove(context(repo), "dev-001")
    assert_removed(repo, there)


def test_a_branch_that_moves_meanwhile_stays(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    settle(there)
    drop = refs.drop

    def late(location: Any, name: str, old: str) -> None:
        repo.git("update-ref", name, repo.oid("other"))
        drop(location, name, old)

    monkeypatch.setattr(refs, "drop", late)
    before = complete_state(there.path).listing()
    with pytest.raises(WorktreeError, match="has just moved"):
        removal.remove(context(repo), "dev-001", delete_branch=True)
    assert complete_state(there.path).listing() == before
    assert repo.oid("agent/dev-001") == repo.oid("other")


def test_a_branch_that_is_checked_out_elsewhere_is_not_deleted(repo: Repo) -> None:
    there = make(repo)
    there.git("checkout", "-q", "--detach")
    repo.git("checkout", "-q", "agent/dev-001")
    refused(repo, there, WorktreeError, "checked out", delete_branch=True)
    removal.remove(context(repo), "dev-001")


def test_file_changed_during_the_save_is_saved_too(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    settle(there)
    throw, late = trash.move, ["late.txt", "readme.txt"]

    def disturbed(source: str, target: str) -> None:
        if late:
            there.write(late.pop(), "written in the last moment\n")
        throw(source, target)

    monkeypatch.setattr(trash, "move", disturbed)
    done = removal.remove(context(repo), "dev-001")
    assert (done.losses.dirty, done.losses.untracked) == (["readme.txt"], ["late.txt"])
    monkeypatch.undo()
    revival.revive(context(repo), "dev-001")
    assert there.read("late.txt") == there.read("readme.txt") == b"written in the last moment\n"


def test_worktree_that_never_stops_changing_stays(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    monkeypatch.setattr(losses, "changed_since", lambda root, moment: "busy.log")
    refused(repo, there, WorktreeError, "keep changing")


def test_a_checkpoint_of_somebody_else_in_the_same_moment_is_kept(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    there.write("new.txt", "new\n")
    settle(there)
    capture, name = capture_worktree, "refs/agentos/timelines/dev-001"
    taken: list[str] = []

    def slowly(*args: Any, **options: Any) -> Any:
        state = capture(*args, **options)
        if not taken:
            taken.append(repo.text("commit-tree", "-m", "x", "HEAD^{tree}", "-p", name, "-p", name + "^2"))
            repo.git("update-ref", name, taken[0])
        return state

    monkeypatch.setattr(final_checkpoint, "capture_worktree", slowly)
    removal.remove(context(repo), "dev-001")
    assert reached(repo, taken[0])


def test_a_failure_in_the_middle_takes_everything_back(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo)
    there.write("new.txt", "new\n")
    settle(there)
    throw = trash.move

    def fails(source: str, target: str) -> None:
        if "agentos/trash" in target:
            raise OSError(28, "No space left on device", target)
        throw(source, target)

    monkeypatch.setattr(trash, "move", fails)
    refused(repo, there, StorageError, "no space left")


# -- damaged ones ------------------------------------------------------------------------------------------------------


def test_a_worktree_whose_folder_is_gone_keeps_what_git_knew(repo: Repo) -> None:
    there = make(repo)
    there.write("committed.txt", "committed\n")
    tip = there.commit("work")
    there.write("staged.txt", "staged\n")
    there.add("staged.txt")
    subprocess.run(["rm", "-rf", str(there.path)], check=True)
    done = removal.remove(context(repo), "dev-001", delete_branch=True)
    assert [each.path for each in done.not_saved] == [str(there.path)]
    assert reached(repo, tip)
    revival.revive(context(repo), "dev-001")
    assert there.text("diff", "--cached", "--name-only") == "staged.txt"
    assert there.read("staged.txt") == b"staged\n"


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("content", [None, "", "garbage\n", "gitdir: /nowhere/.git/worktrees/dev-001\n"])
def test_a_worktree_whose_git_file_is_damaged_is_saved_all_the_same(repo: Repo, content: str | None) -> None:
    there = make(repo)
    work(there)
    before = complete_state(there.path)
    os.unlink(there.path / ".git")
    if content is not None:
        (there.path / ".git").write_text(content)
    settle(there)
    removal.remove(context(repo), "dev-001")
    revival.revive(context(repo), "dev-001")
    assert not differences(before, complete_state(there.path), permissions="all")


def test_an_interrupted_command_is_told(repo: Repo) -> None:
    there = make(repo)
    with worktrees.lock(context(repo).location):
        begun = journal.start(context(repo).location, "dev-001", "remove")
    journal.release(begun)
    with pytest.raises(WorktreeError) as caught:
        removal.remove(context(repo), "dev-001")
    assert caught.value.hint == "git agentos worktree repair dev-001"
    assert there.path.exists()


# -- states that are not plain -----------------------------------------------------------------------------------------


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(
    "operation", ["merge-half-resolved", "rebase-with-autostash", "cherry-pick-sequence", "am", "bisect"]
)
def test_an_operation_in_progress_comes_back(repo: Repo, operation: str) -> None:
    repo.git("checkout", "-q", "--detach")  # they check branches out
    there = make(repo)
    next(each for each in OPERATIONS if each.name == operation).start(there)
    settle(there)
    before = complete_state(there.path)
    removal.archive(context(repo), "dev-001")
    revival.revive(context(repo), "dev-001")
    lines = differences(before, complete_state(there.path), permissions="all")
    assert not lines, lines


def test_a_sparse_checkout_comes_back(repo: Repo) -> None:
    there = make(repo, sparse=["docs"])
    there.append("docs/guide.md", "dirty\n")
    settle(there)
    before = complete_state(there.path)
    removal.archive(context(repo), "dev-001")
    revival.revive(context(repo), "dev-001")
    lines = differences(before, complete_state(there.path), permissions="all")
    assert not lines, lines
    assert not there.exists("src")


def test_a_shared_worktree_root_keeps_repositories_apart(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    other = make_repo("other")
    for each in (repo, other):
        each.config("agentos.worktreeRoot", str(repo.path.parent / "all/{repo}-{id}"))
    one, two = make(repo), make(other)
    assert one.path.parent == two.path.parent
    two.write("new.txt", "of the other\n")
    settle(two)
    removal.remove(context(repo), "dev-001")
    assert_removed(repo, one)
    assert two.read("new.txt") == b"of the other\n"
    removal.remove(context(other), "dev-001")
    revival.revive(context(other), "dev-001")
    assert two.read("new.txt") == b"of the other\n"


def test_a_bare_repository_has_worktrees_too(repo: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    first = Repo(tmp_path / "first")
    git_run(bare, "worktree", "add", "-q", "-b", "first", str(first.path))
    there = make(first)
    there.write("new.txt", "new\n")
    settle(there)
    removal.remove(context(first), "dev-001")
    revival.revive(context(first), "dev-001")
    assert there.read("new.txt") == b"new\n"
