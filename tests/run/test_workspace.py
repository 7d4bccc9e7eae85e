"""The workspace of a run: made whole or not at all, picked up by whoever comes later, and like any other worktree."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import git_agentos
from git_agentos import GitWorktreeWorkspaceService, NullWorkspaceService, WorkspaceContext, open_workspace
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, RunError, StorageError, UsageError, WorktreeError
from git_agentos.git import refs
from git_agentos.run import baseline, events, evidence_store, lock, preparation, workspace
from git_agentos.run.evidence import Evidence
from git_agentos.run.snapshot import run_context
from git_agentos.run.workspace import WorkspaceService
from git_agentos.worktree import (
    creation,
    journal,
    layout,
    new_worktree,
    record,
    removal,
    repair,
    setup,
    status,
)
from git_agentos.worktree.final_checkpoint import RemovalRequest
from tests.support.repo import Repo, git, remove
from tests.support.snapshot import assert_nothing_left, snapshot

FIELDS = [each.name for each in fields(WorkspaceContext) if each.name != "task_id"]
BRANCH = "refs/heads/agentos/run-r"


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def prepare(repo: Repo, run_id: str = "r", **options: Any) -> tuple[GitWorktreeWorkspaceService, WorkspaceContext]:
    service = GitWorktreeWorkspaceService(repo.path, **options)
    return service, service.prepare_pre_run(run_id=run_id)


def inside(run: WorkspaceContext) -> Repo:
    return Repo(Path(run.worktree_path))


def told(repo: Repo, run_id: str = "r") -> list[dict[str, Any]]:
    return evidence_store.open_existing(context_of(repo).location, run_id).events()


# -- the context -----------------------------------------------------------------------------------------------------


@given(st.lists(st.text(), min_size=9, max_size=9), st.none() | st.text())
@settings(max_examples=50, deadline=None)
def test_a_context_survives_json(values: list[str], task: str | None) -> None:
    values_of = dict(zip(FIELDS, values, strict=True))
    context = WorkspaceContext(**values_of, task_id=task)
    assert WorkspaceContext.from_json(context.to_json()) == context
    assert WorkspaceContext.from_json(context.to_json().encode("utf-8", "surrogatepass")) == context
    assert WorkspaceContext.from_fields(json.loads(context.to_json()), "here") == context


@pytest.mark.parametrize(
    "change", [{"schema": "agentos.workspace-context.v2"}, {"base_sha": None}, {"run_id": 1}, None]
)
def test_invalid_contexts(change: dict[str, Any] | None) -> None:
    body = json.loads(WorkspaceContext(**dict.fromkeys(FIELDS, "x"), task_id=None).to_json())
    text = "[1]" if change is None else json.dumps({**body, **change})
    with pytest.raises(RunError, match="no context"):
        WorkspaceContext.from_json(text)
    for key in body:
        if key != "schema":
            with pytest.raises(RunError, match="'it' is no context"):
                WorkspaceContext.from_fields({name: value for name, value in body.items() if name != key}, "'it'")


def test_both_services_are_exported(repo: Repo) -> None:
    services: list[WorkspaceService] = [NullWorkspaceService(), GitWorktreeWorkspaceService(repo.path)]
    assert all(service.current_context() is None for service in services)
    for service in services:
        asked = (service.snapshot, service.diff_summary, service.rollback_pre_run, partial(service.mark_step, 1))
        for ask in asked:
            with pytest.raises(RunError, match="no workspace yet"):
                ask()
    names = ("GitWorktreeWorkspaceService", "NullWorkspaceService", "WorkspaceContext", "WorkspaceService")
    for name in (*names, "WorkspaceSnapshot"):
        assert getattr(git_agentos, name) is getattr(workspace, name)
        assert name in git_agentos.__all__


def test_the_null_workspace_touches_nothing(tmp_path: Path) -> None:
    service = NullWorkspaceService(str(tmp_path), task_id="T")
    context = service.prepare_pre_run(run_id="r")
    assert (context.run_id, context.worktree_path, context.task_id, context.agent_id) == (
        "r", str(tmp_path), "T", "run-r",
    )  # fmt: skip
    assert WorkspaceContext.from_json(context.to_json()) == context
    with pytest.raises(RunError, match="already"):
        service.prepare_pre_run(run_id="r")
    service.mark_step(2)
    assert service.rollback_to(2) == service.rollback_to("step:2") == service.rollback_pre_run() == context
    assert service.current_context() == context
    assert (service.diff_summary(), service.snapshot().changed) == ("", [])
    with pytest.raises(RunError, match="no point 'step:3'"):
        service.rollback_to(3)
    assert os.listdir(tmp_path) == []


# -- made ------------------------------------------------------------------------------------------------------------


def test_a_worktree_of_its_own(repo: Repo) -> None:
    repo.write(".gitignore", "build/\nmade.txt\n")
    repo.commit("ignore")
    repo.write("readme.txt", "dirty, and none of the run's business\n")
    repo.config("agentos.setup", "mkdir -p build/empty && echo made >made.txt && echo out >build/out")
    head = repo.oid()
    _, run = prepare(repo, task_id="T-42", protected=("release/*",))

    folder = repo.path.parent / f"{repo.path.name}.worktrees" / "run-r"
    assert run == WorkspaceContext(
        "r", str(repo.path), str(folder), "agentos/run-r", "main", head, head, run.created_at, "T-42", "run-r"
    )
    there = inside(run)
    assert there.text("symbolic-ref", "HEAD") == BRANCH
    assert there.git("status", "--porcelain") == b""
    assert there.read("made.txt") == b"made\n"
    known = record.find(context_of(repo).location.common_dir, "run-r").record
    assert (known.branch, known.run_id, known.protected, known.task) == (
        "agentos/run-r", "r", ["main", "master", "release/*"], "T-42",
    )  # fmt: skip
    kept = evidence_store.open_existing(context_of(repo).location, "r")
    assert kept.folder == str(repo.path / ".agentos/runs/r")
    assert WorkspaceContext.from_json(kept.read("workspace_context.json") or b"") == run
    begun, prepared = kept.events()
    assert (begun["event"], begun["task"], begun["guard"], begun["protected"]) == (
        "begun", "T-42", True, ["main", "master", "release/*"],
    )  # fmt: skip
    assert prepared["context"] == run.fields()
    state = format.read_state(context_of(repo).repository, prepared["checkpoint"])
    assert state.ignored.keys() == {b"made.txt", b"build/out"}
    saved = format.read(context_of(repo).repository, prepared["checkpoint"])
    assert (saved.trigger, saved.run_id, saved.task_id, saved.created_by, saved.timeline) == (
        "pre_run", "r", "T-42", "run-r", "run-r",
    )  # fmt: skip
    assert prepared["tree"] == repo.oid("HEAD^{tree}")
    assert there.text("config", "--worktree", "--get", "core.hooksPath") != ""
    assert repo.git("status", "--porcelain") == b" M readme.txt\n"
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


def test_base_and_agent_of_the_worktree(repo: Repo) -> None:
    assert prepare(repo, "a", base_ref="v1")[1].base_sha == repo.oid("v1^{commit}")
    repo.config("agentos.runBase", "v1")
    run = prepare(repo, "b", agent_id="claude", guard=False)[1]
    assert (run.base_ref, run.base_sha, run.agent_id) == ("v1", repo.oid("v1^{commit}"), "claude")
    assert run.head_sha == inside(run).oid()
    assert inside(run).try_git("config", "--worktree", "--get", "core.hooksPath") != 0
    assert told(repo, "b")[0]["guard"] is False
    taken = open_workspace(run.worktree_path).checkpoints()
    assert {each.created_by for each in taken} == {"claude"}
    here = run_context(context_of(repo), run)
    assert (here.agent, here.worktree_id, here.location.root) == ("claude", "run-b", run.worktree_path)
    repo.git("checkout", "-q", "--detach")
    assert prepare(repo, "c", base_ref="HEAD")[1].base_ref == repo.oid()
    for bad, error in (({"base_ref": "nowhere"}, WorktreeError), ({"agent_id": "no/pe"}, UsageError)):
        before = snapshot(repo)
        with pytest.raises(error):
            prepare(repo, "d", **bad)
        assert_nothing_left(before, repo)


def test_from_the_worktree_of_a_bare_repository(repo: Repo, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo.path), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree", "main")
    service = GitWorktreeWorkspaceService(tmp_path / "tree")
    run = service.prepare_pre_run(run_id="r")
    assert run.repo_root == str(tmp_path / "bare.git")
    assert (tmp_path / "bare.git/.agentos/runs/r/workspace_context.json").exists()
    assert GitWorktreeWorkspaceService(run.worktree_path, run_id="r").current_context() == run


@pytest.mark.parametrize("in_the_way", ["branch", "parent", "folder", "worktree"])
def test_refused_workspace_leaves_nothing(repo: Repo, in_the_way: str) -> None:
    evidence_store.create(context_of(repo).location, "other").event("begun")
    if in_the_way == "branch":
        repo.git("branch", "agentos/run-r")
    elif in_the_way == "parent":
        repo.git("branch", "agentos")
    elif in_the_way == "folder":
        (repo.path.parent / f"{repo.path.name}.worktrees/run-r").mkdir(parents=True)
    else:
        creation.create(context_of(repo), "run-r")
    before = snapshot(repo)
    with pytest.raises(WorktreeError):
        prepare(repo)
    assert_nothing_left(before, repo)
    with pytest.raises(RunError, match="there is no run 'r'"):
        GitWorktreeWorkspaceService(repo.path, run_id="r").current_context()


def test_failed_creation_leaves_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence_store.create(context_of(repo).location, "other").event("begun")
    repo.config("agentos.setup", "echo half >half.txt; exit 3")
    before = snapshot(repo)
    with pytest.raises(WorktreeError, match="exited with 3"):
        prepare(repo)
    assert_nothing_left(before, repo)
    repo.git("config", "--unset", "agentos.setup")
    kernels = evidence_store.create(context_of(repo).location, "r")  # the kernel has begun: what it told stays
    kernels.event("begun", task="T")
    before = snapshot(repo)
    for module, name in ((baseline, "record"), (Evidence, "write_once")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, _raise)
            with pytest.raises(StorageError, match="injected"):
                preparation.prepare(context_of(repo), preparation.WorkspaceSpec("r", None, None, None, True, ()))
        assert_nothing_left(before, repo)
    assert prepare(repo)[1].run_id == "r"


def _raise(*_: object, **__: object) -> None:
    raise OSError("injected")


def test_a_run_has_one_workspace(repo: Repo) -> None:
    service, run = prepare(repo)
    for again in (service, GitWorktreeWorkspaceService(repo.path), GitWorktreeWorkspaceService(repo.path, run_id="r")):
        with pytest.raises(RunError, match="a run 'r' already"):
            again.prepare_pre_run(run_id="r")
    with pytest.raises(RunError, match="workspace of run 'r'"):
        service.prepare_pre_run(run_id="s")
    with lock.hold(context_of(repo).location, "r"):
        for change in (lambda: service.mark_step(1), service.rollback_pre_run):
            with pytest.raises(LockedError, match="run 'r' is running"):
                change()
        assert service.current_context() == run
        held = GitWorktreeWorkspaceService(repo.path, run_id="r", held=True)
        held.mark_step(1)


# -- killed ----------------------------------------------------------------------------------------------------------


def _killed_at(repo: Repo, owner: Any, name: str, *, after: bool) -> None:
    """Prepare in a child that is killed before or after it calls a function."""
    child = os.fork()
    if child == 0:
        real = getattr(owner, name)

        def strike(*args: Any, **fields: Any) -> Any:
            if after:
                real(*args, **fields)
            os.kill(os.getpid(), signal.SIGKILL)

        try:
            setattr(owner, name, strike)
            prepare(repo)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


KILLED: dict[str, tuple[Any, str, bool]] = {
    "before anything is made": (evidence_store, "create", True),
    "when the intent is written": (layout, "choose_path", True),
    "when git has made the entry": (new_worktree.NewWorktree, "add_worktree", True),
    "before the set-up": (setup, "prepare", False),
    "after the set-up": (setup, "prepare", True),
    "after the checkpoint": (baseline, "record", False),
    "before the context is written": (Evidence, "write_once", False),
    "after the context is written": (Evidence, "write_once", True),
    "before it is recorded": (record, "write", False),
    "after it is recorded": (record, "write", True),
    "before it is told": (preparation, "_record_prepared", False),
}


# A `prepare_pre_run` repairs by itself; after these, `worktree repair` is tried as well.
REPAIRED = ("after the set-up", "after the context is written", "after it is recorded")


CASES = [*((when, False) for when in KILLED), *((when, True) for when in REPAIRED)]


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(("when", "repaired"), CASES)
def test_a_killed_one_is_settled_by_the_next(repo: Repo, when: str, repaired: bool) -> None:
    owner, name, after = KILLED[when]
    _killed_at(repo, owner, name, after=after)
    later = GitWorktreeWorkspaceService(repo.path, run_id="r")
    left = later.current_context()
    if repaired:
        repair.repair(context_of(repo), "run-r")
    run = later.prepare_pre_run(run_id="r")
    assert left in (None, run)
    assert later.current_context() == run
    assert inside(run).git("status", "--porcelain") == b""
    assert inside(run).text("symbolic-ref", "HEAD") == BRANCH
    assert [each["event"] for each in told(repo)] == ["begun", "prepared"]
    assert journal.find_all(context_of(repo).location) == []
    assert repair.examine(context_of(repo)) == []
    assert repo.git("fsck", "--strict", "--no-dangling") == b""
    with pytest.raises(RunError, match="already"):
        later.prepare_pre_run(run_id="r")


# -- picked up -------------------------------------------------------------------------------------------------------


def test_workspace_is_picked_up_by_another_process(repo: Repo) -> None:
    _, run = prepare(repo, task_id="T")
    later = GitWorktreeWorkspaceService(run.worktree_path, run_id="r")
    assert later.current_context() == run
    there = inside(run)
    there.write("new.txt", "new\n")
    commit = there.commit("work")
    assert later.current_context() == replace(run, head_sha=commit)
    there.git("checkout", "-q", "--detach", run.base_sha)
    assert later.current_context() == run
    # what is recorded never changes
    assert evidence_store.context_of(evidence_store.open_existing(context_of(repo).location, "r")) == run
    shutil.rmtree(run.worktree_path)
    assert GitWorktreeWorkspaceService(repo.path, run_id="r").current_context() == replace(run, head_sha=commit)
    with pytest.raises(UsageError):
        GitWorktreeWorkspaceService(repo.path, run_id="../r")


def test_a_run_that_is_not_there(repo: Repo) -> None:
    """To pick up what does not exist is an error; a fresh service has no run yet, and says None."""
    prepare(repo)
    mistyped = GitWorktreeWorkspaceService(repo.path, run_id="unheard-of")
    calls = (
        mistyped.current_context, mistyped.snapshot, mistyped.diff_summary, mistyped.rollback_pre_run,
        partial(mistyped.mark_step, 1), partial(mistyped.rollback_to, "step:1"),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(RunError, match="there is no run 'unheard-of'"):
            call()
    assert GitWorktreeWorkspaceService(repo.path).current_context() is None


@pytest.mark.parametrize("closed", [(), ("stable",)])
def test_protected_branches_are_those_of_every_run(repo: Repo, closed: tuple[str, ...]) -> None:
    _, run = prepare(repo, protected=closed, guard=False)
    wanted = ["main", "master", *closed]
    assert record.read(inside(run).git_dir.as_posix()).protected == wanted  # type: ignore[union-attr]
    assert told(repo)[0]["protected"] == wanted


def test_no_default_of_the_null_workspace_is_anybodys_folder(tmp_path: Path) -> None:
    service, other = NullWorkspaceService(), NullWorkspaceService()
    one, two = service.prepare_pre_run(run_id="r"), other.prepare_pre_run(run_id="r")
    assert one.worktree_path == one.repo_root != two.worktree_path
    assert os.path.isabs(one.worktree_path) and os.listdir(one.worktree_path) == []
    assert not any(each.startswith(one.worktree_path + os.sep) for each in (os.getcwd(), os.path.expanduser("~")))
    for root in ("/", "//", "", str(tmp_path / "nowhere"), f"{tmp_path}/../{'../' * 20}"):
        with pytest.raises(UsageError):
            NullWorkspaceService(root)
    assert NullWorkspaceService(tmp_path).prepare_pre_run(run_id="r").worktree_path == str(tmp_path)


def test_the_folder_of_a_null_workspace_ends_with_its_process() -> None:
    script = (
        "import os, git_agentos as g; p = g.NullWorkspaceService().prepare_pre_run(run_id='r').worktree_path\n"
        "open(p + '/file', 'w').close(); print(p)\n"
        "if os.fork() == 0: raise SystemExit\n"
        "os.wait(); assert os.path.isdir(p)"
    )
    path = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()[0]
    assert os.path.isabs(path) and not os.path.exists(path)


def test_lost_context_is_read_from_the_checkpoint(repo: Repo) -> None:
    _, run = prepare(repo)
    shutil.rmtree(repo.path / ".agentos")
    assert GitWorktreeWorkspaceService(repo.path, run_id="r").current_context() == run
    _, other = prepare(repo, "s")
    os.unlink(repo.path / ".agentos/runs/s/workspace_context.json")
    assert GitWorktreeWorkspaceService(repo.path, run_id="s").current_context() == other
    (repo.path / ".agentos/runs/s/workspace_context.json").write_text("{}")
    with pytest.raises(RunError, match="damaged"):
        GitWorktreeWorkspaceService(repo.path, run_id="s").current_context()


def _no_git_file(root: Path) -> None:
    (root / ".git").unlink()


def _own_repository(root: Path) -> None:
    (root / ".git").unlink()
    git(root, "init", "-q")


def _link(root: Path) -> None:
    root.rename(root.with_name("moved"))
    root.symlink_to("moved")


def _file(root: Path) -> None:
    shutil.rmtree(root)
    root.write_text("")


def _no_entry(root: Path) -> None:
    shutil.rmtree(open_workspace(root).context.location.git_dir)


def _no_head(root: Path) -> None:
    Path(open_workspace(root).context.location.git_dir, "HEAD").unlink()


def test_replaced_worktree_is_reported(repo: Repo) -> None:
    """It is told, and nothing that lies there or around it is taken for the run's."""
    service, run = prepare(repo)
    root, entry = Path(run.worktree_path), repo.git_dir / "worktrees/run-r"
    both = {root: repo.scratch / "root", entry: repo.scratch / "entry"}
    for path, kept in both.items():
        shutil.copytree(path, kept, symlinks=True)
    for wreck in (shutil.rmtree, _no_git_file, _own_repository, _link, _file, _no_entry, _no_head):
        wreck(root)
        with pytest.raises(RunError) as caught:
            run_context(context_of(repo), run)
        assert caught.value.hint is not None
        assert "git agentos rollback r" in caught.value.hint
        for ask in (service.snapshot, service.diff_summary, partial(service.mark_step, 1)):
            with pytest.raises(RunError):
                ask()
        assert service.current_context() == run, wreck
        remove(os.fsencode(root.with_name("moved")))
        for path, kept in both.items():
            remove(os.fsencode(path))
            shutil.copytree(kept, path, symlinks=True)
        assert run_context(context_of(repo), run).location.root == str(root), wreck


