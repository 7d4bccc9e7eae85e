"""Harnesses: the programs that agents run in, which ask a hook before they run what the agent wants.

Each module knows one: what its events look like (`read`), how it is answered (`deny`, `pass_on`), and where its
settings are and what has to be in them (`PROJECT`, `USER`, `settings`). What is done about an event is the same for all
(`act`).

Where something may run, a harness is told nothing at all: an `allow` from a hook would skip what its user is asked.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType

from git_agentos.errors import UsageError
from git_agentos.git import gitfile
from git_agentos.util import files

# Name on the command line -> module. In the order in which they are listed.
NAMES: Mapping[str, str] = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
    "copilot": "copilot",
    "opencode": "opencode",
}


# Every command of ours in a harness's settings has this in it, and nothing else has.
MARK = b"guard harness "


def integrated(folders: tuple[str, str]) -> list[str]:
    """The harnesses that ask us: by their settings in a worktree, or in the home folder (`folders`)."""
    return [name for name in NAMES if reads(name, folders)]


def reads(name: str, folders: tuple[str, str]) -> bool:
    """Whether our hooks are where a harness reads them: all files of the worktree, or that of the home folder."""
    root, home = folders
    return any(all(map(asks, paths)) for paths in (settings_paths(name, root), settings_paths(name, home, user=True)))


def settings_paths(name: str, root: str, *, user: bool = False) -> list[str]:
    """The files that have to have our hooks, below a worktree or the home folder; the first is the one that is read.

    Codex reads those of the root checkout, in every worktree that has a `.codex` of its own.
    """
    found = module(name)
    if user:
        return [os.path.join(root, found.USER)]
    tops = (root_checkout(root), root) if getattr(found, "IN_ROOT_CHECKOUT", False) else (root,)
    return [os.path.join(top, found.PROJECT) for top in dict.fromkeys(tops)]


def top_of(name: str, path: str) -> str:
    """The folder that `path`, one of `settings_paths`, is below."""
    found = module(name)
    relative = next(each for each in (found.PROJECT, found.USER) if path.endswith(os.sep + each))
    return path[: -len(relative) - 1]


def root_checkout(root: str) -> str:
    """The main checkout of the repository whose worktree is at `root`; `root` itself where there is none."""
    found = gitfile.find(root)
    if found is None:
        return root
    git_dir = found[1]
    try:
        text = files.read(os.path.join(git_dir, "commondir"), limit=1 << 16)
    except OSError:
        return root
    common_dir = os.path.realpath(os.path.join(git_dir, os.fsdecode(text.rstrip(b"\n"))))
    return os.path.dirname(common_dir) if os.path.basename(common_dir) == ".git" else root


def settings_files(folders: tuple[str, str]) -> list[str]:
    """The settings that a harness reads in a worktree or in the home folder (`folders`) and that have our hooks."""
    root, home = folders
    every = [settings_paths(name, top, user=user) for name in NAMES for top, user in ((root, False), (home, True))]
    return [paths[0] for paths in every if all(map(asks, paths))]


def asks(path: str) -> bool:
    """Whether a settings' file has our hooks in it."""
    try:
        return MARK in files.read(path, limit=1 << 20)
    except OSError:
        return False


def module(name: str) -> ModuleType:
    """The module of a harness; UsageError for a name that is none."""
    if name not in NAMES:
        raise UsageError(f"'{name}' is no harness that is known here", f"it is one of: {', '.join(NAMES)}")
    return importlib.import_module(f"git_agentos.guard.harness.{NAMES[name]}")
