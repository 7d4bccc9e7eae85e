"""`worktree create` fetches a base that follows a remote, now and then, and says how far it is behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.errors import AgentosWarning
from git_agentos.git import remote_branch
from git_agentos.worktree import base_fetch
from tests.support.confirming import set_up
from tests.support.json_reference import check_document
from tests.support.refusal import assert_refused
from tests.support.repo import Repo
from tests.support.tool import Result, run
from tests.support.waiting import wait_until


class Remote:
    """A bare remote `origin` of a repository, another clone that pushes to it, and how often it was asked."""

    def __init__(self, repo: Repo) -> None:
        self.bare = repo.scratch / "bare.git"
        repo.git("clone", "-q", "--bare", ".", str(self.bare))
        repo.git("remote", "add", "origin", str(self.bare))
        repo.git("fetch", "-q", "origin")
        repo.git("branch", "-q", "--set-upstream-to=origin/main", "main")
        (repo.git_dir / "FETCH_HEAD").unlink()
        self.log = repo.scratch / "asked"
        script = repo.scratch / "upload-pack"
        script.write_text(f'#!/bin/sh\necho x >>"{self.log}"\nexec git-upload-pack "$@"\n')
        script.chmod(0o755)
        repo.config("remote.origin.uploadpack", str(script))
        repo.git("clone", "-q", str(self.bare), str(repo.scratch / "other"))
        self.other = Repo(repo.scratch / "other")

    def push(self, branch: str = "main") -> str:
        self.other.append("pushed.txt", "more\n")
        oid = self.other.commit("pushed")
        self.other.git("push", "-q", "origin", f"HEAD:{branch}")
        return oid

    @property
    def asked(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def remote(repo: Repo) -> Remote:
    return Remote(repo)


def _create(repo: Repo, *args: str) -> tuple[Any, Result]:
    done = run(repo.path, "--json", "worktree", "create", *args)
    assert done.code == 0, str(done)
    assert check_document(done.json) == "worktree"
    return done.json, done


def _forget(repo: Repo) -> None:
    """As if the last fetch had been 16 minutes ago."""
    path = repo.git_dir / "agentos/fetched.json"
    path.write_text(json.dumps({key: value - 960 for key, value in json.loads(path.read_text()).items()}))


def test_a_base_that_follows_a_remote_is_fetched_now_and_then(repo: Repo, remote: Remote) -> None:
    mine, pushed = repo.oid(), remote.push()

    made, _ = _create(repo, "dev-001")

    assert (made["base_sha"], made["base_follows"], made["base_behind"]) == (mine, "origin/main", 1)
    assert (repo.oid("origin/main"), repo.oid("main")) == (pushed, mine), "the user's branch does not move"
    assert not (repo.git_dir / "FETCH_HEAD").exists()
    assert remote.asked == 1
    later = remote.push()
    assert _create(repo, "dev-002")[0]["base_behind"] == 1
    assert remote.asked == 1, "the last fetch is not 15 minutes old"
    _forget(repo)
    assert _create(repo, "dev-003", "--no-fetch")[0]["base_behind"] == 1
    assert remote.asked == 1
    assert _create(repo, "dev-004")[0]["base_behind"] == 2
    assert (remote.asked, repo.oid("origin/main")) == (2, later)
    remote.push()
    assert _create(repo, "dev-005", "--fetch")[0]["base_behind"] == 3
    assert remote.asked == 3


def test_one_that_begins_at_the_remotes_branch_begins_at_its_newest_commit(repo: Repo, remote: Remote) -> None:
    pushed = remote.push()
    made, _ = _create(repo, "dev-001", "--from", "origin/main")
    assert (made["base_ref"], made["base_sha"]) == ("origin/main", pushed)
    assert (made["base_follows"], made["base_behind"]) == ("origin/main", 0)


def test_a_fetch_of_the_users_own_counts(repo: Repo, remote: Remote) -> None:
    repo.git("fetch", "-q", "origin")
    asked = remote.asked
    _create(repo, "dev-001")
    assert remote.asked == asked
    remote.push("side")
    repo.git("fetch", "-q", "origin", "side")  # another branch: FETCH_HEAD does not have this one any more
    _create(repo, "dev-002")
    assert remote.asked == asked + 2


def test_a_branch_of_another_name_and_another_place(repo: Repo, remote: Remote) -> None:
    pushed = remote.push("develop")
    repo.git("config", "--replace-all", "remote.origin.fetch", "+refs/heads/*:refs/remotes/far/x-*")
    repo.git("config", "branch.main.merge", "refs/heads/develop")
    made, _ = _create(repo, "dev-001")
    assert (made["base_follows"], made["base_behind"]) == ("far/x-develop", 1)
    assert repo.oid("refs/remotes/far/x-develop") == pushed
    later = remote.push("develop")
    assert _create(repo, "dev-002", "--from", "far/x-develop", "--fetch")[0]["base_sha"] == later


def test_as_text(repo: Repo, remote: Remote) -> None:
    remote.push()
    short = repo.oid()[:8]
    done = run(repo.path, "worktree", "create", "dev-001")
    assert f"It starts at {short} (main), 1 commit behind origin/main.\n" in done.out.decode()
    done = run(repo.path, "worktree", "create", "dev-002", "--from", "origin/main")
    assert "behind" not in done.out.decode()


@pytest.mark.parametrize("base", ["HEAD~0", "v1", "other", "detached"])
def test_what_follows_no_remote_is_not_fetched(repo: Repo, remote: Remote, base: str) -> None:
    remote.push()
    if base == "detached":
        repo.git("checkout", "-q", "--detach")
    where = [] if base == "detached" else ["--from", base]
    made, done = _create(repo, "dev-001", *where)
    assert (made["base_follows"], made["base_behind"], done.err) == (None, None, b"")
    _, done = _create(repo, "dev-002", *where, "--fetch")
    assert b"warning: the base follows no branch of a remote: nothing was fetched" in done.err
    assert remote.asked == 0


def test_without_a_remote(repo: Repo) -> None:
    made, done = _create(repo, "dev-001")
    assert (made["base_follows"], made["base_behind"], done.err) == (None, None, b"")
    assert not (repo.git_dir / "agentos/fetched.json").exists()


def test_a_remote_that_is_away_is_a_warning(repo: Repo, remote: Remote) -> None:
    remote.bare.rename(remote.bare.with_name("away"))
    made, done = _create(repo, "dev-001")
    assert (made["base_sha"], made["base_behind"]) == (repo.oid(), 0)
    assert b"warning: 'origin/main' could not be fetched: git fetch failed: " in done.err
    assert _create(repo, "dev-002")[1].err == b"", "it is not asked again at once"
    assert b"could not be fetched" in _create(repo, "dev-003", "--fetch")[1].err
    assert run(repo.path, "worktree", "show", "dev-003").code == 0


def test_an_agent_that_may_not_fetch_does_not_do_it_so(
    repo: Repo, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worktree is created at is what is known here; an explicit `--fetch` asks as `git fetch` does."""
    known = repo.oid()
    pushed = remote.push()
    set_up(repo, "agentos.policy.fetch", "approve")
    with monkeypatch.context() as agent:
        agent.setenv("AGENTOS_AGENT_ID", "dev-9")
        made, done = _create(repo, "dev-001", "--from", "origin/main")
        assert made["base_sha"] == known
        assert b"could not be fetched: agents may not fetch without approval" in done.err
        asked = run(repo.path, "worktree", "create", "dev-002", "--from", "origin/main", "--fetch")
        assert (asked.code, remote.asked) == (3, 0)
        assert repo.git("for-each-ref", "refs/heads/agent/dev-002") == b""
    assert _create(repo, "dev-003", "--from", "origin/main")[0]["base_sha"] == pushed


