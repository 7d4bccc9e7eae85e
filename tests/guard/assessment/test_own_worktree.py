"""An agent in its own worktree: a day's work that nothing stops, and the commands next to it that are stopped.

All of it runs for real with layers 1 and 2 on, and is asked of `guard check` before.
"""

from __future__ import annotations

import os

import pytest

from git_agentos import open_workspace
from git_agentos.guard.assessment.assessor import assess_text
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from tests.support import ref_storage
from tests.support.confirming import set_up
from tests.support.dirty import make_dirty
from tests.support.guard.guarded_worktree import checkpoints, guarded, sh
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state

DEV = Identity("dev", "worktree")
# One line after the other in one worktree, by topic. What makes a commit makes one that differs from all others.
DAY = """
# first commits
echo 'def f(): pass' > feature.py
git add feature.py
git status --short
git diff --cached --stat
git commit -qm 'feature'
git commit -q --amend -m 'feature: f'
echo 'def g(): pass' >> feature.py
git commit -qa --amend --no-edit
git -c advice.detachedHead=false commit --amend -q --no-edit --reset-author
echo 'print(1)' >> feature.py; git commit -qam 'feature: print'

# fixups
echo '# a comment' >> feature.py; git commit -qa --fixup HEAD
GIT_SEQUENCE_EDITOR=: git rebase -q -i --autosquash HEAD~2
echo 'one' > one.txt; git add one.txt; git commit -qm 'one'
echo 'two' > two.txt; git add two.txt; git commit -qm 'two'
echo 'more' >> one.txt; git commit -qa --fixup HEAD~1
GIT_SEQUENCE_EDITOR=true git rebase -q -i --autosquash main
GIT_SEQUENCE_EDITOR="sed -i 2s/pick/squash/" GIT_EDITOR=true git rebase -q -i HEAD~2
git rebase -q main

# back to the commit before
echo 'three' > three.txt; git add three.txt; git commit -qm 'three'
git reset -q --soft HEAD~1
git commit -qm 'three again'
git reset -q HEAD~1
git add three.txt
git commit -qm 'three once more'
git reset -q --mixed HEAD^
git add -A; git commit -qm 'three at last'
git reset -q --soft HEAD@{1}
git reset -q --soft HEAD@{1}

# edits that are taken back
echo 'wrong' >> feature.py
git restore feature.py
echo 'wrong' >> feature.py; git checkout -- feature.py
echo 'wrong' >> notes.txt; git checkout notes.txt
echo 'wrong' >> notes.txt; git add notes.txt; git restore --staged notes.txt; git restore notes.txt
echo 'wrong' >> notes.txt; git add notes.txt; git restore --staged --worktree notes.txt
echo 'wrong' >> notes.txt; git checkout HEAD~1 -- notes.txt
echo 'wrong' >> src/app.py; git -C src restore app.py
mkdir -p src/new; echo 'x' > src/new/x.py; echo 'wrong' >> src/app.py; git restore src
git clean -fd src/new
git reset -q
git add notes.txt; git reset -q notes.txt

# builds
mkdir -p build dist; echo 'o' > build/a.o; echo 'w' > dist/a.whl; echo 'l' > ignored.log
git clean -fdx build dist
git clean -fdX ignored.log
git clean -nd

# stash
echo 'later' >> notes.txt
git stash push -q -m 'later'
git stash list
git stash pop -q
git stash -q; git stash apply -q; git restore notes.txt

# names
git tag wip
git tag -d wip
git tag -f moving; git commit -q --allow-empty -m 'empty'; git tag -f moving; git tag -d moving
git switch -q -c try/other
echo 'try' > try.txt; git add try.txt; git commit -qm 'try'; git commit -q --amend -m 'try it'
git branch -m try/better
git reset -q --soft HEAD~1; git commit -qm 'try again'
git switch -q agent/dev
git branch -q copy
git branch -m agent/dev-renamed
git commit -q --allow-empty --amend -m "on the branch with another name"
git branch -m agent/dev

# merges that are there already, and what is in progress
git merge -q main
git merge --ff-only main
git merge --no-ff main
git rm -q two.txt; git commit -qm 'without two'
echo 'edited' >> one.txt; git rm -qf one.txt; git restore --staged --worktree one.txt
git mv three.txt third.txt; git commit -qm 'third'
git revert --no-edit HEAD
git bisect start -q HEAD HEAD~3
git bisect good
git bisect reset
git config --worktree user.name dev
git notes add -m 'looked at'
git log --oneline main..; git show --stat; git blame feature.py; git fetch -q .
git sparse-checkout list || true
git worktree list
git gc -q
"""


