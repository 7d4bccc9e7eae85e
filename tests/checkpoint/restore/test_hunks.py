"""`restore --hunks`, and what is chosen by questions: these hunks come back, every other byte stays."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint import format
from git_agentos.checkpoint.queries import FileDifference
from git_agentos.checkpoint.restore.choice import FileChoice
from git_agentos.errors import RestoreError, UsageError
from git_agentos.git.hunks import HunkKind
from tests.support.hunk_answers import by_tool
from tests.support.repo import Repo, git
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import run, run_ok

NUMBERS = "".join(f"{n}\n" for n in range(1, 41))


def changed(*numbers: int, end: str = "\n") -> str:
    """The numbers, with a word after these."""
    return "".join(f"{n}{' changed' if n in numbers else ''}{end}" for n in range(1, 41))


def saved(repo: Repo) -> str:
    return open_workspace(repo.path).checkpoint().id


def restore(repo: Repo, checkpoint: str, *hunks: str) -> tuple[list[str], list[str]]:
    """Restore hunks; what was changed and removed. A dry run says the same and changes nothing, undo takes it back."""
    before = complete_state(repo.path, strict=True)
    planned = run_ok(repo.path, "restore", checkpoint, *_options(hunks), "--dry-run")
    assert_unchanged(before, complete_state(repo.path, strict=True), "a dry run")
    done = run_ok(repo.path, "restore", checkpoint, *_options(hunks))
    after = complete_state(repo.path)
    assert (planned["changed"], planned["removed"]) == (done["changed"], done["removed"])
    assert (done["checkpoint"], planned["saved"]) == (checkpoint, None)
    assert (before.head, before.index) == (after.head, after.index)
    run_ok(repo.path, "undo")
    assert_same(before, complete_state(repo.path), "undo")
    run_ok(repo.path, "undo")
    assert_same(after, complete_state(repo.path), "undo of undo")
    return done["changed"], done["removed"]


def _options(hunks: Sequence[str]) -> list[str]:
    return [word for each in hunks for word in ("--hunks", each)]


def refused(repo: Repo, checkpoint: str, *hunks: str, code: int = 1) -> str:
    """What is said of hunks that are refused; nothing has changed."""
    before = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", checkpoint, *_options(hunks))
    assert done.code == code, str(done)
    assert_unchanged(before, complete_state(repo.path, strict=True), "refused")
    return done.err.decode()


# -- which hunks -------------------------------------------------------------------------------------------------------


def test_only_these_hunks(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    repo.write("other", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(3, 20, 38))
    repo.write("other", changed(5))
    assert restore(repo, checkpoint, "numbers:2") == (["numbers"], [])
    assert repo.read("numbers").decode() == changed(3, 38)
    assert repo.read("other").decode() == changed(5)
    assert restore(repo, checkpoint, "numbers:2,1", "other:1") == (["numbers", "other"], [])
    assert repo.read("numbers").decode() == repo.read("other").decode() == NUMBERS


def test_every_kind_of_change(repo: Repo) -> None:
    """A mode is a hunk of its own, the first. What is added, deleted, binary or of another type is one as a whole."""
    repo.write("mode", NUMBERS)
    repo.write("binary", b"\0one")
    repo.write("gone", "gone\n")
    repo.write("type", "file\n")
    repo.link("link", "one")
    checkpoint = saved(repo)
    repo.write("mode", changed(3, 30), 0o755)
    repo.write("binary", b"\0two", 0o755)
    repo.remove("gone")
    repo.link("type", "target")
    repo.link("link", "two")
    repo.write("new/er", "new\n")
    files = {each.path: each.hunks for each in open_workspace(repo.path).diff(checkpoint).files}
    assert {path: [(each.number, each.kind) for each in found] for path, found in files.items()} == {
        "binary": [(1, "mode"), (2, "binary")],
        "gone": [(1, "deletion")],
        "link": [(1, "text")],
        "mode": [(1, "mode"), (2, "text"), (3, "text")],
        "new/er": [(1, "addition")],
        "type": [(1, "type")],
    }
    assert [each.header for each in files["mode"]] == ["old mode 100644", "@@ -1,6 +1,6 @@", "@@ -27,7 +27,7 @@"]
    assert restore(repo, checkpoint, "mode:1,3", "binary:2", "link:1") == (["binary", "link", "mode"], [])
    assert (repo.read("mode").decode(), repo.read("binary"), os.readlink(repo.at("link"))) == (
        changed(3),
        b"\0one",
        b"one",
    )
    assert stat.S_IMODE(os.stat(repo.at("mode")).st_mode) == 0o644
    assert stat.S_IMODE(os.stat(repo.at("binary")).st_mode) == 0o755
    assert restore(repo, checkpoint, "gone:1", "new/er:1", "type:1") == (["gone", "type"], ["new/er"])
    assert (repo.read("gone"), repo.read("type")) == (b"gone\n", b"file\n")
    assert not os.path.lexists(repo.at("new"))


def test_a_name_with_everything(repo: Repo) -> None:
    name = b"sub dir/a:1,b\n\xff"
    repo.write(name, NUMBERS)
    checkpoint = saved(repo)
    repo.write(name, changed(1, 40))
    words = [b"--hunks", name.split(b"/")[1] + b":2"]
    done = run(repo.path / "sub dir", "--json", "restore", checkpoint, *words)
    assert done.code == 0, str(done)
    assert done.json["changed"] == [os.fsdecode(name)]
    assert repo.read(name).decode() == changed(1)


@pytest.mark.parametrize(
    ("hunks", "said"),
    [
        ("numbers:3", "error: 'numbers' has no hunk 3\nhint: its hunks are 1 to 2\n"),
        ("numbers:0", "error: 'numbers' has no hunk 0\nhint: its hunks are 1 to 2\n"),
        ("missing:1", "files that differ, with their number of hunks: numbers (2)"),
        ("readme.txt:1", "error: 'readme.txt' has no hunks: it is as in checkpoint "),
        ("numbers", "error: 'numbers' does not name hunks\nhint: give PATH:N[,N...], for example src/app.py:1,3\n"),
        ("numbers:1,", "does not name hunks"),
        ("../numbers:1", "is outside of the worktree"),
    ],
)
def test_what_there_is_not(repo: Repo, hunks: str, said: str) -> None:
    repo.write("numbers", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(3, 20))
    assert said in refused(repo, checkpoint, hunks, code=2)


@pytest.mark.parametrize(
    "words",
    [
        ["--hunks", "numbers:1", "--branch", "other"],
        ["--hunks", "numbers:1", "--worktree", "other"],
        ["--hunks", "numbers:1", "--keep-new"],
        ["--hunks", "numbers:1", "--patch"],
        ["--hunks", "numbers:1", "readme.txt"],
        ["--patch", "--branch", "other"],
    ],
)
def test_what_does_not_go_together(repo: Repo, words: list[str]) -> None:
    checkpoint = saved(repo)
    done = run(repo.path, "restore", checkpoint, *words)
    assert (done.code, b"cannot be used together" in done.err) == (2, True), str(done)
    assert run(repo.path, "worktree", "list").out.count(b"\n") <= 1


# -- which bytes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attributes", ["", "* text=auto eol=crlf\n", "* text=auto eol=lf\n", "* -text\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_line_ends_stay(repo: Repo, attributes: str, end: str) -> None:
    """The lines that come back have the line end of their neighbours; git's attributes do not matter."""
    repo.write(".gitattributes", attributes)
    repo.write("numbers", changed(end=end))
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "numbers")
    checkpoint = saved(repo)
    repo.write("numbers", changed(1, 20, end=end))
    restore(repo, checkpoint, "numbers:1")
    assert repo.read("numbers").decode() == changed(20, end=end)


