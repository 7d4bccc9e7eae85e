"""An agent in its own worktree: a day's work that nothing stops, and the commands next to it that are stopped.

All of it runs for real with layers 1 and 2 on, and is asked of `guard check` before.
"""

from __future__ import annotations

import os

import pytest

from git_agentos.guard.call import Call
from git_agentos.guard.commands import judge_text
from git_agentos.guard.identity import Who
from tests.guard.guarded import guarded, sh
from tests.support.repo import Repo

DEV = Who("dev", "worktree")
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
    return judge_text(text, Call((), str(dev.path), os.environ), DEV).decision.decision


def test_a_day_of_work_is_not_stopped(dev: Repo) -> None:
    assert len(lines()) >= 60
    for line in lines():
        if line.startswith("git ") and not any(mark in line for mark in ";|&"):
            assert checked(dev, line) == "allow", line
        done = sh(dev, f"set -e; {line}")
        if (done.code, "git-agentos" in done.err) != (0, False):
            print(line, done)
    assert dev.git("status", "--porcelain") == b""