# -- looked at -------------------------------------------------------------------------------------------------------


def test_status_of_the_workspace(repo: Repo) -> None:
    service, run = prepare(repo, task_id="T")
    first = service.snapshot()
    assert (first.changed, first.commits, first.tree) == ([], [], repo.oid("HEAD^{tree}"))
    assert service.diff_summary() == ""
    there = inside(run)
    there.write("new.txt", "new\n")
    commit = there.commit("work")
    there.write("staged.txt", "staged\n")
    there.add("staged.txt")
    there.append("readme.txt", "more\n")
    there.write(b"odd \xff\n.txt", "untracked\n")
    before = there.git("status", "--porcelain=v2", "-z")
    seen = service.snapshot()
    assert (seen.run_id, seen.head_sha, seen.branch, seen.commits) == ("r", commit, "agentos/run-r", [commit])
    odd = os.fsdecode(b"odd \xff\n.txt")
    assert (seen.staged, seen.unstaged, seen.untracked) == (["staged.txt"], ["readme.txt"], [odd])
    assert seen.changed == ["new.txt", odd, "readme.txt", "staged.txt"]
    assert there.git("status", "--porcelain=v2", "-z") == before
    assert {line.split("|")[0].strip() for line in service.diff_summary().splitlines()[:-1]} >= {
        "new.txt", "readme.txt", "staged.txt",
    }  # fmt: skip
    again = service.snapshot()
    assert replace(again, taken_at=seen.taken_at) == seen
    there.append("readme.txt", "and more\n")
    assert service.snapshot().digest != seen.digest
    saved = format.read(context_of(repo).repository, seen.checkpoint)
    assert (saved.trigger, saved.run_id, saved.task_id, saved.created_by) == ("post_step", "r", "T", "run-r")