def lines() -> list[str]:
    return [line for line in DAY.strip().splitlines() if line and not line.startswith("#")]


@pytest.fixture
def dev(repo: Repo) -> Repo:
    repo.write("src/app.py", "app\n")
    repo.append(".gitignore", "build/\ndist/\n*.log\n")
    repo.commit("more for the day")
    return guarded(repo)


def checked(dev: Repo, text: str) -> str:
    return assess_text(text, Call((), str(dev.path), os.environ), DEV).decision.decision


def test_a_day_of_work_is_not_stopped(dev: Repo) -> None:
    assert len(lines()) >= 60
    for line in lines():
        if line.startswith("git ") and not any(mark in line for mark in ";|&"):
            assert checked(dev, line) == "allow", line
        done = sh(dev, f"set -e; {line}")
        if (done.code, "git-agentos" in done.err) != (0, False):
            print(line, done)
    assert dev.git("status", "--porcelain") == b""


# -- what comes back ---------------------------------------------------------------------------------------------------

UNDONE = """
git commit -q --amend -m again
git commit -qa --amend --no-edit
git reset -q --soft HEAD~1
git reset -q HEAD~2
git restore notes.txt
git restore --staged --worktree readme.txt notes.txt
git checkout -- notes.txt readme.txt
git checkout HEAD~1 -- notes.txt
git clean -qfdx build untracked.txt dir
git rm -rqf docs src
git add -A && git rebase -q -i --autosquash --autostash HEAD~2
git add -A && git -C src rebase -q -i --autostash main
"""


def test_allowed_losses_are_restored_exactly(dev: Repo) -> None:
    """Files, index, named ignored files, HEAD; and the commits, when nothing else keeps them any more."""
    dev.write("one.txt", "one\n")
    dev.commit("one")
    dev.write("one.txt", "one, and more\n")
    dev.commit("fixup! one")
    head = dev.oid()
    make_dirty(dev)
    dev.write("build/out.o", "an hour of building\n")
    dev.write("dist/wheel", "not named by any command\n")
    before = complete_state(dev.path)
    *_, last = lines = UNDONE.strip().splitlines()
    for line in lines:
        done = sh(dev, line, env={"GIT_SEQUENCE_EDITOR": "true", "GIT_EDITOR": "true"})
        assert "git-agentos" not in done.err, (line, done)
        assert complete_state(dev.path) != before, line
        if line == last:
            # The checkpoint alone keeps the commits then.
            quietly(dev, "reflog", "expire", "--expire=now", "--all")
            quietly(dev, "gc", "-q", "--prune=now")
        saved = checkpoints(dev, "before_risky")[-1 if "add -A" in line else 0]
        open_workspace(dev.path).restore(saved.id, no_branch=False)
        assert dev.oid() == head, line
        quietly(dev, "update-ref", "refs/heads/agent/dev", head)
        quietly(dev, "symbolic-ref", "HEAD", "refs/heads/agent/dev")
        assert_same(before, complete_state(dev.path), line, permissions="all")


def quietly(repo: Repo, *words: str) -> None:
    """Run git without the guard."""
    repo.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words)


# -- what is stopped next to it ----------------------------------------------------------------------------------------

NEIGHBOURS = """
approve
    git reset --soft HEAD~2
    git reset HEAD~2
    git reset --soft main~1
    git reset --soft topic
    git rebase -i HEAD~2
    git rebase -i main
    git rebase --root
    git rebase topic
    git rebase HEAD~1 topic
    git rebase --onto topic HEAD~1
    git rebase --onto main HEAD~1
    git rebase -x "git commit --amend -C topic && git branch -m topic x" HEAD~1
    git merge topic
    git merge main topic
    git merge --squash topic
    git cherry-pick topic
    git tag -d v1
    git tag -d own v1
    git tag -f v1
    git tag -d theirs
    git branch -m topic mine
    git branch -m agent/dev-2 mine
    git -C {other} commit --amend -m x
    git -C {other} reset --soft HEAD~1
    git --git-dir={main}/.git reset --soft HEAD~1
forbid
    git commit --amend --no-verify -m x
    git reset --hard
    git reset --hard HEAD~1
    git reset --keep HEAD~1
    git checkout -f
    git checkout .
    git checkout -- .
    git checkout -- ':/'
    git checkout -- '*'
    git restore .
    git restore './'
    git restore --source=HEAD~1 --staged --worktree -- ':(top)'
    git -C src restore ..
    git -C {main} commit --amend -m x
    git -C {main} restore readme.txt
    git -C {other} checkout -- readme.txt
    git clean -fd
    git clean -fdx .
    git clean -fd ':/'
    git branch -D topic
    git branch -D copy
    git branch -d copy
    git branch -m main
    git branch -M topic
    git switch -C copy HEAD~1
    git update-ref refs/heads/agent/dev HEAD~1
    git push -f origin agent/dev
    git -c agentos.guard.preset=recoverable reset --hard
    git -c core.hooksPath=/dev/null commit --amend -m x
"""

