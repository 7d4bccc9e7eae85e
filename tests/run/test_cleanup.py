"""Worktrees and branches of ended runs go out of the way, and nothing of them is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from git_agentos import GitWorktreeWorkspaceService
from git_agentos.cli.render.text import run as text_run
from git_agentos.cli.render.text import run_end
from git_agentos.cli.text import Style
from git_agentos.errors import RunError, UsageError
from git_agentos.git import refs
from git_agentos.run import accept, cleanup, commands, evidence_store
from git_agentos.worktree import creation, journal, removal, status, trash
from git_agentos.worktree.final_checkpoint import FinalCheckpoint, RemovalRequest
from tests.support.json_reference import check, schema_of
from tests.support.repo import Repo
from tests.support.runs import context_of, start, worktree
from tests.support.state import complete_state, differences
from tests.support.tool import run as tool

WORK = (
    "echo committed >committed.txt && git add committed.txt && git commit --quiet -m work;"
    "echo staged >staged.txt; git add staged.txt; echo more >>readme.txt; echo new >new.txt; echo log >a.log"
)


def clean(repo: Repo, *run_ids: str, **options: Any) -> cleanup.Cleanup:
    return cleanup.cleanup(context_of(repo), run_ids, **options)


def made(repo: Repo, run_id: str = "r", **fields: Any) -> Repo:
    """The worktree of a run that passed, with something of every kind in it."""
    repo.write(".gitignore", "*.log\n")
    if repo.git("status", "--porcelain"):
        repo.commit("ignore logs")
    return worktree(start(repo, WORK, validate=["true"], run_id=run_id, guard=False, **fields))


def seen(repo: Repo, run_id: str) -> tuple[Any, ...]:
    """What is told of a run."""
    context = context_of(repo)
    run, checked = commands.show(context, run_id), evidence_store.verify(context, run_id)
    told = [(step.n, out, err) for step, out, err in commands.logs(context, run_id)]
    return (
        run.state,
        run.steps,
        run.final_checkpoint,
        checked.ok,
        checked.problems,
        told,
        commands.diff(context, run_id),
    )


def branches(repo: Repo) -> list[str]:
    return repo.text("for-each-ref", "--format=%(refname:short)", "refs/heads/agentos", "refs/heads/feat").split()


def test_cleaned_up_run_is_revived_and_accepted(repo: Repo) -> None:
    inside = made(repo)
    before, told, head = complete_state(inside.path), seen(repo, "r"), inside.oid()
    planned = clean(repo, "r", dry_run=True)
    assert (complete_state(inside.path), [each.archive for each in planned.cleaned]) == (before, [None])
    done = clean(repo, all_=True)
    assert (done.kept, done.dry_run, len(done.cleaned)) == ([], False, 1)
    (one,) = done.cleaned
    assert (one.run_id, one.path, one.branch, one.branch_sha, one.branch_deleted) == (
        "r", str(inside.path), "agentos/run-r", head, True,
    )  # fmt: skip
    assert one.archive is not None and one.get_back[0] == "git agentos worktree create run-r --revive"
    assert planned.cleaned[0].__dict__ == {**one.__dict__, "archive": None, "get_back": [], "not_saved": []}
    assert (os.path.exists(inside.path), branches(repo), seen(repo, "r")) == (False, [], told)
    shown = commands.show(context_of(repo), "r")
    assert shown.archive == one.archive
    assert text_run.details(shown, Style()).hints == (
        "'git agentos worktree create run-r --revive' restores its worktree",
        "then 'git agentos run accept r' merges it",
    )
    assert status.show(context_of(repo), "run-r").state == "archived"
    assert clean(repo, "r") == clean(repo, all_=True) == cleanup.Cleanup([], [], False)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")

    with pytest.raises(RunError, match="worktree of run 'r' is gone") as caught:
        accept.accept(context_of(repo), "r")
    assert "git agentos worktree create run-r --revive" in str(caught.value.hint)
    creation.create(context_of(repo), "run-r", revive=True)
    assert differences(before, complete_state(inside.path), refs=False) == []
    assert (branches(repo), inside.oid(), commands.show(context_of(repo), "r").archive) == (
        ["agentos/run-r"],
        head,
        None,
    )
    run, merge = accept.accept(context_of(repo), "r", cleanup=True)
    assert (run.state, run.problems, merge.merged, branches(repo)) == ("accepted", [], True, [])
    assert run.archive is not None and not os.path.exists(inside.path)
    assert (repo.read("new.txt"), repo.read("committed.txt")) == (b"new\n", b"committed\n")


@pytest.mark.parametrize("option", [True, False])
def test_at_the_end(repo: Repo, option: bool) -> None:
    """By the option, or by configuration which the option overrides; one that has passed waits to be accepted."""
    repo.config("agentos.runCleanup", str(not option).lower())
    fields = {"guard": False, "cleanup": option}
    failed = start(repo, "echo x >x", validate=["false"], run_id="f", **fields)
    passed = start(repo, "echo y >y", validate=["true"], run_id="p", **fields)
    assert (failed.state, failed.cleanup, passed.state, passed.cleanup) == ("failed", option, "passed", option)
    assert (failed.archive is not None, passed.archive) == (option, None)
    assert [os.path.exists(worktree(each).path) for each in (failed, passed)] == [not option, True]
    accepted = accept.accept(context_of(repo), "p")
    assert (accepted.run.state, accepted.run.archive is not None) == ("accepted", option)
    assert branches(repo) == ([] if option else ["agentos/run-f", "agentos/run-p"])
    assert evidence_store.verify(context_of(repo), "f").ok and evidence_store.verify(context_of(repo), "p").ok


def test_runs_that_cleanup_leaves_alone(repo: Repo) -> None:
    context = context_of(repo)
    service = GitWorktreeWorkspaceService(context, branch="feat/x", guard=False)
    service.prepare_pre_run(run_id="open")
    start(repo, "echo x >x", validate=["false"], run_id="used", guard=False)
    start(repo, "echo x >x", validate=["false"], run_id="locked", guard=False)
    start(repo, "echo x >x", validate=["false"], run_id="inside", guard=False)
    repo.git("worktree", "lock", str(worktree(commands.show(context, "locked")).path))
    beside = repo.scratch / "beside"
    repo.git("worktree", "add", "--quiet", "--force", str(beside), "agentos/run-used")
    here = worktree(commands.show(context, "inside")).path
    process = subprocess.Popen(["sleep", "1000"], cwd=here)
    try:
        planned = clean(repo, all_=True, dry_run=True)
        done = clean(repo, all_=True)
        named = clean(repo, "open", "used")
    finally:
        process.kill()
        process.wait()
    assert [(each.run_id, each.branch_deleted) for each in done.cleaned] == [("used", False)]
    reasons = {each.run_id: each.reason for each in done.kept}
    assert reasons.keys() == {"open", "locked", "inside"}
    assert (planned.kept, [each.run_id for each in planned.cleaned]) == (done.kept, ["used"])
    assert "'workspace service' drives it" in reasons["open"]
    assert "is locked" in reasons["locked"] and "a process works in the worktree 'run-inside'" in reasons["inside"]
    assert ([each.run_id for each in named.kept], named.cleaned) == (["open", "used"], [])
    assert f"is checked out at '{beside}'" in named.kept[1].reason
    assert os.path.exists(here) and branches(repo) == [
        "agentos/run-inside", "agentos/run-locked", "agentos/run-used", "feat/x",
    ]  # fmt: skip
    repo.git("worktree", "remove", "--force", str(beside))
    assert [each.branch_deleted for each in clean(repo, "used").cleaned] == [True]
    assert [each.run_id for each in clean(repo, "inside", older_than="1h").kept] == ["inside"]
    assert [each.run_id for each in clean(repo, all_=True, older_than="1h").kept] == []
    assert [each.run_id for each in clean(repo, "inside", older_than=0).cleaned] == ["inside"]


def test_a_branch_that_has_more_than_is_saved_stays(repo: Repo) -> None:
    """The worktree was archived by hand, and somebody went on with the branch."""
    made(repo)
    removal.end_worktree(context_of(repo), "run-r", RemovalRequest(journal.ARCHIVE))
    repo.git("switch", "--quiet", "agentos/run-r")
    repo.write("later.txt", "later\n")
    repo.commit("later")
    repo.git("switch", "--quiet", "main")
    why = "its branch 'agentos/run-r' has commits that were made after its worktree was archived"
    assert clean(repo, "r") == clean(repo, all_=True) == cleanup.Cleanup([], [cleanup.Kept("r", why)], False)
    assert branches(repo) == ["agentos/run-r"]
    repo.git("branch", "--force", "agentos/run-r", "agentos/run-r~1")
    assert [each.branch_deleted for each in clean(repo, all_=True, older_than=0.0).cleaned] == [True]
    assert branches(repo) == []


def test_invalid_options_change_nothing(repo: Repo) -> None:
    inside = made(repo)
    for words, options in (((), {}), (("r",), {"all_": True}), (("r",), {"older_than": "soon"})):
        with pytest.raises(UsageError):
            clean(repo, *words, **options)
    with pytest.raises(RunError, match="there is no run 'mistyped'"):
        clean(repo, "r", "mistyped")
    assert inside.path.is_dir()


KILLED = {
    "before it is saved": (FinalCheckpoint, "save", False),
    "after it is saved": (FinalCheckpoint, "save", True),
    "before the folder goes": (trash, "move", False),
    "after the folder went": (trash, "move", True),
    "before the branch goes": (refs, "drop", False),
    "after the branch went": (refs, "drop", True),
    "before it is noted": (journal, "finish", False),
}


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("when", KILLED)
def test_a_killed_one_is_settled_by_the_next(repo: Repo, when: str) -> None:
    inside = made(repo)
    before, told, head = complete_state(inside.path), seen(repo, "r"), inside.oid()
    owner, name, after = KILLED[when]
    child = os.fork()
    if child == 0:
        real = getattr(owner, name)

        def strike(*args: Any, **fields: Any) -> Any:
            if after:
                real(*args, **fields)
            os.kill(os.getpid(), signal.SIGKILL)

        try:
            setattr(owner, name, strike)
            clean(repo, "r")
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert clean(repo, all_=True).kept == []
    assert (os.path.exists(inside.path), branches(repo), seen(repo, "r")) == (False, [], told)
    creation.create(context_of(repo), "run-r", revive=True)
    assert differences(before, complete_state(inside.path), refs=False) == []
    assert inside.oid() == head


def test_the_command(repo: Repo) -> None:
    inside = made(repo)
    GitWorktreeWorkspaceService(repo.path, guard=False).prepare_pre_run(run_id="o")
    left = tool(repo.path, "run", "cleanup", "--json", "--dry-run", "r", "o")
    assert (left.code, [each["run_id"] for each in left.json["kept"]]) == (1, ["o"])
    assert inside.path.is_dir()
    done = tool(repo.path, "run", "cleanup", "--json", "--all")
    assert done.code == 0, done
    assert done.json.pop("schema") == "agentos.run-cleanup.v1"
    for key, kind in schema_of("run-cleanup").items():
        check(done.json[key], kind, key)
    assert tool(repo.path, "run", "cleanup", "--all", "-q").out == b""
    assert tool(repo.path, "run", "cleanup").code == 2
    assert tool(repo.path, "run", "cleanup", "nobody").code == 1


def test_text_of_cleanup() -> None:
    saved, oid = "a" * 40, "b" * 40
    one = cleanup.Cleaned("r", "/w", saved, "agentos/run-r", oid, True, get_back=["bring it"])
    done = cleanup.Cleanup([one], [cleanup.Kept("s", "it has not ended: it is open")], dry_run=False)
    text = run_end.cleaned_up(done, Style())
    assert str(text.result).splitlines() == [
        "Run r: archived /w in aaaaaaaa, deleted branch 'agentos/run-r' (bbbbbbbb)",
        "skipped: run s: it has not ended: it is open",
    ]
    assert text.hints == ("'bring it' restores it",)
