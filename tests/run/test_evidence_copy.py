"""`git clean -fdx` takes `.agentos` and with it the evidence of all runs: git has a copy, and every command goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import RunError
from git_agentos.run import accept, commands, evidence_copy, evidence_store, workspace
from git_agentos.run.context import worktree_id
from tests.support.command_line import Cli
from tests.support.confirming import set_up_key
from tests.support.repo import Repo
from tests.support.runs import context_of, start

Say = Callable[..., Any]


@pytest.fixture
def say(cli: Cli, repo: Repo, tmp_path: Path) -> Say:
    """Run a command in the repository; a key lets it accept."""
    set_up_key(repo, tmp_path)

    def call(*words: str) -> Any:
        return cli("-C", str(repo.path), *words)

    return call


def clean(repo: Repo) -> None:
    repo.git("clean", "-fdxq")
    assert not repo.exists(".agentos")


def remove_runs(repo: Repo) -> None:
    shutil.rmtree(repo.path / ".agentos/runs", ignore_errors=True)


def remove_run(repo: Repo) -> None:
    shutil.rmtree(repo.path / ".agentos/runs/T-1", ignore_errors=True)


def contents(folder: str) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in Path(folder).rglob("*") if each.is_file()}


def plain(text: str) -> str:
    return re.sub(r"just now|\d+ \w+ ago", "<time>", text)


LOSSES = {"clean": clean, "no runs": remove_runs, "one": remove_run}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_commands_answer_from_the_copy(say: Say, repo: Repo, lose: Callable[[Repo], None]) -> None:
    """Whichever command comes first."""
    run = start(repo, "echo > new; echo said", validate=["true"], run_id="T-1", guard=False)
    start(repo, "echo > new", validate=["false"], run_id="T-2", guard=False)
    asked = [
        ("run", "list"), ("run", "list", "-q"), ("run", "list", "--json"), ("run", "show", "T-1"),
        ("run", "logs", "T-1"), ("run", "diff", "T-1"), ("run", "verify", "T-1"), ("run", "verify", "T-1", "--json"),
        ("rollback", "T-1", "--dry-run"), ("status",),
    ]  # fmt: skip
    before, kept = {words: say(*words) for words in asked}, contents(run.evidence)
    assert "T-1" in before["run", "list"].text
    for words in asked:
        lose(repo)
        done = say(*words)
        assert (done.code, plain(done.text)) == (before[words].code, plain(before[words].text)), words
        say("run", "verify", "T-1")
        assert contents(run.evidence) == kept, words


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_run_is_accepted(say: Say, repo: Repo, lose: Callable[[Repo], None]) -> None:
    start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    lose(repo)
    done = say("run", "accept", "T-1", "--json")
    assert (done.code, json.loads(done.out)["state"]) == (0, "accepted")
    assert repo.exists("new")
    lose(repo)
    assert json.loads(say("run", "show", "T-1", "--json").out)["state"] == "accepted"
    assert say("run", "verify", "T-1").code == 0
    assert say("rollback", "T-1").code == 0
    lose(repo)
    assert json.loads(say("run", "show", "T-1", "--json").out)["rolled_back_to"] == "pre_run"


def test_copy_of_an_external_run(repo: Repo) -> None:
    context = context_of(repo)
    service = workspace.GitWorktreeWorkspaceService(context)
    made = service.prepare_pre_run(run_id="r")
    for n in (1, 2):
        clean(repo)
        Path(made.worktree_path, f"step-{n}").write_text("x")
        service.mark_step(n)
        assert workspace.GitWorktreeWorkspaceService(context, run_id="r").current_context() == made
    clean(repo)
    assert [(each.run_id, each.state) for each in commands.list_runs(context)] == [("r", "open")]
    service.rollback_to(2)
    assert os.path.exists(os.path.join(made.worktree_path, "step-1"))
    assert [each["event"] for each in evidence_store.open_existing(context.location, "r").events()][-3:] == [
        "marked", "marked", "rolled-back",
    ]  # fmt: skip


def test_a_copy_is_not_believed_by_itself(repo: Repo) -> None:
    """Neither an older one, nor that of another run."""
    context = context_of(repo)
    name = f"{evidence_copy.PREFIX}T-1"
    older = {}
    service = workspace.GitWorktreeWorkspaceService(context)
    service.prepare_pre_run(run_id="T-1")
    older["an older one"] = repo.oid(name)
    service.mark_step(1)
    service.mark_step(2)
    start(repo, "echo > new", validate=["true"], run_id="T-2", guard=False)
    older["another's"] = repo.oid(f"{evidence_copy.PREFIX}T-2")
    for what, oid in older.items():
        clean(repo)
        repo.git("update-ref", name, oid)
        assert commands.show(context, "T-1").state == "tampered", what
        assert evidence_store.open_or_rebuild(context.location, "T-1").record().problem is not None, what


def written(repo: Repo, kind: str, data: bytes) -> str:
    """An object that git itself would not write."""
    (repo.scratch / "object").write_bytes(data)
    args = ("hash-object", "-t", kind, "--literally", "-w", str(repo.scratch / "object"))
    return repo.git(*args).decode().strip()


def test_names_that_lead_out_of_the_folder(repo: Repo) -> None:
    context = context_of(repo)
    workspace.GitWorktreeWorkspaceService(context).prepare_pre_run(run_id="r")
    blob = written(repo, "blob", b"planted\n")
    inner = written(repo, "tree", b"100644 planted\0" + bytes.fromhex(blob))
    oid = written(repo, "tree", b"".join(b"40000 %s\0" % each + bytes.fromhex(inner) for each in (b"..", b"sub")))
    repo.git("update-ref", f"{evidence_copy.PREFIX}r", oid)
    clean(repo)
    evidence_copy.rebuild_folder(context.location, "r")
    assert repo.exists(".agentos/runs/r/sub/planted")
    assert not repo.exists(".agentos/runs/planted")


def test_run_without_a_copy_is_listed_by_its_timeline(say: Say, repo: Repo) -> None:
    """A run of a version that made no copy."""
    workspace.GitWorktreeWorkspaceService(context_of(repo)).prepare_pre_run(run_id="r")
    clean(repo)
    repo.git("update-ref", "-d", f"{evidence_copy.PREFIX}r")
    (found,) = commands.list_runs(context_of(repo))
    assert (found.run_id, found.context is not None, found.problems != []) == ("r", True, True)
    assert "r" in say("run", "list").text
    assert say("run", "show", "r").code == 0
    assert say("rollback", "r").code == 0
    with pytest.raises(RunError, match="no run 'nobody'"):
        commands.show(context_of(repo), "nobody")


def test_failed_start_leaves_no_copy(repo: Repo) -> None:
    with pytest.raises(Exception, match="no-such-commit"):
        start(repo, "true", run_id="r", base_ref="no-such-commit")
    assert repo.git("for-each-ref", evidence_copy.PREFIX) == b""
    assert not repo.exists(f"../repo.worktrees/{worktree_id('r')}")


def one_file(repo: Repo) -> None:
    (repo.path / ".agentos/runs/T-1/events.jsonl").unlink()


def one_step(repo: Repo) -> None:
    shutil.rmtree(repo.path / ".agentos/runs/T-1/steps/001-agent")


def test_doctor(say: Say, repo: Repo) -> None:
    run = start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    kept = contents(run.evidence)
    assert say("doctor").code == 0
    for lose in (*LOSSES.values(), one_file, one_step):
        lose(repo)
        before = sorted(repo.path.rglob("*"))
        done = say("doctor", "--json")
        (found,) = [each for each in json.loads(done.out)["findings"] if each["code"] == "run-evidence-missing"]
        assert (done.code, "T-1" in found["message"], found["fixed"]) == (1, True, False)
        assert [each for each in sorted(repo.path.rglob("*")) if ".git/" not in str(each)] == [
            each for each in before if ".git/" not in str(each)
        ]
        assert say("doctor", "--fix").code == 0
        assert contents(run.evidence) == kept
        assert say("run", "verify", "T-1").code == 0


def test_a_file_that_was_changed_is_not_copied(repo: Repo) -> None:
    """The copy keeps what the record names, whatever the folder has when the next event comes."""
    run = start(repo, "echo said > new; echo said", validate=["true"], run_id="T-1", guard=False)
    step = Path(run.evidence, "steps/001-agent")
    (step / "stdout").write_text("something else")
    (step / "exit_code").unlink()
    commands.rollback(context_of(repo), "T-1", "pre_run")
    clean(repo)
    evidence_store.rebuild_folders(context_of(repo).location)
    assert (step / "stdout").read_text() == "said\n"
    assert (step / "exit_code").read_text() == "0\n"


def test_while_it_is_at_work(repo: Repo) -> None:
    """What the process has in memory and git has is put on record again; what it says is why it has ended."""
    command = f"echo > new; cd '{repo.path}' && git clean -fdxq"
    run = start(repo, "echo first > first; echo said", command, validate=["true"], run_id="T-1", guard=False)
    assert (run.state, run.reason) == ("tampered", f"the folder '{run.evidence}' was replaced")
    assert Path(run.evidence, "steps/001-agent/stdout").read_bytes() == b"said\n"
    assert [each.outcome for each in commands.show(context_of(repo), "T-1").steps][:1] == ["ok"]
    assert run.context is not None
    assert Path(run.context.worktree_path, "new").exists()
    clean(repo)
    assert commands.show(context_of(repo), "T-1").state == "tampered"
    assert commands.rollback(context_of(repo), "T-1", "step:2").point == "step:2"


def test_of_a_clone_and_of_another_user(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shown as it is told, and never made the evidence of a run here."""
    start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    clean(repo)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "others"))
    context = context_of(repo)
    assert commands.show(context, "T-1").state == "passed"
    assert evidence_store.rebuild_folders(context.location) == []
    with pytest.raises(RunError, match="not written with your key"):
        accept.accept(context, "T-1")
    monkeypatch.undo()
    assert evidence_store.rebuild_folders(context_of(repo).location) == ["T-1"]


def test_a_run_of_a_version_that_made_no_copy(say: Say, repo: Repo) -> None:
    """It gets one from the next command of `run`."""
    start(repo, "echo > new", validate=["true"], run_id="T-1", guard=False)
    repo.git("update-ref", "-d", f"{evidence_copy.PREFIX}T-1")
    assert say("run", "list").code == 0
    clean(repo)
    assert say("run", "accept", "T-1").code == 0


def test_copy_of_a_run_killed_before_its_worktree(repo: Repo) -> None:
    context = context_of(repo)
    evidence_store.create(context.location, "r").event("begun", tool="tests")
    clean(repo)
    assert workspace.GitWorktreeWorkspaceService(context, run_id="r").current_context() is None
    made = workspace.GitWorktreeWorkspaceService(context).prepare_pre_run(run_id="r")
    assert [each["event"] for each in evidence_store.open_existing(context.location, "r").events()] == [
        "begun",
        "prepared",
    ]
    clean(repo)
    assert workspace.GitWorktreeWorkspaceService(context, run_id="r").current_context() == made
