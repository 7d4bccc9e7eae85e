"""Who uses a branch: what git would not delete, `remove --delete-branch` does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import WorktreeError
from git_agentos.git import worktrees
from git_agentos.worktree import creation, layout, removal
from tests.support.repo import Repo

REF = "refs/heads/agent/dev-001"


def _checked_out(other: Repo) -> None:
    other.git("checkout", "-q", "--ignore-other-worktrees", "agent/dev-001")


def _by_another_name(other: Repo) -> None:
    other.git("symbolic-ref", "refs/heads/alias", REF)
    other.git("symbolic-ref", "HEAD", "refs/heads/alias")


def _conflicting(other: Repo, *options: str) -> None:
    """A rebase of the branch that stops half-way."""
    _checked_out(other)
    other.write("readme.txt", "of the agent\n")
    other.commit("of the agent")
    assert other.try_git("rebase", "-q", *options, "other") != 0


def _rebased(other: Repo) -> None:
    _conflicting(other)


def _rebased_by_patches(other: Repo) -> None:
    _conflicting(other, "--apply")


def _moved_by_a_rebase(other: Repo) -> None:
    """`--update-refs`: the branch moves along with another one that is being rebased."""
    _checked_out(other)
    other.write("readme.txt", "of the agent\n")
    other.commit("of the agent")
    other.git("checkout", "-q", "-b", "top")
    assert other.try_git("rebase", "-q", "--update-refs", "other") != 0


def _bisected(other: Repo) -> None:
    _checked_out(other)
    other.git("commit", "-q", "--allow-empty", "-m", "one")
    other.git("commit", "-q", "--allow-empty", "-m", "two")
    other.git("bisect", "start", "HEAD", "HEAD~3")


USES: dict[Callable[[Repo], None], str] = {
    _checked_out: "checkout",
    _by_another_name: "checkout",
    _rebased: "rebase",
    _rebased_by_patches: "rebase",
    _moved_by_a_rebase: "rebase",
    _bisected: "bisect",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", ["a worktree", "the main worktree"])
def test_a_branch_in_use_stays(repo: Repo, tmp_path: Path, use: Callable[[Repo], None], where: str) -> None:
    if (list(USES).index(use) + (where == "a worktree")) % 2:
        repo.git("checkout", "-q", "--detach")
    made = creation.create(open_workspace(repo.path).context, "dev-001", guard=False)
    there = Repo(Path(str(made.path)))
    there.git("checkout", "-q", "--detach")
    if where == "a worktree":
        other = Repo(tmp_path / "it's theirs")
        repo.git("worktree", "add", "-q", "--detach", str(other.path))
    else:
        other = repo
    use(other)
    context = open_workspace(repo.path).context
    before = repo.text("for-each-ref", "refs/heads")

    users = worktrees.branch_users(context.location, REF)
    assert [(each.root, each.how) for each in users] == [(str(other.path), USES[use])]
    with pytest.raises(WorktreeError, match="agent/dev-001") as refused:
        removal.remove(context, "dev-001", delete_branch=True)
    assert str(other.path) in refused.value.message
    assert str(layout.branch_exists_error(context, "dev-001", "agent/dev-001").message) == refused.value.message
    assert repo.text("for-each-ref", "refs/heads") == before
    assert there.path.exists()
    if use in (_rebased, _moved_by_a_rebase, _rebased_by_patches):
        other.write("readme.txt", "resolved\n")
        other.add("readme.txt")
        other.git("rebase", "--continue", env={"GIT_EDITOR": "true"})


def test_unreadable_worktree_does_not_stop_the_removal(repo: Repo) -> None:
    context = open_workspace(repo.path).context
    for id_ in ("dev-001", "dev-002"):
        creation.create(context, id_, guard=False)
    head = repo.path / ".git/worktrees/dev-002/HEAD"
    head.unlink()
    head.mkdir()
    assert removal.remove(context, "dev-001", delete_branch=True).branch_deleted
    assert repo.try_git("rev-parse", "--verify", "-q", REF) != 0
