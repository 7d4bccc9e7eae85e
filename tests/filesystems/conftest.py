"""Repositories on file systems that are not ext4 (tests/support/filesystems.py)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import filesystems
from tests.support.repo import Repo

MakeRepo = Callable[[str], Repo]


@pytest.fixture(scope="module")
def mounts() -> Iterator[Callable[[str], Path]]:
    """The root of the FUSE file system with these modes; one for all tests of a module."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Path] = {}

        def mount(modes: str) -> Path:
            if modes not in found:
                found[modes] = stack.enter_context(filesystems.fuse(modes))
            return found[modes]

        yield mount


@pytest.fixture
def repo_on(mounts: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MakeRepo]:
    """`repo_on("apfs")` is an empty repository on such a file system, and the current folder."""
    made: list[Path] = []

    def make(modes: str) -> Repo:
        folder = mounts(modes) / tmp_path.name
        folder.mkdir()
        made.append(folder)
        repo = Repo.init(folder / "repo")
        monkeypatch.chdir(repo.path)
        return repo

    yield make
    os.chdir(tmp_path)
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)
