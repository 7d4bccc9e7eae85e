"""What is looked at after a worktree was removed."""

from __future__ import annotations

from git_agentos.worktree import trash
from tests.support.repo import Repo
from tests.support.waiting import wait_until


def assert_removed(repo: Repo, there: Repo) -> None:
    """The folder, git's entry and all that the deletion leaves for a moment."""
    assert not there.path.exists()
    assert str(there.path) not in repo.text("worktree", "list", "--porcelain")
    folders = [there.path.parent / trash.FOLDER, repo.path / ".git/agentos/trash"]
    wait_until(lambda: not any(folder.exists() for folder in folders), "the trash is emptied")
    assert not list((repo.path / ".git/agentos/worktrees").glob("*"))
