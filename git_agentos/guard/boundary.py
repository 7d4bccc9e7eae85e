"""What is closed to a run beside `agentos.protected`: the branches in the record of its worktree.

A run is known by the worktree that a command stands in, and by AGENTOS_RUN_ID in the environment that some process
above was started with: an agent that goes to another worktree, or unsets the variable, takes its bounds along. The
branch of the run itself is never closed to it, whatever the patterns say.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from git_agentos.errors import ConfigurationError
from git_agentos.git import gitfile, worktrees
from git_agentos.guard import ancestry
from git_agentos.util import files

RUN_ID = "AGENTOS_RUN_ID"


class Bounds(NamedTuple):
    """`patterns` of branches that are closed, and the run's `own` branch (short); None outside of a run."""

    patterns: tuple[str, ...] = ()
    own: str | None = None


def matches(branch: str, patterns: Iterable[str]) -> bool:
    """Whether a short branch name is one of those that are closed."""
    return any(fnmatch.fnmatchcase(branch, pattern) for pattern in patterns)


def of(folder: str, pid: int) -> Bounds:
    """What is closed to a command that stands in `folder` and is run by the process `pid` or one below it.

    ConfigurationError where the record of the worktree is damaged.
    """
    found = gitfile.find(folder)
    if found is None:
        return Bounds()
    records = list(_records(found[1], _runs(pid)))
    if not records:
        return Bounds()
    patterns = dict.fromkeys(pattern for record in records for pattern in record["protected"])
    return Bounds(tuple(patterns), records[0].get("branch"))


def _runs(pid: int) -> list[str]:
    """The runs that a process works for, the innermost first."""
    found = ((ancestry.environment(each) or {}).get(RUN_ID) for each in (pid, *ancestry.parents(pid)))
    return list(dict.fromkeys(each for each in found if each))


def _records(git_dir: str, runs: list[str]) -> Iterator[dict[str, Any]]:
    """The records of these runs' worktrees, in their order, and last that of the worktree with this git directory."""
    if runs:
        shared = common_dir(git_dir)
        known = [each for entry in worktrees.entries(shared) if (each := _record(entry, lenient=True)) is not None]
        for run in runs:
            yield from (each for each in known if each.get("run_id") == run)
    own = _record(git_dir)
    if own is not None:
        yield own


def _record(git_dir: str, *, lenient: bool = False) -> dict[str, Any] | None:
    """The record of a run's worktree (`worktree.record` writes it); None where it is none's."""
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


def common_dir(git_dir: str) -> str:
    """The common git directory of a worktree with this git directory, found without git."""
    with contextlib.suppress(OSError):
        found = os.fsdecode(files.read(os.path.join(git_dir, "commondir"), follow=True).rstrip(b"\n"))
        return os.path.realpath(os.path.join(git_dir, found))
    return git_dir
