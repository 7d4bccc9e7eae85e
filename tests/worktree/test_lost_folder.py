"""A worktree whose folder is lost, in whole or in part: what comes back is the newest state that was really saved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import WorktreeError
from git_agentos.worktree import creation, removal, repair, revival, status
from git_agentos.worktree.removal import Removal
from tests.support.repo import Repo, git
from tests.support.state import complete_state, differences
from tests.support.tool import run, run_ok


def context(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def make(repo: Repo, id_: str = "dev-001") -> Repo:
    made = creation.create(context(repo), id_, guard=False)
    assert made.path is not None
    return Repo(Path(made.path))


def edit(there: Repo) -> None:
    """Something that only a checkpoint can hold."""
    there.append("notes.txt", "edited, not staged\n")
    there.write("new.txt", "untracked\n")
    there.write("staged.txt", "staged\n")
    there.add("staged.txt")
    there.append("staged.txt", "and edited\n")
    there.remove("data.bin")


def save(there: Repo) -> str:
    return open_workspace(there.path).checkpoint("saved").id


def _removed(there: Repo) -> None:
    shutil.rmtree(there.path)


def _emptied(there: Repo) -> None:
    """Also what an unmounted disk leaves."""
    shutil.rmtree(there.path)
    there.path.mkdir()


def _all_but_ours(there: Repo) -> None:
    for name in os.listdir(there.path):
        if name != ".agentos":
            there.remove(name)


def _a_file(there: Repo) -> None:
    shutil.rmtree(there.path)
    there.path.write_text("a file\n")


def _a_dangling_link(there: Repo) -> None:
    shutil.rmtree(there.path)
    there.path.symlink_to("nowhere")


LOSSES: tuple[Callable[[Repo], None], ...] = (_removed, _emptied, _all_but_ours, _a_file, _a_dangling_link)
END: dict[str, Callable[[OpenWorktree, str], Removal]] = {"remove": removal.remove, "archive": removal.archive}


def end(repo: Repo, how: str) -> Removal:
    return END[how](context(repo), "dev-001")


def clear(there: Repo) -> None:
    """What stands where the folder was is somebody's own, and stays: it is moved away."""
    if os.path.lexists(there.path):
        os.rename(there.path, there.path.with_name("moved away"))


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("how", END)
@pytest.mark.parametrize("lose", LOSSES)
def test_the_last_checkpoint_comes_back(repo: Repo, how: str, lose: Callable[[Repo], None]) -> None:
    there = make(repo)
    edit(there)
    before, saved = complete_state(there.path), save(there)
    lose(there)
    [found] = [each for each in repair.repair(context(repo)).findings if not each.fixed]
    assert found.code == "missing-folder"
    assert found.hint is not None
    assert saved[:8] in found.hint

    done = end(repo, how)
    assert (done.revives, done.checkpoint != saved) == (saved, True)
    clear(there)
    back = creation.create(context(repo), "dev-001", revive=True)
    assert not differences(before, complete_state(there.path), permissions="all")
    assert back.revived_from is not None
    assert back.revived_from.id == saved


def test_the_words_name_the_checkpoint(repo: Repo) -> None:
    there = make(repo)
    edit(there)
    saved = save(there)
    shutil.rmtree(there.path)
    ended = run(repo.path, "worktree", "archive", "dev-001").out.decode()
    assert f"--revive restores its last checkpoint {saved[:8]}" in ended
    assert "archived" in run(repo.path, "worktree", "list").out.decode()
    back = run(repo.path, "worktree", "create", "dev-001", "--revive").out.decode()
    assert f"Its folder was lost: it is as in its last checkpoint {saved[:8]}" in back
    assert "as it was left" not in back


def test_nothing_is_said_about_work_that_could_not_be_read(repo: Repo) -> None:
    there = make(repo)
    shutil.rmtree(there.path)
    done = run(repo.path, "worktree", "remove", "dev-001")
    assert "Its folder was missing: --revive restores its last checkpoint" in done.out.decode()
    assert "uncommitted work" not in done.out.decode()
    assert "all of it" not in done.err.decode()


