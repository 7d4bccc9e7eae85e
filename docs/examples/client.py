"""A client of the Python API: it saves, changes, restores and undoes. `make types` checks its types."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import assert_type

from git_agentos import (
    AgentosError,
    GuardDecision,
    LogEntry,
    RestoreResult,
    SavedCheckpoint,
    WorktreeStatus,
    open_repository,
)


def main(folder: str) -> None:
    repo = open_repository(folder, agent="dev-1")
    notes = Path(repo.root, "notes.txt")
    notes.write_text("first\n")

    saved = repo.checkpoints.create("before the experiment", metadata={"ticket": "PROJ-7"})
    assert_type(saved, SavedCheckpoint)
    assert_type(saved.created_at, datetime)
    assert_type(saved.untracked, tuple[str, ...])
    print(saved.created_by, saved.untracked, saved.created_at.tzinfo is not None)

    notes.write_text("second\n")
    print([change.path for change in repo.checkpoints.diff(saved.id).files])
    print(repo.checkpoints.read_file(saved.id, "notes.txt").content.decode().strip())
    result = repo.restore(saved.id, keep_head=True)
    assert_type(result, RestoreResult)
    print(result.changed, notes.read_text().strip())
    repo.undo()
    print(notes.read_text().strip())

    assert_type(repo.checkpoints.list(limit=5), tuple[SavedCheckpoint, ...])
    assert_type(repo.worktrees.list(), tuple[WorktreeStatus, ...])
    entry = repo.log.add("decision", "keep the queue", files=["notes.txt"])
    assert_type(entry, LogEntry)
    print(entry.type, entry.files, len(repo.log.list(kinds=["decision"])))
    assert_type(repo.guard.check(["git", "reset", "--hard"]), GuardDecision)
    print(repo.guard.check(["git", "status"]).decision)
    try:
        repo.restore("ffffffffff")
    except AgentosError as error:
        print(error.kind)


if __name__ == "__main__":
    main(sys.argv[1])
