"""Random histories, and commands that are killed, where names of different case are one file."""

from __future__ import annotations

import contextlib
import os
import random
import unicodedata
from collections.abc import Iterator

import pytest

from tests.filesystems.conftest import MakeRepo
from tests.support import filesystems, passthrough
from tests.support.command_line import Cli
from tests.support.faults.server import Runner, has_journal
from tests.support.filesystems import ok, spelt
from tests.support.repo import GitFailed, Repo
from tests.support.sampling import EXHAUSTIVE, SEED, evenly

_STEMS = ["a", "dir", "Notes", "\u00e9"]
_HISTORIES = 60 if EXHAUSTIVE else 6
_KILLS = 1000 if EXHAUSTIVE else 6


class History:
    """Random edits of a repository, by people and by git."""

    def __init__(self, repo: Repo, seed: int) -> None:
        self.repo = repo
        self.random = random.Random(seed)
        self.done: list[str] = []

    def edit(self, most: int) -> None:
        for _ in range(self.random.randrange(1, most)):
            choose = self.random.choice((self._write, self._rename, self._rename, self._remove, self._git, self._move))
            with contextlib.suppress(OSError, GitFailed):  # a file where a folder is needed, and the like
                choose()

    def _note(self, *words: str) -> None:
        self.done.append(" ".join(words))

    def _spell(self, name: str) -> str:
        name = self.random.choice((name, name.upper(), name.lower(), name.swapcase()))
        return unicodedata.normalize(self.random.choice(("NFC", "NFD")), name)

    def _file(self) -> str:
        return self.random.choice([name for name in spelt(self.repo) if not name.endswith("/")] or ["none"])

    def _write(self) -> None:
        path = "/".join(self._spell(self.random.choice(_STEMS)) for _ in range(self.random.randrange(1, 4)))
        self._note("write", path)
        self.repo.write(path, f"{self.random.random()}\n")

    def _rename(self) -> None:
        parts = self._file().split("/")
        parts = parts[: self.random.randrange(len(parts)) + 1]
        to = [*parts[:-1], self._spell(parts[-1])]
        self._note("rename", "/".join(parts), "/".join(to))
        os.rename(self.repo.at("/".join(parts)), self.repo.at("/".join(to)))

    def _remove(self) -> None:
        path = self._file()
        self._note("remove", path)
        self.repo.remove(path)

    def _move(self) -> None:
        path = self._file()
        self._note("git mv", path)
        self.repo.try_git("mv", "-f", path, path.swapcase())

    def _git(self) -> None:
        words = self.random.choice((("add", "-A"), ("add", "--", self._file()), ("commit", "-qam", "more")))
        self._note("git", *words)
        self.repo.try_git(*words)


def _folded(modes: str, files: dict[str, bytes | None]) -> dict[str, bytes | None]:
    having = frozenset(filesystems.MODES[modes].split(","))
    return {passthrough.key(having, name): data for name, data in files.items() if data is not None}


def _index(repo: Repo) -> tuple[bytes, bytes]:
    return repo.git("ls-files", "--stage", "-z"), repo.git("status", "--porcelain", "-z")


@pytest.mark.parametrize("modes", ["apfs", "exfat", "share"])
def test_random_histories(repo_on: MakeRepo, cli: Cli, modes: str) -> None:
    """Every file, the index and what git says of them come back; so does, by `undo`, what was there before.

    A tracked file is spelled as in the index afterwards: git says nothing of another spelling, so no checkpoint has it.
    """
    repo = repo_on(modes)
    repo.write("base", "base\n")
    repo.commit("base")
    for number in range(_HISTORIES):
        history = History(repo, SEED * 1000 + number)
        history.edit(9)
        before, index = spelt(repo), _index(repo)
        tracked = set(os.fsdecode(repo.git("ls-files", "-z")).split("\0"))
        ok(cli("checkpoint"))
        history.done.append("-- checkpoint")
        history.edit(8)
        wreck, wrecked_index = spelt(repo), _index(repo)
        ok(cli("restore", "latest"))
        after = spelt(repo)
        assert _folded(modes, after) == _folded(modes, before), history.done
        assert _index(repo) == index, history.done
        expected = {*before, *tracked} | {name + "/" for name in before}
        assert set(after) <= expected, history.done
        ok(cli("undo"))
        assert _folded(modes, spelt(repo)) == _folded(modes, wreck), history.done
        assert _index(repo)[0] == wrecked_index[0], history.done


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started


def _filled(repo_on: MakeRepo, modes: str) -> tuple[Repo, dict[str, bytes | None]]:
    """A repository, and what is in it."""
    repo = repo_on(modes)
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("Readme", "one\n")
    repo.write("Src/deep/a.py", "a\n")
    repo.write("Src/kept.o", "ignored\n")
    repo.commit("first")
    repo.write("Notes", "notes\n")
    return repo, spelt(repo)


def _wreck(repo: Repo) -> None:
    """Spell every name in another way, and change a file."""
    for old, new in (("Readme", "README"), ("Src/deep", "Src/DEEP"), ("Src", "src"), ("Notes", "notes")):
        # By way of another name: not all of these file systems rename a name to itself.
        os.rename(repo.at(old), repo.at(old + ".other"))
        os.rename(repo.at(old + ".other"), repo.at(new))
    repo.write("README", "two\n")


@pytest.mark.slow
@pytest.mark.parametrize("modes", ["apfs", "share"])
def test_a_restore_that_is_killed(repo_on: MakeRepo, runner: Runner, modes: str) -> None:
    """`recover` finishes it, `recover --abort` takes it back; ignored files in a folder that was being renamed stay."""
    repo, before = _filled(repo_on, modes)
    runner.run_ok(repo.path, "checkpoint")
    first = repo.text("rev-parse", "refs/agentos/timelines/main^2")
    _wreck(repo)
    wreck = spelt(repo)
    steps = runner.run_ok(repo.path, "restore", "latest", "--no-branch").steps
    assert spelt(repo) == before
    near = [n for n, step in enumerate(steps, 1) if "os.rename" in step or "journal" in step]
    assert any(".agentos-renaming-" in steps[n - 1] for n in near) == (modes == "share")
    for count, step in enumerate(evenly(near, _KILLS)):
        _wreck(repo)
        done = runner.run(repo.path, "restore", first, "--no-branch", step=step, mode="kill")
        what = f"killed before step {step}: {done.steps[-1]}"
        back, interrupted = count % 2 == 1, has_journal(repo)
        runner.run_ok(repo.path, "recover", *(["--abort"] if back else []))
        if interrupted:
            expected = wreck if back else before
            assert _folded(modes, spelt(repo)) == _folded(modes, expected), what
        runner.run_ok(repo.path, "restore", first, "--no-branch")
        assert spelt(repo) == before, what
        assert not list(repo.path.rglob(".agentos-*")), what
        repo.git("fsck", "--strict")