def test_latest_names_the_saved_state_as_well(repo: Repo) -> None:
    there = make(repo)
    edit(there)
    before, _ = complete_state(there.path), save(there)
    shutil.rmtree(there.path)
    end(repo, "remove")
    run_ok(repo.path, "restore", "latest", "--agent", "dev-001", "--worktree", "copy")
    copy = complete_state(there.path.with_name("copy"))
    assert copy.files == before.files


def test_newer_head_and_index_are_saved_in_the_timeline(repo: Repo) -> None:
    """The edits come back; a commit and an index that came after them are in the timeline."""
    there = make(repo)
    there.append("notes.txt", "edited\n")
    saved = save(there)
    there.write("later.txt", "committed later\n")
    there.add("later.txt")
    there.git("commit", "-q", "-m", "later")
    tip = there.oid()
    there.write("staged.txt", "staged later\n")
    there.add("staged.txt")
    blob = there.oid(":staged.txt")
    shutil.rmtree(there.path)
    done = removal.remove(context(repo), "dev-001", delete_branch=True)
    assert done.revives == saved
    revival.revive(context(repo), "dev-001")
    assert there.read("notes.txt").endswith(b"edited\n")
    reached = repo.text("rev-list", "--objects", "refs/agentos/timelines/dev-001")
    assert tip in reached
    assert blob in reached


def test_lost_clean_worktree_has_head_and_index_back(repo: Repo) -> None:
    """All that the last checkpoint has is committed: nothing goes out of sight where the later commits come back."""
    there = make(repo)
    there.write("work.txt", "work\n")
    save(there)
    there.add("work.txt")
    there.git("commit", "-q", "-m", "work")
    tip = there.oid()
    shutil.rmtree(there.path)
    done = end(repo, "archive")
    assert done.revives == done.checkpoint
    revival.revive(context(repo), "dev-001")
    assert (there.oid(), there.text("symbolic-ref", "--short", "HEAD")) == (tip, "agent/dev-001")
    assert there.read("work.txt") == b"work\n"


@pytest.mark.parametrize("prune", [False, True])
def test_a_part_that_was_restored(repo: Repo, prune: bool) -> None:
    """The last state is the one before the restore with that part in it, not the whole checkpoint it came from."""
    there = make(repo)
    there.write("one.txt", "old\n")
    there.write("two.txt", "old\n")
    old = save(there)
    there.write("one.txt", "new\n")
    there.write("two.txt", "new\n")
    there.write("three.txt", "new\n")
    open_workspace(there.path).restore(old, ["one.txt"])
    before = complete_state(there.path)
    assert there.read("one.txt") == b"old\n"
    shutil.rmtree(there.path)
    if prune:
        repo.git("worktree", "prune")
    else:
        end(repo, "archive")
    revival.revive(context(repo), "dev-001")
    assert not differences(before, complete_state(there.path), permissions="all")


def test_an_interrupted_restore_does_not_keep_a_lost_worktree(repo: Repo) -> None:
    there = make(repo)
    old = save(there)
    edit(there)
    before = complete_state(there.path)
    code = (
        "import os; from git_agentos import open_workspace;"
        "from git_agentos.checkpoint import journal; keep = journal.write\n"
        "def killed(*args): keep(*args); os.kill(os.getpid(), 9)\n"
        f"journal.write = killed; open_workspace({str(there.path)!r}).restore({old!r})"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=repo.path).returncode == -9
    shutil.rmtree(there.path)
    end(repo, "remove")
    revival.revive(context(repo), "dev-001")
    assert not differences(before, complete_state(there.path), permissions="all")


def test_a_git_file_that_is_gone_loses_nothing(repo: Repo) -> None:
    there = make(repo)
    save(there)
    edit(there)
    before = complete_state(there.path)
    there.remove(".git")
    done = end(repo, "archive")
    assert done.revives == done.checkpoint
    revival.revive(context(repo), "dev-001")
    assert not differences(before, complete_state(there.path), permissions="all")


def test_an_empty_folder_is_not_linked_again(repo: Repo) -> None:
    """It may be where a disk was mounted: everything would count as deleted."""
    there = make(repo)
    _emptied(there)
    assert [each.code for each in repair.repair(context(repo)).findings] == ["missing-folder"]
    assert os.listdir(there.path) == []
    assert status.show(context(repo), "dev-001").state == "broken"


