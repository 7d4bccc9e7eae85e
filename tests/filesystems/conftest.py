"""Repositories on file systems that are not ext4 (tests/support/filesystems.py)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import filesystems
from tests.support.faults.server import Runner
from tests.support.filesystems import Fill, MakeRepo
from tests.support.repo import Repo


@pytest.fixture(scope="module")
def mounts() -> Iterator[Callable[[str], Path]]:
    """The root of a file system of this kind; one for all tests of a module."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Path] = {}

        def mount(kind: str) -> Path:
            if kind not in found:
                found[kind] = stack.enter_context(filesystems.mounted(kind))
            return found[kind]

        yield mount


@pytest.fixture
def repo_on(mounts: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MakeRepo]:
    """`repo_on("apfs")` is an empty repository on such a file system, and the current folder."""
    made: list[Path] = []
    with contextlib.ExitStack() as overlays:

        def make(kind: str, fill: Fill = lambda repo: None) -> Repo:
            if kind == "overlay":
                repo = Repo(
                    overlays.enter_context(filesystems.overlay(lambda lower: fill(Repo.init(lower / "repo")))) / "repo"
                )
            else:
                folder = mounts(kind) / tmp_path.name
                folder.mkdir()
                made.append(folder)
                repo = Repo.init(folder / "repo")
                fill(repo)
            monkeypatch.chdir(repo.path)
            return repo

        yield make
        os.chdir(tmp_path)
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started
