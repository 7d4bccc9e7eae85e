"""A dirty worktree: every kind of change that `git status` tells apart, in the history that `repo.fill` makes."""

from __future__ import annotations

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
    repo.chmod("run.sh", 0o644)
    repo.link("link", "notes.txt")
    repo.write("staged new.txt", "staged new\n")
    repo.add("staged new.txt")
    repo.write("untracked.txt", "untracked\n")
    repo.write("dir/untracked\nnewline", "untracked\n")
    repo.write(b"bad\xff", b"\x00\xff")
