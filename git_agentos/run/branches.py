"""Which branches are protected: one rule for runs, for `git agentos tdd` and for the workspace service."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import process
from git_agentos.guard.configuration import settings

_USUAL = ("main", "master")


def patterns(context: OpenWorktree, given: Sequence[str] | None) -> list[str]:
    """The patterns in force (`main`, `release/*`): those of `agentos.protected`, or else the remote's default branch,
    `main` and `master`; and beside these, always, those given."""
    known = settings.read(context.location.root, process.environment()).protected
    return list(dict.fromkeys([*(known or [*_default_branches(context), *_USUAL]), *(given or ())]))


def _default_branches(context: OpenWorktree) -> list[str]:
    """What the remotes' HEADs are, as far as they are known here."""
    out = context.repository.git("for-each-ref", "--format=%(refname)%00%(symref)", "refs/remotes/*/HEAD")
    found = []
    for line in os.fsdecode(out).splitlines():
        name, _, target = line.partition("\0")
        prefix = name.removesuffix("HEAD")
        if target.startswith(prefix):
            found.append(target.removeprefix(prefix))
    return found
