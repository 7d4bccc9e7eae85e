"""Rolled back to `pre_run`, a run's worktree is what a fresh one is; `undo` brings back what was discarded."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos.errors import AgentosError, RunError
from git_agentos.git import refs
from git_agentos.guard.setup.activation import disable, enable, is_enabled, tampered
from git_agentos.workspace import open_workspace
from tests.support import ref_storage
from tests.support.repo import Repo, digest, filled
from tests.support.rollbacks import RolledBackWorktree, assert_like, prepare, work
from tests.support.sampling import EXHAUSTIVE
from tests.support.tool import run_ok

Wreck = Callable[[Repo], object]


@pytest.fixture
def ground(repo: Repo) -> RolledBackWorktree:
    return prepare(repo)


def sh(there: Repo, text: str) -> None:
    subprocess.run(text, shell=True, cwd=there.path, check=True, executable="/bin/sh")


def same_size_and_time(there: Repo) -> None:
    """An edit that git does not see in the worktree's own index and configuration."""
    there.config("core.trustctime", "false")
    path = there.path / "notes.txt"
    os.utime(path, (1_700_000_000, 1_700_000_000))
    there.git("update-index", "--refresh")
    found = os.stat(path)
    path.write_bytes(b"x" * found.st_size)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert "notes.txt" not in there.text("status", "--porcelain")


def bits(there: Repo) -> None:
    """Permission bits that git does not look at."""
    there.chmod("notes.txt", 0o600)
    there.chmod("run.sh", 0o700)
    there.chmod(".env", 0o644)
    os.chmod(there.path / "docs", 0o700)
    os.chmod(there.path / "cache", 0o755)
    os.chmod(there.path, 0o750)


def hidden(there: Repo) -> None:
    there.git("update-index", "--assume-unchanged", "readme.txt")
    there.git("update-index", "--skip-worktree", "notes.txt", "data.bin")
    there.write("readme.txt", "hidden\n")
    there.write("notes.txt", "hidden too\n")
    there.remove("data.bin")


def links(there: Repo) -> None:
    there.remove("docs")
    there.link("docs", "/etc")
    there.remove("readme.txt")
    there.link("readme.txt", "nowhere")
    there.remove("cache")
    there.link("cache", "../..")
    there.remove("link")
    there.write("link/file", "a folder now\n")


def names(there: Repo) -> None:
    there.write(b"bad\xff", b"bad\xfe\n")
    there.write(b"build/dir\xfe/tab\there", "ignored\n")
    there.write(b"new\nline/quo\"te's\\", "odd\n")
    there.add(b"bad\xff")


def special(there: Repo) -> None:
    os.mkfifo(there.path / "pipe")
    (there.path / "docs/only").mkdir()
    os.mkfifo(there.path / "docs/only/pipe")
    there.write("docs/.git/nothing", "no repository\n")


def pipes(there: Repo) -> None:
    """Where files and folders were."""
    there.remove("readme.txt", "src", ".env", "cache")
    for name in ("readme.txt", "src", ".env", "cache"):
        os.mkfifo(there.path / name)


def hidden_attributes(there: Repo) -> None:
    """Ignored, and yet git converts as they say."""
    there.write(".gitignore", ".gitattributes\n" + there.read(".gitignore").decode())
    there.write(".gitattributes", "*.txt text eol=crlf\n")
    there.remove("readme.txt", "notes.txt")
    there.git("checkout", "--", "readme.txt", "notes.txt")


def nested(there: Repo) -> None:
    filled(there.path / "vendor/inner").append("readme.txt", "dirty\n")
    filled(there.path / "build/inner")


def conflict(there: Repo) -> None:
    base = there.text("rev-parse", "HEAD").strip()
    there.write("notes.txt", "one\n")
    there.commit("one")
    there.git("checkout", "-q", "-b", "theirs", base)
    there.write("notes.txt", "two\n")
    there.commit("two")
    assert there.try_git("merge", "agentos/run-r1") != 0


def rebasing(there: Repo) -> None:
    base = there.text("rev-parse", "HEAD").strip()
    there.write("notes.txt", "one\n")
    there.commit("one")
    there.git("checkout", "-q", "-b", "theirs", base)
    there.write("notes.txt", "two\n")
    there.commit("two")
    there.git("checkout", "-q", "agentos/run-r1")
    assert there.try_git("rebase", "theirs") != 0


