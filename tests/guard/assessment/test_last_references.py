"""What nothing else holds: remote-tracking branches that are pruned, and `git gc` that is configured to forget at once.
By the layers of the worktree alone, without a shim."""

from __future__ import annotations

import os

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from tests.support import ref_storage
from tests.support.guard.guarded_worktree import guarded, sh, without_files, without_refs
from tests.support.repo import Repo, git
from tests.support.state import assert_same, complete_state


@pytest.fixture
def agent(repo: Repo) -> Repo:
    """A guarded worktree of a clone whose remote has lost two branches since; one was merged."""
    origin = repo.scratch / "origin.git"
    git(repo.scratch, "clone", "-q", "--bare", str(repo.path), str(origin))
    repo.git("remote", "add", "origin", str(origin))
    for name in ("gone", "merged"):
        repo.git("push", "-q", "origin", f"main:refs/heads/{name}")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("side.txt", "only the remote has this\n")
    repo.commit("side")
    repo.git("push", "-q", "origin", "side:gone")
    repo.git("checkout", "-q", "main")
    repo.git("fetch", "-q", "origin")
    repo.git("branch", "-qD", "side")
    for name in ("gone", "merged"):
        git(origin, "branch", "-D", name)
    return guarded(repo)


@pytest.mark.parametrize("packed", [True, False])
def test_pruned_commits_are_kept(packed: bool, agent: Repo, repo: Repo) -> None:
    without_files(agent)
    if packed:
        repo.git("pack-refs", "--all")
    tip = repo.oid("origin/gone")
    done = sh(agent, "git fetch -q --prune" if packed else "git -c fetch.prune=true fetch -q")
    assert done.code == 0 and "stopped" not in done.err, done
    assert "origin/gone" not in repo.text("branch", "-r")
    assert repo.text("for-each-ref", "--contains", tip, "--format=%(refname)") == "refs/agentos/timelines/dev"
    # With nothing to lose it takes no checkpoint.
    before = repo.oid("refs/agentos/timelines/dev")
    repo.git("update-ref", "refs/remotes/origin/more", "main")
    assert sh(agent, "git fetch -q --prune").code == 0
    assert repo.oid("refs/agentos/timelines/dev") == before


def test_below_a_shim_remote_prune_is_seen_too(agent: Repo, repo: Repo) -> None:
    """In a linked worktree git runs no hook for it: it does not read core.hooksPath then."""
    tip = repo.oid("origin/gone")
    for words in (["remote", "prune", "origin"], ["remote", "update", "-p"], ["fetch", "--prune", "--all"]):
        found = assess_git(Call(("git", *words), str(agent.path), os.environ), Identity("dev", "environment"))
        assert found.decision.decision == "allow" and found.save is not None, words
        assert list(found.save.commits) == [tip], words


FORGETS = ["gc.pruneExpire", "gc.reflogExpire", "gc.reflogExpireUnreachable", "gc.refs/heads/*.reflogExpire"]


@pytest.mark.parametrize("layers", ["both", "files", "refs"])
def test_gc_with_immediate_expiry_is_stopped(layers: str, agent: Repo, repo: Repo) -> None:
    in_files = ref_storage.by_default() == ref_storage.FILES
    if layers == "files":
        without_refs(agent)
    elif layers == "refs":
        ref_storage.require_files("git calls no hook when it packs them")
        without_files(agent)
    dangling = repo.git("hash-object", "-w", "--stdin", stdin=b"dangling\n").decode().strip()
    before = complete_state(agent.path)
    logs = repo.git("log", "--walk-reflogs", "--all", "--format=%H %gd %gs")
    assert logs
    for key in FORGETS if layers == "both" else FORGETS[:1]:
        repo.config(key, "now")
        done = sh(agent, "git gc -q")
        assert done.code != 0 and "git-agentos: stopped" in done.err, (key, done)
        assert repo.try_git("cat-file", "-e", dangling) == 0, key
        # Layer 1 sees it when reflogs are expired already; where refs are in reftables, layer 2 does not see it.
        if layers != "files" and in_files:
            assert repo.git("log", "--walk-reflogs", "--all", "--format=%H %gd %gs") == logs, key
        assert_same(before, complete_state(agent.path), key, permissions="all")
        repo.git("config", "--unset", key)
    done = sh(agent, "git gc -q")
    assert done.code == 0 and "stopped" not in done.err, done
