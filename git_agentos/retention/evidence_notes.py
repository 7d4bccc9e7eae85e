"""Notes of evidence that is about to be replaced, together with the run's timeline.

A note names the run, the tree that the copy of its evidence in git becomes, and the checkpoint that its timeline then
has (none: at once). It is signed with the user's key: whoever could write one could have a shorter record believed.
"""

from __future__ import annotations

import os

from git_agentos.checkpoint import timeline
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.guard import signing
from git_agentos.retention import pending
from git_agentos.run import evidence_again, lock
from git_agentos.run.context import worktree_id


def write(location: Location, run_id: str, tree: str, after: str | None) -> str:
    """Write a note; its path."""
    oids = [tree, *([after] if after is not None else [])]
    code = signing.sign(_document(run_id, oids), os.environ)
    return pending.note(location, f"{pending.EVIDENCE} {run_id} {code or '-'}", oids)


def finish(repository: Repository) -> None:
    """Replace the evidence that a killed process has not replaced, although the timeline has moved already. The lock on
    forgetting must be held."""
    location = repository.location
    for path, first, oids in pending.of_evidence(location):
        _, run_id, code = [*first.split(" "), "", ""][:3]
        if lock.holder(location, run_id) is not None:
            continue
        without_key = code == "-" and signing.key(os.environ, make=False) is None
        is_ours = without_key or signing.is_signed(_document(run_id, oids), code, os.environ)
        if is_ours and oids and repository.exists(oids[0]) and _is_due(repository, run_id, oids[1:]):
            evidence_again.adopt(location, run_id, oids[0])
        pending.remove([path])


def _document(run_id: str, oids: list[str]) -> bytes:
    return "\n".join(["git-agentos evidence note", run_id, *oids]).encode("ascii")


def _is_due(repository: Repository, run_id: str, after: list[str]) -> bool:
    links = timeline.walk(repository, worktree_id(run_id))
    return not after or any(link.checkpoint in after for link in links)