def test_a_remote_that_does_not_answer_is_given_up(repo: Repo, remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = repo.scratch / "waits"
    script = repo.scratch / "hangs"
    script.write_text(f'#!/bin/sh\necho $$ >"{mark}"\nexec sleep 600\n')
    script.chmod(0o755)
    repo.config("remote.origin.uploadpack", str(script))
    monkeypatch.setattr(base_fetch, "_TIMEOUT", 1.0)
    context = open_workspace(repo.path).context
    branch = base_fetch.followed(context, None)
    assert branch == remote_branch.RemoteBranch("origin", "refs/heads/main", "refs/remotes/origin/main")
    with pytest.warns(AgentosWarning, match="'origin' did not answer within 1 seconds"):
        base_fetch.refresh(context, branch, always=False)
    child = Path(f"/proc/{mark.read_text().strip()}/cwd")
    wait_until(lambda: not child.exists(), "nothing of it is left")


def test_of_many_at_once_one_fetches(repo: Repo, remote: Remote) -> None:
    remote.push()
    command = [sys.executable, "-m", "git_agentos", "worktree", "create", "--json"]
    children = [
        subprocess.Popen([*command, f"dev-{n}"], cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(4)
    ]
    ended = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 4, ended
    assert [json.loads(out)["base_behind"] for out, _ in ended] == [1] * 4
    assert remote.asked == 1


def test_a_damaged_note_and_a_clock_that_was_wrong(repo: Repo, remote: Remote) -> None:
    _create(repo, "dev-001")
    path = repo.git_dir / "agentos/fetched.json"
    path.write_text("{")
    _create(repo, "dev-002")
    path.write_text(json.dumps({"refs/remotes/origin/main": time.time() + 86400}))
    _create(repo, "dev-003")
    assert remote.asked == 3


def test_a_revived_one_is_not_fetched(repo: Repo, remote: Remote) -> None:
    _create(repo, "dev-001", "--no-fetch")
    assert run(repo.path, "worktree", "archive", "dev-001").code == 0
    words = ("worktree", "create", "dev-001", "--revive", "--fetch")
    assert_refused(repo.path, *words, code=2, mentions="--revive", keeps=repo.path)
    made, _ = _create(repo, "dev-001", "--revive")
    assert (made["base_follows"], made["base_behind"], remote.asked) == (None, None, 0)
