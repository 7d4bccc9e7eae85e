"""The losses that users of other tools reported (FIELD-NOTES.md, "Their users' losses"), each as a test of ours.

Those with a home elsewhere: cline#14367 in test_ignored, hermes#95491 in test_stat, zed#59099 in
test_restore_options, jj PR 10123 and "latest" across worktrees in test_worktrees.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import IN_PROCESS, run, run_ok


def test_a_stale_baseline_is_not_written_over_the_whole_tree(repo: Repo) -> None:
    """opencode#49732: a restore brings its own checkpoint's state, and a PATH restore nothing but the path."""
    repo.write("readme.txt", "one\n")
    repo.write("notes.txt", "one\n")
    IN_PROCESS.checkpoint(repo.path)
    repo.write("readme.txt", "two\n")
    repo.commit("two")
    repo.write("notes.txt", "three\n")
    repo.write("new.txt", "three\n")
    wanted = complete_state(repo.path)
    second = IN_PROCESS.checkpoint(repo.path)
    repo.write("src/app.py", "four\n")
    IN_PROCESS.restore(repo.path, second["id"], ["src/app.py"])
    assert_same(wanted, complete_state(repo.path), "restore of one path")
    repo.write("src/app.py", "five\n")
    IN_PROCESS.restore(repo.path, second["id"], no_branch=True)
    assert_same(wanted, complete_state(repo.path), "restore")


def test_restore_from_a_subdirectory_leaves_its_siblings(repo: Repo) -> None:
    """opencode#7775."""
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("src/app.py", "wrecked\n")
    repo.write("src/lib/util.py", "wrecked\n")
    repo.write("docs/guide.md", "good work\n")
    repo.write("docs/new.md", "good work\n")
    wrecked = complete_state(repo.path)
    run_ok(repo.path / "src", "restore", taken["id"], ".")
    assert repo.read("src/app.py") == b"print('app')\n"
    assert repo.read("docs/guide.md") == b"good work\n"
    assert repo.read("docs/new.md") == b"good work\n"
    run_ok(repo.path / "src", "undo")
    assert_same(wrecked, complete_state(repo.path), "undo from a subdirectory")


def test_the_users_gc_breaks_nothing(repo: Repo) -> None:
    """opencode PR 46037."""
    repo.write("readme.txt", "staged\n")
    repo.add("readme.txt")
    repo.write("readme.txt", "worktree\n")
    repo.write("untracked.txt", "untracked\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-fdq")
    repo.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    repo.git("gc", "-q", "--aggressive", "--prune=now")
    repo.git("repack", "-q", "-a", "-d", "-f")
    repo.git("prune", "--expire=now")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore after gc", branch="any")


def test_restore_knocks_no_commit_off_the_branch(repo: Repo) -> None:
    """cline#13550."""
    taken = IN_PROCESS.checkpoint(repo.path)
    commits = []
    for number in range(3):
        repo.write("work.txt", f"{number}\n")
        commits.append(repo.commit(f"work {number}"))
    for options in ({}, {"no_branch": True}, {"branch": "mine"}):
        IN_PROCESS.restore(repo.path, taken["id"], **options)
        assert repo.oid("main") == commits[-1]
        repo.git("merge-base", "--is-ancestor", commits[0], "main")
        IN_PROCESS.undo(repo.path)
        assert repo.oid() == commits[-1]
        assert repo.text("symbolic-ref", "HEAD") == "refs/heads/main"


def test_checkpoints_of_an_unchanged_large_file_store_it_once(repo: Repo) -> None:
    """cline#1873, opencode#15977: hundreds of gigabytes of snapshots."""
    repo.write("large.bin", os.urandom(3_000_000))
    IN_PROCESS.checkpoint(repo.path)
    first = _store_size(repo)
    for number in range(10):
        repo.write("small.txt", f"{number}\n")
        IN_PROCESS.checkpoint(repo.path)
    assert _store_size(repo) - first < 10 * 16_384


def test_an_automatic_trigger_makes_none_where_nothing_changed(repo: Repo) -> None:
    repo.append("readme.txt", "dirty\n")
    first = IN_PROCESS.checkpoint(repo.path)
    refs = repo.git("for-each-ref")
    again = IN_PROCESS.checkpoint(repo.path, trigger="periodic")
    assert again["unchanged"] is True
    assert again["id"] == first["id"]
    assert repo.git("for-each-ref") == refs
    assert IN_PROCESS.checkpoint(repo.path)["id"] != first["id"]


def test_a_home_folder_is_no_repository(home: Path, tmp_path: Path) -> None:
    """codex#19588, `git add -A` of $HOME: outside a repository nothing is made, and no repository is."""
    places = (home, home / "projects" / "plain")
    places[1].mkdir(parents=True, exist_ok=True)
    (home / "precious.txt").write_text("precious\n")
    before = sorted(path.name for path in home.rglob("*"))
    for place in places:
        for words in (["checkpoint"], ["restore", "latest"], ["undo"], ["status"]):
            done = run(place, *words)
            assert done.code == 1, str(done)
    assert sorted(path.name for path in home.rglob("*")) == before


def test_the_users_stash_and_index_are_never_borrowed(repo: Repo) -> None:
    """The stash is shared by all worktrees; nothing of ours goes there."""
    repo.append("readme.txt", "stashed\n")
    repo.git("stash", "-q")
    listed = repo.git("stash", "list")
    repo.append("readme.txt", "dirty\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("reset", "-q", "--hard")
    IN_PROCESS.restore(repo.path, taken["id"])
    IN_PROCESS.undo(repo.path)
    assert repo.git("stash", "list") == listed
    repo.git("stash", "pop", "-q")
    assert repo.read("readme.txt").endswith(b"stashed\n")


def _store_size(repo: Repo) -> int:
    return sum(path.stat().st_size for path in (repo.git_dir / "objects").rglob("*") if path.is_file())
