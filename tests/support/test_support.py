"""The tests' own instruments: a complete state that misses a difference would let every law pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.env import sealed_environment
from tests.support.operations import diverge, expect_stop
from tests.support.repo import Repo, filled
from tests.support.state import assert_same, assert_unchanged, complete_state, differences

Change = Callable[[Repo], object]


def _conflict(repo: Repo) -> None:
    repo.git("stash", "-q")
    diverge(repo)
    expect_stop(repo, "merge", "topic")


def _sequencer(repo: Repo) -> None:
    repo.mkdir(".git/sequencer")
    repo.write(".git/sequencer/todo", "x")


def _refresh(repo: Repo) -> None:
    _touch(repo, "readme.txt")
    repo.git("update-index", "-q", "--refresh")


def _touch(repo: Repo, name: str) -> None:
    os.utime(repo.at(name), ns=(1, 1))


_VISIBLE: dict[str, Change] = {
    "bytes of a tracked file": lambda repo: repo.write("readme.txt", "A readme\nsecond line\n"),
    "bytes of an untracked file": lambda repo: repo.write("untracked.txt", "other\n"),
    "bytes of an ignored file": lambda repo: repo.write("ignored.o", "other\n"),
    "a large file's last byte": lambda repo: repo.append("large.bin", b"x"),
    "file gone": lambda repo: repo.remove("readme.txt"),
    "execute bit": lambda repo: repo.chmod("readme.txt", 0o755),
    "link target": lambda repo: repo.link("link", "elsewhere"),
    "link to a file with the same bytes": lambda repo: repo.link("untracked.txt", "readme.txt"),
    "empty directory new": lambda repo: repo.mkdir("another"),
    "empty directory gone": lambda repo: repo.remove("empty"),
    "staged": lambda repo: repo.add("untracked.txt"),
    "unstaged": lambda repo: repo.git("rm", "-q", "--cached", "readme.txt"),
    "index mode": lambda repo: repo.git("update-index", "--chmod=+x", "readme.txt"),
    "intent-to-add": lambda repo: repo.git("add", "-N", "untracked.txt"),
    "assume-unchanged": lambda repo: repo.git("update-index", "--assume-unchanged", "readme.txt"),
    "skip-worktree": lambda repo: repo.git("update-index", "--skip-worktree", "readme.txt"),
    "commit": lambda repo: repo.git("commit", "-q", "--allow-empty", "-m", "empty"),
    "detached": lambda repo: repo.git("checkout", "-q", "--detach"),
    "another branch at the same commit": lambda repo: repo.git("checkout", "-q", "-b", "same"),
    "unborn": lambda repo: repo.git("symbolic-ref", "HEAD", "refs/heads/unborn"),
    "a conflict": _conflict,
    "merge head": lambda repo: repo.write(".git/MERGE_HEAD", repo.oid("other") + "\n"),
    "bisect": lambda repo: repo.git("bisect", "start"),
    "bisect ref": lambda repo: repo.git("update-ref", "refs/bisect/bad", "HEAD"),
    "sequencer": _sequencer,
    "nested new": lambda repo: Repo.init(repo.path / "box"),
    "nested file": lambda repo: repo.write("nested/readme.txt", "changed\n"),
    "nested index": lambda repo: repo.git("-C", "nested", "rm", "-q", "--cached", "readme.txt"),
    "nested head": lambda repo: repo.git("-C", "nested", "checkout", "-q", "-f", "other"),
    "a fifo": lambda repo: os.mkfifo(repo.at("fifo")),
}
_STRICT: dict[str, Change] = {
    "any permission bit": lambda repo: repo.chmod("readme.txt", 0o600),
    "mtime of a file": lambda repo: _touch(repo, "readme.txt"),
    "mtime of a link": lambda repo: os.utime(repo.at("link"), ns=(1, 1), follow_symlinks=False),
    "mtime of a folder": lambda repo: _touch(repo, "src"),
    "index file": _refresh,
    "configuration": lambda repo: repo.config("x.y", "z"),
    "a branch": lambda repo: repo.git("branch", "more"),
    "a tag": lambda repo: repo.git("tag", "more"),
    "the stash": lambda repo: repo.git("stash", "store", "-m", "x", repo.text("stash", "create")),
    "a reflog": lambda repo: repo.git("reflog", "expire", "--expire=now", "--all"),
    "a hook": lambda repo: repo.write(".git/hooks/pre-commit", "x"),
    "info/exclude": lambda repo: repo.append(".git/info/exclude", "# more\n"),
    "nested mtime": lambda repo: _touch(repo, "nested/readme.txt"),
}


@pytest.fixture
def rich(repo: Repo) -> Repo:
    """Something of every kind."""
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("untracked.txt", "a readme\nsecond line\n")
    repo.write("ignored.o", "ignored\n")
    repo.write("large.bin", bytes(200_000))
    repo.append("notes.txt", "dirty\n")
    repo.mkdir("empty")
    repo.mkdir("box")
    filled(repo.path / "nested")
    return repo


def test_reading_changes_nothing(rich: Repo) -> None:
    first = complete_state(rich.path, strict=True)
    assert_unchanged(first, complete_state(rich.path, strict=True), "reading the state changed it")
    assert first.nested.keys() == {b"nested"}
    assert first.files[b"empty"].kind == "empty directory"


@pytest.mark.parametrize("change", _VISIBLE.values(), ids=_VISIBLE.keys())
def test_every_visible_change_is_a_difference(rich: Repo, change: Change) -> None:
    before = complete_state(rich.path)
    change(rich)
    after = complete_state(rich.path)
    assert differences(before, after)
    with pytest.raises(AssertionError, match="who knows"):
        assert_same(before, after, "who knows")


@pytest.mark.parametrize("change", _STRICT.values(), ids=_STRICT.keys())
def test_every_change_at_all_is_a_strict_difference(rich: Repo, change: Change) -> None:
    before = complete_state(rich.path, strict=True)
    change(rich)
    with pytest.raises(AssertionError):
        assert_unchanged(before, complete_state(rich.path, strict=True), "it")


def test_own_files_are_not_a_difference(rich: Repo) -> None:
    before = complete_state(rich.path, strict=True)
    rich.git("update-ref", "refs/agentos/timelines/main", "HEAD")
    rich.write(".git/agentos/journal.json", "{}")
    rich.git("hash-object", "-w", "--stdin", stdin=b"an object")
    assert_unchanged(before, complete_state(rich.path, strict=True), "it")


def test_a_sparse_index_is_read_expanded(repo: Repo) -> None:
    before = complete_state(repo.path)
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "docs")
    assert b"sdir" in (repo.path / ".git/index").read_bytes()
    after = complete_state(repo.path)
    assert [entry.path for entry in after.index] == [entry.path for entry in before.index]
    assert {entry.path for entry in after.index if "skip-worktree" in entry.flags} == {
        b"src/app.py",
        b"src/lib/util.py",
    }


def test_the_environment_is_sealed(tmp_path: Path) -> None:
    outside = {"GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "AGENTOS_AGENT_ID": "x", "EDITOR": "x", "PATH": "/bin"}
    sealed = sealed_environment(tmp_path / "home", outside)
    assert not sealed.keys() & {"GIT_DIR", "GIT_INDEX_FILE", "AGENTOS_AGENT_ID", "EDITOR"}
    assert sealed["PATH"] == "/bin"
    assert os.environ["GIT_CONFIG_NOSYSTEM"] == "1"
    assert Path(os.environ["HOME"]).name.startswith("agentos-home-")