# What the other preset allows as well, and what it does not.
RECOVERABLE = """
allow
    git reset --hard
    git reset --hard HEAD~1
    git reset --keep HEAD~1
    git checkout -f
    git checkout -- .
    git restore .
    git clean -fd
    git clean -fdx
    git branch -D copy
    git switch -C copy HEAD~1
    git merge topic
    git cherry-pick topic
    git rebase -i HEAD~1
approve
    git rebase -i HEAD~2
    git rebase topic
    git rebase --onto topic HEAD~1
    git tag -d v1
    git branch -m topic mine
    git push origin agent/dev
    git -C {other} merge topic
forbid
    git -C {main} merge topic
    git reset --hard HEAD~2
    git reset --hard topic
    git reset --hard main~1
    git branch -D topic
    git branch -D agent/dev-2
    git branch -m main
    git -C {main} reset --hard
    git -C {other} checkout -f
    git push -f origin agent/dev
    git reflog expire --expire=now --all
    git update-ref -d refs/heads/copy
    git commit --amend --no-verify -m x
"""


@pytest.fixture
def field(repo: Repo, dev: Repo) -> Repo:
    """An agent's commits, the first of them published; what others have beside it; and work to lose."""
    guarded(repo, "dev-2")
    repo.git("config", "agentos.protected", "main")
    repo.git("branch", "topic", "other")
    dev.write("one.txt", "one\n")
    repo.git("update-ref", "refs/remotes/origin/work", dev.commit("one"))
    dev.write("two.txt", "two\n")
    dev.commit("two")
    dev.git("tag", "own")
    dev.git("branch", "copy")
    repo.git("tag", "theirs", "agent/dev~1")
    for each in (repo, dev, Repo(dev.path.with_name("dev-2"))):
        make_dirty(each)
    return dev


def rows(text: str, dev: Repo) -> list[tuple[str, str]]:
    decision, found = "", []
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            decision = line
            continue
        places = {"main": dev.path.parent.parent / "repo", "other": dev.path.with_name("dev-2")}
        found.append((line.strip().format(**places), decision))
    return found


def test_similar_commands_are_stopped(field: Repo) -> None:
    asked = rows(NEIGHBOURS, field)
    assert [(line, checked(field, line)) for line, _ in asked] == asked
    # And the one that is allowed here, so that the field is what it seems to be.
    for line in ("git commit --amend -m x", "git reset --soft HEAD~1", "git tag -d own", "git branch -m mine"):
        assert checked(field, line) == "allow", line


def test_preset_recoverable_allows_what_can_be_undone(field: Repo, repo: Repo) -> None:
    set_up(repo, "agentos.guard.preset", "recoverable")
    asked = rows(RECOVERABLE, field)
    assert [(line, checked(field, line)) for line, _ in asked] == asked
    repo.git("config", "agentos.policy.reset-hard", "forbid")
    assert checked(field, "git reset --hard") == "forbid"


# Asked as one text, before any of it has run.
TEXTS = """
allow
    git add -A && git commit -qm x && git commit --amend --no-edit
    git commit -qam x && git reset --soft HEAD~1
    git commit -qam x; git reset HEAD^
    git commit -qam x && git reset --soft HEAD~2
    git commit -qa --fixup HEAD && GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash HEAD~2
    git switch -c try && git commit -qam x && git commit --amend -m y
    git tag wip && git commit -qam x && git tag -d wip
    git restore notes.txt && git clean -fd dir && git status
    cd src && git restore ../notes.txt
approve
    git commit -qam x && git reset --soft HEAD~3
    git commit -qam x && git rebase -i HEAD~3
    git switch topic && git commit --amend -m x
    git commit --amend -m x && git switch topic && git commit --amend -m x
    git switch -c mine topic && git commit --amend -m x
    git checkout topic; git reset --soft HEAD~1
    test -d elsewhere && cd elsewhere; git commit --amend -m x
    test -d elsewhere && cd elsewhere; git restore notes.txt
    git rebase -i HEAD~1 && git reset --soft HEAD~1
    git tag wip && git tag -d wip theirs
    git tag -a -m noted noted && git tag -d noted
"""


