"""Random histories, and commands that are killed, where names of different case are one file."""

from __future__ import annotations

import contextlib
import os
import random
import unicodedata
from collections.abc import Iterable

import pytest

from tests.support import filesystems
from tests.support.command_line import Cli
from tests.support.faults import killed_restore
from tests.support.faults.server import Runner
from tests.support.filesystems import MakeRepo, ok, spelt
from tests.support.repo import GitFailed, Repo
from tests.support.sampling import EXHAUSTIVE, SEED

_STEMS = ["a", "dir", "Notes", "\u00e9"]
_HISTORIES = 60 if EXHAUSTIVE else 2


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


def _key(modes: str, name: str) -> str:
    return filesystems.key(filesystems.modes_of(modes), name)


def _folded(modes: str, files: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {_key(modes, name): data for name, data in files.items() if data is not None}


def _index(repo: Repo, modes: str) -> tuple[bytes, list[str]]:
    """The index, and what git says of the worktree, whatever the spelling there."""
    status = os.fsdecode(repo.git("status", "--porcelain", "-z"))
    return repo.git("ls-files", "--stage", "-z"), sorted(_key(modes, line) for line in status.split("\0"))


def _spellings(modes: str, paths: Iterable[str]) -> set[tuple[str, str]]:
    """How each name is spelled: a name may be spelled in one way in a tracked path, and in another one beside it."""
    parts = [path.rstrip("/").split("/") for path in paths]
    return {(_key(modes, "/".join(each[:depth])), each[depth]) for each in parts for depth in range(len(each))}


@pytest.mark.parametrize("modes", ["apfs", "exfat", "share"])
def test_random_histories(repo_on: MakeRepo, cli: Cli, modes: str) -> None:
    """A restore brings back every file, the index and the output of `git status`; `undo` brings back the state before.

    A tracked file is spelled as in the index afterwards: git says nothing of another spelling, so no checkpoint has it.
    """
    repo = repo_on(modes)
    repo.write("base", "base\n")
    repo.commit("base")
    for number in range(_HISTORIES):
        history = History(repo, SEED * 1000 + number)
        history.edit(9)
        before, index = spelt(repo), _index(repo, modes)
        tracked = set(os.fsdecode(repo.git("ls-files", "-z")).split("\0"))
        ok(cli("checkpoint"))
        history.done.append("-- checkpoint")
        history.edit(8)
        wreck, wrecked_index = spelt(repo), _index(repo, modes)
        ok(cli("restore", "latest"))
        after = spelt(repo)
        assert _folded(modes, after) == _folded(modes, before), history.done
        assert _index(repo, modes) == index, history.done
        assert _spellings(modes, after) <= _spellings(modes, [*before, *tracked]), history.done
        ok(cli("undo"))
        assert _folded(modes, spelt(repo)) == _folded(modes, wreck), history.done
        assert _index(repo, modes)[0] == wrecked_index[0], history.done


def _fill(repo: Repo) -> None:
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("Readme", "one\n")
    repo.write("Src/deep/a.py", "a\n")
    repo.write("Src/kept.o", "ignored\n")
    repo.commit("first")
    repo.write("Notes", "notes\n")


def _wreck(repo: Repo) -> None:
    """Spell every name in another way, and change a file."""
    for old, new in (("Readme", "README"), ("Src/deep", "Src/DEEP"), ("Src", "src"), ("Notes", "notes")):
        # By way of another name: not all of these file systems rename a name to itself.
        os.rename(repo.at(old), repo.at(old + ".other"))
        os.rename(repo.at(old + ".other"), repo.at(new))
    repo.write("README", "two\n")


@pytest.mark.slow
@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("modes", ["share", "apfs"])
def test_a_restore_that_is_killed_while_it_renames(repo_on: MakeRepo, runner: Runner, modes: str) -> None:
    """Ignored files in a folder that was being renamed stay."""
    repo = repo_on(modes, _fill)
    steps = killed_restore.check(runner, repo, _wreck, exact=spelt, like=lambda each: _folded(modes, spelt(each)))
    assert any("os.rename" in step and ".agentos-renaming-" in step for step in steps) == (modes == "share")
