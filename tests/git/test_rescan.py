"""A scan after an earlier one has the result of a whole scan, whatever was done in between."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.git import index_file, rescan
from git_agentos.git.location import locate
from git_agentos.git.rescan import Earlier, Rescan
from git_agentos.git.scan import Scan, ScanResult
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE
from tests.support.watch import FOLDERS, Watch, Writer, watching

_STEPS = 1500 if EXHAUSTIVE else 100


class Scanner:
    """Scans a watched worktree as the daemon's processes do."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.location = locate(str(watch.worktree.location.root))
        self.earlier: Earlier | None = None
        self.token = ""
        self.settles = True
        self.kinds: Counter[str] = Counter()

    def scan(self) -> ScanResult:
        self.watch.repository.read()
        look = self.watch.worktree.look(self.token)
        began = time.time_ns()
        if look is not None and look.answer.paths is not None and self.earlier is not None:
            scan: Scan = Rescan(self.location, self.earlier, look.answer.paths, look.ignored)
        else:
            scan = Scan(self.location)
        result = scan.read()
        self.kinds["narrow" if isinstance(scan, Rescan) and not scan.is_whole else "whole"] += 1
        self.earlier = None if look is None else rescan.keep(scan, result, began)
        self.token = "" if look is None else look.answer.token
        if self.settles:
            self.watch.ask("")
        return result


def comparable(result: ScanResult) -> dict[str, object]:
    """A result without what the order of git's output makes of it."""
    values = result._asdict()
    for name in ("untracked", "empty_directories", "nested", "unreadable", "hidden_rules"):
        values[name] = sorted(values[name])
    return values


def check(scanner: Scanner) -> str:
    """Compare with a whole scan; whether git scanned the `whole` worktree or a `narrow` part."""
    before = scanner.kinds.copy()
    found, expected = scanner.scan(), Scan(scanner.location).read()
    assert comparable(found) == comparable(expected)
    return next(iter(scanner.kinds - before))


@pytest.fixture
def scanner(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scanner]:
    """Of a repository that was scanned before."""
    for folder in FOLDERS:
        for number in range(0, 30, 2):
            repo.write(f"{folder}f{number}", f"{number}\n")
    repo.write(".gitignore", "*.log\nout/\n")
    repo.write("out/x", "1\n")
    repo.commit("files")
    monkeypatch.setattr(rescan, "_SETTLED", 0)  # the repository was made just now
    with watching(repo.path) as watch:
        found = Scanner(watch)
        found.scan()
        assert check(found) == "narrow"
        yield found


