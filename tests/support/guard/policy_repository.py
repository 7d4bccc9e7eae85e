"""The state that the tables of commands are judged in.

main ── HEAD: two commits; `v1` and `behind` at the first, `other` is one commit off it
clean.txt, src/    as committed                     dirty.txt, work/dirty.py  changed, not staged
staged.txt         changed and staged               both.txt   staged, and changed again
added.txt          new, staged                      gone.txt   deleted in the worktree
hidden.txt         changed, and git told to assume it is not (assume-unchanged)
new.txt            untracked; `other` has one, too  cache/     ignored
origin             a remote, with `main` and `remote-only`; ../main, another repository; one stash entry
"""

from __future__ import annotations

from pathlib import Path

from tests.support.repo import Repo

_ALIASES = {
    "wipe": "reset --hard",
    "again": "wipe",
    "quoted": 'reset "--hard" HEAD',
    "scrub": "!git clean -fdx",
    "boom": "!f() { git clean -fd; }; f",
    "shove": "push --force",
    "st": "status",
    "lg": "log --oneline --graph",
    "co": "checkout",
    "ci": "commit",
    "ci-quick": "commit --no-verify -m quick",
    "up": "pull --rebase",
    "evade": "-c core.hooksPath=/dev/null commit",
    "unstage": "reset HEAD --",
    "status": "reset --hard",
}


def build(folder: Path) -> Repo:
    """Make it in `folder/repo`."""
    repo = Repo.init(folder / "repo")
    for name in ("clean", "dirty", "staged", "both", "gone", "hidden"):
        repo.write(f"{name}.txt", "one\n")
    repo.write("src/app.py", "one\n")
    repo.write("work/dirty.py", "one\n")
    repo.write(".gitignore", "cache/\n")
    first = repo.commit("first")
    repo.git("tag", "v1")
    repo.git("branch", "behind")
    repo.write("clean.txt", "one\ntwo\n")
    repo.commit("second")
    repo.git("checkout", "-q", "-b", "other", first)
    repo.write("other.txt", "only on other\n")
    repo.write("new.txt", "of other\n")
    repo.commit("other work")
    repo.git("checkout", "-q", "main")
    _remotes(repo, folder)
    for name, text in _ALIASES.items():
        repo.config(f"alias.{name}", text)
    repo.write("dirty.txt", "stashed\n")
    repo.git("stash", "-q")
    _changes(repo)
    return repo


def _remotes(repo: Repo, folder: Path) -> None:
    repo.git("init", "-q", "--bare", "-b", "main", str(folder / "origin.git"))
    repo.git("remote", "add", "origin", "../origin.git")
    repo.git("push", "-q", "origin", "main", "main:remote-only")
    repo.git("fetch", "-q", "origin")
    repo.git("branch", "-q", "-u", "origin/main")
    repo.git("remote", "add", "--mirror=push", "mirror", "../origin.git")
    repo.git("remote", "add", "forced", "../origin.git")
    repo.config("remote.forced.push", "+refs/heads/*:refs/heads/*")
    Repo.init(folder / "main")


def _changes(repo: Repo) -> None:
    repo.write("dirty.txt", "one\nedited\n")
    repo.write("work/dirty.py", "one\nedited\n")
    repo.write("staged.txt", "one\nstaged\n")
    repo.write("both.txt", "one\nstaged\n")
    repo.write("added.txt", "added\n")
    repo.add("staged.txt", "both.txt", "added.txt")
    repo.write("both.txt", "one\nstaged\nedited\n")
    repo.remove("gone.txt")
    repo.git("update-index", "--assume-unchanged", "hidden.txt")
    repo.write("hidden.txt", "one\nedited\n")
    repo.write("new.txt", "untracked\n")
    repo.write("cache/x.o", "ignored\n")