def detached(there: Repo) -> None:
    there.write("a.txt", "a\n")
    there.commit("on the branch")
    there.git("checkout", "-q", "--detach")
    there.write("b.txt", "b\n")
    there.commit("on no branch")


def branch_gone(there: Repo) -> None:
    there.write("a.txt", "a\n")
    there.commit("on the branch")
    there.git("checkout", "-q", "-b", "mine")
    there.git("branch", "-q", "-D", "agentos/run-r1")


def rewritten(there: Repo) -> None:
    """Commits that only the reflog has."""
    work(there)
    there.git("add", "-A")
    there.commit("soon forgotten")
    there.git("reset", "-q", "--hard", "HEAD~2")


def unborn(there: Repo) -> None:
    there.git("checkout", "-q", "--orphan", "new-beginning")
    there.git("rm", "-r", "-q", "--cached", ".")
    there.write("first.txt", "first\n")
    there.add("first.txt")


def settings(there: Repo) -> None:
    there.git("config", "extensions.worktreeConfig", "true")
    there.git("config", "--worktree", "core.autocrlf", "true")
    there.git("config", "--worktree", "core.fileMode", "false")
    there.git("config", "--worktree", "core.symlinks", "false")
    there.remove("readme.txt")
    there.remove("link")
    there.chmod("run.sh", 0o644)


def sparse(there: Repo) -> None:
    there.git("sparse-checkout", "set", "--cone", "docs")
    there.append("docs/guide.md", "changed\n")


def attributes(there: Repo) -> None:
    there.write(".gitattributes", "*.txt text eol=crlf\n")
    there.remove("readme.txt", "notes.txt")
    there.git("checkout", "--", "readme.txt", "notes.txt")


def other_form(there: Repo) -> None:
    """Unmodified, as git says by the stat data, and `add` would store another blob."""
    there.write("committed.dos", "one\r\ntwo\r\n")
    os.utime(there.path / "committed.dos", (1_700_000_000, 1_700_000_000))
    there.commit("as it is")
    there.write(".gitattributes", "*.dos text eol=crlf\n")
    there.commit("attributes")
    assert there.text("status", "--porcelain") == ""


def everything(there: Repo) -> None:
    """`rm -rf *` and `git clean`, and then something else in every place."""
    sh(there, "rm -rf ./* .env .gitignore && mkdir readme.txt && echo x >readme.txt/docs && echo y >docs")


WRECKS: dict[str, Wreck] = {
    each.__name__: each
    for each in (
        work, same_size_and_time, bits, hidden, links, names, special, nested, conflict, rebasing, detached,
        branch_gone, rewritten, unborn, settings, sparse, attributes, hidden_attributes, pipes, other_form,
        everything,
    )
}  # fmt: skip
# One after the other in the same worktree; each alone where everything is tried.
TOGETHER = (
    "work names nested", "same_size_and_time bits", "hidden links", "attributes conflict", "rebasing",
    "rewritten detached sparse", "unborn", "hidden_attributes", "branch_gone everything", "settings special", "pipes",
    "other_form same_size_and_time",
)  # fmt: skip
# What `undo` does not put back: it is no state of a worktree, or holds nothing.
_NOT_UNDONE = ("settings", "special", "pipes")


@pytest.mark.parametrize("wrecks", [*TOGETHER, *(WRECKS if EXHAUSTIVE else ())])
def test_back_and_forth(ground: RolledBackWorktree, wrecks: str) -> None:
    """Fresh after a rollback; as it was after an undo; fresh again after another."""
    for wreck in wrecks.split():
        WRECKS[wreck](ground.there)
    sly = "same_size_and_time" in wrecks
    before = ground.look(by_content=sly)
    done = ground.roll_back()
    assert (done.point, done.head, done.branch) == ("pre_run", ground.run.base_sha, ground.run.branch_name)
    assert not done.recreated
    ground.assert_fresh(wrecks)
    if any(wreck in _NOT_UNDONE for wreck in wrecks.split()):
        return
    ground.undo()
    assert_like(before, ground.look(by_content=sly), f"{wrecks}, undone")
    ground.undo()
    ground.assert_fresh(f"{wrecks}, done again")


def test_every_wreck_is_tried() -> None:
    assert set(" ".join(TOGETHER).split()) == WRECKS.keys()