def test_mixed_line_ends_stay(repo: Repo) -> None:
    repo.write(".gitattributes", "* text=auto\n")
    checkpoint_lines = changed().encode()
    repo.write("numbers", checkpoint_lines)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "numbers")
    checkpoint = saved(repo)
    lines = changed(3, 20).splitlines()
    mixed = "".join(line + ("\r\n" if n % 3 else "\n") for n, line in enumerate(lines))
    repo.write("numbers", mixed)
    restore(repo, checkpoint, "numbers:2")
    lines[19] = "20"
    # The line that came back has the end of the line above.
    ends = ["\r\n" if (n % 3 if n != 19 else 18 % 3) else "\n" for n in range(40)]
    assert repo.read("numbers").decode() == "".join(line + end for line, end in zip(lines, ends, strict=True))


def test_through_a_filter(repo: Repo) -> None:
    """The hunks are those of what git stores; the file is what a checkout of the result gives, as with git."""
    repo.config("filter.caps.clean", "tr A-Z a-z")
    repo.config("filter.caps.smudge", "tr a-z A-Z")
    repo.write(".gitattributes", "numbers filter=caps\n")
    repo.write("numbers", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(1, 20).upper())
    restore(repo, checkpoint, "numbers:1")
    assert repo.read("numbers").decode() == changed(20).upper()
    restore(repo, checkpoint, "numbers:1")
    assert repo.read("numbers").decode() == NUMBERS


