"""What is watched of a worktree, and what is said of it when that changes."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from git_agentos.process import table
from git_agentos.watch.changes import Changes
from git_agentos.watch.inotify import InotifyWatcher
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.watcher import Event, Kind, WatchLimitError
from git_agentos.watch.worktree import WatchedWorktree
from tests.support.repo import Repo, filled
from tests.support.waiting import wait_until
from tests.support.watch import Watch, covers, watching


@pytest.fixture
def watch(repo: Repo) -> Iterator[Watch]:
    """A watched repository of which nothing was said yet."""
    repo.write("build/.gitignore", "*\n")
    repo.write("build/out/a.o", "1\n")
    with watching(repo.path) as found:
        yield found


def test_nothing_changes(watch: Watch) -> None:
    assert watch.changed() == set()


def test_a_token_of_elsewhere_means_everything(watch: Watch) -> None:
    for token in ("", "nonsense", "agentos:0123456789abcdef:1", watch.token + "0", watch.token.upper()):
        assert watch.ask(token)[1] is None


def test_a_folder_in_which_all_files_are_ignored_is_watched(repo: Repo) -> None:
    repo.write(".gitignore", "*.log\n")
    repo.write("logs/deep/a.log", "1\n")
    repo.write("own/.gitignore", "*\n")
    repo.write("own/deep/a", "1\n")
    repo.commit("rules")
    with watching(repo.path) as watch:
        watch.changed()
        repo.write("logs/deep/report", "1\n")
        assert watch.changed() == {"logs/deep/report"}
        repo.write("own/deep/b", "1\n")
        assert watch.changed() == set()
        repo.write("own/.gitignore", "b\n")
        assert covers(watch.changed(), "own/deep/a")


def test_a_new_folder_and_all_in_it(repo: Repo, watch: Watch) -> None:
    repo.write("new/deep/x", "1\n")
    assert covers(watch.changed(), "new/deep/x")
    repo.write("new/deep/y", "1\n")
    assert watch.changed() == {"new/deep/y"}


def test_a_folder_is_moved_and_written_in(repo: Repo, watch: Watch) -> None:
    repo.write("one/two/f", "1\n")
    watch.changed()
    os.rename(repo.at("one"), repo.at("three"))
    changed = watch.changed()
    assert covers(changed, "one/two/f") and covers(changed, "three/two/f")
    repo.write("three/two/f", "2\n")
    assert watch.changed() == {"three/two/f"}


def test_git_is_told_of_a_vanished_folder_by_its_name_too(repo: Repo, watch: Watch) -> None:
    repo.write("one/f", "1\n")
    watch.changed()
    shutil.rmtree(repo.at("one"))
    assert {"one", "one/", "one/f"} <= (watch.changed() or set())


def test_ignored_folders_are_not_watched(repo: Repo, watch: Watch) -> None:
    before = watch.worktree.folder_count
    repo.write("build/out/b.o", "1\n")
    repo.write("build/more/c.o", "1\n")  # the new folder is named, once
    assert not any(path.startswith("build/out") for path in watch.changed() or ())
    repo.write("build/more/d.o", "1\n")
    assert watch.changed() == set()
    assert watch.worktree.folder_count == before


@pytest.mark.parametrize("is_there", [True, False])
def test_our_own_folder_is_watched_only_with_a_tracked_file_in_it(repo: Repo, is_there: bool) -> None:
    if is_there:
        repo.write(".agentos/state.db", "1\n")
    with watching(repo.path) as watch:
        repo.write(".agentos/state.db", "2\n")
        watch.changed()
        before = watch.worktree.moment()
        repo.write(".agentos/state.db", "3\n")
        repo.write(".agentos/state.db-wal", "4\n")
        assert watch.changed() == set()
        assert watch.worktree.moment() == before
        repo.write(".agentos/notes", "1\n")
        repo.git("add", "--force", ".agentos/notes")
        watch.changed()
        repo.write(".agentos/notes", "2\n")
        assert covers(watch.changed(), ".agentos/notes")


@pytest.mark.parametrize("how", ["rules", "index", "exclude", "configuration", "excludes file", "user's rules"])
def test_a_folder_that_is_ignored_no_longer_is_watched(
    repo: Repo, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "git" / "ignore"
    rules.parent.mkdir()
    if how == "user's rules":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        rules.write_text("/out/\n")
    elif how == "excludes file":
        repo.config("core.excludesFile", str(rules))
        rules.write_text("/out/\n")
    elif how == "exclude":
        repo.write(".git/info/exclude", "/out/\n")
    elif how == "configuration":
        repo.write("../rules", "/out/\n")
        repo.config("core.excludesFile", str(repo.path.parent / "rules"))
    else:
        repo.write(".gitignore", "/out/\n")
    repo.write("out/deep/f", "1\n")
    with watching(repo.path) as watch:
        repo.write("out/deep/f", "2\n")
        assert not covers(watch.changed(), "out/deep/f")
        if how == "rules":
            repo.write(".gitignore", "\n")
        elif how == "index":
            repo.git("add", "--force", "out/deep/f")
        elif how == "exclude":
            repo.write(".git/info/exclude", "\n")
        elif how in ("excludes file", "user's rules"):
            rules.write_text("\n")
        else:
            repo.git("config", "--unset", "core.excludesFile")
        repo.write("out/deep/f", "3\n")
        assert covers(watch.changed(), "out/deep/f")
        repo.write("out/deep/g", "1\n")
        assert covers(watch.changed(), "out/deep/g")


def test_a_folder_becomes_a_repository_and_a_folder_again(repo: Repo, watch: Watch) -> None:
    repo.write("inner/deep/f", "1\n")
    watch.changed()
    repo.git("init", "-q", "inner")
    assert covers(watch.changed(), "inner/deep/f")
    repo.write("inner/deep/f", "2\n")
    assert watch.changed() == set()  # what is in a repository is its own
    shutil.rmtree(repo.at("inner/.git"))
    assert covers(watch.changed(), "inner/deep/f")
    repo.write("inner/deep/f", "3\n")
    assert covers(watch.changed(), "inner/deep/f")


def test_a_file_with_several_names_is_always_named(repo: Repo, tmp_path: Path) -> None:
    repo.write("f", "1\n")
    os.link(repo.at("f"), tmp_path / "outside")
    with watching(repo.path) as watch:
        (tmp_path / "outside").write_text("2\n")
        assert watch.changed() == {"f"}
        assert watch.changed() == {"f"}
        os.unlink(tmp_path / "outside")
        repo.write("f", "3\n")
        watch.changed()
        assert watch.changed() == set()


def test_a_file_that_is_given_a_second_name_is_named_by_both(repo: Repo, watch: Watch) -> None:
    repo.write("deep/f", "1\n")
    watch.changed()
    watch.changed()
    os.link(repo.at("deep/f"), repo.at("g"))
    watch.repository.read()
    assert watch.worktree.look(watch.token) is None  # a forked process does not look for the first name
    assert covers(watch.changed(), "g")
    repo.append("g", "2\n")
    assert watch.changed() == {"g", "deep/f"}
    assert watch.changed() == {"g", "deep/f"}
    look = watch.worktree.look(watch.token)
    assert look is not None and look.answer.paths == frozenset((b"g", b"deep/f"))
    repo.remove("g")
    repo.append("deep/f", "3\n")
    watch.changed()
    assert watch.changed() == set()


def test_an_open_file_is_named_until_it_is_closed(repo: Repo, watch: Watch) -> None:
    repo.write("f", "12345\n")
    watch.changed()
    with open(repo.at("f"), "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 6)
    assert watch.changed() == {"f"}
    mapped[0:1] = b"x"
    assert watch.changed() == {"f"}
    os.rename(repo.at("f"), repo.at("g"))
    assert covers(watch.changed(), "g")
    mapped[1:2] = b"x"
    assert watch.changed() == {"g"}
    mapped.close()
    assert watch.changed() == {"g"}
    assert watch.changed() == set()


def test_a_file_that_was_mapped_before_is_named_until_it_is_not(repo: Repo) -> None:
    repo.write("f", "12345\n")
    with open(repo.at("f"), "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 6)
    with watching(repo.path) as watch:
        assert watch.changed() == {"f"}
        mapped[0:1] = b"x"
        assert watch.changed() == {"f"}
        mapped.close()


def test_a_folder_comes_with_a_file_that_is_mapped(repo: Repo, watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("12345\n")
    with open(tmp_path / "elsewhere" / "f", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 6)
    os.rename(tmp_path / "elsewhere", repo.at("new"))
    assert covers(watch.changed(), "new/f")
    mapped[0:1] = b"x"
    assert covers(watch.changed(), "new/f")
    mapped.close()


class Busy(InotifyWatcher):
    """Somebody makes a folder in each folder just before it is watched."""

    made: list[str]

    def watch(self, folder: bytes) -> int:
        if hasattr(self, "made") and not folder.endswith(b"-new"):
            name = os.fsdecode(folder) + "/a-new"
            if not os.path.exists(name):
                os.mkdir(name)
                self.made.append(name)
        return super().watch(folder)


def test_a_folder_that_appears_while_its_parent_is_listed(repo: Repo) -> None:
    watcher = Busy()
    watcher.made = []
    repository = WatchedRepository(str(repo.path / ".git"), watcher)
    worktree = repository.worktree(str(repo.path))
    assert worktree is not None and len(watcher.made) > 3
    repository.read()
    token = worktree.answer("").token
    for folder in watcher.made:
        Path(folder, "f").write_text("1\n")
    repository.read()
    paths = worktree.answer(token).paths
    for folder in watcher.made:
        assert covers(paths, os.path.relpath(folder, repo.path) + "/f"), folder
    repository.close()


class Forbidden(InotifyWatcher):
    """Folders that are called `locked` may not be read."""

    def watch(self, folder: bytes) -> int:
        if folder.endswith(b"/locked") and not os.stat(folder).st_mode & 0o400:
            raise PermissionError(13, "Permission denied")
        return super().watch(folder)


def test_a_folder_that_cannot_be_read_and_then_can(repo: Repo) -> None:
    watcher = Forbidden()
    repository = WatchedRepository(str(repo.path / ".git"), watcher)
    worktree = repository.worktree(str(repo.path))
    assert worktree is not None
    token = worktree.answer("").token
    os.mkdir(repo.at("locked"), 0o300)
    repo.write("locked/f", "1\n")
    repository.read()
    assert covers(worktree.answer(token).paths, "locked/f") and not worktree.problem
    token = worktree.answer("").token
    os.chmod(repo.at("locked"), 0o700)
    repository.read()
    assert covers(worktree.answer(token).paths, "locked/f")
    token = worktree.answer("").token
    repo.write("locked/f", "2\n")
    repository.read()
    assert covers(worktree.answer(token).paths, "locked/f")
    repository.close()


def test_a_file_system_is_mounted_and_unmounted_in_it(repo: Repo, watch: Watch, small_disk: Path) -> None:
    repo.write("inner/f", "1\n")
    watch.changed()
    inner = str(repo.path / "inner")
    with contextlib.ExitStack() as mounted:
        subprocess.run(["mount", "--bind", str(small_disk), inner], check=True)
        mounted.callback(subprocess.run, ["umount", inner], check=True)
        assert watch.changed() is None
        repo.write("inner/f", "2\n")
        assert covers(watch.changed(), "inner/f")
    assert watch.changed() is None
    repo.write("inner/f", "3\n")
    assert covers(watch.changed(), "inner/f")


@pytest.mark.parametrize("what", ["itself", "the folder above"])
def test_the_worktree_is_another_one(tmp_path: Path, what: str) -> None:
    repo = filled(tmp_path / "above" / "repo")
    with watching(repo.path) as watch:
        moved = repo.path if what == "itself" else repo.path.parent
        os.rename(moved, tmp_path / "moved")
        shutil.copytree(tmp_path / "moved", moved, symlinks=True)
        assert watch.changed() is None
        assert not watch.repository.is_there()


class Losing(InotifyWatcher):
    """A watcher of which events are lost."""

    lose = False

    def read(self) -> Sequence[Event]:
        found = super().read()
        return [Event(-1, Kind.LOST)] if self.lose else found


def test_lost_events_mean_everything_and_then_it_goes_on(repo: Repo) -> None:
    watcher = Losing()
    repository = WatchedRepository(str(repo.path / ".git"), watcher)
    worktree = repository.worktree(str(repo.path))
    assert worktree is not None
    token = worktree.answer("").token
    watcher.lose = True
    repo.write("new/f", "1\n")
    repository.read()
    assert "more happened at once" in worktree.problem
    watcher.lose = False

    def is_watched_again() -> bool:
        repository.retry()
        return not worktree.problem

    wait_until(is_watched_again, "it is watched, although nobody has asked")
    assert worktree.answer(token).paths is None
    token = worktree.answer("").token
    repo.write("new/f", "2\n")
    repository.read()
    assert covers(worktree.answer(token).paths, "new/f")
    repository.close()


class Limited(InotifyWatcher):
    """A watcher with a small limit."""

    left = 3

    def watch(self, folder: bytes) -> int:
        if not self.left:
            raise WatchLimitError(28, "this user may have 3 inotify watched folders: raise it")
        self.left -= 1
        return super().watch(folder)


def test_the_limit_of_watched_folders(repo: Repo) -> None:
    for number in range(5):
        repo.write(f"d{number}/f", "1\n")
    watcher = Limited()
    repository = WatchedRepository(str(repo.path / ".git"), watcher)
    worktree = repository.worktree(str(repo.path))
    assert worktree is not None
    assert (worktree.problem, worktree.folder_count) == ("this user may have 3 inotify watched folders: raise it", 0)
    assert worktree.answer("").paths is None
    repository.close()


def test_the_limit_is_reached_later(repo: Repo) -> None:
    watcher = Limited()
    watcher.left = 50
    repository = WatchedRepository(str(repo.path / ".git"), watcher)
    worktree = repository.worktree(str(repo.path))
    assert worktree is not None and worktree.folder_count
    token = worktree.answer("").token
    watcher.left = 0
    repo.write("new/f", "1\n")
    repository.read()
    assert worktree.problem
    assert worktree.answer(token).paths is None
    repository.close()


def test_a_file_system_without_events(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("git_agentos.process.mounts.types_below", lambda _: {"ext4", "nfs4"})
    with watching(repo.path) as watch:
        assert watch.worktree.problem == "the file system 'nfs4' does not tell of all changes"
        assert watch.changed() is None


def test_a_worktree_within_another_and_one_of_them_goes(repo: Repo, watch: Watch) -> None:
    repo.git("worktree", "add", "-q", "inner", "-b", "inner")
    inner = watch.repository.worktree(str(repo.path / "inner"))
    assert isinstance(inner, WatchedWorktree) and not inner.problem
    token = inner.answer("").token
    repo.write("inner/f", "1\n")
    watch.repository.read()
    assert covers(inner.answer(token).paths, "f")
    repo.git("worktree", "remove", "--force", "inner")
    watch.repository.forget_gone()
    assert list(watch.repository.worktrees) == [str(repo.path)]
    repo.mkdir("inner")
    repo.write("inner/g", "1\n")
    assert covers(watch.changed(), "inner/g")


def test_what_one_worktree_forgets_is_watched_for_the_other(repo: Repo, watch: Watch) -> None:
    repo.git("worktree", "add", "-q", "inner", "-b", "inner")
    inner = watch.repository.worktree(str(repo.path / "inner"))
    assert isinstance(inner, WatchedWorktree)
    watch.changed()
    inner.end("it is not watched any more")
    repo.remove("inner/.git")
    assert covers(watch.changed(), "inner/f")
    repo.write("inner/f", "1\n")
    assert covers(watch.changed(), "inner/f")


def test_remembered_changes_are_bounded() -> None:
    changes = Changes(most=3)
    first = changes.token
    changes.note(b"a")
    second = changes.token
    for name in (b"b", b"c", b"d", b"b"):
        changes.note(name)
    assert changes.since(first) is None
    assert changes.since(second) == [b"b", b"d", b"c"]
    changes.begin_anew()
    assert changes.since(second) is None
    changes.note(b"e")
    changes.note(b"f")
    assert changes.since(second) is None  # also where as much has changed since


def test_a_moment_is_the_same_until_something_changes(repo: Repo, watch: Watch) -> None:
    def moment() -> str | None:
        watch.repository.read()
        return watch.worktree.moment()

    first = moment()
    assert first is not None and moment() == first
    repo.write("build/out/a.o", "2\n")  # git ignores it
    assert moment() == first
    repo.write("notes.txt", "changed\n")
    second = moment()
    assert second not in (None, first) and moment() == second
    with open(repo.path / "notes.txt", "a") as file:  # what is written through it has no event
        assert moment() is None
        file.write("more\n")
    third = moment()
    assert third not in (None, first, second)
    os.link(repo.path / "notes.txt", repo.path / "other.txt")
    assert moment() is None


def test_a_file_that_only_seems_to_be_open_is_forgotten(repo: Repo, watch: Watch) -> None:
    """inotify(7) tells of several events of the same kind once, so more may have been opened than was closed."""
    root = str(repo.path)
    watch.worktree._open[b"notes.txt"] = 1
    assert watch.worktree.moment() is None
    assert watch.repository.moments()[root] is not None
    with open(repo.path / "notes.txt", "a"):
        watch.repository.read()
        assert watch.repository.moments()[root] is None


def test_processes_are_read_once_for_files_that_seem_to_be_open(
    repo: Repo, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their paths and by their inodes."""
    for name in ("open", "closed"):
        repo.write(name, "text\n")
        watch.worktree._open[os.fsencode(name)] = 1
    read: list[int] = []
    open_files = table.open_files

    def noted(pid: int) -> Iterator[tuple[str, str]]:
        read.append(pid)
        return open_files(pid)

    monkeypatch.setattr(table, "open_files", noted)
    with open(repo.path / "open", "a"):
        assert watch.worktree.check_open()
    assert watch.worktree._open.keys() == {b"open"}
    assert read.count(os.getpid()) == 1


def test_a_file_of_an_ignored_folder_that_is_added_makes_another_moment(repo: Repo, watch: Watch) -> None:
    watch.repository.read()
    before = watch.worktree.moment()
    repo.write("build/out/a.o", "2\n")
    watch.repository.read()
    assert watch.worktree.moment() == before
    repo.git("add", "-f", "build/out/a.o")
    watch.repository.read()
    added = watch.worktree.moment()
    assert added not in (None, before)
    repo.write("build/out/a.o", "3\n")
    watch.repository.read()
    assert watch.worktree.moment() not in (None, added)
