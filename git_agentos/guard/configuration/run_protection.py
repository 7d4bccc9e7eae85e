"""The branches that are protected from a run, beside `agentos.protected`: those in the record of its worktree.

A run is known by the worktree in which a command works, and by AGENTOS_RUN_ID in the environment with which some
process above was started. An agent that changes to another worktree, or unsets the variable, stays in its run. The
run's own branch is never protected from it, whatever the patterns say.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator
from typing import Any

from git_agentos.errors import ConfigurationError
from git_agentos.git import gitfile, worktrees
from git_agentos.process import table
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

RUN_ID = "AGENTOS_RUN_ID"


class RunProtection(NamedTuple):
    """`patterns` of protected branches, and the run's own `branch` (short); None outside of a run."""

    patterns: tuple[str, ...] = ()
    branch: str | None = None


def is_protected(branch: str, patterns: Iterable[str]) -> bool:
    """Whether a short branch name matches one of the patterns."""
    return any(fnmatch.fnmatchcase(branch, pattern) for pattern in patterns)


def read_run_protection(folder: str, pid: int) -> RunProtection:
    """What is protected from a command that works in `folder` and is run by the process `pid` or one below it.

    ConfigurationError if the record of the worktree is damaged.
    """
    found = gitfile.find(folder)
    if found is None:
        return RunProtection()
    records = list(_records(found[1], _runs(pid)))
    if not records:
        return RunProtection()
    patterns = dict.fromkeys(pattern for record in records for pattern in record["protected"])
    return RunProtection(tuple(patterns), records[0].get("branch"))


def _runs(pid: int) -> list[str]:
    """The runs that a process works for, the innermost first."""
    found = ((table.environment(each) or {}).get(RUN_ID) for each in (pid, *table.parents(pid)))
    return list(dict.fromkeys(each for each in found if each))


def _records(git_dir: str, runs: list[str]) -> Iterator[dict[str, Any]]:
    """The records of these runs' worktrees, in their order, and last that of the worktree with this git directory."""
    if runs:
        shared = gitfile.common_dir(git_dir)
        records = (_record(entry, lenient=True) for entry in worktrees.linked_git_dirs(shared))
        known = [each for each in records if each is not None]
        for run in runs:
            yield from (each for each in known if each.get("run_id") == run)
    branch = _record(git_dir)
    if branch is not None:
        yield branch


def _record(git_dir: str, *, lenient: bool = False) -> dict[str, Any] | None:
    """The record of a run's worktree (`worktree.record` writes it); None if it is not a run's worktree."""
    path = os.path.join(git_dir, "agentos", "worktree.json")
    if not os.path.lexists(path):
        return None
    import json  # not loaded where there is nothing to read

    try:
        body = json.loads(files.read(path, follow=True).decode("utf-8", "surrogateescape"))
        if body.get("run_id") is None:
            return None
        if not all(isinstance(each, str) for each in body["protected"]):
            raise ValueError("no list of patterns")
        return dict(body)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        if lenient:
            return None
        raise ConfigurationError(f"the record '{path}' is damaged", "git agentos worktree repair") from error
