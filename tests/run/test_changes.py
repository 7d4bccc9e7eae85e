"""What a run says that it changed is what it changed: more than files, also where the worktree was destroyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos import GitWorktreeWorkspaceService, open_workspace
from git_agentos.checkpoint import format
from git_agentos.cli.render.text import run as text_run
from git_agentos.run import commands, spec
from git_agentos.run.accept import accept
from git_agentos.run.events import Left, Run
from tests.support.command_line import Cli
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.runs import RunProcess, context_of, start, worktree
from tests.support.waiting import wait_until


def said(run: Run) -> str:
    found = text_run.finished(run).result
    assert isinstance(found, str)
    return found


def check_branch(left: Left | None, run: Run) -> Left:
    assert left is not None
    assert run.context is not None
    assert (left.branch, left.worktree_path) == (run.context.branch_name, run.context.worktree_path)
    return left


@pytest.mark.parametrize(
    ("agent", "changed", "commits"),
    [
        ("git init -q in; git -C in -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside", 1, 0),
        ("mkdir -p empty/folder", 1, 0),
        ("chmod +x base.txt", 1, 0),
        ("git rm -q --cached base.txt", 1, 0),
        ("echo > new; git add -N new", 1, 0),
        ("git commit -q --allow-empty -m nothing", 0, 1),
        ("echo > new; git add new; git commit -qm new; git rm -q new; git commit -qm gone", 0, 2),
    ],
)
def test_change_without_a_patch_is_reported(repo: Repo, agent: str, changed: int, commits: int) -> None:
    repo.write("base.txt", "base\n")
    repo.commit("base")
    run = start(repo, agent, guard=False)
    left = check_branch(run.left, run)
    assert (run.state, run.steps[0].changed, left.changed, left.commits) == ("passed", changed, changed, commits)
    assert "Its work is on branch 'agentos/run-" in said(run)


def test_a_repository_inside_that_is_changed_or_deleted(repo: Repo) -> None:
    repo.config(
        "agentos.setup",
        "git init -q in && git -C in -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside",
    )
    run = start(
        repo,
        "git -C in -c user.name=a -c user.email=a@b commit -q --allow-empty -m more",
        "true",
        "rm -rf in",
        guard=False,
    )
    assert [step.changed for step in run.steps] == [1, 0, 1]
    assert check_branch(run.left, run).changed == 1
    run = start(repo, "true")
    assert (run.state, run.steps[0].outcome, check_branch(run.left, run).changed) == ("failed", "no-changes", 0)
    assert "It has changed nothing." in said(run)


@pytest.mark.parametrize(
    ("agent", "detail", "words"),
    [
        ("echo > x.log", "ignored files have changed", "It has only changed ignored files."),
        ("git checkout -q --detach", "HEAD is detached", "HEAD is detached at"),
        (
            "git checkout -q -b aside",
            "HEAD is on the branch 'aside'; other refs have moved",
            "HEAD is on branch 'aside'",
        ),
        (
            "git tag aside",
            "other refs have moved",
            "Meanwhile other refs were created, moved or deleted: 'refs/tags/aside'.",
        ),
        (
            "git branch aside",
            "other refs have moved",
            "Meanwhile other branches were created, moved or deleted: 'aside'.",
        ),
    ],
)
def test_changes_git_would_not_commit_are_reported(repo: Repo, agent: str, detail: str, words: str) -> None:
    repo.write(".gitignore", "*.log\n")
    repo.commit("ignore")
    run = start(repo, agent)
    assert (run.state, run.steps[0].outcome, run.steps[0].detail) == ("failed", "no-changes", detail)
    assert run.reason is not None
    assert f"changed no file that git would commit ({detail})" in run.reason
    assert "It has changed nothing" not in said(run)
    assert words in said(run)


def test_a_branch_that_the_agent_deletes(repo: Repo) -> None:
    run = start(repo, "echo > new; git update-ref -d HEAD", guard=False)
    assert check_branch(run.left, run).head_sha is None
    assert "is gone, its work is in" in said(run)


def test_a_worktree_that_the_agent_moves(repo: Repo) -> None:
    run = start(repo, f'echo > new; git -C {repo.path} worktree move "$PWD" "$PWD-moved"', "echo > other", guard=False)
    assert run.context is not None
    assert run.left is not None
    assert (run.state, run.left.changed) == ("passed", 2)
    assert run.left.worktree_path == run.context.worktree_path
    assert run.left.worktree_path.endswith("-moved")
    assert f"in {run.left.worktree_path}; no other branch has moved." in said(run)


@pytest.mark.parametrize("driven", [False, True])
def test_a_cancelled_run_with_new_files(repo: Repo, driven: bool) -> None:
    if driven:
        service = GitWorktreeWorkspaceService(repo.path)
        there = Path(service.prepare_pre_run(run_id="T-1").worktree_path)
    else:
        ready = repo.scratch / "ready"
        worker = RunProcess(repo, "start", "T-1", spec.from_options([f"touch {ready}; sleep 1000"], []))
        wait_until(ready.exists, "the agent is at work")
        worker.process.kill()
        worker.ended()
        there = worktree(commands.show(context_of(repo), "T-1")).path
    (there / "new").write_text("new\n")
    run = commands.cancel(context_of(repo), "T-1")
    assert run.state == "cancelled"
    assert check_branch(run.left, run).changed == 1
    assert "Its work is on branch 'agentos/run-T-1', in" in said(run)


DESTROYED = {
    "folder": 'rm -rf "$PWD"',
    "folder and entry": 'git -C REPO worktree remove --force "$PWD"',
}


@pytest.mark.parametrize("on_failure", ["keep", "rollback"])
@pytest.mark.parametrize("how", DESTROYED)
def test_destroyed_worktree_is_not_reported_as_saved(
    repo: Repo,
    cli: Cli,
    how: str,
    on_failure: str,
) -> None:
    destroy = DESTROYED[how].replace("REPO", str(repo.path))
    run = start(repo, f"echo > new; {destroy}", on_failure=on_failure, guard=False, run_id="T-1")
    assert run.state == "failed"
    assert run.not_saved
    assert run.not_saved[0].path == str(worktree(run).path)
    assert run.last_saved == run.steps[0].checkpoint_before
    assert run.last_saved_at == format.read(context_of(repo).repository, str(run.last_saved)).created_at
    words = said(run)
    assert "is saved, and can be restored" not in words
    assert "could not be saved completely:\n" in words
    assert f"The last checkpoint before that is {str(run.last_saved)[:8]} of " in words
    assert check_document(cli("-C", str(repo.path), "--json", "run", "show", "T-1").json) == "run"
    done = cli("-C", str(repo.path), "--json", "rollback", "T-1").json
    assert check_document(done) == "rollback"
    assert (done["not_saved"], done["last_saved"]) == ([], None)


def test_worktree_put_aside_is_saved(repo: Repo) -> None:
    run = start(repo, "echo > new; rm .git", on_failure="rollback", guard=False)
    assert (run.state, run.not_saved, run.last_saved) == ("failed", [], None)
    assert "The work of the run is saved, and can be restored." in said(run)
    open_workspace(worktree(run).path).undo()
    assert worktree(run).exists("new")


def test_a_repository_inside_is_not_said_to_be_merged(repo: Repo) -> None:
    run = start(repo, "git init -q in; echo > in/new", validate=["test -e in/new"])
    assert run.state == "passed"
    done, merged = accept(context_of(repo), run.run_id)
    assert done.state == "accepted"
    assert merged.warnings == ["'in' is a repository of its own: it stays in the run's worktree, and is not merged"]
    assert worktree(run).exists("in/new")