def test_permission_bits_stay(repo: Repo) -> None:
    repo.write("numbers", NUMBERS, 0o600)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "numbers")
    checkpoint = saved(repo)
    repo.write("numbers", changed(1, 20), 0o640)
    restore(repo, checkpoint, "numbers:1")
    assert stat.S_IMODE(os.stat(repo.at("numbers")).st_mode) == 0o640
    assert repo.read("numbers").decode() == changed(20)


def test_the_index_stays(repo: Repo) -> None:
    """Tracked then and not now, now and not then, intent to add, a conflict: the index is as it was."""
    repo.write("tracked-then", NUMBERS)
    repo.write("tracked-now", NUMBERS)
    repo.write("intent", NUMBERS)
    repo.git("add", "tracked-then")
    checkpoint = saved(repo)
    repo.git("rm", "-q", "--cached", "tracked-then")
    repo.git("add", "tracked-now")
    repo.git("add", "-N", "intent")
    for name in ("tracked-then", "tracked-now", "intent"):
        repo.write(name, changed(2, 30))
    restore(repo, checkpoint, "tracked-then:1", "tracked-now:1", "intent:1")
    for name in ("tracked-then", "tracked-now", "intent"):
        assert repo.read(name).decode() == changed(30)


def test_a_conflict_stays_unmerged(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "numbers")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("numbers", changed(3))
    repo.git("commit", "-q", "-a", "-m", "side")
    repo.git("checkout", "-q", "-")
    repo.write("numbers", NUMBERS.replace("3\n", "three\n", 1))
    repo.git("commit", "-q", "-a", "-m", "ours")
    repo.try_git("merge", "-q", "side")
    checkpoint = saved(repo)
    conflict = repo.read("numbers")
    repo.write("numbers", conflict.replace(b"three\n", b"3\n").replace(b"\n30\n", b"\n30 changed\n"))
    restore(repo, checkpoint, "numbers:1")
    assert repo.read("numbers") == conflict.replace(b"\n30\n", b"\n30 changed\n")


def test_an_ignored_file_in_the_way_is_saved(repo: Repo) -> None:
    repo.write("file", "visible\n")
    checkpoint = saved(repo)
    repo.write(".git/info/exclude", "file\n")
    repo.write("file", "ignored\n")
    done = run_ok(repo.path, "restore", checkpoint, "--hunks", "file:1")
    assert (done["changed"], repo.read("file")) == (["file"], b"visible\n")
    run_ok(repo.path, "undo")
    assert repo.read("file") == b"ignored\n"


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_files_and_folders_that_are_in_the_way(repo: Repo) -> None:
    repo.write("one", "file\n")
    repo.write("two/below", "file\n")
    checkpoint = saved(repo)
    repo.remove("one")
    repo.write("one/below", "in the way\n")
    repo.remove("two")
    repo.write("two", "in the way\n")
    assert "'one' cannot be restored: 'one/below' is in the way" in refused(repo, checkpoint, "one:1")
    assert "'two/below' cannot be restored: 'two' is in the way" in refused(repo, checkpoint, "two/below:1")
    restore(repo, checkpoint, "one:1", "one/below:1", "two:1", "two/below:1")
    assert (repo.read("one"), repo.read("two/below")) == (b"file\n", b"file\n")


