"""`agentos.link`: large ignored folders in a new worktree, which is independent of the one they come from."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import AgentosWarning, ConfigurationError, StorageError
from git_agentos.util import system
from git_agentos.worktree import creation, removal
from git_agentos.worktree.link import Linked
from git_agentos.worktree.status import Worktree
from tests.support import filesystems
from tests.support.repo import Repo, filled
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run


def fill(repo: Repo) -> Repo:
    repo.write(".gitignore", "node_modules/\ntarget/\n*.local\n")
    repo.commit("rules")
    repo.git("config", "--add", "agentos.link", "node_modules/")
    repo.git("config", "--add", "agentos.link", "/target/\n*.local")
    repo.write("node_modules/a/index.js", "one\n", 0o644)
    repo.write("node_modules/a/run.sh", "two\n", 0o755)
    repo.write("node_modules/.store/b/fixed.js", "three\n", 0o444)
    repo.write("packages/p/node_modules/c.js", "four\n")
    repo.write("packages/p/source.js", "tracked\n")
    repo.git("add", "packages/p/source.js")
    repo.commit("a package")
    repo.write("target/debug/out", "five\n" * 1000)
    repo.write("own.local", "six\n")
    repo.write("packages/target/not-anchored", "seven\n")
    repo.link("node_modules/.bin/run", "../a/run.sh")
    repo.link("node_modules/p", "../packages/p")
    repo.link("node_modules/absolute", str(repo.path / "packages/p"))
    repo.link("node_modules/around", f"../../{repo.path.name}/packages/p")
    repo.link("node_modules/outside", "/usr/bin/env")
    repo.link("node_modules/nowhere", "/no/such/file")
    os.utime(repo.at("node_modules/a/index.js"), ns=(1_500_000_000_123_456_789, 1_500_000_000_123_456_789))
    return repo


@pytest.fixture
def linking(repo: Repo) -> Repo:
    return fill(repo)


def create(repo: Repo, id_: str = "dev", **options: str) -> Worktree:
    return creation.create(open_workspace(repo.path).context, id_, guard=False, **options)  # type: ignore[arg-type]


def at(made: Worktree) -> Repo:
    return Repo(Path(str(made.path)))


def contents(repo: Repo) -> dict[str, tuple[int, str | bytes]]:
    """All ignored files and links, with modes, and contents or where they lead to."""
    found: dict[str, tuple[int, str | bytes]] = {}
    for top in ("node_modules", "packages/p/node_modules", "target", "own.local"):
        paths = [repo.path / top, *(repo.path / top).rglob("*")]
        for path in paths:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[str(path.relative_to(repo.path))] = (status.st_mode, path.read_bytes())
            elif stat.S_ISLNK(status.st_mode):
                found[str(path.relative_to(repo.path))] = (status.st_mode, os.readlink(path))
            else:
                found[str(path.relative_to(repo.path))] = (status.st_mode, b"")
    return found


RELATIVE = {"node_modules/absolute": "../packages/p", "node_modules/around": "../packages/p"}


def test_all_comes(linking: Repo) -> None:
    made = create(linking)
    there = at(made)
    expected = contents(linking)
    for path, target in RELATIVE.items():
        expected[path] = (expected[path][0], target)
    assert contents(there) == expected
    assert not there.exists("packages/target")
    old, new = os.lstat(linking.at("node_modules/a/index.js")), os.lstat(there.at("node_modules/a/index.js"))
    assert old.st_mtime_ns == new.st_mtime_ns
    assert made.linked is not None
    assert [(each.path, each.files, each.bytes) for each in made.linked] == [
        ("node_modules", 9, 14), ("own.local", 1, 4), ("packages/p/node_modules", 1, 5), ("target", 1, 5000)
    ]  # fmt: skip
    assert all(each.cloned + each.hard_linked + each.copied == each.files for each in made.linked)
    assert there.git("status", "--porcelain") == b""


def test_nothing_that_can_be_written_is_shared(linking: Repo) -> None:
    """Writing and chmod in the new worktree do not change the source, whatever the file system can do."""
    there = at(create(linking))
    before = contents(linking)
    for folder, _, names in os.walk(there.path / "node_modules"):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink() and path.stat().st_mode & 0o222:
                path.chmod(0o600)
                with open(path, "r+b") as file:
                    file.write(b"changed in place")
    assert contents(linking) == before


def test_a_read_only_file_is_a_hard_link_where_nothing_can_be_cloned(
    linking: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "clone_contents", lambda _old, _new: False)
    made = create(linking)
    old, new = (os.lstat(each.at("node_modules/.store/b/fixed.js")) for each in (linking, at(made)))
    assert (old.st_ino, old.st_mode) == (new.st_ino, new.st_mode)
    assert made.linked is not None
    assert made.linked[0] == Linked("node_modules", 9, 14, cloned=0, hard_linked=1, copied=8)
    writable = [os.lstat(each.at("node_modules/a/index.js")).st_ino for each in (linking, at(made))]
    assert writable[0] != writable[1]
    removal.remove(open_workspace(linking.path).context, "dev")
    assert linking.read("node_modules/.store/b/fixed.js") == b"three\n"
    assert stat.S_IMODE(os.lstat(linking.at("node_modules/.store/b/fixed.js")).st_mode) == 0o444


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_files_are_cloned(kind: str) -> None:
    with filesystems.mounted(kind) as mount:
        repo = fill(filled(mount / "repo"))
        made = create(repo)
        assert made.linked is not None
        assert {(each.path, each.cloned, each.hard_linked) for each in made.linked} == {
            ("node_modules", 3, 0), ("own.local", 1, 0), ("packages/p/node_modules", 1, 0), ("target", 1, 0)
        }  # fmt: skip
        fixed = [os.lstat(each.at("node_modules/.store/b/fixed.js")).st_ino for each in (repo, at(made))]
        assert fixed[0] != fixed[1]


def test_checkpoints_do_not_have_it(linking: Repo) -> None:
    there = at(create(linking))
    (first,) = open_workspace(there.path).checkpoints()
    assert first.untracked_files == []
    there.write("notes", "of the agent\n")
    saved = open_workspace(there.path).checkpoint(description="more")
    assert saved.untracked_files == ["notes"]
    assert b"node_modules" not in there.git("ls-tree", "-r", "--name-only", f"{saved.id}^3")


def test_what_the_new_worktree_does_not_ignore_stays_away(linking: Repo) -> None:
    """The commit at which it begins has other rules: there it would be untracked."""
    linking.git("checkout", "-q", "-b", "old")
    linking.write(".gitignore", "target/\n")
    linking.git("commit", "-q", "-m", "fewer rules", ".gitignore")
    linking.git("checkout", "-q", "main")
    assert linking.exists("node_modules/a/index.js")
    made = create(linking, from_ref="old")
    assert made.linked is not None
    assert [each.path for each in made.linked] == ["target"]
    assert at(made).git("status", "--porcelain") == b""


def test_files_of_the_commit_are_not_overwritten(linking: Repo) -> None:
    linking.git("checkout", "-q", "-b", "vendored")
    linking.git("add", "-f", "node_modules/a/index.js")
    linking.commit("vendored")
    linking.git("rm", "-q", "--cached", "node_modules/a/index.js")
    linking.commit("not vendored")
    linking.write("node_modules/a/index.js", "mine\n")
    made = create(linking, from_ref="HEAD~1")
    assert at(made).read("node_modules/a/index.js") == b"one\n"
    assert made.linked is not None
    assert "node_modules" not in [each.path for each in made.linked]


def test_links_are_not_followed(linking: Repo) -> None:
    """Neither a folder that is a link in the source, nor one on the way in the new worktree."""
    (linking.scratch / "elsewhere/p").mkdir(parents=True)
    (linking.scratch / "elsewhere/secret").write_text("not for agents\n")
    linking.remove("target")
    linking.write(".gitignore", "node_modules/\ntarget\n*.local\n")
    linking.commit("other rules")
    linking.link("target", str(linking.scratch / "elsewhere"))
    linking.git("config", "--add", "agentos.link", "target")
    linking.git("checkout", "-q", "-b", "linked")
    linking.git("rm", "-rq", "packages")
    linking.link("packages", str(linking.scratch / "elsewhere"))
    linking.git("add", "packages")
    linking.commit("a link on the way")
    linking.remove("packages")
    linking.git("checkout", "-q", "main")
    linking.write("packages/p/node_modules/c.js", "four\n")
    with pytest.warns(AgentosWarning, match="'target' is a symbolic link"):
        made = create(linking, from_ref="linked")
    assert not os.path.lexists(at(made).path / "target")
    assert sorted(path.name for path in (linking.scratch / "elsewhere").rglob("*")) == ["p", "secret"]


def test_repositories_and_pipes_are_left_out(linking: Repo) -> None:
    filled(linking.path / "node_modules/nested")
    linking.write("node_modules/module/.git", f"gitdir: {linking.git_dir}\n")
    os.mkfifo(linking.at("node_modules/pipe"))
    there = at(create(linking))
    assert sorted(os.listdir(there.path / "node_modules")) == sorted(
        {"a", ".store", ".bin", "p", "absolute", "around", "outside", "nowhere"}
    )


@pytest.mark.parametrize("pattern", ["../other/", "/../x", "node_modules/../../y"])
def test_a_pattern_that_leads_out(repo: Repo, pattern: str) -> None:
    repo.git("config", "agentos.link", pattern)
    before = snapshot(repo)
    with pytest.raises(ConfigurationError, match="bad pattern"):
        create(repo)
    assert_nothing_left(before, repo)


def test_patterns_that_match_nothing(repo: Repo) -> None:
    (repo.scratch / "outside").write_text("x\n")
    for pattern in (str(repo.scratch / "outside"), "~/*", ".git", ".agentos", "readme.txt"):
        repo.git("config", "--add", "agentos.link", pattern)
    assert create(repo).linked == []


def test_with_worktreeinclude_and_setup(linking: Repo) -> None:
    """What is brought is there when `.worktreeinclude` and the set-up command come to it."""
    linking.write(".worktreeinclude", "node_modules/\n")
    linking.commit("rules")
    linking.git("config", "agentos.setup", "test -f node_modules/a/index.js && echo made >node_modules/a/made")
    there = at(create(linking))
    assert there.read("node_modules/a/made") == b"made\n"
    assert not linking.exists("node_modules/a/made")


def test_no_room(linking: Repo, small_disk: Path) -> None:
    linking.git("config", "agentos.worktreeRoot", str(small_disk / "{id}"))
    with open(linking.at("target/debug/large"), "wb") as file:
        file.write(os.urandom(32 << 20))
    before = snapshot(linking)
    with pytest.raises(StorageError):
        create(linking)
    assert_nothing_left(before, linking)
    assert os.listdir(small_disk) in ([], ["lost+found"])


def test_it_is_said(linking: Repo) -> None:
    done = run(linking.path, "worktree", "create", "dev")
    assert b"Brought 'target': 1 file, 4.9 KiB (" in done.out, str(done)