class Operations:
    """Random git commands, and edits that `Writer` does not make."""

    def __init__(self, repo: Repo, chosen: random.Random) -> None:
        self.repo, self.random = repo, chosen

    def run(self) -> str:
        """One of them; its name."""
        made = self.random.choice(
            (
                self.add, self.add, self.add_all, self.intend, self.remove_from_index, self.commit, self.commit,
                self.reset, self.reset_hard, self.checkout_path, self.stash, self.pop, self.move, self.read_tree,
                self.flag, self.unflag, self.touch, self.racy, self.folder, self.no_folder, self.ignored, self.rules,
                self.switch, self.add_ignored,
            )
        )  # fmt: skip
        made()
        return made.__name__

    def path(self) -> str:
        return f"{self.random.choice(FOLDERS)}f{self.random.randrange(30)}"

    def add(self) -> None:
        self.repo.try_git("add", "--", self.path())

    def add_all(self) -> None:
        self.repo.try_git("add", "-A")

    def add_ignored(self) -> None:
        self.repo.try_git("add", "-f", "out")

    def intend(self) -> None:
        self.repo.try_git("add", "-N", "--", self.path())

    def remove_from_index(self) -> None:
        self.repo.try_git("rm", "-rq", "--cached", "--", self.path())

    def commit(self) -> None:
        self.repo.try_git("commit", "-qm", "more")

    def reset(self) -> None:
        self.repo.try_git("reset", "-q", "HEAD~1")

    def reset_hard(self) -> None:
        self.repo.try_git("reset", "-q", "--hard")

    def checkout_path(self) -> None:
        self.repo.try_git("checkout", "-q", "HEAD", "--", self.path())

    def stash(self) -> None:
        self.repo.try_git("stash", "-q")

    def pop(self) -> None:
        if self.repo.try_git("stash", "pop", "-q"):
            self.repo.try_git("reset", "-q", "--hard")

    def move(self) -> None:
        self.repo.try_git("mv", "-f", self.path(), self.path())

    def read_tree(self) -> None:
        self.repo.try_git("read-tree", self.random.choice(("HEAD~1", "HEAD")))

    def switch(self) -> None:
        self.repo.try_git("checkout", "-q", "--detach", self.random.choice(("HEAD~1", "main")))

    def flag(self) -> None:
        if self.random.random() < 0.2:
            self.repo.try_git("update-index", "--assume-unchanged", "--", self.path())

    def unflag(self) -> None:
        self.repo.try_git("update-index", "--really-refresh")

    def touch(self) -> None:
        path = Path(os.fsdecode(self.repo.at(self.path())))
        if path.is_file():
            data, found = path.read_bytes(), path.stat()
            path.write_bytes(data[::-1] if self.random.random() < 0.5 else data)
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def racy(self) -> None:
        path = self.path()
        Path(os.fsdecode(self.repo.at(path))).write_text("one\n")
        self.repo.try_git("add", "--", path)
        Path(os.fsdecode(self.repo.at(path))).write_text("two\n")

    def folder(self) -> None:
        os.makedirs(self.repo.at(self.path() + "d/empty"), exist_ok=True)

    def no_folder(self) -> None:
        os.removedirs(self.repo.at(self.path() + "d/empty"))

    def ignored(self) -> None:
        Path(os.fsdecode(self.repo.at(self.path() + ".log"))).write_text("x")

    def rules(self) -> None:
        if self.random.random() < 0.3:
            folder = self.random.choice(FOLDERS)
            rules = self.random.choice(("f1\n", "", "*.log\n"))
            Path(os.fsdecode(self.repo.at(folder + ".gitignore"))).write_text(rules)


def test_a_file_that_changed_within_one_step_of_the_clock(repo: Repo, scanner: Scanner) -> None:
    path = Path(os.fsdecode(repo.at("f0")))
    path.write_text("one\n")
    repo.git("add", "f0")
    path.write_text("two\n")
    forge_stat_data(repo, b"f0")
    check(scanner)
    path.touch()
    forge_stat_data(repo, b"f0")
    assert check(scanner) == "narrow"
    assert [change.unstaged for change in scanner.scan().changed if change.path == b"f0"] == ["M"]


def forge_stat_data(repo: Repo, name: bytes) -> None:
    """Give an entry the stat data of its file, and the index the same time, as if all was done at one moment."""
    found, index = os.stat(repo.at(name)), repo.git_dir / "index"
    file = index_file.read(locate(str(repo.path)))
    assert file is not None
    number = file.find(name)
    assert number is not None
    times = [part for ns in (found.st_ctime_ns, found.st_mtime_ns) for part in divmod(ns, 10**9)]
    values = (*times, found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_size)
    made = bytearray(file.data[: -file.hash.raw_length])
    struct.pack_into(">10I", made, file.offsets[number], *(value & 0xFFFFFFFF for value in values))
    index.write_bytes(bytes(made) + file.hash.new(bytes(made)).digest())
    os.utime(index, ns=(found.st_mtime_ns, found.st_mtime_ns))


def test_a_file_in_an_ignored_folder_is_added_and_edited(repo: Repo, scanner: Scanner) -> None:
    scanner.settles = False
    for content in ("2", "3", "4"):
        repo.git("add", "-f", "out/x")
        for end in ("", "more"):
            repo.write("out/x", content + end)
            assert check(scanner) == "whole"
    scanner.settles = True
    check(scanner)
    repo.write("out/x", "5\n")
    assert check(scanner) == "narrow"