def test_a_file_that_changes_after_the_question(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    repo.write("other", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(3))
    repo.write("other", changed(3))

    def choose(found: Sequence[FileDifference]) -> list[FileChoice]:
        repo.append("numbers", "more\n")
        return [FileChoice(each, each.patch.hunks) for each in found]

    workspace = open_workspace(repo.path)
    before = len(workspace.checkpoints())
    with pytest.raises(RestoreError, match="'numbers' has changed since its hunks were read"):
        workspace.restore(checkpoint, choose=choose)
    assert repo.read("numbers").decode() == changed(3) + "more\n"
    assert repo.read("other").decode() == changed(3)
    assert len(workspace.checkpoints()) == before


def test_other_files_may_change_meanwhile(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(3))

    def choose(found: Sequence[FileDifference]) -> list[FileChoice]:
        repo.write("other", "new\n")
        repo.git("add", "other")
        return [FileChoice(each, each.patch.hunks) for each in found]

    open_workspace(repo.path).restore(checkpoint, choose=choose)
    assert (repo.read("numbers").decode(), repo.read("other")) == (NUMBERS, b"new\n")
    assert repo.text("diff", "--cached", "--name-only") == "other"


def test_nested_repositories_have_no_hunks(repo: Repo) -> None:
    inner = Repo.init(repo.path / "inner")
    inner.write("file", "one\n")
    inner.git("add", "-A")
    inner.git("commit", "-q", "-m", "one")
    checkpoint = saved(repo)
    inner.write("file", "two\n")
    inner.git("commit", "-q", "-a", "-m", "two")
    assert "'inner' has no hunks" in refused(repo, checkpoint, "inner:1", code=2)


def test_nothing_chosen(repo: Repo) -> None:
    checkpoint = saved(repo)
    repo.write("numbers", NUMBERS)
    before = complete_state(repo.path, strict=True)
    done, _ = by_tool(repo, checkpoint, ["n"])
    assert (done.saved, done.changed, done.removed) == (None, [], [])
    with pytest.raises(UsageError, match="cannot be combined"):
        by_tool(repo, checkpoint, [], branch="other")
    assert_unchanged(before, complete_state(repo.path, strict=True), "nothing chosen")


# -- what is recorded --------------------------------------------------------------------------------------------------


def test_the_target_is_kept_and_the_history_names_the_checkpoint(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(3, 30))
    done = run_ok(repo.path, "restore", checkpoint, "--hunks", "numbers:1")
    workspace = open_workspace(repo.path)
    meta = format.open_checkpoint(workspace.context.repository, done["saved"]).meta
    part = {"paths": ["numbers"], "no_branch": False, "keep_new": False, "hunks_of": checkpoint}
    assert meta["restored_part"] == part
    repo.git("gc", "-q", "--prune=now")
    repo.git("fsck", "--strict")
    target = format.open_checkpoint(open_workspace(repo.path).context.repository, meta["restores"])
    assert (target.meta["trigger"], target.meta["restores"]) == (format.HUNKS, checkpoint)
    assert git(repo.path, "cat-file", "blob", f"{meta['restores']}^3:numbers").decode() == changed(30)
    assert f"restored hunks of {checkpoint[:8]}".encode() in run(repo.path, "log", "timeline").out
    assert [each.id for each in workspace.checkpoints()] == [done["saved"], checkpoint]


def test_a_worktree_that_was_destroyed_comes_back_with_its_hunks(repo: Repo) -> None:
    created = run_ok(repo.path, "worktree", "create", "agent-1")
    inner = Repo(Path(created["path"]))
    inner.write("numbers", NUMBERS)
    checkpoint = saved(inner)
    inner.write("numbers", changed(3, 30))
    run_ok(inner.path, "restore", checkpoint, "--hunks", "numbers:1")
    shutil.rmtree(inner.path)
    run_ok(repo.path, "worktree", "archive", "agent-1")
    run_ok(repo.path, "worktree", "create", "agent-1", "--revive")
    assert inner.read("numbers").decode() == changed(30)


def test_hunks_of_another_timeline(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    checkpoint = saved(repo)
    created = run_ok(repo.path, "worktree", "create", "agent-1")
    inner = Repo(Path(created["path"]))
    inner.write("numbers", changed(3, 30))
    run_ok(inner.path, "restore", checkpoint, "--all", "--hunks", "numbers:2")
    assert inner.read("numbers").decode() == changed(3)


def test_an_expected_state_and_a_repeated_call(repo: Repo) -> None:
    repo.write("numbers", NUMBERS)
    checkpoint = saved(repo)
    repo.write("numbers", changed(3, 20, 30))
    words = ["restore", checkpoint, "--hunks", "numbers:1"]
    planned = run_ok(repo.path, *words, "--dry-run")
    done = run_ok(repo.path, *words, "--expected", planned["state"], "--idempotency-key", "one")
    assert repo.read("numbers").decode() == changed(20, 30)
    # The hunk with this number is another one now.
    assert run_ok(repo.path, *words, "--expected", planned["state"], "--idempotency-key", "one") == done
    again = run(repo.path, *words, "--expected", planned["state"])
    assert (again.code, b"something has changed in this worktree since" in again.err) == (1, True), str(again)
    assert repo.read("numbers").decode() == changed(20, 30)


def test_kinds_are_named(repo: Repo) -> None:
    assert {str(each) for each in HunkKind} == {"text", "mode", "addition", "deletion", "binary", "type"}
