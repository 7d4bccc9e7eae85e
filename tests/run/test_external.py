"""A run that an orchestrator drives: on a branch of its own name, open from one call to the next, and landed by it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from git_agentos import GitWorktreeWorkspaceService, NullWorkspaceService, WorkspaceContext, open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import RunError, UsageError, WorktreeError
from git_agentos.git import refs
from git_agentos.run import accept, commands, evidence_store, lock, query, sealing, validated
from git_agentos.run.accept import NotAsValidated
from git_agentos.run.evidence import Evidence
from git_agentos.run.snapshot import run_context
from git_agentos.worktree import agent_branch, agent_merge, creation, layout, record, removal, repair, status
from git_agentos.worktree.agent_merge import Merge
from git_agentos.worktree.final_checkpoint import RemovalRequest
from tests.support import ref_storage
from tests.support.repo import Repo
from tests.support.snapshot import assert_nothing_left, snapshot

BRANCH = "feat/issue-87"
REF = f"refs/heads/{BRANCH}"


@dataclass
class Driven:
    """A run, as `git agentos tdd` has one."""

    repo: Repo
    service: GitWorktreeWorkspaceService
    run: WorkspaceContext

    @property
    def context(self) -> OpenWorktree:
        return open_workspace(self.repo.path).context

    @property
    def there(self) -> Repo:
        return Repo(Path(self.run.worktree_path))

    @property
    def kept(self) -> Evidence:
        return evidence_store.open_existing(self.context.location, "r")

    def step(self, n: int, kind: str, command: str | None = None) -> str:
        """An orchestrator's step, with what it has to say of it; the checkpoint after."""
        before = self.service.mark_step(n)
        self.kept.event("step-begun", n=n, kind=kind, attempt=1, command=command, checkpoint=before)
        return self.service.snapshot().checkpoint


def drive(repo: Repo, **options: Any) -> Driven:
    fields: dict[str, Any] = {"branch": BRANCH, "tool": "tdd", **options}
    service = GitWorktreeWorkspaceService(repo.path, **fields)
    return Driven(repo, service, service.prepare_pre_run(run_id="r"))


@pytest.fixture
def driven(repo: Repo) -> Driven:
    return drive(repo)


# -- a branch of its own name ----------------------------------------------------------------------------------------


def test_run_works_on_a_named_branch_and_rolls_back(driven: Driven) -> None:
    there = driven.there
    assert (driven.run.branch_name, there.text("symbolic-ref", "HEAD")) == (BRANCH, REF)
    assert record.find(driven.context.location.common_dir, "run-r").record.branch == BRANCH
    assert driven.kept.events()[0]["tool"] == "tdd"
    assert [each for each in driven.repo.text("branch", "--format=%(refname:short)").split() if "run" in each] == []
    there.write("new.txt", "new\n")
    commit = there.commit("work")
    assert agent_branch.find(driven.context, "run-r").commit == commit
    driven.service.rollback_pre_run()
    assert (there.oid(), driven.repo.oid(BRANCH)) == (driven.run.base_sha, driven.run.base_sha)
    again = GitWorktreeWorkspaceService(driven.repo.path, run_id="r").current_context()
    assert again == driven.run
    assert NullWorkspaceService(branch=BRANCH).prepare_pre_run(run_id="r").branch_name == BRANCH


@pytest.mark.parametrize("ended", ["archived", "removed with its branch", "destroyed", "destroyed with its branch"])
def test_revived_worktree_is_on_its_named_branch(driven: Driven, ended: str) -> None:
    context, there, repo = driven.context, driven.there, driven.repo
    there.write("new.txt", "new\n")
    commit = there.commit("work")
    there.write("untracked.txt", "untracked\n")
    driven.service.mark_step(1)
    if ended == "archived":
        assert removal.archive(context, "run-r").branch == BRANCH
        assert status.show(context, "run-r").branch == BRANCH
    elif ended.startswith("removed"):
        gone = removal.end_worktree(context, "run-r", RemovalRequest("remove", True))
        assert (gone.branch, gone.branch_sha, gone.branch_deleted) == (BRANCH, commit, True)
        assert refs.resolve(context.location, REF) is None
    else:
        shutil.rmtree(there.path)
        repo.git("worktree", "prune")
        if ended.endswith("branch"):
            repo.git("branch", "-q", "-D", BRANCH)
    if "branch" not in ended:
        assert (agent_branch.find(context, "run-r").branch, agent_branch.find(context, "run-r").commit) == (
            BRANCH,
            commit,
        )
    creation.create(context, "run-r", revive=True)
    assert (there.text("symbolic-ref", "HEAD"), there.oid(), repo.oid(BRANCH)) == (REF, commit, commit)
    assert there.read("untracked.txt") == b"untracked\n"
    known = record.find(context.location.common_dir, "run-r").record
    assert (known.branch, known.run_id) == (BRANCH, "r")
    assert not refs.list_refs(context.location, "refs/heads/agentos/")
    assert not refs.list_refs(context.location, "refs/heads/agent/")
    driven.service.rollback_pre_run()
    assert (there.text("symbolic-ref", "HEAD"), there.oid()) == (REF, driven.run.base_sha)


