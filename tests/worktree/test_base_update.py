"""`worktree sync`: branches come up to their base, and what is not committed stays; a conflict changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from git_agentos.worktree import journal, record
from tests.support.agents import agent_commit, agent_worktree
from tests.support.dirty import make_dirty, racily_changed, status
from tests.support.json_reference import check_document
from tests.support.refusal import assert_refused
from tests.support.repo import Repo
from tests.support.state import State, assert_same, assert_unchanged, complete_state, index_entries
from tests.support.tool import run, run_ok

METHODS = pytest.mark.parametrize("method", ["--merge", "--rebase"])


def _sync(repo: Repo, *args: str | bytes, code: int = 0) -> Any:
    done = run(repo.path, "--json", "worktree", "sync", *args)
    assert done.code == code, str(done)
    assert check_document(done.json) == "worktree-sync"
    return done.json


def _move_base(repo: Repo, **files: str) -> str:
    """A commit on main that changes `readme.txt` and adds `base.txt`, or what is given."""
    for name, text in (files or {"readme_txt": "from the base\n", "base_txt": "new\n"}).items():
        repo.write(name.replace("_", "."), text)
    return repo.commit("the base moves on")


def _own_state(there: Repo) -> tuple[State, dict[str, bytes]]:
    """The state of a worktree, and the files of its own git directory: others may change meanwhile."""
    git_dir = Path(there.text("rev-parse", "--absolute-git-dir"))
    names = [name for name in ("index", "logs/HEAD", "ORIG_HEAD") if (git_dir / name).exists()]
    return complete_state(there.path), {name: (git_dir / name).read_bytes() for name in names}


def _assert_own_state(before: tuple[State, dict[str, bytes]], there: Repo) -> None:
    after = _own_state(there)
    assert_same(before[0], after[0], str(there.path), permissions="all")
    assert after[1] == before[1]


def _skipped(document: Any) -> dict[str, str]:
    return {each["id"]: each["reason"] for each in document["skipped"]}


# -- what is synced ----------------------------------------------------------------------------------------------------


@METHODS
def test_the_base_comes_in_and_what_is_not_committed_stays(repo: Repo, method: str) -> None:
    dev = agent_commit(repo, "dev-001", {"src/app.py": "print('agent')\n"})
    before = dev.oid()
    base = _move_base(repo)
    dev.write("notes.txt", "staged\n")
    dev.add("notes.txt")
    dev.append("notes.txt", "and changed\n")
    dev.write("untracked.txt", "untracked\n")
    dev.write("ignored.log", "ignored\n")
    repo.write(".git/info/exclude", "*.log\n")
    stats = {name: os.stat(dev.at(name)) for name in ("notes.txt", "untracked.txt", "ignored.log", "src/app.py")}
    entry = next(each for each in index_entries(dev.path) if each.path == b"notes.txt")

    done = _sync(repo, "dev-001", method)

    after = dev.oid()
    [synced] = done["synced"]
    assert (synced["id"], synced["before"], synced["after"]) == ("dev-001", before, after)
    assert (done["conflicts"], done["skipped"], done["rebase"]) == ([], [], method == "--rebase")
    wanted = [base] if method == "--rebase" else [before, base]
    assert dev.text("log", "-1", "--format=%P").split() == wanted
    assert dev.text("symbolic-ref", "HEAD") == "refs/heads/agent/dev-001"
    assert dev.read("readme.txt") == b"from the base\n"
    assert dev.read("base.txt") == b"new\n"
    assert dev.read("src/app.py") == b"print('agent')\n"
    assert status(dev) == b"MM notes.txt\0?? untracked.txt\0"
    assert dev.read("notes.txt") == b"staged\nand changed\n"
    assert next(each for each in index_entries(dev.path) if each.path == b"notes.txt") == entry
    for name, was in stats.items():
        found = os.stat(dev.at(name))
        assert (found.st_ino, found.st_mtime_ns) == (was.st_ino, was.st_mtime_ns), name
    assert run_ok(dev.path, "checkpoint", "show", synced["saved"])["trigger"] == "before_merge"
    assert repo.oid("main") == base
    assert repo.git("status", "--porcelain") == b""
    dev.git("fsck", "--strict", "--no-dangling")
    assert list((repo.git_dir / "agentos" / "worktrees").glob("*")) == []


def test_a_merge_says_what_was_merged(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _move_base(repo)
    _sync(repo, "dev-001")
    assert dev.text("log", "-1", "--format=%s") == "Merge 'main' into agent/dev-001"
    assert dev.text("reflog", "-1", "--format=%gs") == "agentos sync: with main"
    entries = run_ok(dev.path, "log", "list")["entries"]
    assert [each["commit"] for each in entries if each["summary"] == "synced with main"] == [dev.oid()]


@METHODS
def test_a_branch_without_commits_is_fast_forwarded(repo: Repo, method: str) -> None:
    dev = agent_worktree(repo, "dev-001")
    base = _move_base(repo)
    assert _sync(repo, "dev-001", method)["synced"][0]["after"] == base == dev.oid()
    assert status(dev) == b""


def test_a_rebase_keeps_authors_messages_and_order(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    author = {"GIT_AUTHOR_NAME": "Grete", "GIT_AUTHOR_EMAIL": "g@x", "GIT_AUTHOR_DATE": "1700000000 +0530"}
    dev.write("two.txt", "two\n")
    dev.add("two.txt")
    message = "Zürich, zweitens\n\nbody\n\nTrailer: x\n".encode("latin-1")
    dev.git("-c", "i18n.commitEncoding=latin1", "commit", "-q", "-F", "-", stdin=message, env=author)
    dev.git("commit", "-q", "--allow-empty", "-m", "empty on purpose")
    form = "--format=%an <%ae> %ad|%B|%e"
    shown = dev.git("log", "-3", "--date=raw", "--encoding=latin1", form)
    base = _move_base(repo)

    _sync(repo, "dev-001", "--rebase")

    assert dev.git("log", "-3", "--date=raw", "--encoding=latin1", form) == shown
    assert dev.text("rev-parse", "HEAD~3") == base
    assert dev.git("show", "HEAD~1:two.txt") == b"two\n"
    raw = dev.git("cat-file", "commit", "HEAD~1")
    assert b"\nencoding latin1\n" in raw
    assert raw.endswith(message)
    assert b"\nauthor Grete <g@x> 1700000000 +0530\n" in raw


def test_a_rebase_leaves_out_what_the_base_has(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    picked = dev.oid()
    dev.write("two.txt", "two\n")
    dev.commit("two")
    dev.write("three.txt", "three\n")
    dev.commit("three")
    repo.git("cherry-pick", picked)
    repo.write("two.txt", "two\n")
    repo.write("also.txt", "the base adds more in that commit\n")
    base = repo.commit("two, and more")

    _sync(repo, "dev-001", "--rebase")

    assert dev.text("log", "--format=%s", f"{base}..HEAD").splitlines() == ["three"]
    assert status(dev) == b""


def test_a_rebase_onto_a_base_that_was_rewritten(repo: Repo) -> None:
    """Commits that the base has dropped are not replayed as if they were the agent's."""
    repo.write("wrong.txt", "wrong\n")
    repo.commit("to be dropped")
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    repo.git("reset", "-q", "--hard", "HEAD~1")
    base = _move_base(repo)

    _sync(repo, "dev-001", "--rebase")

    assert dev.text("rev-parse", "HEAD~1") == base
    assert not dev.exists("wrong.txt")
    assert dev.read("one.txt") == b"one\n"


