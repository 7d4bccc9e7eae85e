"""`worktree merge`: everything in memory first, then all at once, and nothing that is not committed is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.errors import AgentosError, StorageError, WorktreeError
from git_agentos.git import index
from git_agentos.worktree import agent_merge as merging
from git_agentos.worktree import fast_forward, fast_forward_recovery, journal
from tests.support import ref_storage
from tests.support.agents import agent_commit, agent_worktree
from tests.support.dirty import racily_changed, status
from tests.support.json_reference import check_document
from tests.support.refusal import assert_refused
from tests.support.repo import Repo, git
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import run, run_ok

LINES = [f"line {n}\n" for n in range(30)]


def _edited(**lines: str) -> str:
    """`src/lib/util.py` with some lines changed: `_edited(l3="three")`."""
    changed = list(LINES)
    for name, text in lines.items():
        changed[int(name[1:])] = text + "\n"
    return "".join(changed)


def _merge(repo: Repo, *args: str | bytes, code: int = 0) -> Any:
    done = run(repo.path, "--json", "worktree", "merge", *args)
    assert done.code == code, str(done)
    document = done.json
    assert check_document(document) == "merge"
    return document


def _pairs(document: Any) -> list[tuple[str, str, list[str]]]:
    return [(each["a"], each["b"], each["files"]) for each in document["conflicts"]]


def _ours(repo: Repo) -> bytes:
    return repo.git("for-each-ref", "refs/agentos")


# -- what is merged --------------------------------------------------------------------------------------------------


def test_the_checked_out_branch_comes_along_and_local_changes_stay(repo: Repo) -> None:
    dev = agent_commit(
        repo, "dev-001", {"src/lib/util.py": _edited(l3="three"), "new/file.txt": "new\n", "data.bin": None}
    )
    dev.chmod("docs/guide.md", 0o755)
    dev.link("docs/link", "guide.md")
    dev.commit("modes and links")
    repo.write(".git/info/exclude", "*.log\n")
    repo.write("readme.txt", "changed here\n")
    repo.write("notes.txt", "staged here\n")
    repo.add("notes.txt")
    repo.append("notes.txt", "and then changed\n")
    repo.write("mine.txt", "untracked\n")
    repo.write("build.log", "ignored\n")
    os.utime(repo.at("src/lib/util.py"), (1, 1))  # to git's index it looks changed
    old = repo.oid()
    local = ["readme.txt", "notes.txt", "mine.txt", "build.log", "src/app.py"]
    stats = {name: os.stat(repo.at(name)) for name in local}
    index_before = {e.path: e for e in complete_state(repo.path).index}

    done = _merge(repo, "dev-001")

    new = repo.oid()
    assert done["merged"] is True
    assert done["target"] == "main"
    assert done["before"] == old
    assert done["merge_commit"] == new == done["sources"][0]["merge_commit"]
    assert done["worktree_path"] == str(repo.path)
    assert done["conflicts"] == []
    assert repo.text("log", "-1", "--format=%P") == f"{old} {dev.oid()}"
    assert repo.text("log", "-1", "--format=%s") == "Merge agent 'dev-001'"
    assert repo.text("log", "-1", "--format=%(trailers:key=Agentos-Agent,valueonly)") == "dev-001"
    for name in local:
        found = os.stat(repo.at(name))
        assert (found.st_mtime_ns, found.st_ino) == (stats[name].st_mtime_ns, stats[name].st_ino), name
    assert repo.read("readme.txt") == b"changed here\n"
    assert repo.read("notes.txt") == b"staged here\nand then changed\n"
    assert repo.read("src/lib/util.py") == _edited(l3="three").encode()
    assert repo.read("new/file.txt") == b"new\n"
    assert not repo.exists("data.bin")
    assert os.access(repo.at("docs/guide.md"), os.X_OK)
    assert os.readlink(repo.at("docs/link")) == b"guide.md"
    assert repo.git("status", "--porcelain", "-z") == b"MM notes.txt\0 M readme.txt\0?? mine.txt\0"
    index_after = {e.path: e for e in complete_state(repo.path).index}
    assert index_after[b"notes.txt"] == index_before[b"notes.txt"]
    assert repo.text("reflog", "-1", "--format=%gs") == "agentos merge: dev-001"
    assert repo.text("reflog", "-1", "--format=%gs", "main") == "agentos merge: dev-001"
    assert repo.oid("ORIG_HEAD") == old
    repo.git("fsck", "--strict", "--no-dangling")
    assert list((repo.git_dir / "agentos" / "worktrees").glob("*")) == []
    repo.git("reset", "-q", "--keep", old)
    assert repo.read("src/lib/util.py") == "".join(LINES).encode()


@pytest.mark.parametrize("check", ["default", "minimal"])
def test_a_local_change_that_only_its_content_tells_stays_seen(repo: Repo, check: str) -> None:
    agent_commit(repo, "dev-001", {"new/file.txt": "new\n"})
    racily_changed(repo, "notes.txt", check)
    _merge(repo, "dev-001")
    assert repo.read("new/file.txt") == b"new\n"
    assert status(repo) == b"MM notes.txt\0"


def test_the_state_before_is_saved(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"src/app.py": "print('merged')\n", "fresh.txt": "fresh\n"})
    repo.write("mine.txt", "untracked\n")
    before = complete_state(repo.path)

    done = _merge(repo, "dev-001")

    saved = run_ok(repo.path, "checkpoint", "show", done["saved"])
    assert saved["trigger"] == "before_merge"
    assert saved["meta"]["sources"] == "dev-001"
    repo.git("reset", "-q", "--keep", done["before"])
    repo.write("src/app.py", "wrecked\n")
    run_ok(repo.path, "restore", done["saved"], "--no-branch")
    assert_same(before, complete_state(repo.path), "the checkpoint before the merge")


def test_several_agents_at_once(repo: Repo) -> None:
    one = agent_commit(repo, "dev-001", {"src/lib/util.py": _edited(l3="three")})
    two = agent_commit(repo, "dev-002", {"src/lib/util.py": _edited(l20="twenty")})
    agent_commit(repo, "dev-003", {"third.txt": "third\n"})

    done = _merge(repo, "dev-001", "dev-002", "dev-003", "dev-001")

    assert [each["state"] for each in done["sources"]] == ["merged"] * 3
    assert repo.read("src/lib/util.py") == _edited(l3="three", l20="twenty").encode()
    assert repo.read("third.txt") == b"third\n"
    subjects = repo.text("log", "--first-parent", "-3", "--format=%s").splitlines()
    assert subjects == ["Merge agent 'dev-003'", "Merge agent 'dev-002'", "Merge agent 'dev-001'"]
    assert [each["merge_commit"] for each in done["sources"]] == repo.text(
        "rev-list", "--first-parent", "-3", "HEAD"
    ).split()[::-1]
    assert repo.try_git("merge-base", "--is-ancestor", one.oid(), "main") == 0
    assert repo.try_git("merge-base", "--is-ancestor", two.oid(), "main") == 0
    assert repo.git("status", "--porcelain") == b""


def test_a_squash_is_one_commit_on_the_target_alone(repo: Repo) -> None:
    old = repo.oid()
    agent_commit(repo, "dev-001", {"src/lib/util.py": _edited(l3="three")})
    agent_commit(repo, "dev-002", {"src/lib/util.py": _edited(l20="twenty")})

    done = _merge(repo, "dev-001", "dev-002", "--squash")

    assert repo.text("log", "-1", "--format=%P") == old
    assert done["merge_commit"] == repo.oid()
    assert [each["merge_commit"] for each in done["sources"]] == [None, None]
    message = repo.text("log", "-1", "--format=%B")
    assert message.startswith("Squash agents 'dev-001', 'dev-002'\n")
    assert "work of dev-001" in message
    assert repo.text("log", "-1", "--format=%(trailers:key=Agentos-Agent,valueonly)").split() == ["dev-001", "dev-002"]
    assert repo.read("src/lib/util.py") == _edited(l3="three", l20="twenty").encode()

    again = _merge(repo, "dev-001", "dev-002")
    assert again["merged"] is False
    assert again["merge_commit"] is None
    assert [each["state"] for each in again["sources"]] == ["nothing-to-add"] * 2
    assert repo.oid() == done["merge_commit"]


def test_merged_branch_is_reported_and_left(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _merge(repo, "dev-001")
    before = complete_state(repo.path, strict=True)
    ours = _ours(repo)

    done = _merge(repo, "dev-001")

    assert (done["merged"], done["sources"][0]["state"]) == (False, "up-to-date")
    assert_unchanged(before, complete_state(repo.path, strict=True), "merging again")
    assert _ours(repo) == ours


def test_into_a_branch_that_is_checked_out_nowhere(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    repo.write("readme.txt", "changed here\n")
    before = complete_state(repo.path)
    other = repo.oid("other")

    done = _merge(repo, "dev-001", "--into", "other")

    assert (done["saved"], done["worktree_path"]) == (None, None)
    assert repo.text("log", "-1", "--format=%P", "other") == f"{other} {repo.oid('agent/dev-001')}"
    assert repo.text("log", "-1", "--format=%s", "other") == "Merge agent 'dev-001' into other"
    assert repo.text("reflog", "-1", "--format=%gs", "other") == "agentos merge: dev-001"
    assert_same(before, complete_state(repo.path), "the worktree that one stands in")


def test_into_a_branch_that_another_worktree_has(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    there = repo.path.parent / "there"
    repo.git("worktree", "add", "-q", str(there), "other")
    Repo(there).write("readme.txt", "local\n")
    before = complete_state(repo.path)

    done = _merge(repo, "dev-001", "--into", "other")

    assert done["worktree_path"] == str(there)
    assert Repo(there).read("one.txt") == b"one\n"
    assert Repo(there).git("status", "--porcelain") == b" M readme.txt\n"
    assert_same(before, complete_state(repo.path), "the worktree that one stands in")
    assert run_ok(there, "checkpoint", "list")["checkpoints"][0]["trigger"] == "before_merge"


def test_in_the_agents_own_worktree_it_goes_to_where_it_came_from(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"}, base="other")
    # It is a person's to do, from outside of it.
    assert_refused(dev.path, "worktree", "merge", "dev-001", code=3, mentions="needs approval", keeps=repo.path)
    _merge(repo, "-C", str(dev.path), "dev-001")
    assert repo.text("log", "-1", "--format=%s", "other") == "Merge agent 'dev-001' into other"

    two = agent_commit(repo, "dev-002", {"two.txt": "two\n"}, base=repo.oid())
    words = ("-C", str(two.path), "worktree", "merge", "dev-002")
    assert_refused(repo.path, *words, code=2, mentions="--into", keeps=repo.path)


def test_restore_branch_of_an_agent_is_merged(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"good.txt": "good\n"})
    good = run_ok(dev.path, "checkpoint")["id"]
    dev.write("bad.txt", "bad\n")
    dev.commit("a mistake")
    run_ok(dev.path, "restore", good)
    dev.write("better.txt", "better\n")
    dev.commit("better")

    done = _merge(repo, "dev-001")

    assert done["sources"][0]["branch"].startswith("restore/")
    assert repo.exists("better.txt")
    assert not repo.exists("bad.txt")


def test_uncommitted_work_is_left_out_and_reported(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    dev.write("readme.txt", "not committed\n")
    dev.write("untracked.txt", "untracked\n")
    before = complete_state(dev.path, strict=True)

    plain = run(repo.path, "worktree", "merge", "dev-001", "--dry-run")
    assert "'dev-001' has 2 paths that are not committed" in plain.err.decode()
    done = _merge(repo, "dev-001")

    assert done["sources"][0]["uncommitted"] == 2
    assert repo.read("readme.txt") == b"a readme\nsecond line\n"
    assert_same(before, complete_state(dev.path), "the agent's worktree")


def test_an_agent_without_a_worktree_is_merged_from_its_branch(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    repo.git("worktree", "remove", "--force", str(dev.path))
    assert _merge(repo, "dev-001")["sources"][0]["branch"] == "agent/dev-001"
    assert repo.exists("one.txt")


def test_the_checkpoint_of_an_agent_is_named_in_the_commit(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    saved = run_ok(dev.path, "checkpoint")["id"]
    done = _merge(repo, "dev-001")
    assert done["sources"][0]["checkpoint"] == saved
    assert repo.text("log", "-1", "--format=%(trailers:key=Agentos-Checkpoint,valueonly)") == saved


def test_merge_is_logged_in_both_worktrees(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    saved = run_ok(dev.path, "checkpoint")["id"]
    done = _merge(repo, "dev-001")
    assert done["warnings"] == []
    items = run_ok(repo.path, "memory", "list")["items"]
    merges = [each for each in items if each["kind"] == "merge"]
    assert len(merges) == 1
    assert saved in str(merges[0])
    for where, words in ((repo.path, "merged dev-001 into main"), (dev.path, "merged into main")):
        entries = run_ok(where, "log", "list")["entries"]
        found = [each for each in entries if each["summary"] == words]
        assert [each["commit"] for each in found] == [done["merge_commit"]], entries


# -- as the user's git merges ----------------------------------------------------------------------------------------


def _driver(repo: Repo) -> None:
    script = repo.scratch / "driver"
    script.write_text('#!/bin/sh\ncat "$2" "$3" | sort -u > "$2.new" && mv "$2.new" "$2"\n')
    script.chmod(0o755)
    repo.config("merge.union2.driver", f"{script} %O %A %B")
    repo.write(".gitattributes", "list.txt merge=union2\n")
    repo.write("list.txt", "m\n")
    repo.commit("a list")


@pytest.mark.parametrize("checked_out", [True, False])
def test_merge_drivers_of_the_target_count(repo: Repo, checked_out: bool) -> None:
    _driver(repo)
    agent_commit(repo, "dev-001", {"list.txt": "a\nm\n"})
    agent_commit(repo, "dev-002", {"list.txt": "b\nm\n"})
    if not checked_out:
        repo.git("checkout", "-q", "other")
    _merge(repo, "dev-001", "dev-002", "--into", "main")
    assert repo.git("show", "main:list.txt") == b"a\nb\nm\n"


def test_merge_drivers_below_a_folder_count_too(repo: Repo) -> None:
    _driver(repo)
    repo.git("mv", ".gitattributes", "docs/.gitattributes")
    repo.git("mv", "list.txt", "docs/list.txt")
    repo.commit("moved")
    agent_commit(repo, "dev-001", {"docs/list.txt": "a\nm\n"})
    agent_commit(repo, "dev-002", {"docs/list.txt": "b\nm\n"})
    repo.git("checkout", "-q", "other")
    _merge(repo, "dev-001", "dev-002", "--into", "main")
    assert repo.git("show", "main:docs/list.txt") == b"a\nb\nm\n"


def test_directory_renames_are_followed_as_configured(repo: Repo) -> None:
    repo.config("merge.directoryRenames", "true")
    dev = agent_worktree(repo, "dev-001")
    dev.git("mv", "src/lib", "src/library")
    dev.commit("renamed")
    agent_commit(repo, "dev-002", {"src/lib/added.py": "added\n"})
    _merge(repo, "dev-001", "dev-002")
    assert repo.exists("src/library/added.py")
    assert repo.exists("src/library/util.py")
    assert not repo.exists("src/lib")


def test_filters_write_the_files(repo: Repo) -> None:
    repo.config("filter.shout.smudge", "tr a-z A-Z")
    repo.config("filter.shout.clean", "tr A-Z a-z")
    repo.write(".gitattributes", "*.loud filter=shout\n")
    repo.commit("attributes")
    agent_commit(repo, "dev-001", {"x.loud": "Hello\n"})
    _merge(repo, "dev-001")
    assert repo.read("x.loud") == b"HELLO\n"
    assert repo.git("show", "HEAD:x.loud") == b"hello\n"
    assert repo.git("status", "--porcelain") == b""


def test_a_sparse_checkout_stays_sparse(repo: Repo) -> None:
    agent_commit(
        repo, "dev-001", {"docs/more.md": "more\n", "src/app.py": "print('merged')\n", "docs/guide.md": "guide\n"}
    )
    repo.git("sparse-checkout", "set", "--cone", "src")
    _merge(repo, "dev-001")
    assert repo.read("src/app.py") == b"print('merged')\n"
    assert not repo.exists("docs")
    assert repo.git("show", "HEAD:docs/more.md") == b"more\n"
    assert repo.git("status", "--porcelain") == b""


def test_types_that_change_places(repo: Repo) -> None:
    agent_commit(
        repo,
        "dev-001",
        {"src": None, "docs": None},
    )
    dev = Repo(repo.path.parent / f"{repo.path.name}.worktrees" / "dev-001")
    dev.write("src", "a file now\n")
    dev.link("docs", "readme.txt")
    dev.remove("readme.txt")
    dev.write("readme.txt/inside", "a folder now\n")
    dev.commit("swapped")
    _merge(repo, "dev-001")
    assert repo.read("src") == b"a file now\n"
    assert os.readlink(repo.at("docs")) == b"readme.txt"
    assert repo.read("readme.txt/inside") == b"a folder now\n"
    assert repo.git("status", "--porcelain") == b""


def test_a_criss_cross_merge(repo: Repo) -> None:
    one = agent_commit(repo, "dev-001", {"src/lib/util.py": _edited(l3="three")})
    two = agent_commit(repo, "dev-002", {"src/lib/util.py": _edited(l20="twenty")})
    first, second = one.oid(), two.oid()
    one.git("merge", "-q", "--no-edit", second)
    two.git("merge", "-q", "--no-edit", first)
    one.write("one.txt", "one\n")
    one.commit("after")
    two.write("src/lib/util.py", _edited(l3="three", l10="ten", l20="twenty"))
    two.commit("after")
    _merge(repo, "dev-001", "dev-002")
    assert repo.read("src/lib/util.py") == _edited(l3="three", l10="ten", l20="twenty").encode()


# -- conflicts -------------------------------------------------------------------------------------------------------


def _conflicting(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"src/lib/util.py": _edited(l3="one")})
    agent_commit(repo, "dev-002", {"src/lib/util.py": _edited(l3="two"), "apart.txt": "apart\n"})
    agent_commit(repo, "dev-003", {"third.txt": "third\n"})


@pytest.mark.parametrize("options", [[], ["--squash"], ["--dry-run"]])
def test_with_a_conflict_nothing_is_changed(repo: Repo, options: list[str]) -> None:
    _conflicting(repo)
    repo.write("readme.txt", "local\n")
    places = [repo.path, *(repo.path.parent / "repo.worktrees" / f"dev-00{n}" for n in (1, 2, 3))]
    before = [complete_state(place, strict=True) for place in places]
    ours = _ours(repo)

    done = _merge(repo, "dev-003", "dev-001", "dev-002", *options, code=4)

    assert (done["merged"], done["merge_commit"], done["saved"]) == (False, None, None)
    assert _pairs(done) == [("dev-001", "dev-002", ["src/lib/util.py"])]
    assert [each["state"] for each in done["sources"]] == ["not-merged"] * 3
    for place, state in zip(places, before, strict=True):
        assert_unchanged(state, complete_state(place, strict=True), f"{place} after a conflict")
    assert _ours(repo) == ours


def test_a_conflict_with_the_target_and_names_that_are_not_utf8(repo: Repo) -> None:
    name = b"caf\xe9 \xff.txt"
    repo.write(name, "base\n")
    repo.commit("an odd name")
    agent_commit(repo, "dev-001", {name: "theirs\n"})
    repo.write(name, "ours\n")
    repo.commit("ours")

    done = _merge(repo, "dev-001", code=4)

    assert _pairs(done) == [("main", "dev-001", [os.fsdecode(name)])]
    plain = run(repo.path, "worktree", "merge", "dev-001")
    assert plain.code == 4
    assert b'"caf\\351 \\377.txt"' in plain.out
    assert b"Nothing was changed" in plain.out


def test_a_conflict_that_only_all_together_have(repo: Repo) -> None:
    """Each two of them go together; the third meets what the first two came to."""
    repo.write("switch.txt", "a\n" * 3 + "x\n" + "b\n" * 3)
    repo.commit("a base")
    agent_commit(repo, "dev-001", {"switch.txt": None, "moved.txt": "a\n" * 3 + "x\n" + "b\n" * 3})
    agent_commit(repo, "dev-002", {"switch.txt": "a\n" * 3 + "y\n" + "b\n" * 3})
    agent_commit(repo, "dev-003", {"moved.txt/below": "x\n"})
    done = _merge(repo, "dev-002", "dev-001", "dev-003", code=4)
    assert ("dev-001", "dev-003") in [(a, b) for a, b, _ in _pairs(done)]


def test_a_submodule_conflict(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    inner = make_repo("inner")
    tips = [inner.oid("main"), inner.oid("other"), inner.oid("v1")]
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{tips[2]},sub")
    repo.git("commit", "-qm", "a submodule")
    for number, tip in enumerate(tips[:2], 1):
        dev = agent_worktree(repo, f"dev-00{number}")
        dev.git("update-index", "--cacheinfo", f"160000,{tip},sub")
        dev.git("commit", "-qm", "moved")
    repo.mkdir("sub")
    before = complete_state(repo.path, strict=True)
    done = _merge(repo, "dev-001", "dev-002", code=4)
    assert _pairs(done) == [("dev-001", "dev-002", ["sub"])]
    assert_unchanged(before, complete_state(repo.path, strict=True), "a submodule conflict")
    assert _merge(repo, "dev-001")["merged"] is True
    assert repo.text("rev-parse", "HEAD:sub") == tips[0]


@pytest.mark.parametrize("options", [[], ["--squash"], ["--into", "other"]])
def test_a_dry_run_changes_nothing(repo: Repo, options: list[str]) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    before = complete_state(repo.path, strict=True)
    ours = _ours(repo)
    done = _merge(repo, "dev-001", "--dry-run", *options)
    assert (done["merged"], done["merge_commit"], done["saved"], done["dry_run"]) == (True, None, None, True)
    assert_unchanged(before, complete_state(repo.path, strict=True), "a dry run")
    assert _ours(repo) == ours


# -- refusals --------------------------------------------------------------------------------------------------------


def _dirty(repo: Repo) -> str:
    repo.append("src/app.py", "# local\n")
    return "'src/app.py'"


def _staged(repo: Repo) -> str:
    before = repo.read("src/app.py")
    repo.append("src/app.py", "# local\n")
    repo.add("src/app.py")
    repo.write("src/app.py", before)
    return "'src/app.py'"


def _deleted(repo: Repo) -> str:
    repo.remove("src/app.py")
    return "'src/app.py'"


def _hidden(repo: Repo) -> str:
    repo.git("update-index", "--assume-unchanged", "src/app.py")
    repo.append("src/app.py", "# hidden\n")
    return "'src/app.py'"


def _mode(repo: Repo) -> str:
    repo.chmod("src/app.py", 0o755)
    return "'src/app.py'"


def _removed_there(repo: Repo) -> str:
    repo.write("data.bin", "local\n")
    return "'data.bin'"


def _untracked(repo: Repo) -> str:
    repo.write("fresh/file.txt", "mine\n")
    return "'fresh/file.txt'"


def _same_untracked(repo: Repo) -> str:
    repo.write("fresh/file.txt", "fresh\n")
    return "'fresh/file.txt'"


def _ignored(repo: Repo) -> str:
    repo.write(".git/info/exclude", "fresh/\n")
    repo.write("fresh/file.txt", "mine\n")
    return "'fresh/file.txt'"


def _file_for_folder(repo: Repo) -> str:
    repo.write("fresh", "a file\n")
    return "'fresh'"


def _link_for_folder(repo: Repo) -> str:
    outside = repo.scratch / "outside"
    outside.mkdir()
    repo.link("fresh", str(outside))
    return "'fresh'"


def _folder_for_file(repo: Repo) -> str:
    repo.write(".git/info/exclude", "*.log\n")
    repo.write("fresh/file.txt/deep/x.log", "ignored\n")
    return "'fresh/file.txt/deep/x.log'"


def _intended(repo: Repo) -> str:
    repo.write("fresh/file.txt", "mine\n")
    repo.git("add", "-N", "fresh/file.txt")
    return "'fresh/file.txt'"


def _staged_new(repo: Repo) -> str:
    repo.write("fresh/file.txt", "mine\n")
    repo.add("fresh/file.txt")
    return "'fresh/file.txt'"


def _staged_below(repo: Repo) -> str:
    repo.write("fresh/file.txt/below", "mine\n")
    repo.add("fresh/file.txt/below")
    return "'fresh/file.txt/below'"


def _merging(repo: Repo) -> str:
    repo.try_git("merge", "--no-commit", "--no-ff", "other")
    return "a merge is in progress"


def _unmerged(repo: Repo) -> str:
    repo.write("readme.txt", "mine\n")
    repo.git("stash")
    repo.write("readme.txt", "other\n")
    repo.commit("other")
    repo.try_git("stash", "pop")
    return "conflicts to resolve"


def _index_locked(repo: Repo) -> str:
    repo.write(".git/index.lock", "")
    return "index.lock"


OBSTACLES = (
    _dirty, _staged, _deleted, _hidden, _mode, _removed_there, _untracked, _same_untracked, _ignored, _file_for_folder,
    _link_for_folder, _folder_for_file, _intended, _staged_new, _staged_below, _merging, _unmerged, _index_locked,
)  # fmt: skip


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("obstacle", OBSTACLES, ids=[each.__name__.lstrip("_") for each in OBSTACLES])
def test_uncommitted_files_are_never_overwritten(repo: Repo, obstacle: Callable[[Repo], str]) -> None:
    agent_commit(
        repo, "dev-001", {"src/app.py": "merged\n", "fresh/file.txt": "fresh\n", "data.bin": None, "z.txt": "z\n"}
    )
    named = obstacle(repo)
    assert_refused(repo.path, "worktree", "merge", "dev-001", mentions=named, keeps=repo.path)
    # Another branch is another matter.
    repo.git("branch", "free", "main~1")
    assert _merge(repo, "dev-001", "--into", "free")["merged"] is True


def test_a_dry_run_refuses_what_the_real_one_would(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"src/app.py": "merged\n"})
    _dirty(repo)
    assert_refused(repo.path, "worktree", "merge", "dev-001", "--dry-run", mentions="'src/app.py'", keeps=repo.path)


def test_an_empty_folder_is_not_in_the_way(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"fresh/file.txt": "fresh\n", "x": "x\n"})
    repo.mkdir("fresh/file.txt/empty")
    repo.mkdir("x")
    _merge(repo, "dev-001")
    assert repo.read("fresh/file.txt") == b"fresh\n"


def test_an_interrupted_restore_comes_first(repo: Repo) -> None:
    from git_agentos.checkpoint import journal

    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    saved = run_ok(repo.path, "checkpoint")["id"]
    location = open_workspace(repo.path).context.location
    entry = journal.Journal("restore", saved, saved, None, None, False, None, False, False, saved, "x")
    journal.write(location, entry)
    assert_refused(repo.path, "worktree", "merge", "dev-001", mentions="git agentos recover", keeps=repo.path)


def test_branches_that_cannot_be_moved(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    there = repo.path.parent / "there"
    repo.git("worktree", "add", "-q", "--force", str(there), "main")
    assert_refused(repo.path, "worktree", "merge", "dev-001", mentions="2 worktrees", keeps=repo.path)
    Repo(there).git("checkout", "-q", "other")
    repo.git("checkout", "-q", "-b", "elsewhere")
    Repo(there).write("readme.txt", "conflicting\n")
    Repo(there).commit("conflicting")
    assert Repo(there).try_git("rebase", "main", "other") in (0, 1)
    into_other = ("worktree", "merge", "dev-001", "--into", "other")
    Repo(there).try_git("rebase", "--abort")
    Repo(there).git("rebase", "-q", "-i", "HEAD~1", env={"GIT_SEQUENCE_EDITOR": "sed -i s/pick/edit/"})
    assert_refused(repo.path, *into_other, mentions="rebase", keeps=repo.path)
    Repo(there).git("rebase", "--abort")
    os.rename(there, repo.path.parent / "gone")
    assert_refused(repo.path, *into_other, mentions="not there", keeps=repo.path)


def test_an_agent_in_a_rebase_is_not_merged(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    dev.git("rebase", "-q", "-i", "main~1", env={"GIT_SEQUENCE_EDITOR": "sed -i s/pick/edit/"})
    assert_refused(repo.path, "worktree", "merge", "dev-001", mentions="a rebase is in progress", keeps=repo.path)


def test_invalid_names(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    merge = ("worktree", "merge")
    assert_refused(repo.path, *merge, "nobody", mentions="there is no agent 'nobody'", keeps=repo.path)
    assert_refused(repo.path, *merge, "../x", code=2, mentions="not an agent id", keeps=repo.path)
    assert_refused(repo.path, *merge, "dev-001", "--into", "nowhere", mentions="no branch 'nowhere'", keeps=repo.path)
    assert_refused(repo.path, *merge, "dev-001", "--into", "a..b", code=2, mentions="valid branch", keeps=repo.path)
    assert_refused(
        repo.path, *merge, "dev-001", "--into", "agent/dev-001", code=2, mentions="works on", keeps=repo.path
    )
    assert_refused(repo.path, *merge, code=2, mentions="usage", keeps=repo.path)
    repo.git("checkout", "-q", "--detach")
    assert_refused(repo.path, *merge, "dev-001", code=2, mentions="HEAD is detached", keeps=repo.path)


def test_histories_with_nothing_in_common(repo: Repo) -> None:
    dev = agent_worktree(repo, "dev-001")
    dev.git("checkout", "-q", "--orphan", "fresh")
    dev.commit("begun anew")
    assert_refused(repo.path, "worktree", "merge", "dev-001", mentions="nothing in common", keeps=repo.path)


def test_the_tools_own_folder_is_not_merged(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {".agentos/issue_workflow.db": "planted\n"})
    for options in ([], ["--into", "other"], ["--dry-run"]):
        assert_refused(
            repo.path, "worktree", "merge", "dev-001", *options, mentions="this tool's own folder", keeps=repo.path
        )


# -- several at once, and failures ---------------------------------------------------------------------------------


def test_concurrent_merges_with_commits_between(repo: Repo) -> None:
    """Whoever finds the branch moved merges anew: in the end everything is in it."""
    ids = [f"dev-{n:03}" for n in range(6)]
    for id_ in ids:
        agent_commit(repo, id_, {f"{id_}.txt": f"{id_}\n"})
    command = [sys.executable, "-m", "git_agentos", "worktree", "merge"]
    running = [subprocess.Popen([*command, id_], cwd=repo.path, stderr=subprocess.PIPE) for id_ in ids]
    for child in running:
        _, err = child.communicate(timeout=300)
        assert child.returncode == 0, err.decode()
    for id_ in ids:
        assert repo.read(f"{id_}.txt") == f"{id_}\n".encode()
    assert len(repo.text("rev-list", "--merges", "main").split()) == len(ids)
    assert repo.git("status", "--porcelain") == b""
    repo.git("fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize("into", ["main", "other"])
def test_the_target_moves_meanwhile(repo: Repo, monkeypatch: pytest.MonkeyPatch, into: str) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    real = merging._MergeBuilder.build
    moved: list[bool] = []

    def run_and_commit(self: Any) -> Any:
        made = real(self)
        if not moved:
            moved.append(True)
            if into == "main":
                repo.write("between.txt", "between\n")
                repo.commit("between")
            else:
                tree = repo.text("rev-parse", "other^{tree}")
                repo.git(
                    "update-ref", "refs/heads/other", repo.text("commit-tree", tree, "-p", "other", "-m", "between")
                )
        return made

    monkeypatch.setattr(merging._MergeBuilder, "build", run_and_commit)
    done = merging.merge(open_workspace(repo.path).context, ["dev-001"], into=into)
    assert done.merged
    assert repo.text("log", "-1", "--format=%s", f"{into}^1") == "between"
    assert repo.git("show", f"{into}:one.txt") == b"one\n"
    assert repo.git("status", "--porcelain") == b""


def test_the_target_moves_at_the_last_moment(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """After everything was looked at, before the branch is locked: nothing is touched, and it is merged anew."""
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    real = fast_forward._FastForward._update_files
    moved: list[str] = []

    def bring(self: Any, *args: Any) -> None:
        if not moved:
            moved.append(repo.text("commit-tree", "main^{tree}", "-p", "main", "-m", "between"))
            repo.git("update-ref", "refs/heads/main", moved[0])
        real(self, *args)

    monkeypatch.setattr(fast_forward._FastForward, "_update_files", bring)
    done = merging.merge(open_workspace(repo.path).context, ["dev-001"])
    assert done.before == moved[0]
    assert repo.oid("main^1") == moved[0]
    assert repo.git("status", "--porcelain") == b""


@pytest.mark.parametrize("name", ["readme.txt", "fresh.log"])
def test_file_appearing_during_the_merge_is_kept(repo: Repo, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """After the checkpoint, before git begins: an edit, and an ignored file, which git would overwrite."""
    repo.write(".git/info/exclude", "*.log\n")
    dev = agent_commit(repo, "dev-001", {"readme.txt": "merged\n"})
    dev.write("fresh.log", "merged\n")
    dev.git("add", "-f", "fresh.log")
    dev.git("commit", "-qm", "a log")
    real = fast_forward._FastForward._update_files

    def bring(self: Any, *args: Any) -> None:
        repo.write(name, "mine\n")
        real(self, *args)

    monkeypatch.setattr(fast_forward._FastForward, "_update_files", bring)
    with pytest.raises(AgentosError, match=name):
        merging.merge(open_workspace(repo.path).context, ["dev-001"])
    assert repo.read(name) == b"mine\n"
    assert repo.text("log", "-1", "--format=%s") == "second"
    assert journal.find_all(open_workspace(repo.path).context.location) == []


def _fails_after_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> list[bytes]:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(index, "differences", fails)


def _fails_at_the_ref(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[bool] = []

    def fails() -> None:
        if not failed:
            failed.append(True)
            raise OSError(28, "No space left on device", "refs/heads/main")

    ref_storage.before_it_moves(monkeypatch, "refs/heads/main", fails)


@pytest.mark.parametrize("failing", [_fails_after_files, _fails_at_the_ref])
def test_a_failure_on_the_way_takes_everything_back(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, failing: Callable[[pytest.MonkeyPatch], None]
) -> None:
    repo.write(".git/info/exclude", "*.log\n")
    dev = agent_commit(repo, "dev-001", {"src/app.py": "merged\n", "fresh/file.txt": "fresh\n", "data.bin": None})
    dev.write("deep/hidden.log", "tracked there\n")
    dev.git("add", "-f", "deep/hidden.log")
    dev.git("commit", "-qm", "hidden")
    repo.write("readme.txt", "local\n")
    repo.write("mine.txt", "untracked\n")
    run_ok(repo.path, "checkpoint")
    before = complete_state(repo.path)
    with monkeypatch.context() as patched:
        failing(patched)
        if failing is _fails_after_files:
            # Only once: what takes it back looks at the index in the same way.
            real = fast_forward._FastForward._abort

            def go_back(self: Any, *args: Any) -> None:
                patched.undo()
                real(self, *args)

            patched.setattr(fast_forward._FastForward, "_abort", go_back)
        with pytest.raises(StorageError, match="no space left"):
            merging.merge(open_workspace(repo.path).context, ["dev-001"])
    after = complete_state(repo.path)
    assert_same(before, after, "after a failed merge", refs=True)
    assert journal.find_all(open_workspace(repo.path).context.location) == []
    assert run(repo.path, "undo").code == 1, "a merge that was taken back is nothing to undo"
    assert _merge(repo, "dev-001")["merged"] is True


def test_merge_refused_by_git_changes_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If our own look misses something that is in the way, git's does not."""
    agent_commit(repo, "dev-001", {"src/app.py": "merged\n"})
    repo.append("src/app.py", "# local\n")
    before = complete_state(repo.path)
    monkeypatch.setattr(fast_forward, "refuse_in_the_way", lambda *args: None)
    with pytest.raises(Exception, match="not uptodate"):
        merging.merge(open_workspace(repo.path).context, ["dev-001"])
    assert_same(before, complete_state(repo.path), "after git refused", refs=True)