def test_a_folder_that_was_moved_and_linked_is_found(repo: Repo, tmp_path: Path) -> None:
    there = make(repo)
    edit(there)
    before = complete_state(there.path)
    far = tmp_path / "far"
    os.rename(there.path, far)
    there.path.symlink_to(far)
    with pytest.raises(WorktreeError, match="is a symbolic link") as refused:
        end(repo, "remove")
    assert refused.value.hint is not None
    assert "worktree repair dev-001" in refused.value.hint
    assert [(each.code, each.fixed) for each in repair.repair(context(repo)).findings] == [("moved", True)]
    assert not differences(before, complete_state(far), permissions="all")
    assert end(repo, "remove").path == str(far)
    assert there.path.is_symlink()


def test_index_is_restored_without_a_checkpoint(repo: Repo) -> None:
    """Without a checkpoint HEAD and index are all there is."""
    there = make(repo)
    repo.git("update-ref", "-d", timeline.PREFIX + "dev-001")
    there.write("staged.txt", "staged\n")
    there.add("staged.txt")
    shutil.rmtree(there.path)
    done = end(repo, "remove")
    assert done.revives == done.checkpoint
    revival.revive(context(repo), "dev-001")
    assert there.read("staged.txt") == b"staged\n"


@pytest.mark.parametrize(("command", "lost"), [("remove", "folder"), ("archive", "submodule"), ("remove", "deinit")])
def test_commits_of_a_submodule_that_is_not_checked_out(
    repo: Repo, make_repo: Callable[[str], Repo], lost: str, command: str
) -> None:
    """Its git directory goes with the worktree's: what only it has is kept, and comes back with the worktree."""
    library = make_repo("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "sub")
    repo.commit("a submodule")
    there = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard", env=_LOCAL)["path"]))
    inner = Repo(there.path / "sub")
    inner.write("own.txt", "own\n")
    inner.commit("its own")
    commit = inner.oid("HEAD")
    run_ok(there.path, "checkpoint")
    if lost == "folder":
        shutil.rmtree(there.path)
    elif lost == "submodule":
        shutil.rmtree(inner.path)
    else:
        there.git("submodule", "--quiet", "deinit", "--force", "sub")
    run_ok(repo.path, "worktree", command, "dev-1")
    kept = repo.git_dir / "agentos/kept-modules"
    assert len(list(kept.iterdir())) == 1
    run_ok(repo.path, "worktree", "create", "dev-1", "--revive", env=_LOCAL)
    assert list(kept.iterdir()) == []
    modules = repo.git_dir / "worktrees/dev-1/modules/sub"
    there_again = {"GIT_DIR": str(modules), "GIT_WORK_TREE": str(repo.path)}
    assert git(repo.path, "cat-file", "-t", commit, env=there_again) == b"commit\n"
    if lost == "folder":
        assert (there.path / "sub/own.txt").read_bytes() == b"own\n"


_LOCAL = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}


@pytest.mark.parametrize("command", ["remove", "archive"])
def test_a_folder_of_somebody_elses_in_its_place(repo: Repo, command: str) -> None:
    """It is no state of the worktree: nothing links it, saves it as the last state, or deletes it."""
    there = make(repo)
    edit(there)
    save(there)
    before = complete_state(there.path).files
    shutil.rmtree(there.path)
    there.path.mkdir()
    (there.path / "mine.txt").write_text("mine\n")
    found = run(repo.path, "worktree", "repair", "--json").json["findings"]
    assert [(each["code"], each["fixed"]) for each in found] == [("folder-taken", False)]
    refused = run(repo.path, "worktree", command, "dev-001")
    assert refused.code == 1
    assert b"is no longer the worktree" in refused.err
    assert [path.name for path in there.path.iterdir()] == ["mine.txt"]
    os.rename(there.path, there.path.with_name("aside"))
    assert run(repo.path, "worktree", command, "dev-001").code == 0
    run_ok(repo.path, "worktree", "create", "dev-001", "--revive")
    assert complete_state(there.path).files == before
