"""The stash, which all worktrees share: an agent has its own entries, and those of others wait for approval."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from git_agentos.guard.assessment.assessor import assess_text
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from tests.support.guard.guarded_worktree import checkpoints, grant_all, guarded, sh
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import Result, run, run_ok


@pytest.fixture
def team(repo: Repo) -> tuple[Repo, Repo, Repo]:
    """The person's main worktree and two agents', all with changes of their own, the agents' with the guard on."""
    made = (repo, guarded(repo, "one"), guarded(repo, "two"))
    for each in made:
        each.append("notes.txt", f"edited in {each.path.name}\n")
        each.write("new.txt", f"untracked in {each.path.name}\n")
    return made


def entries(repo: Repo) -> list[str]:
    return repo.text("stash", "list", "--format=%H").split()


def kept(repo: Repo, timeline: str, commit: str) -> bool:
    """Whether a timeline keeps a commit alive."""
    return repo.try_git("merge-base", "--is-ancestor", commit, f"refs/agentos/timelines/{timeline}") == 0


def below_exec(repo: Repo, *words: str) -> Result:
    return run(repo.path, "guard", "exec", "--", "git", *words)


PUSHES = [
    "git stash",
    "git stash -q -u",
    "git stash push -m wip",
    "git stash push -- notes.txt",
    "git stash save wip",
    "git stash push -a",
    "git stash store -m wip $(git stash create)",
    "git -c stash.x=y stash",
]


