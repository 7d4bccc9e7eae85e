"""The files in which harnesses find their hooks, and whether ours are in there."""

from __future__ import annotations

import os

from git_agentos.git import gitfile
from git_agentos.guard.harness import adapters
from git_agentos.guard.harness.adapters import HARNESSES
from git_agentos.guard.paths import is_below
from git_agentos.util import files

# Every git-agentos command in a harness's settings contains this, and no other command does.
MARK = b"guard harness "


def paths(name: str, folder: str, *, user: bool = False) -> list[str]:
    """The settings files of a harness for the worktree (with `user`, the home folder) at `folder`. All of them need our
    hooks; the first one is the one that the harness reads there.

    Codex reads the hooks of the main checkout, in every worktree that has a `.codex` of its own.
    """
    harness = adapters.get(name)
    if user:
        return [os.path.join(folder, harness.user_settings)]
    folders = (_main_checkout(folder), folder) if harness.reads_main_checkout else (folder,)
    return [os.path.join(each, harness.project_settings) for each in dict.fromkeys(folders)]


def folder_of(name: str, path: str) -> str:
    """The worktree or home folder of `path`, one of `paths`."""
    harness = adapters.get(name)
    relative = next(each for each in (harness.project_settings, harness.user_settings) if path.endswith(os.sep + each))
    return path[: -len(relative) - 1]


def leading_out(name: str, root: str) -> str | None:
    """A settings file of the worktree at `root` that a link takes out of it; None where there is none."""
    for path in paths(name, root):
        if not is_below(os.path.realpath(path), os.path.realpath(folder_of(name, path))):
            return path
    return None


def have_hooks(paths: list[str]) -> bool:
    """Whether each of the files has our hooks."""
    return all(map(has_hooks, paths))


def has_hooks(path: str) -> bool:
    """Whether a settings file has our hooks."""
    try:
        return MARK in files.read(path, limit=1 << 20)
    except OSError:
        return False


def integrated(root: str, home: str) -> list[str]:
    """The settings with our hooks that harnesses read in the worktree at `root`: its own, and those of the user."""
    every = [paths(name, folder, user=user) for name in HARNESSES for folder, user in ((root, False), (home, True))]
    return [each[0] for each in every if have_hooks(each)]


def effective(name: str, root: str, home: str) -> str | None:
    """The settings file with our hooks that a harness reads in the worktree at `root`, its own before the user's; None
    where neither has them."""
    candidates = (paths(name, root), paths(name, home, user=True))
    return next((each[0] for each in candidates if have_hooks(each)), None)


def _main_checkout(root: str) -> str:
    """The main checkout of the repository whose worktree is at `root`; `root` where there is none."""
    worktree = gitfile.find(root)
    if worktree is None:
        return root
    common_dir = gitfile.common_dir(worktree[1])
    is_linked = common_dir != worktree[1]
    return os.path.dirname(common_dir) if is_linked and os.path.basename(common_dir) == ".git" else root