def test_a_merge_that_was_killed_is_in_the_way_of_the_next(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    location = open_workspace(repo.path).context.location
    entry = journal.start(location, "main", "merge", ref="refs/heads/main", old=repo.oid(), new=repo.oid())
    journal.release(entry)
    assert_refused(repo.path, "worktree", "merge", "dev-001", mentions="repair", keeps=repo.path)


def test_recovery_of_a_merge_says_what_it_did(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    done = _merge(repo, "dev-001")
    context = open_workspace(repo.path).context

    def recovered() -> str:
        entry = journal.start(
            context.location, "main", "merge", ref="refs/heads/main", old=done["before"], new=done["merge_commit"],
            git_dir=context.location.git_dir, root=context.location.root, saved=done["saved"],
        )  # fmt: skip
        before = complete_state(repo.path, strict=True)
        words = fast_forward_recovery.recover(context, entry)
        if words != aborted:
            assert_unchanged(before, complete_state(repo.path, strict=True), words)
        assert journal.find_all(context.location) == []
        return words

    finished = "the merge into 'main' is complete"
    aborted = "'main' is as it was before the merge"
    untouched = "'main' was moved elsewhere meanwhile, nothing had to be changed"
    assert recovered() == finished
    repo.write("later.txt", "later\n")
    repo.commit("later")
    assert recovered() == finished
    repo.git("reset", "-q", "--hard", done["before"])
    assert recovered() == aborted
    repo.commit("another way")
    assert recovered() == untouched
    repo.git("checkout", "-q", "--detach", done["before"])
    repo.git("update-ref", "refs/heads/main", done["before"])
    assert recovered() == untouched


def test_recovery_of_a_merge_without_its_folder_fails(repo: Repo, tmp_path: Path) -> None:
    agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    there = tmp_path / "there"
    repo.git("worktree", "add", "-q", str(there), "other")
    context = open_workspace(repo.path).context
    entry = journal.start(
        context.location,
        "there",
        "merge",
        ref="refs/heads/other",
        old=repo.oid("other"),
        new=repo.oid("agent/dev-001"),
        git_dir=str(repo.path / ".git/worktrees/there"),
        root=str(there),
        saved=repo.oid(),
    )
    os.rename(there, tmp_path / "gone")
    with pytest.raises(WorktreeError, match="not there"):
        fast_forward_recovery.recover(context, entry)
    assert journal.find_all(context.location) != []
    journal.release(entry)
    git(repo.path, "worktree", "list")


# -- the whole way -----------------------------------------------------------------------------------------------------


def test_from_create_to_archive(repo: Repo) -> None:
    """Two agents made, at work, compared, merged, ended; everything by the commands."""
    made = {
        id_: Repo(Path(run_ok(repo.path, "worktree", "create", id_, "--task", "T-1")["path"])) for id_ in ("a1", "a2")
    }
    made["a1"].write("src/lib/util.py", _edited(l3="three"))
    made["a1"].commit("three")
    made["a2"].write("src/lib/util.py", _edited(l20="twenty"))
    made["a2"].commit("twenty")
    assert run_ok(repo.path, "worktree", "conflicts")["pairs"] == []

    done = _merge(repo, "a1", "a2")

    assert done["merged"] is True
    assert done["warnings"] == []
    assert repo.read("src/lib/util.py") == _edited(l3="three", l20="twenty").encode()
    assert repo.text("log", "-1", "--format=%(trailers:key=Agentos-Task,valueonly)") == "T-1"
    for id_ in made:
        assert run_ok(repo.path, "worktree", "show", id_)["integrated"] == "ancestor"
        run_ok(repo.path, "worktree", "archive", id_)
    again = _merge(repo, "a1", "a2")
    assert [each["state"] for each in again["sources"]] == ["up-to-date", "up-to-date"]
    merges = [each for each in run_ok(repo.path, "memory", "list")["items"] if each["kind"] == "merge"]
    assert [each["worktree"] for each in merges[0]["contributions"]] == ["a1", "a2"]
    assert all(each["checkpoints"] for each in merges[0]["contributions"])
    summaries = [each["summary"] for each in run_ok(repo.path, "log", "timeline", "a1")["events"]]
    assert "merged into main" in summaries
    assert "three" in summaries


def test_a_merge_in_an_agents_worktree_made_from_head(repo: Repo) -> None:
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "a1")["path"]))
    made.write("one.txt", "one\n")
    made.commit("one")
    assert _merge(repo, "a1")["target"] == "main"
    assert repo.read("one.txt") == b"one\n"


