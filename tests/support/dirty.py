"""A dirty worktree: every kind of change that `git status` tells apart, in the history that `repo.fill` makes."""

from __future__ import annotations

import os

from tests.support.elsewhere import if_possible
from tests.support.repo import Repo


def make_dirty(repo: Repo) -> None:
    """Something of everything that a stash can hold."""
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.write("readme.txt", "unstaged on top of staged\n")
    repo.append("notes.txt", "unstaged\n")
    repo.remove("data.bin")
    repo.git("rm", "-q", "docs/guide.md")
    repo.git("mv", "src/app.py", "src/renamed.py")
    with if_possible():
        repo.chmod("run.sh", 0o644)
    with if_possible():
        repo.link("link", "notes.txt")
    repo.write("staged new.txt", "staged new\n")
    repo.add("staged new.txt")
    repo.write("untracked.txt", "untracked\n")
    repo.write("dir/untracked\nnewline", "untracked\n")
    with if_possible():
        repo.write(b"bad\xff", b"\x00\xff")


def racily_changed(repo: Repo, name: str, check: str) -> None:
    """Stage `name` and replace the file by another of the same size, all in one second, the index's: git looks at the
    content, for it cannot tell by the stat data (Documentation/technical/racy-git.txt).

    `check` is core.checkStat: with `minimal` all of that counts which is the same here.
    """
    past = (1_700_000_000, 1_700_000_000)
    repo.config("core.checkStat", check)
    repo.config("core.trustctime", "false")
    repo.write(name, "staged\n")
    os.utime(repo.at(name), past)
    repo.add(name)
    repo.write(name + ".new", "edited\n")
    os.utime(repo.at(name + ".new"), past)
    os.rename(repo.at(name + ".new"), repo.at(name))
    os.utime(repo.git_dir / "index", past)
    assert status(repo) == b"MM %b\0" % name.encode()


def status(repo: Repo) -> bytes:
    """What git sees, and leaves the index as it is."""
    return repo.git("--no-optional-locks", "status", "--porcelain", "-z")
