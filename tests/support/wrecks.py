"""Ways to wreck a working state, from a `git reset --hard` to a folder where every file was.

A wreck takes the worktree and the paths that it must leave alone: what a checkpoint does not hold by design (ignored
files, files over the size limit, the object stores of nested repositories).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from tests.support.elsewhere import if_possible
from tests.support.repo import Repo, remove

Wreck = Callable[[Repo, Collection[bytes]], None]

ABORTS = (
    ("merge", "--abort"),
    ("rebase", "--abort"),
    ("cherry-pick", "--abort"),
    ("revert", "--abort"),
    ("am", "--abort"),
    ("bisect", "reset"),
)


def reset_and_clean(repo: Repo, keep: Collection[bytes] = ()) -> None:
    """`reset --hard` and `clean -ffdx`: what every agent does sooner or later."""
    repo.try_git("reset", "-q", "--hard")
    excludes = [argument for path in keep for argument in ("-e", b"/" + path)]
    repo.try_git("clean", "-ffdxq", *excludes)


def abort_operation(repo: Repo, keep: Collection[bytes] = ()) -> None:
    """Abort whatever is in progress, then edit and stage something."""
    for words in ABORTS:
        repo.try_git(*words)
    repo.write("readme.txt", "after the abort\n")
    repo.try_git("add", "readme.txt")
    repo.write("fresh/untracked.txt", "after the abort\n")


def work_elsewhere(repo: Repo, keep: Collection[bytes] = ()) -> None:
    """Check out another branch by force, commit there, and leave it dirty in every way."""
    if repo.try_git("checkout", "-q", "-f", "other") != 0:
        repo.try_git("checkout", "-q", "-f", "--orphan", "elsewhere")
    repo.write("elsewhere.txt", "committed elsewhere\n")
    repo.git("add", "--sparse", "elsewhere.txt")
    repo.try_git("commit", "-q", "-m", "elsewhere")
    repo.append("elsewhere.txt", "staged\n")
    repo.git("add", "--sparse", "elsewhere.txt")
    repo.append("elsewhere.txt", "unstaged\n")
    repo.write("new folder/new.txt", "untracked\n")
    repo.mkdir("new folder/empty")


def remove_everything(repo: Repo, keep: Collection[bytes] = ()) -> None:
    """`rm -rf` of everything but `.git`; the index stays."""
    _remove_below(os.fsencode(repo.path), b"", keep)


def swap_types(repo: Repo, keep: Collection[bytes] = ()) -> None:
    """A folder where each file was, a file where each folder was."""
    for name in sorted(os.listdir(os.fsencode(repo.path))):
        if name in (b".git", b".agentos") or any(path.split(b"/")[0] == name for path in keep):
            continue
        path = repo.at(name)
        was_folder = os.path.isdir(path) and not os.path.islink(path)
        remove(path)
        if was_folder:
            repo.write(name, b"was a folder: " + name)
        else:
            repo.write(os.path.join(name, b"inner"), b"was a file: " + name)


def rewrite_and_commit(repo: Repo, keep: Collection[bytes] = ()) -> None:
    """Edit every file and mode, commit the lot on whatever is checked out, edit again, stage half of it."""
    done: list[bytes] = []
    for folder, folders, names in os.walk(os.fsencode(repo.path)):
        below = os.path.relpath(folder, os.fsencode(repo.path))
        folders[:] = [name for name in folders if name not in (b".git", b".agentos")]
        folders[:] = [name for name in folders if os.path.normpath(os.path.join(below, name)) not in keep]
        for name in names:
            path = os.path.normpath(os.path.join(below, name))
            if name == b".git" or path in keep:
                continue
            done.append(path)
            if os.path.islink(repo.at(path)):
                repo.link(path, "retargeted")
            else:
                data = repo.read(path)
                mode = os.lstat(repo.at(path)).st_mode & 0o777
                repo.remove(path)
                # Git itself works no more with a broken .gitmodules: that one stays readable.
                new = data + b"# rewritten\n" if name == b".gitmodules" else data[::-1] + b"rewritten\n"
                repo.write(path, new)
                with if_possible():
                    repo.chmod(path, mode ^ 0o111)
    repo.try_git("add", "-A")
    repo.try_git("commit", "-q", "-m", "rewritten")
    for number, path in enumerate(done):
        if not os.path.islink(repo.at(path)):
            repo.append(path, b"# and again\n")
            if number % 2:
                repo.try_git("add", "--", path)
    repo.write("later/untracked.txt", "later\n")


def wreck_nested(repo: Repo, paths: Collection[bytes]) -> None:
    """In each nested repository below: commit, reset and clean."""
    for path in paths:
        inner = Repo(Path(os.fsdecode(repo.at(path))))
        if inner.exists(".git"):
            reset_and_clean(inner)
            inner.write("wrecked.txt", "wrecked\n")
            inner.try_git("add", "-A")
            inner.try_git("commit", "-q", "-m", "wrecked")
            inner.append("wrecked.txt", "again\n")
            inner.write("wrecked-untracked.txt", "wrecked\n")


WRECKS: dict[str, Wreck] = {
    "reset-and-clean": reset_and_clean,
    "work-elsewhere": work_elsewhere,
    "remove-everything": remove_everything,
    "swap-types": swap_types,
    "rewrite-and-commit": rewrite_and_commit,
    "abort": abort_operation,
}


def _remove_below(root: bytes, below: bytes, keep: Collection[bytes]) -> None:
    for name in os.listdir(os.path.join(root, below)):
        path = os.path.join(below, name)
        if path in (b".git", b".agentos") or path in keep:
            continue
        full = os.path.join(root, path)
        if any(kept.startswith(path + b"/") for kept in keep):
            _remove_below(root, path, keep)
        elif os.path.isdir(full) and not os.path.islink(full):
            for folder, _, _ in os.walk(full):
                os.chmod(folder, 0o755)
            shutil.rmtree(full)
        else:
            os.unlink(full)