def test_a_killed_merge_is_mended_by_the_command(repo: Repo) -> None:
    agent_commit(repo, "dev-001", {"src/app.py": "merged\n"})
    context = open_workspace(repo.path).context
    saved = run_ok(repo.path, "checkpoint")["id"]
    entry = journal.start(
        context.location, "main", "merge", ref="refs/heads/main", old=repo.oid(), new=repo.oid("agent/dev-001"),
        git_dir=context.location.git_dir, root=context.location.root, saved=saved,
    )  # fmt: skip
    journal.release(entry)
    before = complete_state(repo.path)
    repo.write("src/app.py", "mer")
    assert run(repo.path, "worktree", "repair").code == 0
    assert_same(before, complete_state(repo.path), "after repair", refs=True)
    assert _merge(repo, "dev-001")["merged"] is True


# -- repositories of all kinds -----------------------------------------------------------------------------------------


def _split_index(repo: Repo) -> None:
    repo.git("update-index", "--split-index")


def _sparse_index(repo: Repo) -> None:
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")


def _untracked_cache(repo: Repo) -> None:
    repo.config("core.untrackedCache", "true")
    repo.git("update-index", "--untracked-cache")


def _line_ends(repo: Repo) -> None:
    repo.config("core.autocrlf", "true")


def _manifest_skipped(repo: Repo) -> None:
    repo.config("index.skipHash", "true")
    repo.config("index.version", "4")
    repo.git("update-index", "--index-version", "4")


