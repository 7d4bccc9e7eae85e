"""Hooks in the configuration (git 2.54): git commands that git-agentos starts run none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos.git import process
from tests.support import runs
from tests.support.git_version import needs_git
from tests.support.repo import Repo, git_run
from tests.support.tool import run_ok


@pytest.fixture
def notes(repo: Repo) -> Path:
    """Each event of a hook in the repository notes itself here."""
    path = repo.scratch / "hook-notes"
    for event in process.HOOK_EVENTS:
        repo.git("config", f"hook.note-{event}.event", event)
        repo.git("config", f"hook.note-{event}.command", f"echo {event} >>'{path}'; true")
    return path


@needs_git(2, 54)
def test_every_event_is_known_to_git(repo: Repo) -> None:
    unknown = [
        event
        for event in (*process.HOOK_EVENTS, "no-such-event")
        if git_run(repo.path, "hook", "run", "--ignore-missing", event).returncode != 0
    ]
    assert unknown == ["no-such-event"]


@needs_git(2, 55)
def test_no_command_of_ours_runs_configured_hooks(repo: Repo, notes: Path) -> None:
    repo.write("notes.txt", "changed\n")
    repo.git("-c", "core.hooksPath=/dev/null", "add", "notes.txt")
    assert "post-index-change" in notes.read_text()  # git runs them
    notes.unlink()

    first = run_ok(repo.path, "checkpoint", "-m", "first")["id"]
    repo.write("notes.txt", "changed again\n")
    repo.write("new.txt", "new\n")
    run_ok(repo.path, "checkpoint")
    run_ok(repo.path, "restore", first)
    run_ok(repo.path, "undo")
    run_ok(repo.path, "checkpoint", "list")
    run_ok(repo.path, "worktree", "create", "dev", "--no-guard")
    run_ok(repo.path, "worktree", "create", "other", "--no-guard")
    assert not notes.exists()
    dev = Repo(repo.path.parent / "repo.worktrees" / "dev")
    dev.write("work.txt", "work\n")
    git_run(dev.path, "add", "work.txt")
    git_run(dev.path, "commit", "-q", "-m", "work")
    assert "post-commit" in notes.read_text()
    notes.unlink()
    run_ok(repo.path, "worktree", "conflicts")
    run_ok(repo.path, "worktree", "merge", "dev")
    run_ok(repo.path, "worktree", "archive", "dev")
    run_ok(repo.path, "worktree", "create", "dev", "--revive", "--no-guard")
    run_ok(repo.path, "worktree", "remove", "other")
    done = runs.start(repo, "echo done > done.txt", validate=["test -f done.txt"])
    assert done.state == "passed"
    run_ok(repo.path, "doctor")
    assert not notes.exists(), notes.read_text()
