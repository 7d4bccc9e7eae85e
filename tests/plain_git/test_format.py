"""The format, commit by commit, as the design and docs/format.md give it, read with plain git."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.dirty import make_dirty
from tests.support.history import History
from tests.support.operations import diverge, expect_stop
from tests.support.repo import Repo, filled
from tests.support.tool import IN_PROCESS, run_ok

_KEYS = {
    "format", "created_at", "created_by", "worktree", "worktree_path", "trigger", "description", "task_id", "run_id",
    "session_id", "meta", "head", "intent_to_add", "assume_unchanged", "skip_worktree", "absent", "sparse",
    "empty_directories", "permissions", "umask", "operation", "skipped", "staged_changes", "unstaged_changes",
    "untracked_files", "state", "restores", "tool", "git",
}  # fmt: skip


def _parents(repo: Repo, oid: str) -> list[str]:
    return repo.text("rev-list", "--parents", "--no-walk", oid).split()[1:]


def _empty_tree(repo: Repo) -> str:
    return repo.git("hash-object", "-t", "tree", "--stdin").decode().strip()


def _tree(repo: Repo, oid: str) -> str:
    return repo.text("rev-parse", f"{oid}^{{tree}}")


def _meta(repo: Repo, oid: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(repo.git("cat-file", "blob", f"{oid}^4:meta.json"))
    return found


def _names(repo: Repo, tree: str) -> set[bytes]:
    return set(repo.git("ls-tree", "-r", "-z", "--name-only", tree).split(b"\0")) - {b""}


def _private_index(repo: Repo, *words: str) -> str:
    """The tree of a private index after `git add` with these words."""
    env = {"GIT_INDEX_FILE": str(repo.scratch / "index")}
    index = repo.git_dir / "index"
    (repo.scratch / "index").write_bytes(index.read_bytes())
    repo.git("add", *words, env=env)
    return repo.git("write-tree", env=env).decode().strip()


def test_the_commits_of_a_checkpoint(repo: Repo) -> None:
    make_dirty(repo)
    index_tree = repo.text("write-tree")
    tracked_tree, visible_tree = _private_index(repo, "-u"), _private_index(repo, "-A")
    untracked = set(repo.git("ls-files", "-o", "--exclude-standard", "-z").split(b"\0")) - {b""}
    oid = str(IN_PROCESS.checkpoint(repo.path, "a subject\n\nand a body")["id"])

    head, index, others, extra = _parents(repo, oid)
    assert head == repo.oid("HEAD")
    assert _parents(repo, index) == [head]
    assert _parents(repo, others) == []
    assert _parents(repo, extra) == []
    assert _tree(repo, oid) == tracked_tree
    assert _tree(repo, index) == index_tree
    assert _names(repo, others) == untracked
    assert _names(repo, extra) == {b"meta.json"}

    timeline = repo.oid("refs/agentos/timelines/main")
    root, second = _parents(repo, timeline)
    assert second == oid
    assert _parents(repo, root) == []
    assert _tree(repo, root) == _empty_tree(repo)
    assert _tree(repo, timeline) == visible_tree
    assert repo.text("log", "-1", "--format=%B", timeline) == repo.text("log", "-1", "--format=%B", oid)


def test_the_message_and_its_trailers(repo: Repo) -> None:
    words = ["-m", "a subject\n\nand a body", "--trigger", "milestone", "--task", "PROJ-7", "--as", "dev-001"]
    oid = run_ok(repo.path, "checkpoint", *words)["id"]
    assert repo.text("log", "-1", "--format=%s", oid) == "a subject"
    assert "and a body" in repo.text("log", "-1", "--format=%b", oid)
    assert repo.text("log", "-1", "--format=%(trailers:only,unfold)", oid).split("\n") == [
        "Agentos-Format: 1",
        "Agentos-Agent: dev-001",
        "Agentos-Worktree: main",
        "Agentos-Trigger: milestone",
        "Agentos-Task: PROJ-7",
        "Agentos-Branch: main",
    ]


def test_a_checkpoint_without_description_has_a_subject(repo: Repo) -> None:
    oid = run_ok(repo.path, "checkpoint", "--trigger", "before_risky")["id"]
    assert repo.text("log", "-1", "--format=%s", oid)
    assert "Agentos-Trigger: before_risky" in repo.text("log", "-1", "--format=%(trailers)", oid)


def test_detached_there_is_no_branch_trailer(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    oid = run_ok(repo.path, "checkpoint")["id"]
    assert "Agentos-Branch" not in repo.text("log", "-1", "--format=%B", oid)
    assert _meta(repo, oid)["head"] == {"ref": None, "commit": repo.oid("HEAD")}


def test_a_description_cannot_forge_trailers(repo: Repo) -> None:
    """The last block is ours, whatever the description says."""
    oid = run_ok(repo.path, "checkpoint", "-m", "subject\n\nAgentos-Format: 99\nAgentos-Agent: somebody")["id"]
    assert run_ok(repo.path, "checkpoint", "show", oid)["created_by"] == "main"
    assert repo.text("log", "-1", "--format=%(trailers:key=Agentos-Format,valueonly)", oid).split() in (
        ["1"],
        ["99", "1"],
    )
    run_ok(repo.path, "restore", oid)


def test_meta_json(repo: Repo) -> None:
    make_dirty(repo)
    repo.write("wanted.txt", "wanted\n")
    repo.git("add", "-N", "wanted.txt")
    repo.git("update-index", "--assume-unchanged", "src/lib/util.py")
    repo.write("other/secret", "secret\n", 0o600)
    repo.mkdir("empty")
    words = ["--meta", "k=v", "--run", "r-1", "--session", "s-1", "--task", "T", "--as", "dev-001"]
    oid = run_ok(repo.path, "checkpoint", "-m", "described", *words)["id"]
    raw = repo.git("cat-file", "blob", f"{oid}^4:meta.json")
    assert raw.isascii()
    meta = _meta(repo, oid)
    assert meta.keys() >= _KEYS
    assert meta["format"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", meta["created_at"])
    assert meta["created_by"] == "dev-001"
    assert (meta["worktree"], meta["worktree_path"]) == ("main", str(repo.path))
    assert (meta["trigger"], meta["description"]) == ("manual", "described")
    assert (meta["task_id"], meta["run_id"], meta["session_id"], meta["meta"]) == ("T", "r-1", "s-1", {"k": "v"})
    assert meta["head"] == {"ref": "refs/heads/main", "commit": repo.oid("HEAD")}
    assert meta["intent_to_add"] == {"wanted.txt": "100644"}
    assert meta["assume_unchanged"] == ["src/lib/util.py"]
    assert meta["skip_worktree"] == []
    assert meta["empty_directories"] == ["empty"]
    assert meta["permissions"]["other/secret"] == "600"
    assert meta["umask"] in ("22", "022", "0022")
    assert meta["operation"] is None
    assert meta["restores"] is None
    assert meta["skipped"] == []
    assert set(meta["untracked_files"]) == {"untracked.txt", "dir/untracked\nnewline", "bad\udcff", "other/secret"}
    assert {"readme.txt", "notes.txt", "data.bin"} <= set(meta["unstaged_changes"])
    assert {"readme.txt", "docs/guide.md", "staged new.txt", "src/renamed.py"} <= set(meta["staged_changes"])
    assert "git-agentos" in meta["tool"]
    assert meta["git"] in repo.text("version")


def test_a_conflict_has_its_stages_and_the_operations_files(repo: Repo) -> None:
    diverge(repo)
    expect_stop(repo, "merge", "topic")
    oid = run_ok(repo.path, "checkpoint")["id"]
    for line in repo.text("ls-files", "-u").split("\n"):
        facts, path = line.split("\t")
        mode, blob, stage = facts.split()
        assert repo.text("ls-tree", f"{oid}^4", f"stages/{stage}/{path}").split()[:3] == [mode, "blob", blob]
        if stage == "2":
            assert repo.text("rev-parse", f"{oid}^2:{path}") == blob
    for name in ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE"):
        assert repo.git("cat-file", "blob", f"{oid}^4:gitdir/{name}") == (repo.git_dir / name).read_bytes()
    assert _meta(repo, oid)["operation"] == "merge"
    timeline = repo.oid("refs/agentos/timelines/main")
    assert repo.oid("topic") in repo.text("rev-list", timeline), "the timeline does not hold what MERGE_HEAD names"


def test_an_unborn_branch(empty_repo: Repo) -> None:
    empty_repo.write("staged.txt", "staged\n")
    empty_repo.add("staged.txt")
    empty_repo.write("untracked.txt", "untracked\n")
    oid = run_ok(empty_repo.path, "checkpoint")["id"]
    head, index, _, _ = _parents(empty_repo, oid)
    assert _parents(empty_repo, head) == []
    assert _tree(empty_repo, head) == _empty_tree(empty_repo)
    assert _parents(empty_repo, index) == [head]
    assert _names(empty_repo, index) == {b"staged.txt"}
    assert _meta(empty_repo, oid)["head"] == {"ref": "refs/heads/main", "commit": None}


def test_the_timeline_is_a_chain(history: History) -> None:
    repo = history.repo
    rows = [
        line.split()
        for line in repo.text("log", "--first-parent", "--format=%H %P", "refs/agentos/timelines/main").split("\n")
    ]
    assert [row[2] for row in rows[:-1]] == history.ids[::-1]
    assert [row[1] for row in rows[:-1]] == [row[0] for row in rows[1:]]
    assert len(rows[-1]) == 1


def test_no_ref_points_at_a_tree_and_the_stash_is_not_used(history: History) -> None:
    lines = history.repo.text("for-each-ref", "--format=%(objecttype) %(refname)").split("\n")
    assert {line.split()[0] for line in lines} == {"commit"}
    assert [line.split()[1] for line in lines if "agentos" in line] == ["refs/agentos/timelines/main"]
    assert history.repo.try_git("rev-parse", "-q", "--verify", "refs/stash") != 0


def test_checkpoint_without_a_configured_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = filled(tmp_path / "repo")
    nobody = tmp_path / "nobody"
    nobody.write_text("[user]\n\tuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(nobody))
    assert repo.try_git("commit", "--allow-empty", "-m", "refused") != 0
    oid = run_ok(repo.path, "checkpoint")["id"]
    assert repo.text("log", "-1", "--format=%an %cn", oid) == "git-agentos git-agentos"
    run_ok(repo.path, "restore", oid)


def test_a_configured_name_is_used(repo: Repo) -> None:
    oid = run_ok(repo.path, "checkpoint")["id"]
    assert repo.text("log", "-1", "--format=%cn <%ce>", oid) == "A U Thor <author@example.com>"


def test_checkpoint_is_not_signed(repo: Repo) -> None:
    repo.config("commit.gpgSign", "true")
    repo.config("gpg.program", "false")
    oid = run_ok(repo.path, "checkpoint")["id"]
    assert b"gpgsig" not in repo.git("cat-file", "commit", oid)


def test_identical_states_have_equal_digests(repo: Repo) -> None:
    make_dirty(repo)
    ids = [run_ok(repo.path, "checkpoint")["id"] for _ in range(2)]
    repo.append("untracked.txt", "more\n")
    ids.append(run_ok(repo.path, "checkpoint")["id"])
    states = [_meta(repo, oid)["state"] for oid in ids]
    assert states[0] == states[1] != states[2]
