"""Layer 2: refs. What each test does here happens with layer 1 switched off, or is nothing that it sees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from git_agentos import open_workspace
from tests.support import ref_storage
from tests.support.confirming import set_up
from tests.support.dirty import make_dirty
from tests.support.guard.guarded_worktree import Spy, checkpoints, grant_all, guarded, location, sh, without_files
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state


@pytest.fixture
def agent(repo: Repo) -> Repo:
    """A guarded worktree without layer 1, with a commit of its own, and branches and tags to lose."""
    made = guarded(repo)
    without_files(made)
    made.write("own.txt", "own\n")
    made.commit("own")
    repo.git("tag", "looked-at", "agent/dev")
    repo.git("branch", "loose", "other")
    repo.git("branch", "packed", "other")
    repo.git("tag", "old", "main~1")
    repo.git("pack-refs", "--all")
    repo.git("branch", "-f", "loose", "other")
    return made


# What loses or moves what others may rely on, and leaves everything as it was.
STOPPED = [
    "git branch -D loose",
    "git branch -D packed",
    "git branch -f loose main",
    "git branch -M loose lost",
    "git update-ref -d refs/heads/loose",
    "git update-ref refs/heads/loose main",
    "printf 'delete refs/heads/packed\\n' | git update-ref --stdin",
    "printf 'start\\nupdate refs/heads/loose main\\ncommit\\n' | git update-ref --stdin",
    "git update-ref -d refs/agentos/timelines/dev",
    "git tag -d old",
    "git tag -f old main",
    "git fetch -q . +main:loose",
    "git push -q . :packed",
    "git push -q . +main:loose",
    "git push -q --force . main:loose",
    "git push -q --mirror .",
    "git push -q . HEAD:more",
    "git reset --soft main~1",
    "git commit -q --amend -m again",
    "git commit -q --amend -m again --no-verify",
    "git rebase --onto main~1 main",
    "git merge -q other",
    "git merge -q --no-ff other",
    "git pull -q --no-rebase . other",
    "git checkout -q -B loose main",
    "git replace HEAD main",
]


def test_refs_are_not_lost(agent: Repo) -> None:
    agent.write("untracked.txt", "at stake\n")
    before = complete_state(agent.path)
    refs = _refs(agent)
    for text in STOPPED:
        if "branch -M" in text and ref_storage.by_default() != ref_storage.FILES:
            continue  # git calls no hook for it there (tests/guard/test_coverage.py)
        done = sh(agent, text)
        assert done.code != 0, (text, done)
        assert "git-agentos: " in done.err, (text, done)
        assert _refs(agent) == refs, text
        if not text.startswith(("git checkout", "git rebase")):
            assert_same(before, complete_state(agent.path), text, permissions="all")
        sh(agent, "git -c core.hooksPath=/dev/null rebase --abort")
        # These two it sees too late for the worktree: that is layer 1's part.
        agent.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "-f", "agent/dev")


def _refs(repo: Repo) -> bytes:
    return repo.git("for-each-ref", "refs/heads", "refs/tags", "refs/replace")


FINE = [
    "git commit -q --allow-empty -m one",
    "git branch new main",
    "git checkout -q -b newer",
    "git switch -q -c newest main",
    "git switch -q agent/dev",
    "git tag new-tag",
    "git tag -a -m annotated annotated",
    "git fetch -q . main:fetched",
    "git fetch -q . 'refs/heads/*:refs/remotes/self/*'",
    "git remote add self . && git fetch -q --prune self",
    "git pack-refs --all --prune",
    "git gc -q",
    "git stash list",
    "git revert --no-edit agent/dev~1",
    "git notes add -m note",
    "git worktree add -q --detach ../another main && git worktree remove ../another",
]


def test_transaction_without_a_change_is_not_stopped(agent: Repo) -> None:
    refs = _refs(agent)
    for text in FINE:
        done = sh(agent, text)
        assert done.code == 0, (text, done)
        assert "stopped" not in done.err, (text, done)
        assert "approval" not in done.err, (text, done)
    for line in refs.splitlines():
        name = line.split(b"\t")[1]
        assert name == b"refs/heads/agent/dev" or line in _refs(agent).splitlines()


def test_harmless_transaction_starts_no_python(agent: Repo) -> None:
    agent.git("status")
    spy = Spy(agent)
    for text in (
        "git branch new main",
        "git checkout -q -b newer",
        "git tag new-tag",
        "git fetch -q . 'refs/heads/*:refs/remotes/self/*'",
        "git pack-refs --all --prune",
        "git gc -q",
    ):
        done = sh(agent, text)
        assert done.code == 0, (text, done)
    assert spy.started() == ["post-checkout"]


def test_the_last_stash_can_be_dropped_and_popped(agent: Repo) -> None:
    for last in ("pop", "drop"):
        agent.append("notes.txt", f"{last}\n")
        agent.git("stash")
        assert sh(agent, f"git stash {last}").code == 0
        assert agent.git("stash", "list") == b""
        agent.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "--", ".")


def test_many_refs_in_one_transaction(agent: Repo, repo: Repo) -> None:
    # That its stdin cannot be read beforehand shall not be what stops it here.
    set_up(repo, "agentos.policy.unresolved", "allow")
    lines = b"".join(b"create refs/remotes/r/%d %s\n" % (n, agent.oid().encode()) for n in range(300))
    agent.git("update-ref", "--stdin", stdin=lines)
    assert len(agent.git("for-each-ref", "refs/remotes/r").splitlines()) == 300
    lines += b"delete refs/heads/packed\n"
    done = subprocess.run(["git", "update-ref", "--stdin"], cwd=agent.path, input=lines.replace(b"/r/", b"/s/"))
    assert done.returncode != 0
    assert agent.git("for-each-ref", "refs/remotes/s") == b""
    assert agent.text("rev-parse", "packed")


def test_a_merge_waits_for_leave_before_it_touches_a_file(agent: Repo) -> None:
    make_dirty(agent)
    agent.git("-c", "core.hooksPath=/dev/null", "stash", "-q", "-u")
    before = complete_state(agent.path)
    done = sh(agent, "git merge -q other")
    assert done.code != 0
    assert "approvals grant" in done.err
    assert_same(before, complete_state(agent.path), "git merge", permissions="all", refs=True)
    assert len(grant_all(agent)) == 1
    assert sh(agent, "git merge -q other").code == 0
    assert agent.text("rev-parse", "HEAD^2") == agent.text("rev-parse", "other")
    agent.git("-c", "core.hooksPath=/dev/null", "reset", "-q", "--hard", "HEAD~1")
    assert sh(agent, "git merge -q --no-ff other").code != 0


def test_commits_that_a_branch_takes_along_are_kept(repo: Repo) -> None:
    set_up(repo, "agentos.guard.mode", "save")
    repo.git("branch", "loose", "other")
    agent = guarded(repo)
    loose = agent.text("rev-parse", "loose")
    only = agent.text("commit-tree", "-p", loose, "-m", "only on loose", f"{loose}^{{tree}}")
    agent.git("-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/loose", only)
    done = sh(agent, "git branch -D loose")
    assert done.code == 0, done
    assert "git agentos restore" in done.err or only[:8] in done.err
    agent.git("-c", "core.hooksPath=/dev/null", "reflog", "expire", "--expire=now", "--all")
    repo.git("-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
    assert agent.git("cat-file", "-t", only) == b"commit\n"


def test_people_are_not_asked(repo: Repo) -> None:
    guarded(repo)
    repo.git("branch", "mine", "other")
    assert sh(repo, "git branch -D mine && git commit -q --amend -m again && git reset -q --hard HEAD~1").code == 0
    assert checkpoints(repo) == []


def test_protected_branches(agent: Repo, repo: Repo) -> None:
    repo.git("config", "agentos.protected", "release/* prod")
    repo.git("branch", "prod", "main")
    repo.git("branch", "release/1", "main")
    before = _refs(agent)
    assert sh(agent, "git push -q . HEAD:prod").code != 0
    assert sh(agent, "git update-ref refs/heads/release/1 HEAD").code != 0
    assert _refs(agent) == before
    agent.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "prod")
    agent.write("more.txt", "more\n")
    agent.add("more.txt")
    done = sh(agent, "git commit -q -m more")
    assert done.code != 0
    assert "prod" in done.err
    assert agent.text("rev-parse", "prod") == agent.text("rev-parse", "main")


def test_ones_own_folder_is_never_committed(agent: Repo) -> None:
    agent.write(".agentos/planted.txt", "planted\n")
    head = agent.oid()
    sh(agent, "git add -f .agentos")
    for command in ("git commit -q -m planted", "git commit -q -m planted .agentos/planted.txt"):
        done = sh(agent, command)
        assert done.code != 0
        assert ".agentos" in done.err
    assert agent.oid() == head


def test_in_the_log(agent: Repo) -> None:
    assert sh(agent, "git branch -D loose").code != 0
    from git_agentos import log

    entries = list(log.entries(open_workspace(agent.path).context))
    decided = next(entry for entry in entries if entry.type == "decision")
    assert "git branch -D loose" in decided.summary
    assert Path(location(agent).git_dir, "agentos", "id").read_text().strip() == "dev"