def test_points_on_the_way(repo: Repo) -> None:
    service, run = prepare(repo)
    there = inside(run)
    one = service.mark_step(1)
    there.write("new.txt", "one\n")
    two = service.mark_step(2)
    there.write("new.txt", "two\n")
    there.commit("work")
    assert events.state_of("r", told(repo)).points == {1: one, 2: two}
    begin = (events.state_of("r", told(repo)).prepared or {})["checkpoint"]
    back = service.rollback_to(2)
    assert back == run
    assert there.read("new.txt") == b"one\n"
    back = GitWorktreeWorkspaceService(repo.path, run_id="r").rollback_pre_run()
    assert back == run
    assert not there.exists("new.txt")
    assert service.rollback_to(two) == run
    assert there.read("new.txt") == b"one\n"
    rolled = [(each["point"], each["checkpoint"]) for each in told(repo) if each["event"] == "rolled-back"]
    assert rolled == [("step:2", two), ("pre_run", begin), (two, two)]
    with pytest.raises(AgentosError):
        service.rollback_to(7)


# -- a worktree like any other ---------------------------------------------------------------------------------------


def test_workspace_is_removed_archived_and_revived(repo: Repo) -> None:
    service, run = prepare(repo, task_id="T", protected=("main",))
    context = context_of(repo)
    there = inside(run)
    there.write("new.txt", "new\n")
    commit = there.commit("work")
    there.write("untracked.txt", "untracked\n")
    shown = status.show(context, "run-r")
    assert (shown.branch, shown.task, shown.state, shown.ahead) == ("agentos/run-r", "T", "active", 1)
    gone = removal.archive(context, "run-r")
    assert (gone.branch, gone.branch_sha) == ("agentos/run-r", commit)
    assert status.show(context, "run-r").branch == "agentos/run-r"
    link = timeline.newest(context.repository, "run-r")
    assert link is not None
    data = format.read_attachment(context.repository, link.checkpoint, b"runs/r/workspace_context.json")
    assert data is not None
    assert WorkspaceContext.from_json(data) == run
    assert (repo.path / ".agentos/runs/r/events.jsonl").exists()
    assert service.current_context() == replace(run, head_sha=commit)
    with pytest.raises(RunError, match="a run 'r' already"):
        prepare(repo)

    creation.create(context, "run-r", revive=True)
    known = record.find(context.location.common_dir, "run-r").record
    assert (known.branch, known.run_id, known.protected) == ("agentos/run-r", "r", ["main", "master"])
    assert there.text("symbolic-ref", "HEAD") == BRANCH
    assert there.read("untracked.txt") == b"untracked\n"
    assert refs.resolve(context.location, "refs/heads/agent/run-r") is None
    gone = removal.end_worktree(context, "run-r", RemovalRequest("remove", True))
    assert gone.branch_deleted
    assert refs.resolve(context.location, BRANCH) is None
    assert (repo.path / ".agentos/runs/r/workspace_context.json").exists()


def test_records_of_older_versions_are_read(repo: Repo) -> None:
    creation.create(context_of(repo), "dev")
    path = next((repo.git_dir / "worktrees").glob("*/agentos/worktree.json"))
    body = json.loads(path.read_text())
    assert (body.pop("protected"), body.pop("run_id")) == ([], None)
    path.write_text(json.dumps(body))
    known = record.find(context_of(repo).location.common_dir, "dev").record
    assert (known.branch, known.protected, known.run_id) == ("agent/dev", [], None)


def test_a_lost_record_is_made_again(repo: Repo) -> None:
    _, run = prepare(repo)
    path = next((repo.git_dir / "worktrees").glob("*/agentos/worktree.json"))
    path.write_text("{")
    repair.repair(context_of(repo), "run-r")
    known = record.find(context_of(repo).location.common_dir, "run-r").record
    assert (known.branch, known.run_id, known.base_sha) == ("agentos/run-r", "r", run.base_sha)