def test_repair_restores_record_and_named_branch(driven: Driven) -> None:
    context, repo = driven.context, driven.repo
    entry, left = next((repo.git_dir / "worktrees").iterdir()), ref_storage.lock_of(repo, REF)
    (entry / "agentos/worktree.json").write_text("{")
    (entry / "HEAD").write_bytes(b"")
    left.write_bytes(b"")
    repair.repair(context, "run-r")
    assert record.find(context.location.common_dir, "run-r").record.branch == BRANCH
    assert driven.there.text("symbolic-ref", "HEAD") == REF
    assert not left.exists()


@pytest.mark.parametrize(
    ("there", "wanted", "said"),
    [
        (BRANCH, BRANCH, "a branch 'feat/issue-87' exists already"),
        ("feat", "feat/a/b", "the branch 'feat' is in the way of 'feat/a/b'"),
        ("feat/a", "feat", "branches below 'feat/' are in the way of 'feat'"),
    ],
)
def test_taken_branch_name_is_refused(repo: Repo, there: str, wanted: str, said: str) -> None:
    repo.git("branch", there)
    before = snapshot(repo)
    with pytest.raises(WorktreeError, match=said) as caught:
        drive(repo, branch=wanted)
    assert "git branch -m" in str(caught.value.hint) or "choose another" in str(caught.value.hint)
    shutil.rmtree(repo.path / ".agentos")
    assert_nothing_left(before, repo)


@pytest.mark.parametrize("name", ["", "-x", "a..b", "a b", "HEAD", "x.lock", "/x", "x/", "@{-1}", "a\nb", "a\x7f"])
def test_no_branch_of_git(repo: Repo, name: str) -> None:
    repo.git("checkout", "-q", "-b", "before")
    repo.git("checkout", "-q", "main")
    before = snapshot(repo)
    with pytest.raises(UsageError, match="is not a valid branch name"):
        drive(repo, branch=name)
    assert_nothing_left(before, repo)


def test_branch_names_valid_for_git(repo: Repo) -> None:
    name = os.fsdecode("feat/é'\"$(x)\udcff".encode("utf-8", "surrogateescape"))
    driven = drive(repo, branch=name)
    assert driven.there.git("symbolic-ref", "HEAD").rstrip(b"\n") == os.fsencode(f"refs/heads/{name}")
    driven.there.write("new.txt", "new\n")
    removal.archive(driven.context, "run-r")
    creation.create(driven.context, "run-r", revive=True)
    assert record.find(driven.context.location.common_dir, "run-r").record.branch == name


# -- open ------------------------------------------------------------------------------------------------------------


def test_run_stays_open_between_calls(driven: Driven) -> None:
    context = driven.context
    run = commands.show(context, "r")
    assert (run.state, run.tool, run.is_external, run.reason, run.process) == ("open", "tdd", True, None, None)
    assert (query.interrupted(context), [*query.examine(context)], query.open_(context)) == ([], [], ["r"])
    assert query.open_(context, "another") == []
    with lock.hold(context.location, "r"):
        assert (commands.show(context, "r").state, query.open_(context)) == ("running", ["r"])
    driven.kept.event("interrupted", signal="SIGTERM")
    assert commands.show(context, "r").state == "open"
    driven.kept.event("ended", state="cancelled", reason="aborted")
    assert (commands.show(context, "r").state, query.open_(context)) == ("cancelled", [])


@pytest.mark.parametrize(
    ("tool", "hints"),
    [
        ("tdd", ("git agentos tdd resume r", "git agentos tdd abort r")),
        ("maestro", ("'maestro' can resume it", "'maestro' can cancel it")),
    ],
)
def test_resume_and_cancel_of_an_external_run_name_its_driver(repo: Repo, tool: str, hints: tuple[str, str]) -> None:
    driven = drive(repo, tool=tool)
    events = driven.kept.events()
    for call, hint in zip((commands.resume, commands.cancel), hints, strict=True):
        with pytest.raises(RunError, match=f"run 'r' is driven by '{tool}'") as caught:
            call(driven.context, "r")
        assert hint in str(caught.value.hint)
    assert driven.kept.events() == events


def test_run_of_an_unnamed_driver_can_be_ended(repo: Repo) -> None:
    service = GitWorktreeWorkspaceService(repo.path)
    service.prepare_pre_run(run_id="r")
    context = open_workspace(repo.path).context
    with pytest.raises(RunError, match="is driven through the workspace service") as caught:
        commands.resume(context, "r")
    assert "git agentos run cancel r" in str(caught.value.hint)
    assert commands.cancel(context, "r").state == "cancelled"
    assert evidence_store.verify(context, "r").problems == []


def test_external_run_is_rolled_back(driven: Driven) -> None:
    """Also with steps that say no more than an orchestrator has to."""
    context = driven.context
    driven.there.write("new.txt", "new\n")
    driven.step(1, "agent", "write it")
    assert commands.rollback(context, "r", "pre_run").point == "pre_run"
    run = commands.show(context, "r")
    assert (run.state, run.rolled_back_to, driven.there.exists("new.txt")) == ("open", "pre_run", False)
    driven.kept.event("ended", state="cancelled", reason="aborted")
    sealing.seal(run_context(context, driven.run), driven.kept, commands.show(context, "r"))
    assert commands.rollback(context, "r", "step:1").point == "step:1"
    assert evidence_store.verify(context, "r").problems == []


