"""The work of a command grows with the change, never with its square: counted, at 200 changed files and at 400."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from git_agentos.cli.entry import run
from tests.support.repo import Repo
from tests.support.work import Counts, counted

_FEW, _MANY = 200, 400
_MOST = 2.2
_LAYOUTS = {"one folder": _MANY, "folders of 50": 50}


@pytest.fixture(autouse=True)
def _loaded(make_repo: Callable[[str], Repo], monkeypatch: pytest.MonkeyPatch) -> None:
    """With every module loaded that the commands need: to load them is no work of theirs."""
    monkeypatch.chdir(make_repo("first").path)
    agentos("checkpoint", "-m", "first")
    Path("notes.txt").write_text("changed\n")
    agentos("undo", code=1)
    agentos("restore", "latest", "--no-branch")
    agentos("undo")
    agentos("status")
    agentos("checkpoint", "diff", "latest")


def agentos(*words: str, code: int = 0) -> Any:
    """`git agentos WORDS` in this process and the current folder; its document."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        got = run(["--json", *words])
        out.flush()
        err.flush()
    finally:
        sys.stdout, sys.stderr = before
    text = out.buffer.getvalue()
    assert got == code, (words, got, text, err.buffer.getvalue())
    return json.loads(text) if text.startswith(b"{") else text


def names(count: int, folder: int) -> list[str]:
    return [f"d{i // folder:03d}/f{i:04d}.txt" for i in range(count)]


def repository(path: Path, files: list[str]) -> Repo:
    repo = Repo.init(path)
    repo.write(".gitignore", "*.ignored\n")
    for name in files:
        repo.write(name, f"{name}\n")
    repo.git("add", "--all")
    repo.git("commit", "-q", "-m", "base")
    return repo


def change(repo: Repo, files: list[str]) -> None:
    """Each file changed in one of six ways: edited, edited and staged, other permission bits, replaced by a folder, or
    left as it is with an untracked or an ignored file beside it."""
    for n, name in enumerate(files):
        if n % 6 in (0, 1):
            repo.write(name, f"{name} changed\n")
        elif n % 6 == 2:
            repo.chmod(name, 0o755)
        elif n % 6 == 3:
            repo.remove(name)
            repo.write(f"{name}/inside", f"{name}\n")
        else:
            repo.write(f"{name}.new" if n % 6 == 4 else f"{name}.ignored", f"{name}\n")
    staged = [os.fsencode(name) for name in files[1::6]]
    repo.git("update-index", "-z", "--stdin", stdin=b"\0".join(staged) + b"\0")
    time.sleep(0.03)  # the tick of the clock that stamps files: younger ones are waited for


def assert_linear(few: Mapping[str, Counts], many: Mapping[str, Counts]) -> None:
    grown = {name: many[name].growth(few[name], _MOST) for name in few}
    assert not {name: found for name, found in grown.items() if found}


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_checkpoint_restore_and_undo(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(count: int) -> dict[str, Counts]:
        files = names(count, _LAYOUTS[layout])
        repo = repository(tmp_path / str(count), files)
        monkeypatch.chdir(repo.path)
        clean = agentos("checkpoint", "-m", "clean")["id"]
        change(repo, files)
        status = repo.text("status", "--porcelain")
        found = {
            "checkpoint": counted(lambda: agentos("checkpoint", "-m", "changed")),
            "checkpoint diff": counted(lambda: agentos("checkpoint", "diff", clean, "latest")),
            "status": counted(lambda: agentos("status")),
            "restore": counted(lambda: agentos("restore", clean, "--no-branch")),
            "undo": counted(lambda: agentos("undo")),
        }
        assert repo.text("status", "--porcelain") == status
        return found

    assert_linear(work(_FEW), work(_MANY))


def test_restore_of_many_named_paths_and_with_keep_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(count: int) -> dict[str, Counts]:
        files = names(count, 50)
        repo = repository(tmp_path / str(count), files)
        monkeypatch.chdir(repo.path)
        clean = agentos("checkpoint", "-m", "clean")["id"]
        repo.write(".gitattributes", "*.txt text=auto\n")  # each file of the folder is looked at again
        repo.config("core.fileMode", "false")
        for name in files:
            repo.write(name, f"{name} changed\n")
            repo.write(f"{name}.new", f"{name}\n")
        time.sleep(0.03)
        return {
            "paths": counted(lambda: agentos("restore", clean, "--no-branch", "--", *files)),
            "undo": counted(lambda: agentos("undo")),
            "keep new": counted(lambda: agentos("restore", clean, "--no-branch", "--keep-new")),
        }

    assert_linear(work(_FEW), work(_MANY))


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_archive_and_revive(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(count: int) -> dict[str, Counts]:
        files = names(count, _LAYOUTS[layout])
        repo = repository(tmp_path / str(count), files)
        monkeypatch.chdir(repo.path)
        there = Repo(Path(agentos("worktree", "create", "dev-1")["path"]))
        change(there, files)
        status = there.text("status", "--porcelain", "--ignored")
        found = {
            "worktree list": counted(lambda: agentos("worktree", "list")),
            "worktree archive": counted(lambda: agentos("worktree", "archive", "dev-1")),
            "worktree create --revive": counted(lambda: agentos("worktree", "create", "dev-1", "--revive")),
        }
        assert there.text("status", "--porcelain", "--ignored") == status
        return found

    work(3)
    assert_linear(work(_FEW), work(_MANY))
