"""`worktree create --revive`: files that come back are written once, straight into their places."""

from __future__ import annotations

import os
import time
from pathlib import Path

from git_agentos import open_workspace
from git_agentos.checkpoint.restore import application
from git_agentos.git.location import locate
from git_agentos.git.repository import Repository
from git_agentos.worktree import creation, removal, revival
from tests.support.repo import Repo
from tests.support.state import complete_state, differences
from tests.support.tool import run_ok


def committed(repo: Repo) -> Repo:
    """A worktree with files of every kind committed."""
    made = creation.create(open_workspace(repo.path).context, "dev-001")
    assert made.path is not None
    there = Repo(Path(made.path))
    for name in ("same", "changed", "gone", "folder/one", "folder/two", "file", "ends.txt", "same-ends.txt"):
        there.write(name, f"{name}\nas committed\n")
    there.write(".gitattributes", "*.bin -text\n")
    there.write(".gitignore", "*.ignored\n")
    there.link("link", "same")
    there.link("other-link", "same")
    there.commit("files")
    return there


def dirty(there: Repo) -> None:
    """Differences of every kind from the commit."""
    there.write("changed", "changed\n")
    os.unlink(there.path / "gone")
    for name in ("folder/one", "folder/two"):
        os.unlink(there.path / name)
    os.rmdir(there.path / "folder")
    there.write("folder", "a file\n")
    os.unlink(there.path / "file")
    there.write("file/inside", "a folder\n")
    os.unlink(there.path / "link")
    there.link("link", "changed")
    os.unlink(there.path / "other-link")
    there.write("other-link", "a file\n")
    there.write(".gitattributes", "*.txt text eol=crlf\n")
    there.write("ends.txt", "other\r\nends\r\n")
    there.write("staged", "staged\n")
    there.git("add", "staged")
    there.write("staged", "staged, and changed again\n")
    there.write("untracked/new", "new\n")
    there.write("cache/x.ignored", "ignored\n")
    time.sleep(0.03)  # older than a tick of the kernel's clock


def test_files_differing_from_the_commit_come_back(repo: Repo) -> None:
    there = committed(repo)
    dirty(there)
    before = complete_state(there.path)
    removal.archive(open_workspace(repo.path).context, "dev-001")
    revival.revive(open_workspace(repo.path).context, "dev-001")
    lines = differences(before, complete_state(there.path), permissions="all")
    assert not lines, lines


def test_undo_afterwards_goes_back_to_the_commit_with_all_its_files(repo: Repo, tmp_path: Path) -> None:
    there = committed(repo)
    dirty(there)
    removal.archive(open_workspace(repo.path).context, "dev-001")
    revival.revive(open_workspace(repo.path).context, "dev-001")
    revived = complete_state(there.path)
    by_who_revived = {"AGENTOS_AGENT_ID": "main"}
    run_ok(there.path, "undo", env=by_who_revived)
    plain = tmp_path / "plain"
    repo.git("worktree", "add", "--quiet", "--detach", str(plain), "agent/dev-001")
    (plain / "cache").mkdir()
    (plain / "cache/x.ignored").write_text("ignored\n")  # undo leaves ignored files
    lines = differences(complete_state(plain), complete_state(there.path), permissions="all")
    assert not lines, lines
    run_ok(there.path, "undo", env=by_who_revived)
    lines = differences(revived, complete_state(there.path), permissions="all")
    assert not lines, lines


def test_revive_writes_through_no_link_and_over_no_file(repo: Repo, tmp_path: Path) -> None:
    outside, root, waiting = tmp_path / "outside", tmp_path / "root", tmp_path / "waiting"
    for folder in (outside, root / "folder", waiting):
        folder.mkdir(parents=True)
    (outside / "deep").mkdir()
    (root / "link").symlink_to(outside)
    (root / "there").write_text("there\n")
    repository = Repository(locate(str(repo.path)))
    blob = repo.text("rev-parse", "HEAD:" + repo.text("ls-files").splitlines()[0])
    content = repository.blob(blob)
    staged = application.Prepared(str(waiting), str(root))
    for path in (b"link/file", b"link/deep/file", b"there", b"there/below", b"folder/file", b"new/deep/file"):
        staged.write(repository, path, blob, 0o600)
    assert sorted(staged.written) == [b"folder/file", b"new/deep/file"]
    assert sorted(staged.files) == [b"link/deep/file", b"link/file", b"there", b"there/below"]
    assert [Path(os.fsdecode(place)).read_bytes() for place in staged.files.values()] == [content] * 4
    assert [(root / os.fsdecode(path)).read_bytes() for path in staged.written] == [content] * 2
    assert (root / "there").read_text() == "there\n"
    assert sorted(path.name for path in outside.rglob("*")) == ["deep"]
