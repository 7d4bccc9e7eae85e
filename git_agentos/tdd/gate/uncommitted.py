"""Code that the tests ran and that is no part of the work: what git ignores is neither shown at review nor merged, and
what a filter of git's changes is merged as something else.

Told are modules of the worktree that came to be since the work began, and are not in the tree that would be committed.
What was there before (the worktree's own preparation has made it), what the tests make themselves, and what the main
checkout has as well (generated, and ignored there, too) has nothing to do with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from git_agentos.errors import AgentosError
from git_agentos.git import objects, trees
from git_agentos.tdd.gate.setup import Ground


@dataclass(frozen=True)
class Work:
    """What would be committed: `tree` is of all visible files, `since` when the work on them began (seconds)."""

    tree: str
    since: float


def unseen(ground: Ground, work: Work, modules: Sequence[str], until: float) -> Sequence[str]:
    """Those of `modules` (relative paths) that nobody would get, a sentence each; `until` is when the tests began."""
    repository, location = ground.here.repository, ground.here.location
    said = []
    for path in modules:
        entry = trees.find(repository, work.tree, os.fsencode(path))
        if entry is not None:
            if not _same(ground, path, entry[1]):
                said.append(f"{path} is not what would be committed: a filter of git's, or the tests, changed it")
            continue
        if ground.main_root is not None and os.path.lexists(os.path.join(ground.main_root, path)):
            continue
        if _came_between(os.path.join(location.root, path), work.since, until):
            said.append(f"{path} was imported, and is no part of the work: git ignores it, or has it elsewhere")
    return said


def _same(ground: Ground, path: str, oid: str) -> bool:
    """Whether a checkout of what is committed gives the file that the tests ran; line ends may be others."""
    here = ground.here
    full = os.fsencode(os.path.join(here.location.root, path))
    try:
        if objects.hash_file(full) == oid:
            return True
        with open(full, "rb") as file:
            has = file.read()
        given = here.repository.git("cat-file", "--filters", f"--path={path}", oid)
    except (OSError, AgentosError):
        return False
    return has.replace(b"\r\n", b"\n") == given.replace(b"\r\n", b"\n")


def _came_between(path: str, since: float, until: float) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and since <= found.st_ctime < until