def test_a_step_is_gone_back_to(ground: RolledBackWorktree) -> None:
    """What was visible when the step began, commits too; ignored files stay, and `undo` has all of it."""
    there = ground.there
    there.write("one.txt", "one\n")
    first = there.commit("step one")
    there.write("two.txt", "begun\n")
    ground.service.mark_step(2)
    there.write("two.txt", "done\n")
    there.commit("step two")
    there.write("build/kept", "ignored\n")
    before = ground.look()
    done = ground.roll_back("step:2")
    assert (done.point, done.head, done.branch) == ("step:2", first, ground.run.branch_name)
    assert there.read("two.txt") == b"begun\n"
    assert there.read("build/kept") == b"ignored\n"
    assert there.text("log", "--format=%s", "-1").strip() == "step one"
    ground.undo()
    assert_like(before, ground.look(), "undone")
    assert ground.roll_back(done.checkpoint[:10]).head == first


def test_unknown_rollback_point(ground: RolledBackWorktree) -> None:
    before = ground.look()
    for point in ("step:7", "abcdef12", "nonsense"):
        with pytest.raises(AgentosError):
            ground.roll_back(point)
    other = ground.repo.commit("no checkpoint")
    with pytest.raises(AgentosError):
        ground.roll_back(other)
    assert_like(before, ground.look(), "refused", refs=False)


def test_a_dry_run_tells_and_changes_nothing(ground: RolledBackWorktree) -> None:
    work(ground.there)
    before = ground.look()
    told = ground.roll_back(dry_run=True)
    assert_like(before, ground.look(), "a dry run")
    done = ground.roll_back()
    assert told.dry_run
    assert told.saved is None
    assert (told.changed, told.removed, told.branch, told.head) == (done.changed, done.removed, done.branch, done.head)
    assert done.changed == [".env", "data.bin", "made.txt", "readme.txt"]
    assert done.removed == ["agent.log", "build/deep/out.bin", "new folder/untracked.txt", "staged.txt"] or done.removed


def test_rollback_without_changes_does_nothing(ground: RolledBackWorktree) -> None:
    def times() -> dict[str, int]:
        paths = [path for path in ground.path.rglob("[!.]*") if ".agentos" not in path.parts]
        return {str(path): path.lstat().st_mtime_ns for path in paths}

    before = times()
    done = ground.roll_back()
    assert (done.changed, done.removed, done.not_saved) == ([], [], [])
    assert times() == before


def test_files_that_nobody_touched_keep_their_times(ground: RolledBackWorktree) -> None:
    work(ground.there)
    there = ground.path / "notes.txt"
    before = there.stat()
    ground.roll_back()
    after = there.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_the_branch_is_in_another_worktree(ground: RolledBackWorktree) -> None:
    there = ground.there
    there.write("a.txt", "a\n")
    there.commit("a")
    ground.repo.git("worktree", "add", "-q", "--force", "../second", ground.run.branch_name)
    before = ground.look()
    with pytest.raises(RunError, match="is checked out at") as refused:
        ground.roll_back()
    assert "switch --detach" in str(refused.value.hint)
    assert_like(before, ground.look(), "refused")
    ground.repo.git("-C", "../second", "switch", "-q", "--detach")
    ground.roll_back()
    ground.assert_fresh()


def test_commits_stay_reachable(ground: RolledBackWorktree) -> None:
    """Those of the branch, of no branch, and those that only the reflog had."""
    rewritten(ground.there)
    detached(ground.there)
    everywhere = ground.there.text("rev-list", "--reflog", "--all").split()
    done = ground.roll_back()
    ground.repo.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    ground.repo.git("-c", "gc.worktreePruneExpire=never", "gc", "-q", "--prune=now")
    missing = [oid for oid in everywhere if ground.repo.try_git("cat-file", "-e", oid) != 0]
    assert not missing
    assert done.saved is not None
    ground.undo()


def test_the_branch_moved_between_rollback_and_undo(ground: RolledBackWorktree) -> None:
    """It is somebody else's now: the discarded work comes back on a branch of its own."""
    there = ground.there
    there.write("a.txt", "a\n")
    wrecked = there.commit("a")
    ground.roll_back()
    there.write("b.txt", "b\n")
    newer = there.commit("b")
    ground.undo()
    assert ground.repo.text("rev-parse", ground.run.branch_name).strip() == newer
    assert there.text("rev-parse", "HEAD").strip() == wrecked
    assert there.text("symbolic-ref", "--short", "HEAD").startswith("restore/")
    assert there.read("a.txt") == b"a\n"