def test_ignored_rules_beside_the_first_file_that_is_not_ignored(repo: Repo, scanner: Scanner) -> None:
    repo.write(".git/info/exclude", ".gitignore\n*.log\n")
    repo.write("sub/.gitignore", "secret\n")
    repo.write("sub/a.log", "1\n")
    check(scanner)
    check(scanner)
    assert check(scanner) == "narrow"
    repo.write("sub/new", "1\n")
    assert check(scanner) == "whole"
    assert b"sub/.gitignore" in scanner.scan().hidden_rules


def test_a_repository_appears(repo: Repo, scanner: Scanner) -> None:
    repo.git("init", "-q", "inner")
    repo.write("inner/a", "1\n")
    assert check(scanner) == "whole"
    repo.write("inner/b", "1\n")
    assert check(scanner) == "whole"


def test_the_index_is_written_during_the_scan(repo: Repo, scanner: Scanner) -> None:
    repo.write("new", "1\n")
    repo.git("add", "new")
    check(scanner)
    scan = Scan(scanner.location)
    result = scan.read()
    repo.git("rm", "-q", "--cached", "new")
    assert rescan.keep(scan, result, time.time_ns()) is None


def test_rules_outside_of_the_worktree_change(repo: Repo, scanner: Scanner) -> None:
    repo.write("a.tmp", "1\n")
    assert check(scanner) == "narrow"
    repo.write(".git/info/exclude", "*.tmp\n")
    assert check(scanner) == "whole"
    assert b"a.tmp" not in scanner.scan().untracked


def test_young_rules_are_not_built_on(repo: Repo, scanner: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been written while git was reading them."""
    monkeypatch.undo()
    scan, began = Scan(scanner.location), time.time_ns()
    result = scan.read()
    repo.write(".git/info/exclude", "")
    assert rescan.keep(scan, result, began) is None


@pytest.mark.parametrize("option", ("--assume-unchanged", "--skip-worktree"))
def test_a_flag_is_set_that_hides_changes(repo: Repo, scanner: Scanner, option: str) -> None:
    repo.git("update-index", option, "f2")
    assert check(scanner) == "whole"
    repo.write("f2", "hidden\n")
    assert check(scanner) == "whole"


@pytest.mark.parametrize("how", ("split", "version 4", "gitlink"))
def test_an_index_of_another_form(repo: Repo, scanner: Scanner, how: str) -> None:
    if how == "split":
        repo.git("update-index", "--split-index")
    elif how == "version 4":
        repo.git("update-index", "--index-version", "4")
    else:
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.oid()},module")
    repo.write("f2", "changed\n")
    assert check(scanner) == "whole"
    repo.write("f4", "changed\n")
    check(scanner)


def test_more_paths_than_are_worth_it(repo: Repo, scanner: Scanner) -> None:
    for number in range(1100):
        repo.write(f"many{number}", "1\n")
    assert check(scanner) == "whole"
    assert check(scanner) == "narrow"


@pytest.mark.parametrize("seed", range(4))
def test_random_edits_and_commands(repo: Repo, scanner: Scanner, seed: int) -> None:
    chosen = random.Random(seed)
    writer, operations = Writer(seed, repo.path), Operations(repo, chosen)
    done: list[str] = []
    for _ in range(_STEPS):
        for _ in range(chosen.randrange(4)):
            if chosen.random() < 0.5:
                done += [path for _, _, path in writer.edit()]
            else:
                with contextlib.suppress(OSError):
                    done.append(operations.run())
        scanner.settles = chosen.random() < 0.5
        check(scanner)
        del done[:-20]
    writer.close()
    assert scanner.kinds["narrow"] > _STEPS // 4, scanner.kinds
