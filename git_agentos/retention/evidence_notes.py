"""Evidence of runs that a killed `forget` has not replaced, although the run's timeline has moved already."""

from __future__ import annotations

from git_agentos.checkpoint import timeline
from git_agentos.git.repository import Repository
from git_agentos.retention import pending
from git_agentos.retention.pending import EvidenceNote
from git_agentos.run import evidence_again, lock
from git_agentos.run.context import worktree_id


def finish(repository: Repository) -> None:
    """Replace it. The lock on forgetting must be held."""
    location = repository.location
    for note in pending.of_evidence(location):
        if lock.holder(location, note.run_id) is not None:
            continue
        if repository.exists(note.tree) and _is_due(repository, note):
            evidence_again.adopt(location, note.run_id, note.tree)
        pending.remove([note.path])


def _is_due(repository: Repository, note: EvidenceNote) -> bool:
    links = timeline.walk(repository, worktree_id(note.run_id))
    return note.after is None or any(link.checkpoint == note.after for link in links)
