"""Code that the tests ran and that would not be committed as it is.

What git ignores is neither shown at review nor merged, and a filter of git's may commit something else. Reported are
modules of the worktree that appeared since the work began, and are not in the tree that would be committed. Not
reported are those that existed before (the worktree's preparation made them), those that the tests make themselves, and
those that the main checkout has as well (generated, and ignored there, too).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from git_agentos.errors import AgentosError
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.tdd.gate.setup import PytestSetup


@dataclass(frozen=True)
class Candidate:
    """What would be committed: `tree` is of all visible files, `since` when the work on them began (seconds)."""

    tree: str
    since: float


def find_uncommitted(
    repository: Repository, setup: PytestSetup, candidate: Candidate, modules: Sequence[str], until: float
) -> Sequence[str]:
    """Those of `modules` (relative paths) that would not be committed as they are, a sentence each; `until` is when the
    tests began."""
    root = setup.location.root
    found = []
    for path in modules:
        entry = trees.find(repository, candidate.tree, os.fsencode(path))
        if entry is not None:
            if not _is_same(repository, root, path, entry[1]):
                found.append(
                    f"{path} differs from what would be committed: a filter of git's, or the tests, changed it"
                )
            continue
        if setup.main_root is not None and os.path.lexists(os.path.join(setup.main_root, path)):
            continue
        if _appeared_between(os.path.join(root, path), candidate.since, until):
            found.append(f"{path} was imported, but would not be committed: git ignores it, or has it elsewhere")
    return found


def _is_same(repository: Repository, root: str, path: str, oid: str) -> bool:
    """Whether a checkout of the blob gives the file that the tests ran; line ends may differ."""
    full = os.fsencode(os.path.join(root, path))
    try:
        if repository.hash.hash_file(full) == oid:
            return True
        with open(full, "rb") as file:
            current = file.read()
        checked_out = repository.git("cat-file", "--filters", f"--path={path}", oid)
    except (OSError, AgentosError):
        return False
    return current.replace(b"\r\n", b"\n") == checked_out.replace(b"\r\n", b"\n")


def _appeared_between(path: str, since: float, until: float) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and since <= status.st_ctime < until