def _packed_refs(repo: Repo) -> None:
    repo.git("pack-refs", "--all")


def _recursing(repo: Repo) -> None:
    repo.config("submodule.recurse", "true")


def _no_reflogs(repo: Repo) -> None:
    repo.config("core.logAllRefUpdates", "false")


KINDS = (
    _split_index, _sparse_index, _untracked_cache, _line_ends, _manifest_skipped, _packed_refs, _recursing, _no_reflogs,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=[each.__name__.lstrip("_") for each in KINDS])
def test_repositories_of_all_kinds(repo: Repo, kind: Callable[[Repo], None]) -> None:
    agent_commit(repo, "dev-001", {"src/app.py": "merged\n", "src/lib/new.py": "new\n", "docs/guide.md": "merged\n"})
    kind(repo)
    repo.append("src/lib/util.py", "local\n")
    _merge(repo, "dev-001")
    assert repo.git("status", "--porcelain") == b" M src/lib/util.py\n"
    assert repo.read("src/app.py").replace(b"\r\n", b"\n") == b"merged\n"
    assert repo.git("diff", "--cached", "--name-only", "agent/dev-001") == b""
    repo.git("fsck", "--strict", "--no-dangling")


def test_the_limits_of_the_target_count_and_not_those_of_the_caller(repo: Repo) -> None:
    """What is saved before a merge is saved by the settings of the worktree that changes."""
    dev = agent_commit(repo, "dev-001", {"new.txt": "new\n"})
    repo.config("extensions.worktreeConfig", "true")
    dev.git("config", "--worktree", "agentos.maxFileSize", "10")
    repo.write("large.txt", "x" * 100)
    done = run_ok(repo.path, "-C", str(dev.path), "worktree", "merge", "dev-001", "--into", "main")
    assert run_ok(repo.path, "checkpoint", "show", done["saved"])["skipped"] == []