# -- landed ----------------------------------------------------------------------------------------------------------


def _validated(driven: Driven) -> tuple[str, str]:
    """Work of which nothing is committed, and a validation that leaves a report; the checkpoints around that."""
    driven.there.write("src/new.py", "new\n")
    driven.there.append("readme.txt", "changed\n")
    before = driven.step(1, "agent")
    driven.there.write("report.xml", "report\n")
    return before, driven.step(2, "validate")


def _land(driven: Driven, before: str, after: str, **options: Any) -> Merge:
    here = run_context(driven.context, driven.run)
    text = accept.commit_message("feat: issue 87", [("Agentos-Task", " 87\n"), ("Agentos-Nothing", None)])
    work = accept.ValidatedWork(driven.run, here, before, after)
    return accept.merge_validated(driven.context, work, into="main", message=text, **options)


@pytest.mark.parametrize("squash", [False, True])
def test_land_merges_validated_work_once(driven: Driven, squash: bool) -> None:
    repo, there = driven.repo, driven.there
    before, after = _validated(driven)
    repo.write("mine.txt", "mine, and not committed\n")
    made = _land(driven, before, after, squash=squash)
    assert (made.merged, made.target, made.merge_commit, made.conflicts) == (True, "main", repo.oid(), [])
    assert (repo.read("src/new.py"), repo.exists("report.xml")) == (b"new\n", False)
    assert repo.read("mine.txt") == b"mine, and not committed\n"
    assert there.git("status", "--porcelain") == b"?? report.xml\n"
    assert repo.text("log", "-1", "--format=%B", BRANCH) == "feat: issue 87\n\nAgentos-Task: 87"
    tip = repo.oid(BRANCH)
    again = _land(driven, before, after, squash=squash)
    assert (again.merged, again.merge_commit, again.conflicts) == (False, made.merge_commit, [])
    repo.commit("later")
    again = _land(driven, before, after)
    assert (again.merged, again.merge_commit) == (False, repo.oid() if squash else made.merge_commit)
    assert repo.oid(BRANCH) == tip


def test_a_conflict_moves_nothing(driven: Driven) -> None:
    before, after = _validated(driven)
    driven.repo.write("readme.txt", "other\n")
    driven.repo.commit("meanwhile")
    refs_before = driven.repo.git("for-each-ref", "refs/heads")
    made = _land(driven, before, after)
    assert (made.merged, made.dry_run, [each.files for each in made.conflicts]) == (False, False, [["readme.txt"]])
    assert driven.repo.git("for-each-ref", "refs/heads") == refs_before
    assert b"src/new.py" in driven.there.git("status", "--porcelain", "-uall")


def test_land_refuses_changed_worktree(driven: Driven) -> None:
    before, after = _validated(driven)
    refs_before = driven.repo.git("for-each-ref", "refs/heads")
    driven.there.append("src/new.py", "more\n")
    with pytest.raises(NotAsValidated, match="has changed since it was validated") as caught:
        _land(driven, before, after)
    assert after[:12] in str(caught.value.hint)
    driven.there.write("src/new.py", "new\n")
    driven.there.git("checkout", "-q", "--detach")
    with pytest.raises(RunError, match="is not on its branch 'feat/issue-87'"):
        _land(driven, before, after)
    assert driven.repo.git("for-each-ref", "refs/heads") == refs_before
    driven.there.git("checkout", "-q", BRANCH)
    driven.there.git("commit", "-q", "--allow-empty", "-m", "of somebody else's")
    with pytest.raises(NotAsValidated):
        _land(driven, before, after)
    assert driven.repo.oid() == driven.run.base_sha


@pytest.mark.parametrize("when", ["move_branch", "_reset_index", "merge", "after"])
def test_killed_anywhere_it_is_done_again(driven: Driven, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    class Killed(BaseException):
        pass

    before, after = _validated(driven)
    owner: Any = agent_merge if when in ("merge", "after") else validated
    name = "merge" if when == "after" else when
    real = getattr(owner, name)

    def strike(*args: Any, **fields: Any) -> Any:
        if fields.get("dry_run"):
            return real(*args, **fields)
        if when == "after":
            real(*args, **fields)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, strike)
        with pytest.raises(Killed):
            _land(driven, before, after)
    made = _land(driven, before, after)
    assert (made.merged, made.merge_commit) == (when != "after", driven.repo.oid())
    assert driven.repo.text("rev-list", "--count", "--merges", "main") == "1"
    assert driven.repo.text("rev-list", "--count", f"{driven.run.base_sha}..{BRANCH}") == "1"
    assert driven.there.git("status", "--porcelain") == b"?? report.xml\n"
    assert driven.there.text("symbolic-ref", "HEAD") == layout.HEADS + BRANCH
