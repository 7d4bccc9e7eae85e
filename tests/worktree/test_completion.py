"""`worktree complete`: a final checkpoint and a merge request; the worktree stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.errors import UsageError, WorktreeError
from git_agentos.worktree import completion, creation, record, status
from tests.support.repo import Repo, git_run
from tests.support.state import complete_state, differences
from tests.support.tool import run, run_ok


def make(repo: Repo, id_: str = "dev-001", **options: Any) -> Repo:
    made = creation.create(open_workspace(repo.path).context, id_, **options)
    assert made.path is not None
    return Repo(Path(made.path))


def test_a_merge_request_tells_everything(repo: Repo) -> None:
    there = make(repo, task="T-42")
    there.write("queue.py", "one\ntwo\n")
    there.commit("queue: fair under load")
    there.write("readme.txt", "a readme\n")
    there.commit("readme: shorter")
    run_ok(there.path, "checkpoint", "-m", "before the experiment")
    alternatives = '{"alternatives": ["lock", "actor"], "rationale": "fair"}'
    run_ok(there.path, "log", "add", "decision", "keep the queue", "--json-details", alternatives)
    run_ok(there.path, "log", "add", "error", "tests failed twice")
    there.write(b"bad\xff.txt", "never committed\n")
    before = complete_state(there.path)

    done = run_ok(repo.path, "worktree", "complete", "dev-001")

    assert done["schema"] == "agentos.worktree-complete.v1"
    assert (done["id"], done["branch"], done["base_ref"], done["task"]) == ("dev-001", "agent/dev-001", "main", "T-42")
    assert [each["subject"] for each in done["commits"]] == ["readme: shorter", "queue: fair under load"]
    assert done["files"] == [
        {"path": "queue.py", "added": 2, "removed": 0},
        {"path": "readme.txt", "added": 0, "removed": 1},
    ]
    assert done["uncommitted"] == [os.fsdecode(b"bad\xff.txt")]
    assert (done["pushed_to"], done["pull_request"], done["problems"]) == (None, None, [])
    text = done["document"]
    assert text.startswith("# T-42: work of dev-001\n")
    for words in (
        "2 commits, 2 files, +2 -1 lines",
        "`queue.py` +2 -0",
        "before the experiment",
        "keep the queue",
        "alternatives: lock, actor",
        "rationale: fair",
        "tests failed twice",
        "## Not committed",
        "git agentos worktree merge dev-001",
    ):
        assert words in text, text
    assert not differences(before, complete_state(there.path), permissions="all", refs=True)
    kept = record.find(str(repo.git_dir), "dev-001").record
    assert (kept.state, kept.completed_at is not None) == ("complete", True)
    assert status.show(open_workspace(repo.path).context, "dev-001").state == "complete"
    newest = open_workspace(there.path).checkpoints(limit=1)[0]
    assert (newest.trigger, newest.id, newest.task_id) == ("task_complete", done["checkpoint"], "T-42")


def test_complete_from_inside_the_worktree(repo: Repo) -> None:
    there = make(repo)
    there.write("new.txt", "new\n")
    there.commit("a single commit")
    there.mkdir("deep")
    done = run(there.path / "deep", "worktree", "complete")
    assert done.code == 0, str(done)
    assert done.out.startswith(b"# a single commit\n")
    assert b"saved in checkpoint" in done.err
    again = run(there.path, "worktree", "complete")
    assert again.code == 0, "it may be said twice"


def test_missing_id_in_the_main_worktree_is_refused(repo: Repo) -> None:
    with pytest.raises(UsageError, match="which worktree"):
        completion.complete(open_workspace(repo.path).context)
    with pytest.raises(WorktreeError, match="no agent's worktree"):
        completion.complete(open_workspace(repo.path).context, "nobody")


def test_complete_without_changes(repo: Repo) -> None:
    make(repo)
    done = run(repo.path, "worktree", "complete", "dev-001")
    assert done.code == 0
    assert b"Nothing is committed since the worktree was made" in done.out


def test_names_and_words_cannot_pass_for_markdown(repo: Repo) -> None:
    there = make(repo)
    there.write(b"``evil`\n# heading.md", "x\n")
    there.commit("<script> [link](http://x) # *bold* @all")
    run_ok(there.path, "log", "add", "decision", "line\n# heading <b>")
    text = completion.complete(open_workspace(repo.path).context, "dev-001").document
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert [line.split()[0] for line in headings] == ["#", "##", "###", "##", "##", "##"], headings
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "``` ``evil`" in text


def test_push(repo: Repo, tmp_path: Path) -> None:
    origin = tmp_path / "origin.git"
    assert git_run(tmp_path, "init", "-q", "--bare", str(origin)).returncode == 0
    repo.git("remote", "add", "origin", str(origin))
    there = make(repo)
    there.write("new.txt", "new\n")
    tip = there.commit("work")
    done = run_ok(repo.path, "worktree", "complete", "dev-001", "--push")
    assert (done["pushed_to"], done["problems"]) == ("origin", [])
    assert Repo(origin).oid("agent/dev-001") == tip
    assert there.text("rev-parse", "--abbrev-ref", "@{upstream}") == "origin/agent/dev-001"


def test_a_push_goes_to_origin_among_several_remotes(repo: Repo, tmp_path: Path) -> None:
    for name in ("elsewhere", "origin"):
        git_run(tmp_path, "init", "-q", "--bare", f"{name}.git")
        repo.git("remote", "add", name, str(tmp_path / f"{name}.git"))
    make(repo).commit("work")
    assert run_ok(repo.path, "worktree", "complete", "dev-001", "--push")["pushed_to"] == "origin"


def test_a_push_that_fails_is_told_and_the_worktree_is_complete(repo: Repo, tmp_path: Path) -> None:
    make(repo)
    done = run(repo.path, "worktree", "complete", "dev-001", "--push")
    assert done.code == 1
    assert b"no remote to push to (git remote add origin URL)" in done.err
    repo.git("remote", "add", "origin", str(tmp_path / "nowhere"))
    done = run(repo.path, "--json", "worktree", "complete", "dev-001", "--push")
    assert done.code == 1
    assert "was not pushed to 'origin'" in done.json["problems"][0]
    assert record.find(str(repo.git_dir), "dev-001").record.state == "complete"


def test_a_push_never_overwrites(repo: Repo, make_repo: Callable[[str], Repo], tmp_path: Path) -> None:
    origin = make_repo("origin")
    origin.git("checkout", "-q", "-b", "agent/dev-001")
    theirs = origin.commit("somebody else's")
    origin.git("checkout", "-q", "main")
    repo.git("remote", "add", "origin", str(origin.path))
    there = make(repo)
    there.commit("mine")
    done = run(repo.path, "worktree", "complete", "dev-001", "--push")
    assert done.code == 1
    assert origin.oid("agent/dev-001") == theirs


@pytest.mark.parametrize(("tool", "url"), [("gh", "github"), ("glab", "gitlab"), ("glab", "other")])
def test_a_pull_request_is_opened_where_there_is_a_tool(repo: Repo, tmp_path: Path, tool: str, url: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    script = '#!/bin/sh\nprintf "%s\\n" "$@" >"$0.args"\n[ -z "$FAIL" ] || { echo no access >&2; exit 4; }\n'
    (programs / tool).write_text(script + "echo Creating\necho https://forge.example/pull/7\n")
    (programs / tool).chmod(0o755)
    git = shutil.which("git")
    assert git is not None
    (programs / "git").symlink_to(git)
    (programs / "sh").symlink_to("/bin/sh")
    origin = tmp_path / f"{url}.git"
    git_run(tmp_path, "init", "-q", "--bare", str(origin))
    repo.git("remote", "add", "origin", str(origin))
    there = make(repo, task="T-1")
    there.commit("work")
    env = {"PATH": str(programs)}
    done = run(repo.path, "--json", "worktree", "complete", "dev-001", "--push", env=env)
    assert done.code == 0, str(done)
    assert done.json["pull_request"] == "https://forge.example/pull/7"
    given = (programs / f"{tool}.args").read_text().split("\n")
    assert "agent/dev-001" in given
    assert "T-1: work" in given
    assert given[given.index("--base" if tool == "gh" else "--target-branch") + 1] == "main"
    failed = run(repo.path, "--json", "worktree", "complete", "dev-001", "--push", env=env | {"FAIL": "1"})
    assert failed.code == 1
    assert failed.json["problems"] == [f"{tool} did not open a pull request: no access"]
    assert failed.json["pushed_to"] == "origin"


def test_disabled_trigger_takes_no_checkpoint(repo: Repo) -> None:
    """`agentos.auto.onTaskComplete` off, in a place that counts: the newest checkpoint is named, nothing is added."""
    run_ok(repo.path, "worktree", "create", "dev")
    inner = Repo(repo.path.parent / f"{repo.path.name}.worktrees" / "dev")
    inner.write("new.txt", "not committed\n")
    inner.append("readme.txt", "edited\n")
    before = run_ok(inner.path, "checkpoint", "list")["checkpoints"]
    repo.config("agentos.auto.onTaskComplete", "false")
    done = run_ok(repo.path, "worktree", "complete", "dev")
    assert run_ok(inner.path, "checkpoint", "list")["checkpoints"] == before
    assert done["checkpoint"] == before[0]["id"]
    assert done["uncommitted"] == ["new.txt", "readme.txt"]


def test_a_tag_with_the_name_of_the_branch_is_not_in_the_way_of_a_push(repo: Repo, tmp_path: Path) -> None:
    there = make(repo)
    there.write("work.txt", "work\n")
    tip = there.commit("work")
    repo.git("tag", "agent/dev-001", "v1")
    git_run(tmp_path, "init", "-q", "--bare", "origin.git")
    repo.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    done = run_ok(repo.path, "worktree", "complete", "dev-001", "--push")
    assert (done["pushed_to"], done["problems"]) == ("origin", [])
    assert Repo(tmp_path / "origin.git").text("for-each-ref", "--format=%(refname) %(objectname)") == (
        f"refs/heads/agent/dev-001 {tip}"
    )