def test_a_history_with_merges_is_not_rebased(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _move_base(repo)
    _sync(repo, "dev-001")
    _move_base(repo, later_txt="later\n")
    before = complete_state(dev.path, strict=True)
    assert "merges in its history" in _skipped(_sync(repo, "dev-001", "--rebase"))["dev-001"]
    assert_unchanged(before, complete_state(dev.path, strict=True), "a rebase that was not made")


def test_all_and_none(repo: Repo) -> None:
    one = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    two = agent_commit(repo, "dev-002", {"two.txt": "two\n"})
    base = _move_base(repo)
    other = agent_commit(repo, "dev-003", {"three.txt": "three\n"}, base="other")
    assert_refused(repo.path, "worktree", "sync", code=2, mentions="--all", keeps=repo.path)
    assert_refused(repo.path, "worktree", "sync", "--all", "dev-001", code=2, mentions="--all", keeps=repo.path)
    assert_refused(repo.path, "worktree", "sync", "dev-001", "nobody", mentions="nobody", keeps=one.path)

    own = _sync(one)
    assert [each["id"] for each in own["synced"]] == ["dev-001"]
    done = _sync(repo, "--all")

    assert [each["id"] for each in done["synced"]] == ["dev-002"]
    assert _skipped(done) == {"dev-001": "it is up to date with 'main'", "dev-003": "it is up to date with 'other'"}
    for there in (one, two):
        assert there.try_git("merge-base", "--is-ancestor", base, "HEAD") == 0
    assert other.try_git("merge-base", "--is-ancestor", base, "HEAD") == 1


def test_an_agent_syncs_its_own_worktree_and_no_others(repo: Repo) -> None:
    one = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    two = agent_commit(repo, "dev-002", {"two.txt": "two\n"})
    _move_base(repo)
    for words in (["dev-002"], ["--all"], ["dev-001", "dev-002"]):
        assert_refused(one.path, "worktree", "sync", *words, code=3, mentions="needs approval", keeps=two.path)
    assert [each["id"] for each in _sync(one, "dev-002", "--dry-run")["synced"]] == ["dev-002"]
    assert [each["id"] for each in _sync(one, "dev-001")["synced"]] == ["dev-001"]
    assert_refused(one.path, "worktree", "cleanup", code=3, mentions="needs approval", keeps=two.path)
    assert run(one.path, "worktree", "cleanup", "--dry-run").code == 0


def test_as_text(repo: Repo) -> None:
    one = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    agent_commit(repo, "dev-002", {"readme.txt": "theirs\n"})
    agent_commit(repo, "dev-003", {"three.txt": "three\n"}).write("base.txt", "untracked\n")
    before = one.oid()
    _move_base(repo)
    agent_worktree(repo, "dev-004")
    planned = run(repo.path, "worktree", "sync", "--all", "--dry-run")
    assert planned.out.decode().startswith("Would sync 'dev-001'.\n")
    done = run(repo.path, "worktree", "sync", "--all")
    assert done.code == planned.code == 4
    saved = run_ok(one.path, "checkpoint", "list")["checkpoints"][0]["id"]
    assert done.out.decode() == (
        f"Synced 'dev-001': {before[:8]} to {one.oid()[:8]} (saved as {saved[:8]})\n"
        "conflict in 'dev-002': it conflicts with its base:\n    readme.txt\n"
        "conflict in 'dev-003': changes that are not committed are in the way:\n    base.txt\n"
        "Skipped 'dev-004': it is up to date with 'main'\n"
    )
    assert "hint: 'git agentos undo' in a worktree undoes its sync\n" in done.err.decode()
    _move_base(repo, later_txt="later\n")
    assert run(repo.path, "worktree", "sync", "-q", "dev-001", "dev-004").out == b"dev-001\ndev-004\n"


def test_a_restore_branch_is_synced(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"good.txt": "good\n"})
    good = run_ok(dev.path, "checkpoint")["id"]
    dev.write("bad.txt", "bad\n")
    dev.commit("a mistake")
    run_ok(dev.path, "restore", good)
    branch = dev.text("symbolic-ref", "HEAD")
    base = _move_base(repo)
    assert len(_sync(repo, "dev-001")["synced"]) == 1
    assert dev.text("symbolic-ref", "HEAD") == branch
    assert dev.try_git("merge-base", "--is-ancestor", base, "HEAD") == 0
    assert repo.try_git("merge-base", "--is-ancestor", base, "agent/dev-001") == 1


