"""Folders of more levels than Python's recursion limit: only git's and the system's limit of a path counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from git_agentos.util import directories
from tests.support.repo import Repo
from tests.support.sampling import EXHAUSTIVE
from tests.support.tool import IN_PROCESS

# The work grows with the square of the levels, so the limit is lowered instead; `make soak` goes beyond Python's own.
_LEVELS = 1050 if EXHAUSTIVE else 300
_DEEP = "/".join("d" * _LEVELS)


def _make(repo: Repo, name: str, data: str) -> None:
    directories.make(os.path.join(repo.path, os.path.dirname(name)))
    (repo.path / name).write_text(data)


@pytest.fixture
def deep(repo: Repo) -> Iterator[Repo]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(min(before, _LEVELS))
    yield repo
    sys.setrecursionlimit(before)
    directories.remove(str(repo.path))  # pytest could not


def _seen(repo: Repo) -> str:
    return repo.text("status", "--porcelain=v2", "--untracked-files=all")


def test_deep_files_are_saved_and_restored(deep: Repo) -> None:
    deep.write(".gitattributes", "*.txt text eol=crlf\n")
    _make(deep, f"tracked/{_DEEP}/f.txt", "committed\r\n")
    deep.commit("deep")
    _make(deep, f"tracked/{_DEEP}/f.txt", "changed\r\n")
    _make(deep, f"tracked/{_DEEP}/new.txt", "untracked\r\n")
    before = _seen(deep)
    taken = IN_PROCESS.checkpoint(deep.path)
    directories.remove(str(deep.path / "tracked"))
    deep.write("tracked", "a file in the way\n")
    wrecked = _seen(deep)
    assert IN_PROCESS.restore(deep.path, taken["id"])["skipped"] == []
    assert _seen(deep) == before
    assert (deep.path / f"tracked/{_DEEP}/new.txt").read_bytes() == b"untracked\r\n"
    IN_PROCESS.undo(deep.path)
    assert _seen(deep) == wrecked


def test_deep_folder_is_replaced_by_a_file(deep: Repo) -> None:
    deep.write("place", "a file then\n")
    deep.write(".gitignore", "*.ignored\n")
    taken = IN_PROCESS.checkpoint(deep.path)
    deep.remove("place")
    _make(deep, f"place/{_DEEP}/f.ignored", "in the way\n")
    IN_PROCESS.restore(deep.path, taken["id"])
    assert deep.read("place") == b"a file then\n"
    IN_PROCESS.undo(deep.path)
    assert (deep.path / f"place/{_DEEP}/f.ignored").read_text() == "in the way\n"