def test_stash_push_creates_checkpoint_of_pusher(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, _ = team
    for n, text in enumerate(PUSHES):
        one.append("notes.txt", f"{n}\n")
        one.write("new.txt", f"untracked {n}\n")
        before = complete_state(one.path)
        done = sh(one, text)
        assert done.code == 0 and "git-agentos" not in done.err, (text, done)
        assert len(entries(repo)) == n + 1
        assert kept(one, "one", entries(repo)[0]), text
    run_ok(one.path, "restore", "--no-branch", checkpoints(one, "before_risky")[0].id)
    assert_same(before, complete_state(one.path), "the last of them", permissions="all")


def test_own_entries_come_back(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, two = team
    sh(repo, "git stash")
    sh(two, "git stash")
    others, before = entries(repo), complete_state(one.path)
    for text in ("git stash -u && git stash pop -q", "git stash -u -q && git stash apply -q && git stash drop -q"):
        done = sh(one, text)
        assert done.code == 0 and "git-agentos" not in done.err, (text, done)
        now = complete_state(one.path)
        assert (now.files, now.index) == (before.files, before.index), text
        assert entries(repo) == others


TAKES = [
    "git stash pop",
    "git stash pop -q --index 0",
    "git stash pop refs/stash@{0}",
    "git stash apply $(git rev-parse stash@{0})",
    "git stash branch taken",
    "git -c alias.p='!git stash pop' p",
]
DELETES = ["git stash drop", "git stash drop -q stash@{1}", "git stash drop 1", "git stash clear"]


@pytest.mark.parametrize("pusher", ["person", "agent"])
def test_stash_entries_of_others_are_not_applied(pusher: str, team: tuple[Repo, Repo, Repo]) -> None:
    """In the worktree of another agent, by git alone."""
    repo, one, two = team
    sh(repo if pusher == "person" else one, "git stash -u")
    two.git("commit", "-qam", "mine")
    listed, before, refs = entries(repo), complete_state(two.path), two.git("for-each-ref", "refs/heads")
    takes = TAKES if pusher == "person" else TAKES[:1]
    for text in [*takes, "git stash clear", "git update-ref -d refs/stash"]:
        done = sh(two, text)
        assert done.code != 0 and "git-agentos" in done.err, (text, done)
        assert entries(repo) == listed, text
        assert_same(before, complete_state(two.path), text, permissions="all")
        assert two.git("for-each-ref", "refs/heads") == refs, text


def test_stash_entries_of_others_are_not_deleted_below_guard_exec(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, two = team
    sh(repo, "git stash")
    sh(one, "git stash")
    listed = entries(repo)
    for text in [*DELETES, "git stash apply stash@{1}"]:
        done = below_exec(two, *text.split()[1:])
        assert done.code == 3 and b"stash-other" in done.err, (text, done)
        assert entries(repo) == listed, text
    # The one's own is the newest: its place decides, and the place of the person's is another.
    assert below_exec(one, "stash", "drop", "stash@{1}").code == 3
    assert below_exec(one, "stash", "clear").code == 3
    assert entries(repo) == listed


def test_own_entries_are_dropped_and_kept(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, _ = team
    pushed = []
    for n in range(3):
        one.append("notes.txt", f"{n}\n")
        sh(one, "git stash")
        pushed += entries(repo)[:1]
    sh(one, "echo 'not pushed' >own.txt")
    before = complete_state(one.path)
    assert below_exec(one, "stash", "drop", "stash@{1}").code == 0
    assert entries(repo) == [pushed[2], pushed[0]]
    assert below_exec(one, "stash", "clear").code == 0
    assert entries(repo) == []
    assert_same(before, complete_state(one.path), "the worktree", permissions="all")
    assert all(kept(one, "one", commit) for commit in pushed)


def test_a_person_is_not_stopped(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, two = team
    for each in (one, two):
        sh(each, "git stash")
    for text in ("git stash pop", "git checkout -q notes.txt && git stash drop", "git stash && git stash clear"):
        done = sh(repo, f"git checkout -q -f && {text}" if text == "git stash pop" else text)
        assert done.code == 0, (text, done)
    assert entries(repo) == []


def test_an_approval_is_for_the_entry(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, two = team
    sh(one, "git stash")
    (commit,) = entries(repo)
    assert below_exec(two, "stash", "drop", "stash@{0}").code == 3
    (id_,) = grant_all(repo)
    shown = json.dumps(run_ok(repo.path, "approvals", "show", id_))
    assert f"stash entry {commit}" in shown
    sh(repo, "git stash")  # now stash@{0} is another
    listed = entries(repo)
    assert below_exec(two, "stash", "drop", "stash@{0}").code == 3
    assert entries(repo) == listed
    sh(repo, "git stash pop")
    assert below_exec(two, "stash", "drop", "stash@{0}").code == 0
    assert entries(repo) == []
    assert kept(two, "two", commit)


def test_forged_record_does_not_count(team: tuple[Repo, Repo, Repo]) -> None:
    repo, one, two = team
    sh(one, "git stash")
    (commit,) = entries(repo)
    genuine = one.git_dir / "agentos" / "stash" / commit
    folder = two.git_dir / "agentos" / "stash"
    folder.mkdir(parents=True)
    for document in (
        genuine.read_text(),
        json.dumps({**json.loads(genuine.read_text()), "worktree": "two"}),
        json.dumps({"commit": commit, "worktree": "two", "mac": None}),
        "no document",
    ):
        Path(folder, commit).write_text(document)
        done = below_exec(two, "stash", "drop")
        assert done.code == 3 and b"stash-other" in done.err, (document, done)
    # What is in the stash already does not get another owner by being stored again.
    Path(folder, commit).unlink()
    sh(two, f"git stash store {commit}")
    assert below_exec(two, "stash", "drop").code == 3
    assert entries(repo)[-1] == commit


def test_text_pops_its_own_entry(team: tuple[Repo, Repo, Repo]) -> None:
    """A harness is asked about the whole text before it runs: what is at the top then is not what is there now."""
    repo, one, _ = team
    sh(repo, "git stash")

    def decided(text: str) -> str:
        call = Call((), str(one.path), {**os.environ, "AGENTOS_AGENT_ID": "one"})
        return assess_text(text, call, Identity("one", "environment")).decision.decision

    for text in (
        "git stash && make && git stash pop",
        "git stash push -u; git stash pop stash@{0}",
        "git stash; git stash apply; git stash drop",
        "git stash; git stash; git stash list",
    ):
        assert decided(text) == "allow", text
    for text in (
        "git stash && git stash pop stash@{1}",
        "git stash pop",
        "git stash; git stash pop; git stash pop",
        "git stash; git stash drop; git stash drop",
        "git stash push -- readme.txt; git stash pop",  # nothing of it has changed: git makes no entry
        "git stash; git stash clear",
    ):
        assert decided(text) == "approve", text