def test_a_base_that_is_a_remote_branch(repo: Repo, tmp_path: Path) -> None:
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    repo.git("remote", "add", "origin", str(tmp_path / "bare.git"))
    repo.git("fetch", "-q", "origin")
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"}, base="origin/main")
    base = _move_base(repo)
    assert _skipped(_sync(repo, "dev-001")) == {"dev-001": "it is up to date with 'origin/main'"}
    repo.git("push", "-q", "origin", "main")
    assert len(_sync(repo, "dev-001")["synced"]) == 1
    assert dev.text("log", "-1", "--format=%s%n%P").splitlines()[0] == "Merge 'origin/main' into agent/dev-001"
    assert dev.oid("HEAD^2") == base


def test_merge_drivers_filters_and_racy_edits_count(repo: Repo) -> None:
    script = repo.scratch / "driver"
    script.write_text('#!/bin/sh\ncat "$2" "$3" | sort -u > "$2.new" && mv "$2.new" "$2"\n')
    script.chmod(0o755)
    repo.config("merge.union2.driver", f"{script} %O %A %B")
    repo.config("filter.shout.smudge", "tr a-z A-Z")
    repo.config("filter.shout.clean", "tr A-Z a-z")
    repo.write(".gitattributes", "list.txt merge=union2\n*.loud filter=shout\n")
    repo.write("list.txt", "m\n")
    repo.commit("a list")
    dev = agent_commit(repo, "dev-001", {"list.txt": "a\nm\n"})
    _move_base(repo, list_txt="b\nm\n", x_loud="hello\n")
    racily_changed(dev, "notes.txt", "default")
    _sync(repo, "dev-001", "--rebase")
    assert dev.read("list.txt") == b"a\nb\nm\n"
    assert dev.read("x.loud") == b"HELLO\n"
    assert status(dev) == b"MM notes.txt\0"


