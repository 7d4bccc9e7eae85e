"""Every JSON kind against docs/json.md, whose tables are the schema: the same keys, each of its type.

Checked are the examples in the document, what real commands print, and results made by hand for what a real command
does not easily come by.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from git_agentos import errors
from git_agentos.cli.render import json as documents
from git_agentos.errors import AgentosError
from git_agentos.run import sealing
from tests.support.command_line import Cli
from tests.support.json_reference import check_document, schema_of, sections
from tests.support.repo import Repo

# Kinds that have a test of their own.
ELSEWHERE = [
    *"merge conflicts log-timeline log-review log-entry log-list log-rebuild memory-item memory-list db".split(),
    *"turns revert why".split(),
    *"worktree worktree-list worktree-path worktree-env worktree-notify notify".split(),
    *"worktree-complete worktree-archive worktree-remove worktree-repair worktree-sync cleanup".split(),
    *"decision guard-integrate confirm".split(),
    *"approval approval-list".split(),
    *"guard-status hooks-status init".split(),
    *"run run-cleanup run-list run-logs run-diff run-verify rollback".split(),
    *"fleet fleets fleet-logs fleet-worker fleet-collect fleet-accept".split(),
    *"tdd tdd-list tdd-gate tdd-graph".split(),
    *"watch sync sync-status forget storage report".split(),
]
KINDS = [name for name, (is_kind, body) in sections().items() if is_kind and "```json" in body]


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_follow_the_reference(kind: str) -> None:
    examples = re.findall(r"^```json\n(.+)\n```$", sections()[kind][1], re.MULTILINE)
    assert examples
    for example in examples:
        assert check_document(json.loads(example)) == kind


def test_the_reference_has_every_kind() -> None:
    assert sorted(KINDS) == sorted(
        "checkpoint checkpoint-list checkpoint-diff checkpoint-cat restore undo recover pick status doctor version "
        "error".split()
        + ELSEWHERE
    )


def test_the_reference_has_every_error() -> None:
    rows = re.findall(r"^\| ([\w-]+) \| (\d+) \| [^|]+ \|$", sections()["kinds of failure"][1], re.MULTILINE)

    def below(kind: type[AgentosError]) -> list[type[AgentosError]]:
        return [kind, *(inner for each in kind.__subclasses__() for inner in below(each))]

    tree = {
        (each.kind, str(each.exit_code)) for each in below(errors.AgentosError) if each.__module__ == errors.__name__
    }
    assert set(rows) == tree | {("system", "1"), ("bug", "70"), ("cancelled", "130")}


@pytest.fixture
def worked(repo: Repo) -> Repo:
    """A repository with a staged, an unstaged and an untracked change, and a name that is not UTF-8."""
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("notes.txt", "changed\n")
    repo.write(b"bad\xff\n\x1b[31m", "odd\n")
    return repo


def test_documents_of_commands(cli: Cli, worked: Repo) -> None:
    def ask(*argv: str, code: int = 0) -> Any:
        answer = cli("-C", str(worked.path), "--json", *argv)
        assert answer.code == code, answer
        return answer.json

    seen = set()

    def kind(document: Any) -> str:
        found = check_document(document)
        seen.add(found)
        return found

    odd = os.fsdecode(b"bad\xff\n\x1b[31m")
    assert kind(ask("status")) == "status"
    taken = ask("checkpoint", "-m", "first", "--task", "t", "--meta", "k=v", "--run", "r", "--session", "s")
    assert kind(taken) == "checkpoint"
    assert odd in taken["untracked_files"]
    assert taken["meta"] == {"k": "v"}
    assert (taken["task_id"], taken["run_id"], taken["session_id"]) == ("t", "r", "s")
    again = ask("checkpoint", "--trigger", "periodic")
    assert kind(again) == "checkpoint"
    assert (again["id"], again["unchanged"]) == (taken["id"], True)
    assert kind(ask("checkpoint", "show", "latest")) == "checkpoint"
    listed = ask("checkpoint", "list")
    assert kind(listed) == "checkpoint-list"
    assert [each["id"] for each in listed["checkpoints"]] == [taken["id"]]
    assert kind(ask("checkpoint", "search", "first")) == "checkpoint-list"
    content = ask("checkpoint", "cat", f"latest:{odd}")
    assert kind(content) == "checkpoint-cat"
    assert (content["path"], base64.b64decode(content["content_base64"]), content["size"]) == (odd, b"odd\n", 4)
    worked.write("notes.txt", b"again \xff\n")
    compared = ask("checkpoint", "diff", "latest", "--", "notes.txt")
    assert kind(compared) == "checkpoint-diff"
    hunk = {"number": 1, "kind": "text", "header": "@@ -1 +1 @@"}
    assert compared["files"] == [{"path": "notes.txt", "status": "M", "hunks": [hunk]}]
    assert b"+again \xff\n" in os.fsencode(compared["patch"])
    assert kind(counted := ask("checkpoint", "diff", "latest", "--stat")) == "checkpoint-diff"
    assert counted["patch"] is None
    planned = ask("restore", "latest", "--dry-run")
    assert kind(planned) == "restore"
    assert (planned["saved"], planned["dry_run"]) == (None, True)
    done = ask("restore", "latest")
    assert kind(done) == "restore"
    assert (done["checkpoint"], done["changed"], done["dry_run"]) == (taken["id"], ["notes.txt"], False)
    assert kind(ask("undo")) == "undo"
    assert worked.read("notes.txt") == b"again \xff\n"
    assert kind(ask("recover")) == "recover"
    assert kind(ask("status")) == "status"
    found = cli("-C", str(worked.path), "--json", "doctor")
    assert kind(found.json) == "doctor"
    assert kind(ask("--version")) == "version"
    assert kind(ask("restore", "beef", code=1)) == "error"
    assert seen == set(KINDS) - {"pick", *ELSEWHERE}


def test_log_and_memory(cli: Cli, repo: Repo) -> None:
    def ask(*argv: str) -> Any:
        return cli("-C", str(repo.path), "--json", *argv).json

    kinds = [
        check_document(ask(*argv))
        for argv in (
            ("db", "path"),
            ("log", "add", "error", "it broke", "--detail", "a=b", "--file", os.fsdecode(b"bad\xff")),
            ("checkpoint", "-m", "first"),
            (
                "log",
                "add",
                "decision",
                "x",
                "--json-details",
                '{"a": [1, null]}',
                "--commit",
                "HEAD",
                "--checkpoint",
                "latest",
            ),
            ("memory", "artifact", "--type", "code", "--path", os.fsdecode(b"bad\xff"), "--description", "d"),
            ("memory", "merge", "--target", "main", "--source", "main", "--commit", "HEAD"),
            ("memory", "list"),
            ("log", "list"),
            ("log", "search", "broke"),
            ("log", "rebuild"),
        )
    ]
    assert kinds == [
        "db", "log-entry", "checkpoint", "log-entry", "memory-item", "memory-item", "memory-list", "log-list",
        "log-list", "log-rebuild",
    ]  # fmt: skip
    lines = cli("-C", str(repo.path), "log", "export").out.splitlines()
    assert [check_document(json.loads(line)) for line in lines] == ["log-entry"] * 3


def test_worktrees(cli: Cli, repo: Repo) -> None:
    def ask(*argv: str) -> Any:
        return cli("-C", str(repo.path), "--json", "worktree", *argv).json

    assert check_document(ask("create", "dev", "--task", "T")) == "worktree"
    assert check_document(ask("show", "dev")) == "worktree"
    assert check_document(ask("path", "dev")) == "worktree-path"
    assert check_document(ask("env", "dev")) == "worktree-env"
    assert check_document(ask("notify", "--conflicts")) == "worktree-notify"
    (repo.path.parent / "repo.worktrees/dev/.git").unlink()
    listed = ask("list")
    assert check_document(listed) == "worktree-list"
    assert [each["state"] for each in listed["worktrees"]] == ["broken"]


def test_the_end_of_worktrees(cli: Cli, repo: Repo) -> None:
    def ask(*argv: str) -> Any:
        return cli("-C", str(repo.path), "--json", "worktree", *argv).json

    kinds = []
    for command in ("archive", "remove"):
        made = ask("create", f"for-{command}", "--task", "T-1")
        there = Repo(Path(made["path"]))
        there.write(b"bad\xff", "untracked\n")
        there.write("data.bin", b"\0\1")
        there.commit("work")
        there.write(".gitignore", "ignored\n")
        there.write("ignored", "ignored\n")
        os.mkfifo(there.path / "pipe")
        kinds += [check_document(ask(*words, f"for-{command}")) for words in (["complete"], [command])]
    shutil.rmtree(ask("create", "lost")["path"])
    kinds.append(check_document(ask("repair")))
    assert kinds == ["worktree-complete", "worktree-archive", "worktree-complete", "worktree-remove", "worktree-repair"]


def test_pick(cli: Cli, repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("side.txt", "side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    document = cli("-C", str(repo.path), "pick", "side", "--json").json
    assert check_document(document) == "pick"
    assert (document["state"], document["picked"], document["conflicts"]) == ("done", [repo.oid("side")], [])


def test_before_the_first_commit(cli: Cli, empty_repo: Repo) -> None:
    empty_repo.write("a", "a")
    document = cli("-C", str(empty_repo.path), "checkpoint", "--json").json
    check_document(document)
    assert (document["branch"], document["commit"]) == ("main", None)
    check_document(cli("-C", str(empty_repo.path), "status", "--json").json)


def test_the_result_classes_are_the_reference() -> None:
    from git_agentos import workspace

    for name, section in (
        ("Checkpoint", "checkpoint"),
        ("Restoration", "restore"),
        ("Restoration", "undo"),
        ("Recovery", "recover"),
        ("Pick", "pick"),
        ("Finding", "finding"),
        ("FileChange", "file change"),
        ("HunkHeader", "hunk"),
        ("Skipped", "skipped path"),
    ):
        result = getattr(workspace, name)
        names = getattr(result, "_fields", None) or [each.name for each in dataclasses.fields(result)]
        assert list(names) == list(schema_of(section)), name
    # What waits to be done about runs and workflows is known above the workspace.
    above = ["interrupted_runs", "open_workflows", "guard_problems", "watch"]
    assert [*workspace.Status._fields, *above] == list(schema_of("status"))
    from git_agentos import log, memory
    from git_agentos.fleet import worker
    from git_agentos.report import collection, lanes
    from git_agentos.run import cleanup, events, rollback
    from git_agentos.run import workspace as run_workspace
    from git_agentos.tdd import state as tdd
    from git_agentos.turns import listing as turns
    from git_agentos.turns import revert
    from git_agentos.why import explain
    from git_agentos.worktree import base_update, link, notices, ports, status, teardown
    from git_agentos.worktree import cleanup as worktree_cleanup

    for cls, section in (
        (status.Worktree, "worktree"),
        (ports.WorktreeEnvironment, "worktree-env"),
        (teardown.Teardown, "teardown"),
        (link.Linked, "linked path"),
        (notices.Notices, "worktree-notify"),
        (status.Dirty, "changes"),
        (status.LastCheckpoint, "last checkpoint"),
        (status.LastEntry, "last entry"),
        (status.ActiveProcess, "process inside"),
        (base_update.WorktreeSync, "worktree-sync"),
        (base_update.Synced, "synced worktree"),
        (base_update.SyncConflict, "sync conflict"),
        (base_update.NotSynced, "skipped worktree"),
        (worktree_cleanup.WorktreeCleanup, "cleanup"),
        (worktree_cleanup.Archived, "archived worktree"),
        (worktree_cleanup.KeptWorktree, "kept worktree"),
        (log.Entry, "log-entry"),
        (log.Rebuilt, "log-rebuild"),
        (turns.Turns, "turns"),
        (turns.Turn, "turn"),
        (revert.Revert, "revert"),
        (explain.Why, "why"),
        (explain.Line, "explained line"),
        (memory.Item, "memory-item"),
        (memory.Contribution, "contribution"),
        (events.Run, "run"),
        (events.Step, "run step"),
        (events.Attempt, "run attempt"),
        (run_workspace.WorkspaceContext, "workspace context"),
        (sealing.Verification, "run-verify"),
        (cleanup.Cleanup, "run-cleanup"),
        (cleanup.Cleaned, "cleaned run"),
        (cleanup.Kept, "kept run"),
        (rollback.Rollback, "rollback"),
        (worker.Done, "fleet-worker"),
        (tdd.Workflow, "tdd"),
        (lanes.Lane, "agent lane"),
        (lanes.Mark, "mark"),
    ):
        assert list(cls.__annotations__) == list(schema_of(section)), section
    assert [*collection.Report._fields, "html"] == list(schema_of("report"))
    assert list(tdd.Record.__annotations__) == list(schema_of("tdd node"))


def test_the_dump_is_ascii_on_one_line_and_lossless() -> None:
    name = os.fsdecode(bytes(range(1, 256)))
    dumped = documents.dump(documents.document("x", {"name": name}))
    assert dumped.isascii()
    assert "\n" not in dumped
    assert os.fsencode(json.loads(dumped)["name"]) == bytes(range(1, 256))


def test_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError):
        documents.document("x", {"value": object()})
    with pytest.raises(TypeError):
        documents.document("x", [1])