def test_large_files_are_saved_and_brought_back(ground: RolledBackWorktree) -> None:
    """What would be discarded has no size limit."""
    ground.repo.config("agentos.maxFileSize", "1k")
    ground.there.write("big", b"b" * 5000)
    ground.there.write("build/big", b"i" * 5000)
    before = ground.look()
    ground.roll_back()
    ground.assert_fresh()
    ground.undo()
    assert_like(before, ground.look(), "undone")


def test_the_guard_is_on_again(repo: Repo) -> None:
    ground = prepare(repo, guard=True)
    location = open_workspace(str(ground.path)).context.location
    made = (ground.entry / "config.worktree").read_bytes()
    disable(location)
    for key, value in (("core.autocrlf", "true"), ("core.hooksPath", "/nowhere")):
        ground.repo.git("config", "--file", str(ground.entry / "config.worktree"), key, value)
    ground.roll_back()
    ground.assert_fresh()
    assert is_enabled(location)
    assert tampered(location) == []
    assert (ground.entry / "config.worktree").read_bytes() == made


def test_rollback_of_unguarded_worktree_enables_no_guard(ground: RolledBackWorktree) -> None:
    enable(open_workspace(str(ground.path)).context.location)
    ground.roll_back()
    assert not is_enabled(open_workspace(str(ground.path)).context.location)


def test_several_rollbacks_in_a_row(ground: RolledBackWorktree) -> None:
    for n in range(3):
        work(ground.there)
        before = ground.look()
        ground.roll_back()
        ground.assert_fresh(f"round {n}")
    ground.undo()
    assert_like(before, ground.look(), "undone")


def test_tracked_files_that_are_only_ignored_now(repo: Repo) -> None:
    repo.write("x.log", "tracked, although ignored\n")
    repo.git("add", "-f", "x.log")
    repo.commit("x.log")
    ground = prepare(repo)
    ground.there.git("read-tree", "--empty")
    before = ground.look()
    ground.roll_back()
    ground.assert_fresh()
    ground.undo()
    assert_like(before, ground.look(), "undone")


def test_other_worktrees_and_closed_repositories_inside_are_put_aside(ground: RolledBackWorktree) -> None:
    """Nothing of them is in a checkpoint, and nothing of them is lost."""
    there = ground.there
    there.git("worktree", "add", "-q", "-b", "inner", "deep/inner")
    there.write("deep/inner/precious.txt", "precious\n")
    there.write("copied/.git", f"gitdir: {ground.entry}\n")
    there.write("copied/kept.txt", "kept\n")
    done = ground.roll_back()
    ground.assert_fresh()
    told = {item.path: item.reason for item in done.not_saved}
    assert set(told) == {str(ground.path / "deep/inner"), "copied/"}
    moved = Path(told[str(ground.path / "deep/inner")].split("'")[1])
    assert Repo(moved).read("precious.txt") == b"precious\n"
    assert Repo(moved).text("status", "--porcelain") == "?? precious.txt"
    assert list((ground.entry / "agentos/kept").glob("*/copied/kept.txt"))


