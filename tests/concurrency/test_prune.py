"""A `gc --prune=now` that strikes between the writing of a checkpoint's objects and its ref."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from git_agentos import open_workspace
from git_agentos.git import refs
from tests.support import ref_storage
from tests.support.repo import Repo


@pytest.fixture
def begin(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Make it look as if a gc ran that prunes at once, by what one shows of itself: its number in gc.pid, and its
    command line."""
    pid_file = repo.git_dir / "gc.pid"
    pretended = subprocess.Popen([sys.executable, "-c", "input()", "--prune=now"], stdin=subprocess.PIPE)
    monkeypatch.setattr("git_agentos.git.gc._PRUNE_PATIENCE", 0.1)

    def begins() -> None:
        pid_file.write_text(f"{pretended.pid} host")

    try:
        yield begins
    finally:
        pretended.communicate(b"\n")


@pytest.mark.parametrize("moment", ["running", "beginning", "gone", "striking"])
def test_a_ref_never_points_at_what_a_gc_took(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], None], moment: str
) -> None:
    """`beginning` is a gc that begins when all objects are written, and only the ref is to be moved; `gone` one that
    has come and gone by then; `striking` one that deletes just before the ref moves."""
    repo.write(".gitattributes", "*.dos text eol=crlf\n")
    repo.commit("attributes")
    repo.append("notes.txt", "unstaged\n")
    repo.write("untracked.txt", "untracked\n")
    repo.git("hash-object", "-w", "untracked.txt")  # found in the store, and held by no ref
    repo.write("converted.dos", "converted\r\n")  # git stores it
    seen = []
    update = refs.update

    def prune() -> None:
        repo.git("prune", "--expire=now")

    def pruned_then_updated(*args: object, **options: object) -> None:
        if moment == "beginning":
            begin()
        if moment != "striking":
            prune()
        update(*args, **options)  # type: ignore[arg-type]  # handed through
        # As a second gc would see it at once.
        seen.append(repo.text("rev-list", "--objects", "--all", "--count"))

    if moment in ("running", "striking"):
        begin()
    monkeypatch.setattr(refs, "update", pruned_then_updated)
    if moment == "striking":
        ref_storage.before_it_moves(monkeypatch, "refs/agentos/timelines/main", prune)
    made = open_workspace(repo.path).checkpoint("while gc runs")
    assert len(seen) == 1
    repo.git("fsck", "--strict", "--no-dangling")
    assert repo.git("show", f"{made.id}^3:untracked.txt") == b"untracked\n"
    assert repo.git("show", f"{made.id}^3:converted.dos") == b"converted\n"
    assert not list((repo.git_dir / "objects/pack").glob("*.keep"))


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("taken", ["tmp_pack_", "tmp_idx_"])
def test_a_prune_that_takes_an_unfinished_pack_is_no_failure(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, begin: Callable[[], None], taken: str, many: bool
) -> None:
    """A prune that strikes while a pack is written, what shelters from it or the `many` objects of one checkpoint:
    `tmp_…` is removed too."""
    repo.write("untracked.txt", "untracked\n")
    for number in range(150 if many else 0):
        repo.write(f"many/{number}.txt", f"{number}\n")
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
    if many:
        assert repo.git("show", f"{made.id}^3:many/149.txt") == b"149\n"
    assert not list((repo.git_dir / "objects/pack").glob("*.keep"))
    assert not list((repo.git_dir / "objects").glob("**/tmp_*"))
