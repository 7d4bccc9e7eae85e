"""Repositories to begin from, made once and copied for every example.

The history is small and full of quarrels: `other` and `topic` conflict with `main` in content, in modify against
delete, and in what both added, so that merges, rebases, picks and reverts stop somewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.elsewhere import if_possible
from tests.support.repo import Repo

NAMES = ("empty", "filled", "index-v4", "split-index", "linked", "untracked-cache", "flagged", "merging")
_CONFIG: Mapping[str, Mapping[str, str]] = {
    "index-v4": {"index.version": "4"},
    "split-index": {"core.splitIndex": "true"},
    "untracked-cache": {"core.untrackedCache": "true"},
}


def _fill(repo: Repo) -> None:
    repo.write("file", "one\ntwo\nthree\n")
    repo.write("d/e", "e\n")
    repo.write("d/f", "f\n")
    repo.write("run.sh", "#!/bin/sh\n", 0o755)
    with if_possible():
        repo.link("link", "file")
    repo.write("x.log", "tracked although ignored by some\n")
    repo.write("new\nline", "newline\n")
    with if_possible():
        repo.write(b"bad\xff", "no UTF-8\n")
    first = repo.commit("first")
    repo.write("file", "one\ntwo, main\nthree\n")
    repo.write("added", "added by main\n")
    repo.commit("second")
    repo.write("d/e", "e, main\n")
    repo.write("d/f", "f, main\n")
    repo.commit("third")
    repo.git("checkout", "-q", "-b", "other", first)
    repo.write("file", "one\ntwo, other\nthree\n")
    repo.write("added", "added by other\n")
    repo.remove("d/f", "run.sh")
    repo.commit("other work")
    repo.git("checkout", "-q", "-b", "topic", first)
    repo.write("d/e", "e, topic\n")
    repo.commit("topic one")
    repo.write("file", "one\ntwo, topic\nthree\n")
    repo.write("a/b", "a folder on topic\n")
    repo.commit("topic two")
    repo.git("checkout", "-q", "main")


def templates(folder: Path) -> None:
    """Make one repository of each kind below `folder`, and one to be nested in others."""
    for name in NAMES:
        repo = Repo.init(folder / name / "repo")
        for key, value in _CONFIG.get(name, {}).items():
            repo.config(key, value)
        if name != "empty":
            _fill(repo)
    for name in ("nested", "nested-unborn"):
        repo = Repo.init(folder / name)
        repo.write("inner", "inner\n")
        if name == "nested":
            repo.commit("inside")
        repo.write("inner", "inner, changed\n")
        repo.write("more", "untracked inside\n")


def copy_template(templates: Path, name: str, folder: Path) -> Repo:
    """A fresh copy of the template `name` below `folder`."""
    shutil.copytree(templates / name / "repo", folder / "repo", symlinks=True)
    repo = Repo(folder / "repo")
    if name == "linked":
        repo.git("worktree", "add", "-q", "-b", "agent/one", str(folder / "one"))
        repo = Repo(folder / "one")
    repo.git("update-index", "-q", "--refresh")
    if name == "flagged":
        repo.git("update-index", "--assume-unchanged", "file")
        repo.git("update-index", "--skip-worktree", "d/e")
    if name == "merging":
        repo.try_git("merge", "-q", "other")
    return repo
