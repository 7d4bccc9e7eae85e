"""Where a command of a shell text runs, and what a variable of it holds, where that is not certain."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from git_agentos.guard.assessment import assessor
from git_agentos.guard.call import Call
from git_agentos.guard.decision import ALLOW
from git_agentos.guard.identity import Identity
from tests.support.repo import Repo

AGENT = Identity("dev", "environment")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """`a.txt` has changes that are nowhere else; `sub/a.txt` and `other/a.txt` have none."""
    repo = Repo.init(tmp_path_factory.mktemp("place") / "repo")
    for folder in ("", "sub/", "other/", "sub/sub/"):
        repo.write(f"{folder}a.txt", "committed\n")
    repo.commit("first")
    repo.write("a.txt", "work\n")
    repo.write("env.sh", "x='checkout --'\n")
    repo.write("move.sh", "cd sub\n")
    (repo.path / "link").symlink_to("sub/sub")
    return repo


def decided(here: Repo, text: str) -> tuple[str, list[str]]:
    found = assessor.assess_text(text, Call((), str(here.path), os.environ), AGENT).decision
    return found.decision, found.operations


# Each discards the work in a.txt, though a `cd` in it leads to a folder where nothing would be lost.
LOSES = [
    "test -d no && cd sub; git checkout -- a.txt",
    "false && cd sub; git checkout -- a.txt",
    "true || cd sub; git checkout -- a.txt",
    "test -d no && test -d no2 && cd sub; git checkout -- a.txt",
    "test -d . || cd sub; git checkout -- a.txt",
    "case x in y) cd sub;; esac; git checkout -- a.txt",
    "case x in y) cd sub;; *) ;; esac; git checkout -- a.txt",
    "if false; then cd sub; fi; git checkout -- a.txt",
    "if true; then :; else cd sub; fi; git checkout -- a.txt",
    "if false; then cd sub; elif false; then cd sub; fi; git checkout -- a.txt",
    "for d in sub; do cd $d; break; done <<<x; cd ..; git checkout -- a.txt",
    "for x in $(true); do cd sub; done; git checkout -- a.txt",
    "for x in; do cd sub; done; git checkout -- a.txt",
    "while false; do cd sub; done; git checkout -- a.txt",
    "until true; do cd sub; done; git checkout -- a.txt",
    "cd sub & git checkout -- a.txt",
    "true && cd sub & git checkout -- a.txt",
    "{ cd sub; } & git checkout -- a.txt",
    "cd sub | cat; git checkout -- a.txt",
    "echo x | cd sub; git checkout -- a.txt",
    "(cd sub); git checkout -- a.txt",
    "(cd sub; true) && git checkout -- a.txt",
    "$(cd sub); git checkout -- a.txt",
    "x=$(cd sub; pwd); git checkout -- a.txt",
    "x=`cd sub`; git checkout -- a.txt",
    "echo $(cd sub) > /dev/null; git checkout -- a.txt",
    "cat <(cd sub); git checkout -- a.txt",
    "f() { cd sub; }; git checkout -- a.txt",
    "f() { return; cd sub; }; f; git checkout -- a.txt",
    "f() { test -d no && return; false && cd sub; }; f; git checkout -- a.txt",
    "cd() { :; }; cd sub; git checkout -- a.txt",
    "cd() { true; }; test 1 && cd sub; git checkout -- a.txt",
    "alias cd=:; cd sub; git checkout -- a.txt",
    "cd sub; cd -; git checkout -- a.txt",
    "cd sub && cd - && git checkout -- a.txt",
    "pushd sub; popd; git checkout -- a.txt",
    "pushd sub; pushd; git checkout -- a.txt",
    "cd sub other; git checkout -- a.txt",
    "cd sub 2>/dev/null extra; git checkout -- a.txt",
    "mv sub sub2; cd sub; git checkout -- a.txt",
    "rm -rf sub; cd sub; git checkout -- a.txt",
    "CDPATH=/tmp cd sub; git checkout -- a.txt",
    "test -d no && exit; cd sub; cd ..; git checkout -- a.txt",
    "trap 'cd sub' USR1; git checkout -- a.txt",
    "[ -d no ] && { cd sub; }; git checkout -- a.txt",
    "[[ -d no ]] && cd sub; git checkout a.txt",
    "test -d no && cd sub\ngit restore a.txt",
    "eval 'test -d no && cd sub'; git checkout -- a.txt",
    "bash -c 'test -d no && cd sub; git checkout -- a.txt'",
    "test -d no && pushd sub; git checkout -- a.txt",
    "d=.; test -d no && d=sub; cd $d; git checkout -- a.txt",
    "d=.; false && d=sub; git -C $d checkout -- a.txt",
    "for d in . sub; do test -d no && cd $d; done; git checkout -- a.txt",
    "cd $EMPTY; git checkout -- a.txt",
    'cd "$UNKNOWN"; git checkout -- a.txt',
    "HOME=.; test -d no && HOME=sub; cd; git checkout -- a.txt",
    # What a variable, a function or an alias holds is not certain either.
    "x=status; . ./env.sh; git $x a.txt",
    "x=status; source ./env.sh && git $x a.txt",
    "x=status; . ./move.sh; git $x",
    "x=status; false || x='checkout --'; git $x a.txt",
    "x='checkout --'; false && x=status; git $x a.txt",
    "f() { git checkout -- a.txt; }; false && f() { git status; }; f",
    "shopt -s expand_aliases; alias g='git checkout --'; false && alias g='git log --'; g a.txt",
    "git() { command git checkout -- a.txt; }; git status",
    "git() { /usr/bin/git checkout -- a.txt; }; test -d no && git() { :; }; git status",
]


@pytest.mark.parametrize("text", LOSES)
def test_uncertain_folder_is_not_allowed(here: Repo, text: str) -> None:
    decision, operations = decided(here, text)
    assert decision != ALLOW, operations


@pytest.mark.parametrize("text", [text for text in LOSES if "alias" not in text][::6])
def test_bash_loses_the_file(tmp_path: Path, text: str) -> None:
    """The table is about something: those that have no reason to fail lose the file."""
    repo = Repo.init(tmp_path / "repo")
    for folder in ("", "sub/", "other/", "sub/sub/"):
        repo.write(f"{folder}a.txt", "committed\n")
    repo.commit("first")
    repo.write("a.txt", "work\n")
    repo.write("env.sh", "x='checkout --'\n")
    subprocess.run(["bash", "-c", text], cwd=repo.path, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert repo.read("a.txt") == b"committed\n"


# Nothing is lost by these, and it is certain.
KEEPS = [
    "cd sub; git checkout -- a.txt",
    "cd sub && git checkout -- a.txt",
    "cd sub && echo x && git checkout -- a.txt && cd .. && git status",
    "cd sub || exit 1; git checkout -- a.txt",
    "cd sub || { echo no >&2; exit 1; }; git checkout -- a.txt",
    "cd sub || return 1; git checkout -- a.txt",
    "test -d sub || exit 1; cd sub; git checkout -- a.txt",
    "if [ ! -d sub ]; then exit 1; fi; cd sub; git checkout -- a.txt",
    "set -e; cd sub; git checkout -- a.txt",
    "if [ -d sub ]; then cd sub && git checkout -- a.txt; fi",
    "if cd sub; then git checkout -- a.txt; fi",
    "cd sub 2>/dev/null && git checkout -- a.txt",
    "echo start && cd sub; git checkout -- a.txt",
    "for d in sub other; do cd $d; git checkout -- a.txt; cd ..; done",
    "for d in sub other; do (cd $d && git checkout -- a.txt); done",
    "(cd sub && git checkout -- a.txt)",
    "(cd sub && make) && git -C sub checkout -- a.txt",
    "test -d no && cd sub; git status; git diff; git log -1",
    "test -d no && cd sub; git add -A && git commit -m x",
    "test -d no && cd sub; cd /tmp; git status",
    f"cd {os.sep} && git status",
    "pushd sub && git checkout -- a.txt",
    "cd sub & wait; git -C sub checkout -- a.txt",
    "cd ./sub/../sub; git checkout -- a.txt",
    "CDPATH= cd ./sub && git checkout -- a.txt",
    "root=$(cd sub && pwd); git status",
    ". venv/bin/activate && cd sub && git checkout -- a.txt",
    "source ~/.bashrc; cd sub; git checkout -- a.txt",
    "f() { cd sub || return; git checkout -- a.txt; }; f",
    "x=status; . ./env.sh; git status",
    "git -C sub checkout -- a.txt; test -d no && cd sub; git push --dry-run",
    "make || exit 1; cd sub; git checkout -- a.txt",
    "python build.py; cd sub; git checkout -- a.txt",
    "rm -rf build; cd sub; git checkout -- a.txt",
    "mkdir -p sub && cd sub && git checkout -- a.txt",
]


@pytest.mark.parametrize("text", KEEPS)
def test_certain_folder_decides(here: Repo, text: str) -> None:
    assert decided(here, text)[0] == ALLOW, decided(here, text)
