"""A worktree that is damaged or missing is made again: what can be read is saved, the rest is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.checkpoint import format
from git_agentos.worktree import record
from tests.support import ref_storage
from tests.support.repo import ZERO, Repo, git_run
from tests.support.rollbacks import RolledBackWorktree, prepare
from tests.support.sampling import EXHAUSTIVE

Damage = Callable[[RolledBackWorktree], object]


@pytest.fixture
def ground(repo: Repo) -> RolledBackWorktree:
    found = prepare(repo)
    found.there.write("committed.txt", "committed\n")
    found.there.commit("work")
    found.there.write("staged.txt", "staged\n")
    found.there.add("staged.txt")
    found.there.write("untracked.txt", "untracked\n")
    found.there.write("build/out", "ignored\n")
    return found


def folder(ground: RolledBackWorktree) -> None:
    shutil.rmtree(ground.path)


def folder_is_file(ground: RolledBackWorktree) -> None:
    shutil.rmtree(ground.path)
    ground.path.write_text("precious\n")


def folder_is_link(ground: RolledBackWorktree) -> None:
    elsewhere = ground.repo.path.with_name("elsewhere")
    ground.path.rename(elsewhere)
    ground.path.symlink_to(elsewhere)


def folder_of_another(ground: RolledBackWorktree) -> None:
    shutil.rmtree(ground.path)
    ground.repo.git("worktree", "add", "-q", "-b", "another", "../another")
    ground.repo.git("worktree", "move", "-f", "../another", str(ground.path))


def dot_git(ground: RolledBackWorktree) -> None:
    (ground.path / ".git").unlink()


def dot_git_wrong(ground: RolledBackWorktree) -> None:
    (ground.path / ".git").write_text(f"gitdir: {ground.repo.path}/.git\n")


def dot_git_is_repository(ground: RolledBackWorktree) -> None:
    (ground.path / ".git").unlink()
    Repo.init(ground.path).commit("a beginning of its own")


def entry(ground: RolledBackWorktree) -> None:
    shutil.rmtree(ground.entry)


def entry_and_folder(ground: RolledBackWorktree) -> None:
    shutil.rmtree(ground.entry)
    shutil.rmtree(ground.path)


def commondir(ground: RolledBackWorktree) -> None:
    (ground.entry / "commondir").write_text("nowhere\n")
    (ground.entry / "gitdir").write_text("")


def head(ground: RolledBackWorktree) -> None:
    (ground.entry / "HEAD").write_bytes(b"\0" * 41)


def head_gone(ground: RolledBackWorktree) -> None:
    (ground.entry / "HEAD").unlink()


def head_nowhere(ground: RolledBackWorktree) -> None:
    ref_storage.point_nowhere(ground.there, "HEAD")


def index(ground: RolledBackWorktree) -> None:
    (ground.entry / "index").write_bytes(b"DIRC garbage")


def index_gone(ground: RolledBackWorktree) -> None:
    (ground.entry / "index").unlink()


def branch(ground: RolledBackWorktree) -> None:
    ref_storage.damage(ground.repo, _ref(ground))


def branch_nowhere(ground: RolledBackWorktree) -> None:
    ref_storage.point_nowhere(ground.repo, _ref(ground))


def branch_gone(ground: RolledBackWorktree) -> None:
    ground.repo.git("update-ref", "-d", _ref(ground))


def tables(ground: RolledBackWorktree) -> None:
    """Of the worktree alone, where there are any: HEAD is in them."""
    for table in (ground.entry / ref_storage.TABLES).glob("*.ref"):
        table.chmod(0o644)
        table.write_bytes(b"\0" * 41)


def _ref(ground: RolledBackWorktree) -> str:
    return f"refs/heads/{ground.run.branch_name}"


def records(ground: RolledBackWorktree) -> None:
    shutil.rmtree(ground.entry / "agentos")


def configuration(ground: RolledBackWorktree) -> None:
    """git runs at nothing at all there."""
    ground.repo.config("extensions.worktreeConfig", "true")
    (ground.entry / "config.worktree").write_text("[broken\n")


def locked(ground: RolledBackWorktree) -> None:
    """What a git that was killed leaves."""
    ground.repo.git("worktree", "lock", str(ground.path))
    for lock in _locks(ground):
        lock.write_bytes(b"")


def _locks(ground: RolledBackWorktree) -> list[Path]:
    there = ground.there
    return [ground.entry / "index.lock", ref_storage.lock_of(there, "HEAD"), ref_storage.lock_of(there, _ref(ground))]


def pristine(ground: RolledBackWorktree) -> None:
    (ground.entry / "agentos/pristine/manifest.json").write_text('{"version": 1, "folders": 3}')


def journal(ground: RolledBackWorktree) -> None:
    (ground.entry / "agentos/journal.json").write_text("{")


DAMAGES: dict[str, Damage] = {
    each.__name__: each
    for each in (
        folder, folder_is_file, folder_is_link, folder_of_another, dot_git, dot_git_wrong, dot_git_is_repository, entry,
        entry_and_folder, commondir, head, head_gone, head_nowhere, index, index_gone, branch, branch_nowhere,
        branch_gone, tables, records, configuration, locked, pristine, journal,
    )
}  # fmt: skip


# One after the other; each alone where everything is tried.
TOGETHER = (
    "folder", "folder_of_another", "folder_is_file branch_gone", "folder_is_link head_nowhere",
    "dot_git_is_repository index", "entry", "entry_and_folder", "commondir head pristine", "records locked",
    "configuration", "records configuration", "tables",
    "dot_git branch index_gone", "dot_git_wrong head_gone branch_nowhere journal",
)  # fmt: skip


def test_every_damage_is_tried() -> None:
    assert set(" ".join(TOGETHER).split()) == DAMAGES.keys()


@pytest.mark.parametrize("damage", [*TOGETHER, *(DAMAGES if EXHAUSTIVE else ())])
def test_made_again(ground: RolledBackWorktree, damage: str) -> None:
    wrecked = ground.there.text("rev-parse", "HEAD").strip()
    for each in damage.split():
        DAMAGES[each](ground)
    done = ground.roll_back()
    ground.assert_fresh(damage)
    assert record.find(str(ground.repo.path / ".git"), "run-r1").record.run_id == "r1"
    assert done.saved is not None
    # What was committed is not lost, and what was there is in the save.
    reached = ground.repo.text("rev-list", "--all", "refs/agentos/timelines/run-r1").split()
    assert wrecked in reached
    state = format.read_state(ground.context.repository, done.saved)
    there = not damage.startswith(("folder", "entry_and_folder"))
    assert (b"build/out" in state.ignored) == there
    if not there and " " not in damage:
        ground.undo()  # what was committed and staged, the files as the index had them
        assert ground.there.text("rev-parse", "HEAD").strip() == wrecked
        if damage == "folder":
            assert ground.there.read("staged.txt") == b"staged\n"
        assert ground.there.read("committed.txt") == b"committed\n"
    listed = ground.repo.text("worktree", "list", "--porcelain")
    assert f"worktree {ground.path}\n" in listed
    if "head_nowhere" in damage and ref_storage.is_reftable(ground.repo.git_dir):
        # git itself logs there where HEAD was before.
        ground.there.git("reflog", "expire", "--expire=never", "--stale-fix", "HEAD")
    assert git_run(ground.repo.path, "fsck", "--no-dangling").returncode == 0


@pytest.mark.parametrize("line", ["7f3a", "7f3a 91", "x", ZERO + " ", "7f3a 91 said\n", "\n"])
def test_a_torn_reflog(ground: RolledBackWorktree, line: str) -> None:
    """As a power cut leaves it, with the branch: what was committed last is found in the lines before."""
    ref_storage.require_files("no reflog is torn alone, and a torn table has no lines that can be read")
    wrecked = ground.there.text("rev-parse", "HEAD").strip()
    for path in (ground.repo.path / ".git/logs/refs/heads" / ground.run.branch_name, ground.entry / "logs/HEAD"):
        with open(path, "a", encoding="ascii") as file:
            file.write(line)
    branch(ground)
    ground.roll_back()
    ground.assert_fresh(line)
    assert wrecked in ground.repo.text("rev-list", "--all", "refs/agentos/timelines/run-r1").split()


@pytest.mark.parametrize("damage", ["folder", "index", "head", "dot_git", "branch_nowhere", "records"])
def test_a_dry_run_tells_of_damage(ground: RolledBackWorktree, damage: str) -> None:
    DAMAGES[damage](ground)
    told = ground.roll_back(dry_run=True)
    done = ground.roll_back()
    assert (told.recreated, told.head, told.branch) == (done.recreated, done.head, done.branch) == (True, *_at(ground))


def _at(ground: RolledBackWorktree) -> tuple[str, str]:
    return ground.run.base_sha, ground.run.branch_name


def test_a_dry_run_passes_locks_that_are_removed(ground: RolledBackWorktree) -> None:
    locked(ground)
    told = ground.roll_back(dry_run=True)
    assert (ground.entry / "index.lock").exists()
    done = ground.roll_back()
    assert (told.recreated, told.removed, told.changed, told.not_saved, told.head, told.branch) == (
        done.recreated, done.removed, done.changed, done.not_saved, done.head, done.branch,
    )  # fmt: skip
    assert "build/out" in told.removed