# -- undo --------------------------------------------------------------------------------------------------------------


@METHODS
def test_undo_restores_the_state_before(repo: Repo, method: str) -> None:
    dev = agent_commit(repo, "dev-001", {"src/app.py": "print('agent')\n"})
    make_dirty(dev)
    _move_base(repo, base_txt="new\n")
    before = complete_state(dev.path)
    refs_before = dev.git("for-each-ref", "refs/heads")
    [synced] = _sync(repo, "dev-001", method)["synced"]
    assert dev.exists("base.txt")

    undone = run_ok(dev.path, "undo")

    assert undone["checkpoint"] == synced["saved"]
    assert_same(before, complete_state(dev.path), "undone")
    assert dev.git("for-each-ref", "refs/heads") == refs_before
    run_ok(dev.path, "undo")
    assert dev.oid() == synced["after"]
    assert dev.read("base.txt") == b"new\n"


def test_undo_after_the_agent_has_worked_on(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    before = dev.oid()
    _move_base(repo)
    _sync(repo, "dev-001")
    dev.write("later.txt", "later\n")
    later = dev.commit("later")
    run_ok(dev.path, "undo")
    assert dev.oid() == before
    assert repo.oid("agent/dev-001") == later, "a branch that has moved since stays where it is"


# -- what is left as it was --------------------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_conflict_leaves_the_worktree_as_it_was(repo: Repo, method: str, options: list[str]) -> None:
    bad = agent_commit(repo, "dev-001", {"readme.txt": "from the agent\n"})
    bad.write("notes.txt", "local\n")
    good = agent_commit(repo, "dev-002", {"two.txt": "two\n"})
    base = _move_base(repo)
    before, ours = _own_state(bad), bad.git("for-each-ref", "refs/agentos/timelines/dev-001")

    done = _sync(repo, "--all", method, *options, code=4)

    assert done["conflicts"] == [{"id": "dev-001", "files": ["readme.txt"], "uncommitted": False}]
    assert [each["id"] for each in done["synced"]] == ["dev-002"]
    _assert_own_state(before, bad)
    assert bad.git("for-each-ref", "refs/agentos/timelines/dev-001") == ours
    assert good.try_git("merge-base", "--is-ancestor", base, "HEAD") == (1 if options else 0)


@METHODS
@pytest.mark.parametrize("local", ["unstaged", "staged", "untracked", "ignored", "deleted"])
@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_changes_in_the_way_leave_the_worktree_as_it_was(
    repo: Repo, method: str, local: str, options: list[str]
) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _move_base(repo)
    name = "base.txt" if local in ("untracked", "ignored") else "readme.txt"
    if local == "deleted":
        dev.remove(name)
    else:
        dev.write(name, "local\n")
    if local == "staged":
        dev.add(name)
    if local == "ignored":
        repo.write(".git/info/exclude", "base.txt\n")
    before = complete_state(dev.path, strict=True)
    ours = dev.git("for-each-ref", "refs/agentos")

    done = _sync(repo, "dev-001", method, *options, code=4)

    assert done["conflicts"] == [{"id": "dev-001", "files": [name], "uncommitted": True}]
    assert done["synced"] == []
    assert_unchanged(before, complete_state(dev.path, strict=True), "changes in the way")
    assert dev.git("for-each-ref", "refs/agentos") == ours


def test_a_dry_run_changes_nothing(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    make_dirty(dev)
    _move_base(repo, base_txt="new\n")
    before = complete_state(dev.path, strict=True)
    done = _sync(repo, "dev-001", "--dry-run", "--rebase")
    assert done["synced"] == [{"id": "dev-001", "before": dev.oid(), "after": None, "saved": None}]
    assert done["dry_run"] is True
    assert_unchanged(before, complete_state(dev.path, strict=True), "a dry run")
    assert dev.git("for-each-ref", "refs/agentos") == b""


def test_a_busy_agent_is_left_alone(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    free = agent_commit(repo, "dev-002", {"two.txt": "two\n"})
    _move_base(repo)
    before = _own_state(dev)
    with subprocess.Popen(["sleep", "60"], cwd=dev.path) as child:
        try:
            done = _sync(repo, "--all")
        finally:
            child.kill()
    assert _skipped(done) == {"dev-001": f"a process works in it: {child.pid} (sleep 60)"}
    assert [each["id"] for each in done["synced"]] == ["dev-002"]
    _assert_own_state(before, dev)
    assert free.exists("base.txt")
    assert len(_sync(repo, "dev-001")["synced"]) == 1


def test_the_agent_that_asks_is_not_busy(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _move_base(repo)
    line = f"{sys.executable} -m git_agentos worktree sync --rebase; echo $?"
    done = subprocess.run(["sh", "-c", line], cwd=dev.path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0", done
    assert dev.exists("base.txt")


def test_what_cannot_be_synced_is_skipped(repo: Repo) -> None:
    rebasing = agent_commit(repo, "a-rebasing", {"readme.txt": "agent\n"})
    rebasing.git("branch", "onto", "main")
    detached = agent_commit(repo, "b-detached", {"one.txt": "one\n"})
    detached.git("checkout", "-q", "--detach")
    elsewhere = agent_commit(repo, "c-elsewhere", {"one.txt": "one\n"})
    elsewhere.git("checkout", "-q", "-b", "mine")
    baseless = agent_commit(repo, "d-baseless", {"one.txt": "one\n"}, base="other")
    missing = agent_commit(repo, "e-missing", {"one.txt": "one\n"})
    begun = repo.oid()
    fixed = agent_commit(repo, "f-fixed", {"one.txt": "one\n"}, base=begun)
    apart = agent_commit(repo, "g-apart", {"one.txt": "one\n"})
    apart.git("checkout", "-q", "--orphan", "new")
    apart.git("commit", "-q", "-m", "apart")
    apart.git("branch", "-f", "agent/g-apart")
    apart.git("checkout", "-q", "agent/g-apart")
    base = _move_base(repo)
    rebasing.try_git("rebase", "main")
    repo.git("branch", "-D", "other")
    missing.path.rename(missing.path.with_name("away"))
    found = {each.path: complete_state(each.path, strict=True) for each in (rebasing, detached, elsewhere, baseless)}

    reasons = _skipped(_sync(repo, "--all"))

    assert {id_: reason.split(":")[0] for id_, reason in reasons.items()} == {
        "a-rebasing": "a rebase is in progress there",
        "b-detached": "its HEAD is detached",
        "c-elsewhere": "its HEAD is on 'mine', not on its own branch 'agent/c-elsewhere'",
        "d-baseless": "its base 'other' is no branch or tag (any more)",
        "e-missing": "its folder is missing",
        "f-fixed": f"its base '{begun}' is no branch or tag (any more)",
        "g-apart": "its history has nothing in common with 'main'",
    }
    for path, before in found.items():
        assert_unchanged(before, complete_state(path, strict=True), str(path))
    assert repo.oid("main") == base
    assert fixed.oid() != base


def test_another_command_at_work_is_waited_for_by_nobody(repo: Repo) -> None:
    from git_agentos import open_workspace
    from git_agentos.git import worktrees

    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _move_base(repo)
    location = open_workspace(repo.path).context.location
    with worktrees.lock(location):
        held = journal.start(location, "dev-001", journal.ARCHIVE)
    assert "another git-agentos command (archive)" in _skipped(_sync(repo, "dev-001"))["dev-001"]
    journal.release(held)  # as if it had been killed
    assert "git agentos worktree repair dev-001" in _skipped(_sync(repo, "dev-001"))["dev-001"]
    assert dev.text("log", "-1", "--format=%s") == "work of dev-001"


def test_an_interrupted_restore_is_left_alone(repo: Repo) -> None:
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    _move_base(repo)
    folder = repo.git_dir / "worktrees" / "dev-001" / "agentos"
    (folder / "journal.json").write_text("{}")
    before = complete_state(dev.path)
    done = _sync(repo, "dev-001")
    assert done["synced"] == []
    assert list(_skipped(done)) == ["dev-001"]
    assert_same(before, complete_state(dev.path), "an interrupted restore")


# -- afterwards --------------------------------------------------------------------------------------------------------


@METHODS
def test_what_comes_after_counts_from_the_new_base(repo: Repo, method: str) -> None:
    """The merge request, and the agent's commits in the log, do not list those of the base."""
    dev = agent_commit(repo, "dev-001", {"one.txt": "one\n"})
    base = _move_base(repo)
    _sync(repo, "dev-001", method)
    found = record.get(str(repo.git_dir), "dev-001")
    assert found is not None
    assert (found.record.base_sha, found.record.synced_sha) == (repo.oid(f"{base}~1"), base)
    done = run_ok(dev.path, "worktree", "complete")
    assert "the base moves on" not in [each["subject"] for each in done["commits"]]
    assert "work of dev-001" in [each["subject"] for each in done["commits"]]
    assert [each["path"] for each in done["files"]] == ["one.txt"]
    events = run_ok(repo.path, "log", "timeline", "dev-001")["events"]
    assert "the base moves on" not in str(events)
    shown = run_ok(repo.path, "worktree", "show", "dev-001")
    assert shown["behind"] == 0
    assert _skipped(_sync(repo, "dev-001")) == {"dev-001": "it is up to date with 'main'"}


def test_fifty_worktrees_and_a_moving_base(repo: Repo) -> None:
    """Two syncs at once, and agents that commit meanwhile: each commit of an agent is in its branch."""
    agents = [agent_commit(repo, f"dev-{n:03}", {f"{n}.txt": f"{n}\n"}) for n in range(8)]
    work = {each.path: [each.oid()] for each in agents}
    _move_base(repo)
    command = [sys.executable, "-m", "git_agentos", "worktree", "sync", "--all", "--json"]
    children = [
        subprocess.Popen(command, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)
    ]
    for n, each in enumerate(agents):
        each.write(f"more-{n}.txt", "more\n")
        if each.try_git("add", f"more-{n}.txt") == 0 and each.try_git("commit", "-q", "-m", "meanwhile") == 0:
            work[each.path].append(each.oid())
        _move_base(repo, **{f"base{n}_txt": "x\n"})
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, (out, err)
    assert _sync(repo, "--all")["conflicts"] == []
    for n, each in enumerate(agents):
        for oid in work[each.path]:
            assert each.try_git("merge-base", "--is-ancestor", oid, "HEAD") == 0
        assert each.exists(f"more-{n}.txt")
        assert each.exists("base7.txt")
        assert status(each) in (b"", f"?? more-{n}.txt\0".encode())
        each.git("fsck", "--strict", "--no-dangling")
