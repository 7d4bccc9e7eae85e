"""A `gc --prune=now` that strikes between the writing of a checkpoint's objects and its ref."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from git_agentos import open_workspace
from git_agentos.git import refs
from tests.support.repo import Repo


@pytest.fixture
def begin(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Make it look as if a gc ran that prunes at once, by what one shows of itself: its number in gc.pid, and its
    command line."""
    pid_file = repo.git_dir / "gc.pid"
    pretended = subprocess.Popen([sys.executable, "-c", "input()", "--prune=now"], stdin=subprocess.PIPE)
    monkeypatch.setattr("git_agentos.git.prune._PATIENCE", 0.1)

    def begins() -> None:
        pid_file.write_text(f"{pretended.pid} host")

    try:
        yield begins
    finally:
        pretended.communicate(b"\n")


@pytest.mark.parametrize("late", [False, True])
def test_a_ref_never_points_at_what_a_running_gc_took(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], None], late: bool
) -> None:
    """`late` is a gc that begins when all objects are written, and only the ref is to be moved."""
    repo.append("notes.txt", "unstaged\n")
    repo.write("untracked.txt", "untracked\n")
    repo.git("hash-object", "-w", "untracked.txt")  # found in the store, and held by no ref
    seen = []
    update = refs.update

    def pruned_then_updated(*args: object, **options: object) -> None:
        begin()
        repo.git("prune", "--expire=now")
        update(*args, **options)  # type: ignore[arg-type]  # handed through
        # As a second gc would see it at once.
        seen.append(repo.text("rev-list", "--objects", "--all", "--count"))

    if not late:
        begin()
    monkeypatch.setattr(refs, "update", pruned_then_updated)
    made = open_workspace(repo.path).checkpoint("while gc runs")
    assert len(seen) == 1
    repo.git("fsck", "--strict", "--no-dangling")
    assert repo.git("show", f"{made.id}^3:untracked.txt") == b"untracked\n"
    assert not list((repo.git_dir / "objects/pack").glob("*.keep"))


@pytest.mark.parametrize("taken", ["tmp_pack_", "tmp_idx_"])
def test_a_prune_that_takes_an_unfinished_pack_is_no_failure(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], None], taken: str
) -> None:
    """A prune that strikes while what shelters from it is written: `tmp_…` is removed too."""
    repo.write("untracked.txt", "untracked\n")
    rename = os.rename
    struck: list[str] = []

    def pruned_then_renamed(source: str, target: str) -> None:
        if taken in str(source) and not struck:
            struck.append(source)
            repo.git("prune", "--expire=now")
        rename(source, target)

    begin()
    monkeypatch.setattr(os, "rename", pruned_then_renamed)
    made = open_workspace(repo.path).checkpoint("while gc runs")
    assert len(struck) == 1
    repo.git("fsck", "--strict", "--no-dangling")
    assert repo.git("show", f"{made.id}^3:untracked.txt") == b"untracked\n"
    assert not list((repo.git_dir / "objects/pack").glob("*.keep"))
    assert not list((repo.git_dir / "objects").glob("**/tmp_*"))