def test_several_commands_of_one_text(field: Repo) -> None:
    asked = rows(TEXTS, field)
    assert [(line, checked(field, line)) for line, _ in asked] == asked


STOPPED_BY_THE_LAYERS = """
git reset --soft HEAD~2
git rebase -q topic
git rebase -q --update-refs HEAD~2
git tag -d theirs
git tag -f theirs
git branch -m topic mine
git checkout -- .
git clean -fd
git merge -q topic
git reset --hard
"""


def test_layers_stop_the_same(field: Repo) -> None:
    before = complete_state(field.path)
    refs = field.git("for-each-ref", "refs/heads", "refs/tags")
    for line in STOPPED_BY_THE_LAYERS.strip().splitlines():
        if "branch -m" in line and ref_storage.by_default() != ref_storage.FILES:
            continue  # git calls no hook for it there (docs/security.md)
        done = sh(field, f"exec {line}")
        assert done.code != 0, (line, done)
        assert "git-agentos: " in done.err, (line, done)
        assert field.git("for-each-ref", "refs/heads", "refs/tags") == refs, line
        assert_same(before, complete_state(field.path), line, permissions="all")


def test_recoverable_for_real(field: Repo, repo: Repo) -> None:
    set_up(repo, "agentos.guard.preset", "recoverable")
    field.write("ignored.log", "ignored\n")
    before = complete_state(field.path)
    done = sh(field, "git reset -q --hard HEAD~1 && git clean -qfdx && git branch -D copy")
    assert done.code == 0, done
    assert field.git("status", "--porcelain") == b""
    assert not field.exists("ignored.log")
    first = checkpoints(field, "before_risky")
    open_workspace(field.path).restore(first[-1].id, no_branch=False)
    after = complete_state(field.path)
    assert after.index == before.index
    assert {path: file for path, file in before.files.items() if path != b"ignored.log"} == dict(after.files)
    with_ignored = next(each for each in first if each.meta["command"].startswith("git clean"))
    open_workspace(field.path).restore(with_ignored.id, no_branch=True)
    assert field.read("ignored.log") == b"ignored\n"


def test_names_of_others_never_count_as_own(field: Repo, repo: Repo) -> None:
    """A tag that somebody moved or made again, a branch of the same name, a commit that somebody else made."""
    field.git("tag", "again")
    repo.git("tag", "-f", "again", "main")
    assert checked(field, "git tag -d again") == "approve"
    field.git("tag", "-a", "-m", "a message that no checkpoint holds", "noted")
    assert checked(field, "git tag -d noted") == "approve"
    repo.git("tag", "-d", "own")
    repo.git("tag", "-a", "-m", "mine", "own", "agent/dev")
    assert checked(field, "git tag -d own") == "approve"
    quietly(field, "stash", "-u", "-q")
    field.git("switch", "-q", "topic")
    assert checked(field, "git commit --amend -m x") == "approve"
    assert checked(field, "git branch -m mine") == "approve"
    sh(
        field,
        "GIT_REFLOG_ACTION='commit: x' git checkout -q main~1; GIT_REFLOG_ACTION='commit: x' git checkout -q topic",
    )
    assert checked(field, "git commit --amend -m x") == "approve"
    assert checked(field, "git reset --soft HEAD~1") == "approve"
    # On top of another's branch, one's own commit is one's own.
    field.git("commit", "-q", "--allow-empty", "-m", "mine")
    assert checked(field, "git commit --amend -m x") == "allow"
    assert checked(field, "git reset --soft HEAD~2") == "approve"
    repo.git("branch", "-f", "held", "topic")
    assert checked(field, "git commit --amend -m x") == "approve"


def test_nothing_is_recoverable_in_main_worktree_or_without_checkpoints(field: Repo, repo: Repo) -> None:
    call = Call((), str(repo.path), os.environ)
    for who in (DEV, Identity("dev", "environment"), Identity("new", "environment")):
        for line in (
            "git commit --amend -m x",
            "git restore readme.txt",
            "git reset --soft HEAD~1",
            "git clean -fd dir",
        ):
            assert assess_text(line, call, who).decision.decision in ("approve", "forbid"), line
    set_up(repo, "agentos.auto.beforeRisky", "false")
    for line in ("git commit --amend -m x", "git restore readme.txt", "git clean -fd dir"):
        assert checked(field, line) in ("approve", "forbid"), line
