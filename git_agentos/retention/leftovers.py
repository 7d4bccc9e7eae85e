"""What killed processes of this tool have left in the object store, and nothing reaches: commits and trees."""

from __future__ import annotations

from collections.abc import Iterable

from git_agentos.checkpoint import format
from git_agentos.errors import AgentosError
from git_agentos.git import links, refs
from git_agentos.git.repository import Repository


def parts(repository: Repository, found: Iterable[str]) -> set[str]:
    """Those of the commits and trees that no ref or reflog reaches, with all that they consist of, as far as it is
    there. The commits of the user's that they were made on are none of it."""
    reached = set(repository.git("rev-list", "--all", "--reflog").decode("ascii").split())
    reached.update(refs.list_refs(repository.location, "refs/agentos/", skip_broken=True).values())
    seen: set[str] = set()
    waiting = [part for oid in found if oid not in reached for part in (oid, *_of_commit(repository, oid))]
    while waiting:
        oid = waiting.pop()
        if oid not in seen and oid not in reached:
            seen.add(oid)
            if repository.kind(oid) == "tree":
                waiting += links.of(repository, oid)
    return seen


def _of_commit(repository: Repository, oid: str) -> list[str]:
    """The commits and trees of a checkpoint, of a timeline commit or of a carrier."""
    try:
        commit = repository.commit(oid)
    except AgentosError:
        return []
    found = [commit.tree]
    if format.version(commit) is not None and len(commit.parents) >= 4:
        for each in commit.parents[1:4]:  # index, untracked files, and what a stash cannot hold
            found.append(each)
            found += links.of(repository, each)[:1]
    return found