def test_a_submodule(repo: Repo, make_repo: Callable[[str], Repo]) -> None:
    """It is taken back too, with what is ignored in it, and brought back."""
    library = make_repo("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "library")
    repo.commit("a submodule")
    ground = prepare(repo)
    inside = Repo(ground.path / "library")
    pristine = ground.look()
    base = inside.text("rev-parse", "HEAD").strip()
    inside.write("more.txt", "more\n")
    inside.commit("work inside")
    inside.append("readme.txt", "dirty\n")
    inside.write(".gitignore", "*.o\n")
    inside.write("out.o", "ignored\n")
    ground.there.add("library")
    before = ground.look()
    ground.roll_back()
    assert inside.text("rev-parse", "HEAD").strip() == base
    assert_like(pristine, ground.look(), "rolled back", refs=False)
    ground.undo()
    assert_like(before, ground.look(), "undone", refs=False)


def _of_submodule(there: Repo, how: str) -> None:
    if how == "deinit":
        there.git("submodule", "deinit", "-q", "-f", "library")
    elif how == "removed":
        there.git("rm", "-q", "-f", "library")
        there.commit("without the library")
    elif how == "loose":
        there.remove("library/.git")
        there.append("library/readme.txt", "loose\n")
    else:
        there.remove("library")
        if how == "file":
            there.write("library", "a file\n")


@pytest.mark.parametrize("how", ["folder", "file", "loose", "deinit", "removed"])
def test_a_submodule_that_is_gone(repo: Repo, make_repo: Callable[[str], Repo], how: str) -> None:
    """It comes back, from the git directory that the worktree still has of it, and undo takes it away again."""
    library = make_repo("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "library")
    repo.commit("a submodule")
    ground = prepare(repo)
    pristine = ground.look()
    _of_submodule(ground.there, how)
    before = ground.look()
    done = ground.roll_back()
    assert done.not_saved == []
    assert_like(pristine, ground.look(), "rolled back", refs=False)
    ground.undo()
    assert_like(before, ground.look(), "undone", refs=False)
    ground.undo()
    assert_like(pristine, ground.look(), "done again", refs=False)


@pytest.mark.parametrize("how", ["changed", "gone", "loose"])
def test_a_repository_that_the_set_up_made(repo: Repo, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    who = "-c user.name=n -c user.email=n@example.com"
    # A set-up command does not get these from us.
    init = f"GIT_DEFAULT_HASH={digest().name} GIT_DEFAULT_REF_FORMAT={ref_storage.by_default()} git init -q"
    made = f"{init} build/in && cd build/in && echo a >a && git add a && git {who} commit -qm a && echo o >>a"
    monkeypatch.setattr("tests.support.rollbacks.SETUP", made)
    ground = prepare(repo)
    pristine = ground.look()
    if how == "changed":
        ground.there.write("build/in/b", "b\n")
        ground.there.append("build/in/a", "more\n")
    else:
        ground.there.remove("build" if how == "gone" else "build/in/.git")
    before = None if how == "loose" else ground.look()  # git finds the repository around it there
    loose = ground.there.read("build/in/a") if how == "loose" else None
    done = ground.roll_back()
    assert done.not_saved == []
    assert_like(pristine, ground.look(), "rolled back", refs=False)
    ground.undo()
    if before is not None:
        assert_like(before, ground.look(), "undone", refs=False)
    else:
        assert ground.there.read("build/in/a") == loose
        assert not ground.there.exists("build/in/.git")


@pytest.mark.parametrize("other", ["agentos", "agentos/run-r1/more"])
def test_a_branch_in_the_way_of_the_runs_own(ground: RolledBackWorktree, other: str) -> None:
    ground.there.git("checkout", "-q", "-b", "mine")
    ground.there.git("branch", "-q", "-D", ground.run.branch_name)
    ground.there.git("branch", other)
    before = ground.look()
    with pytest.raises(RunError, match="in the way") as refused:
        ground.roll_back()
    assert "git branch -m" in str(refused.value.hint)
    assert_like(before, ground.look(), "refused")


def test_the_run_may_go_on_before_it_is_undone(repo: Repo) -> None:
    """Its checkpoints are by the run's agent, `undo` is by whoever stands in the worktree."""
    ground = prepare(repo, agent="dev-7")
    work(ground.there)
    before = ground.look()
    ground.roll_back()
    ground.there.write("next.txt", "the next attempt\n")
    ground.service.mark_step(5)
    ground.undo()
    assert_like(before, ground.look(), "undone")


def test_names_that_no_tree_may_have(ground: RolledBackWorktree) -> None:
    """git would not check them out: they are put aside, and stay where a restore finds them."""
    ground.there.write("src/.Git/config", "whose?\n")
    ground.there.write(".GIT", "a file\n")
    (ground.path / "empty" / ".gIt").mkdir(parents=True)
    saved = run_ok(ground.path, "checkpoint")
    assert [each["path"] for each in saved["skipped"]] == [".GIT", "src/.Git/config"]
    run_ok(ground.path, "restore", saved["id"])
    assert ground.there.read("src/.Git/config") == b"whose?\n"
    done = ground.roll_back()
    ground.assert_fresh()
    assert {".GIT", "src/.Git", "empty/.gIt"} <= {each.path for each in done.not_saved}
    kept = [path.read_bytes() for path in ground.path.parent.parent.rglob("kept/**/*") if path.is_file()]
    assert {b"whose?\n", b"a file\n"} <= set(kept)


def test_a_damaged_ref_of_somebody_else(ground: RolledBackWorktree) -> None:
    """It keeps nothing, and keeps nobody from going back."""
    ground.there.write("one.txt", "one\n")
    commit = ground.there.commit("work")
    ref_storage.damage(ground.repo, "refs/heads/broken")
    ground.roll_back()
    refs.repair(ground.context.location, "refs/heads/broken", None)
    ground.assert_fresh()
    assert commit in ground.repo.text("rev-list", "--all")
