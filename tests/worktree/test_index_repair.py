"""An index that git cannot read: every command names `repair`, which makes it again and touches no file."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.worktree import creation, repair
from tests.support.repo import Repo, digest
from tests.support.state import complete_state
from tests.support.tool import run, run_ok


def sealed(data: bytes) -> bytes:
    return data + digest(data).digest()


def torn(index: Path) -> None:
    index.write_text("torn\n")


def empty(index: Path) -> None:
    index.write_bytes(b"")


def cut_off(index: Path) -> None:
    """git reads it without a complaint, as something else."""
    data = index.read_bytes()
    index.write_bytes(data[: len(data) // 2])


def folder(index: Path) -> None:
    index.unlink()
    index.mkdir()
    (index / "file").write_text("mine\n")


def dangling(index: Path) -> None:
    index.unlink()
    index.symlink_to("/nowhere/index")


def checksum(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def newer_version(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(sealed(data[:4] + struct.pack(">I", 5) + data[8 : -digest().digest_size]))


def unknown_extension(index: Path) -> None:
    index.write_bytes(sealed(index.read_bytes()[: -digest().digest_size] + b"zzzz" + struct.pack(">I", 4) + b"abcd"))


def without_shared_index(index: Path) -> None:
    for path in index.parent.glob("sharedindex.*"):
        path.unlink()


DAMAGES = [torn, empty, cut_off, folder, dangling, checksum, newer_version, unknown_extension, without_shared_index]
# What git itself does not notice.
_SILENT = (checksum, dangling)


def make(repo: Repo, where: str) -> Repo:
    if where == "main":
        return repo
    made = creation.create(open_workspace(repo.path).context, "dev-1", guard=False)
    return Repo(Path(str(made.path)))


def change(there: Repo) -> None:
    """Staged, unstaged and untracked changes, something meant to be added, and flags."""
    there.write("notes.txt", "staged\n")
    there.git("add", "notes.txt")
    there.write("notes.txt", "and changed again\n")
    there.write("new.txt", "untracked\n")
    there.write("meant.txt", "to be added\n")
    there.git("add", "-N", "meant.txt")
    there.git("rm", "-q", "--cached", "readme.txt")
    there.git("update-index", "--assume-unchanged", "src/app.py")


def seen(there: Repo) -> tuple[bytes, bytes, bytes]:
    return (
        there.git("status", "--porcelain=v2", "-z"),
        there.git("ls-files", "--stage", "-v", "-z"),
        there.git("diff", "--cached", "--ita-invisible-in-index"),
    )


def found(repo: Repo, id_: str | None = None) -> list[repair.RepairFinding]:
    return repair.repair(open_workspace(repo.path).context, id_).findings


@pytest.mark.parametrize("where", ["main", "dev-1"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_again_from_the_newest_checkpoint(
    repo: Repo, where: str, damage: Callable[[Path], None]
) -> None:
    there = make(repo, where)
    if damage is without_shared_index:
        there.git("update-index", "--split-index")
    change(there)
    open_workspace(there.path).checkpoint()
    before, files = seen(there), complete_state(there.path).files
    index = there.git_dir / "index"
    damage(index)
    broken = index.read_bytes() if index.is_file() and not index.is_symlink() else None
    if damage not in _SILENT:
        for command in ("checkpoint", "status"):
            said = run(there.path, command)
            assert said.code == 1
            assert b"git agentos worktree repair" in said.err, said
    assert "damaged-index" in [each.code for each in repair.examine(open_workspace(there.path).context)]
    (mended,) = found(there)
    assert (mended.id, mended.code, mended.fixed) == (where, "damaged-index", True)
    assert "as checkpoint" in mended.message
    assert seen(there) == before
    assert complete_state(there.path).files == files
    kept = list((repo.git_dir / "agentos" / "damaged").glob("index-*")) if broken != b"" else []
    assert len(kept) == (broken != b"")
    if broken:
        assert kept[0].read_bytes() == broken
    assert found(there) == []
    assert list(there.git_dir.glob("*.lock")) == []


@pytest.mark.parametrize("where", ["main", "dev-1"])
@pytest.mark.parametrize("saved", [True, False])
def test_in_the_middle_of_a_merge(repo: Repo, where: str, saved: bool) -> None:
    there = make(repo, where)
    base = there.oid()
    there.git("checkout", "-q", "-b", "one")
    there.write("notes.txt", "one\n")
    there.commit("one")
    there.git("checkout", "-q", "-b", "two", base)
    there.write("notes.txt", "two\n")
    there.commit("two")
    assert there.try_git("merge", "one") == 1
    if saved:
        open_workspace(there.path).checkpoint()
    before, files = seen(there), complete_state(there.path).files
    torn(there.git_dir / "index")
    (mended,) = found(there, where)
    assert complete_state(there.path).files == files
    if saved:
        assert seen(there) == before
    else:
        assert "without the conflicts of the merge" in mended.message
        assert there.git("diff", "--cached") == b""
    assert (there.git_dir / "MERGE_HEAD").exists()


def test_a_commit_that_no_checkpoint_has_seen(repo: Repo) -> None:
    """Then the index is HEAD's tree."""
    there = make(repo, "dev-1")
    there.write("notes.txt", "committed\n")
    there.commit("without a checkpoint")
    torn(there.git_dir / "index")
    (mended,) = found(repo)
    assert f"as commit {there.oid()[:8]}" in mended.message
    assert there.git("status", "--porcelain") == b""


def test_a_sparse_checkout_stays_sparse(repo: Repo) -> None:
    there = make(repo, "dev-1")
    there.git("sparse-checkout", "set", "src")
    before = seen(there)
    there.write("src/more.txt", "committed\n")
    there.git("add", "src/more.txt")
    there.git("commit", "-q", "-m", "no checkpoint")
    flags = there.git("ls-files", "-v", "-z")
    torn(there.git_dir / "index")
    found(repo)
    assert there.git("ls-files", "-v", "-z") == flags
    assert there.git("status", "--porcelain") == b""
    assert before != seen(there)


def test_doctor_mends_it_too(repo: Repo) -> None:
    torn(repo.git_dir / "index")
    said = run(repo.path, "doctor", "--json").json["findings"]
    assert [(each["code"], each["fixed"]) for each in said] == [("worktree-damaged-index", False)]
    assert [each["fixed"] for each in run_ok(repo.path, "doctor", "--fix")["findings"]] == [True]
    assert repo.git("status", "--porcelain") == b""


@pytest.mark.parametrize("prepare", ["fresh", "no-checkout", "whole"])
def test_sound_index_is_left_alone(repo: Repo, tmp_path: Path, prepare: str) -> None:
    there: Any = repo
    if prepare == "fresh":
        there = Repo.init(tmp_path / "fresh")
    elif prepare == "no-checkout":
        repo.git("clone", "-q", "--no-checkout", str(repo.path), str(tmp_path / "clone"))
        there = Repo(tmp_path / "clone")
    index = there.git_dir / "index"
    before = index.read_bytes() if index.exists() else None
    assert found(there) == []
    assert (index.read_bytes() if index.exists() else None) == before
    assert not os.path.lexists(there.git_dir / "agentos" / "damaged")
