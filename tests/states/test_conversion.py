"""Content that git converts between worktree and repository: line ends, filters, encodings."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from git_agentos.errors import RestoreError
from git_agentos.git import index
from tests.support import pointer_filter
from tests.support.elsewhere import STEP, if_possible
from tests.support.refusal import assert_is_error
from tests.support.repo import Repo
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import IN_PROCESS, Tool, run

SCENARIOS = Scenarios()
_ROT13 = "tr A-Za-z N-ZA-Mn-za-m"


def _checked_out_anew(repo: Repo) -> None:
    """Every file as git writes it under the rules that hold now."""
    for name in repo.git("ls-files", "-z").split(b"\0")[:-1]:
        repo.remove(name)
    repo.git("checkout", "-q", "--", ".")


@SCENARIOS.add()
def _autocrlf(repo: Repo) -> None:
    repo.config("core.autocrlf", "true")
    _checked_out_anew(repo)
    repo.write("dos.txt", "one\r\ntwo\r\n")
    repo.commit("dos")
    repo.write("dos.txt", "one\r\ntwo\r\nthree\r\n")
    repo.write("staged.txt", "one\r\ntwo\r\n")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "one\r\ntwo\r\nagain\r\n")
    repo.write("untracked.txt", "one\r\ntwo\r\n")
    repo.write("binary", b"\0\r\n\n\r")


@SCENARIOS.add()
def _mixed_line_ends_under_autocrlf(repo: Repo) -> None:
    """What the blob cannot give back: the worktree's own bytes are kept beside it."""
    repo.config("core.autocrlf", "true")
    _checked_out_anew(repo)
    repo.write("mixed.txt", "one\r\ntwo\r\n")
    repo.commit("dos")
    repo.write("mixed.txt", "one\r\ntwo\nthree\r\n")
    repo.write("readme.txt", "changed, with unix line ends\n")
    repo.write("untracked-mixed.txt", "one\r\ntwo\n")
    repo.write("staged-mixed.txt", "one\r\ntwo\n")
    repo.try_git("add", "staged-mixed.txt")


@SCENARIOS.add()
def _autocrlf_input(repo: Repo) -> None:
    repo.config("core.autocrlf", "input")
    repo.write("readme.txt", "dos now\r\nsecond line\r\n")
    repo.write("untracked.txt", "dos\r\n")


@SCENARIOS.add(status=False)  # git calls run.sh modified while its cached size differs, though its content does not
def _eol_attributes(repo: Repo) -> None:
    repo.write(".gitattributes", "*.txt text eol=crlf\n*.sh text eol=lf\n*.bin -text\n")
    repo.remove("readme.txt", "notes.txt", "run.sh")
    repo.git("checkout", "-q", "--", "readme.txt", "notes.txt", "run.sh")
    repo.commit("attributes")
    repo.write("readme.txt", "one\r\ntwo\r\nthree\r\n")
    repo.write("notes.txt", "one\r\nmixed\nthree\r\n")
    repo.write("new.txt", "unix\nonly\n")
    repo.write("run.sh", "#!/bin/sh\r\nexit 0\r\n", 0o755)


@SCENARIOS.add()
def _attributes_themselves_changed(repo: Repo) -> None:
    """Then: crlf. The bytes in the worktree were written under the rules of then."""
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("readme.txt", "changed under the new rule\r\n")
    repo.write("untracked.txt", "untracked\r\n")
    repo.add(".gitattributes")
    repo.write(".gitattributes", "*.txt text eol=crlf\n*.md -text\n")


def _simple_filter(repo: Repo) -> None:
    repo.config("filter.rot.clean", _ROT13)
    repo.config("filter.rot.smudge", _ROT13)
    repo.config("filter.rot.required", "true")
    repo.write(".gitattributes", "*.rot filter=rot\n")
    repo.write("kept.rot", "hello\n")
    repo.write("changed.rot", "hello\n")
    repo.commit("filtered")


@SCENARIOS.add()
def _clean_and_smudge(repo: Repo) -> None:
    _simple_filter(repo)
    repo.write("changed.rot", "changed in the worktree\n")
    repo.write("staged.rot", "staged\n")
    repo.add("staged.rot")
    repo.write("staged.rot", "staged, then changed\n")
    repo.write("untracked.rot", "untracked\n")
    repo.write("box/odd\nname.rot", "a newline in the name\n")
    with if_possible():
        repo.link("link.rot", "kept.rot")


@SCENARIOS.add()
def _lossy_filter(repo: Repo) -> None:
    """`clean` drops what `smudge` cannot know."""
    repo.config("filter.drop.clean", "sed -e s/SECRET=.*/SECRET=/")
    repo.config("filter.drop.smudge", "cat")
    repo.write(".gitattributes", "*.env filter=drop\n")
    repo.write("app.env", "A=1\nSECRET=\n")
    repo.commit("lossy")
    repo.write("app.env", "A=2\nSECRET=changed\n")
    repo.write("staged.env", "B=1\nSECRET=staged\n")
    repo.add("staged.env")
    repo.append("staged.env", "C=1\n")
    repo.write("untracked.env", "SECRET=untracked\n")


def _pointers(repo: Repo, *, long_running: bool) -> None:
    script = shlex.quote(str(Path(pointer_filter.__file__)))
    command = f"{shlex.quote(sys.executable)} -I {script} {shlex.quote(str(repo.scratch / 'store'))}"
    if long_running:
        repo.config("filter.pointer.process", f"{command} process")
    else:
        repo.config("filter.pointer.clean", f"{command} clean")
        repo.config("filter.pointer.smudge", f"{command} smudge")
    repo.config("filter.pointer.required", "true")
    repo.write(".gitattributes", "*.big filter=pointer -text\n")
    repo.write("kept.big", b"kept" * 1000)
    repo.write("changed.big", b"first" * 1000)
    repo.commit("pointers")
    repo.write("changed.big", b"second" * 1000)
    repo.write("staged.big", b"staged" * 1000)
    repo.add("staged.big")
    repo.write("staged.big", b"then changed" * 10000)
    repo.write("untracked.big", b"untracked" * 1000)
    repo.write("plain.txt", "not filtered\n")


@SCENARIOS.add()
def _process_filter(repo: Repo) -> None:
    _pointers(repo, long_running=True)


@SCENARIOS.add(wrecks=("reset-and-clean", "remove-everything"))
def _pointer_filter_by_the_file(repo: Repo) -> None:
    _pointers(repo, long_running=False)


@SCENARIOS.add()
def _ident(repo: Repo) -> None:
    repo.write(".gitattributes", "*.c ident\n")
    repo.write("a.c", "/* $Id$ */\n")
    repo.commit("ident")
    repo.remove("a.c")
    repo.git("checkout", "-q", "--", "a.c")
    repo.append("a.c", "int x;\n")
    repo.write("b.c", "/* $Id: not what git would write $ */\n")


@SCENARIOS.add()
def _working_tree_encoding(repo: Repo) -> None:
    repo.write(
        ".gitattributes", "*.u16 text working-tree-encoding=UTF-16\n*.l1 text working-tree-encoding=ISO-8859-1\n"
    )
    repo.write("kept.u16", "kept\n".encode("utf-16"))
    repo.write("changed.u16", "first\n".encode("utf-16"))
    repo.commit("encodings")
    repo.write("changed.u16", "zwölf\n".encode("utf-16"))
    repo.write("big-endian.u16", b"\xfe\xff" + "with the other mark\n".encode("utf-16-be"))
    repo.write("untracked.u16", "untracked\n".encode("utf-16"))
    repo.write("latin.l1", "zwölf\n".encode("latin-1"))
    repo.add("latin.l1")
    repo.write("latin.l1", "dreißig\n".encode("latin-1"))


def _rested(repo: Repo, name: str, content: str | bytes) -> None:
    """A file that is older than any index: git looks at its stat data alone."""
    repo.write(name, content)
    os.utime(repo.path / name, (1_700_000_000, 1_700_000_000))


@SCENARIOS.add()
def _committed_in_another_form(repo: Repo) -> None:
    """Unmodified for as long as nobody touches them: for each of these `add` would store another blob."""
    repo.config("filter.rot.clean", _ROT13)
    repo.config("filter.rot.smudge", "cat")
    for n, name in enumerate(("a.dos", "box/it's $HOME.dos", "staged.dos", "changed.dos", "0:x.dos", "odd\nname.dos")):
        _rested(repo, name, f"one\r\n{n}\r\n")
    _rested(repo, "raw.rot", "no pointer\n")
    repo.commit("as they are")
    repo.write(".gitattributes", "*.dos text eol=crlf\n*.rot filter=rot\n")
    repo.commit("attributes")
    assert repo.text("status", "--porcelain") == ""
    repo.append("changed.dos", "three\r\n")
    repo.append("staged.dos", "three\r\n")
    repo.add("staged.dos")


@SCENARIOS.add(wrecks=("work-elsewhere", "remove-everything", "swap-types"))
def _checked_out_in_another_form(repo: Repo) -> None:
    """The same, where the file is not the blob's bytes either."""
    _rested(repo, "mixed.dos", "one\r\ntwo\n")
    _rested(repo, "quo'te.dos", "one\ntwo\r\n")
    _rested(repo, "id.c", "/* $Id: by hand $ */\n")
    _rested(repo, "zzz.slow", "slow\n")
    repo.commit("as they are")
    repo.write(".gitattributes", "*.dos text eol=crlf\n*.c ident\n*.slow filter=slow\n")
    repo.commit("attributes")
    repo.config("filter.slow.smudge", f"sleep {STEP}.1; cat")  # so that the index is younger than the other files
    for name in ("mixed.dos", "quo'te.dos", "id.c", "zzz.slow"):
        repo.remove(name)
    repo.git("checkout", "-q", "--", "mixed.dos", "quo'te.dos", "id.c", "zzz.slow")
    repo.config("filter.slow.smudge", "cat")
    assert repo.read("mixed.dos") == b"one\r\ntwo\r\n"
    assert repo.text("status", "--porcelain") == ""


@SCENARIOS.add()
def _unmodified_under_rules_of_then(repo: Repo) -> None:
    """What git calls unmodified, and neither a checkout would give any more nor `add` would store."""
    repo.write(".gitattributes", "*.dos text eol=crlf\n")
    _rested(repo, "dos.dos", "one\r\ntwo\r\n")
    _rested(repo, "other.dos", "three\r\nfour\r\n")
    repo.commit("dos")
    repo.write(".gitattributes", "*.dos -text\n")
    assert repo.text("status", "--porcelain", "dos.dos", "other.dos") == ""


@SCENARIOS.add()
def _split_index_of_much_that_is_converted(repo: Repo) -> None:
    """So much that git would begin a new shared index, which lies in the git directory."""
    repo.config("core.splitIndex", "true")
    repo.write(".gitattributes", "*.dos text eol=crlf\n")
    repo.commit("attributes")
    for number in range(20):
        repo.write(f"{number}.dos", f"{number}\r\n")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


@pytest.mark.parametrize(
    "build", [_simple_filter, lambda repo: _pointers(repo, long_running=True)], ids=["rot", "process"]
)
def test_the_checkpoint_holds_what_git_add_would_store(repo: Repo, build: object) -> None:
    """A tree of the raw bytes would be another commit to git: filters must have run."""
    assert callable(build)
    build(repo)
    repo.write("changed.rot", "again\n")
    repo.write("changed.big", b"again" * 100)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("add", "-u")
    expected = repo.text("write-tree")
    assert repo.oid(f"{taken['id']}^{{tree}}") == expected


@pytest.mark.parametrize("gone", ["from the index", "from the worktree"])
def test_file_changed_during_restore_is_not_called_unmodified(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """A file that `add` would store in another form than it is committed in; somebody edits it at the last moment."""
    _rested(repo, "a.dos", "one\r\n")
    repo.commit("as it is")
    repo.write(".gitattributes", "*.dos text eol=crlf\n")
    repo.commit("attributes")
    taken = IN_PROCESS.checkpoint(repo.path)
    if gone == "from the index":
        repo.git("rm", "-q", "--cached", "a.dos")
    else:
        repo.remove("a.dos")
    before = complete_state(repo.path)
    refresh = index.refresh

    def edited_then_refreshed(*args: object) -> None:
        found = os.stat(repo.at("a.dos"))
        repo.write("a.dos", "two\r\n")
        os.utime(repo.at("a.dos"), ns=(found.st_atime_ns, found.st_mtime_ns))
        refresh(*args)  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(index, "refresh", edited_then_refreshed)
    with pytest.raises(RestoreError, match="changed while"):
        IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "a restore that failed")


def test_bytes_that_a_lossy_filter_hides_are_not_destroyed(repo: Repo) -> None:
    """Git calls `app.env` unmodified, for `clean` drops the secret. A restore that overwrites it must save it first."""
    repo.config("filter.drop.clean", "sed -e s/SECRET=.*/SECRET=/")
    repo.config("filter.drop.smudge", "cat")
    repo.write(".gitattributes", "*.env filter=drop\n")
    repo.write("app.env", "A=1\nSECRET=\n")
    repo.commit("lossy")
    repo.write("app.env", "A=2\nSECRET=\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.commit("A is two")
    repo.write("app.env", "A=3\nSECRET=\n")
    repo.commit("A is three")
    repo.write("app.env", "A=3\nSECRET=precious\n")
    repo.git("add", "app.env")
    wrecked = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("app.env") == b"A=2\nSECRET=\n"
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_files_that_come_in_another_form_are_named(repo: Repo) -> None:
    """The blob is the same, the attributes are not: a dry run names them too."""
    repo.write(".gitattributes", "*.crlf text eol=crlf\n")
    repo.write("a.crlf", "one\r\n")
    repo.commit("crlf")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(".gitattributes", "*.crlf text eol=lf\n")
    repo.write("a.crlf", "one\n")
    repo.commit("lf")
    dry = IN_PROCESS.restore(repo.path, taken["id"], dry_run=True)["changed"]
    assert dry == IN_PROCESS.restore(repo.path, taken["id"])["changed"] == [".gitattributes", "a.crlf"]
    assert repo.read("a.crlf") == b"one\r\n"


def test_a_file_is_shown_as_it_was_whatever_attributes_say_today(repo: Repo) -> None:
    repo.write(".gitattributes", "*.crlf text eol=crlf\n")
    repo.write("a.crlf", "one\r\n")
    repo.commit("crlf")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.git("rm", "-q", ".gitattributes")
    assert run(repo.path, "checkpoint", "cat", f"{taken['id']}:a.crlf").out == b"one\r\n"
    repo.write(".gitattributes", "*.crlf text eol=lf\n")
    assert run(repo.path, "checkpoint", "cat", f"{taken['id']}:a.crlf").out == b"one\r\n"


def test_a_diff_leaves_no_objects(repo: Repo) -> None:
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("large.bin", os.urandom(20 << 20))
    repo.append("readme.txt", "dirty\n")
    objects = sorted((repo.git_dir / "objects").rglob("*"))
    done = run(repo.path, "--json", "checkpoint", "diff", taken["id"])
    assert [each["path"] for each in done.json["files"]] == ["large.bin", "readme.txt"], str(done)
    assert sorted((repo.git_dir / "objects").rglob("*")) == objects


def _blobs(repo: Repo) -> set[bytes]:
    rows = repo.git("cat-file", "--batch-check=%(objectname) %(objecttype)", "--batch-all-objects").splitlines()
    return {oid for oid, _, kind in (row.partition(b" ") for row in rows) if kind == b"blob"}


@pytest.mark.parametrize("words", [["checkpoint", "diff"], ["restore", "--dry-run"]])
def test_looking_at_converted_files_leaves_no_objects(repo: Repo, words: list[str]) -> None:
    repo.write(".gitattributes", "*.crlf text eol=crlf\n")
    repo.write("a.crlf", "one\r\n")
    repo.commit("converted")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("a.crlf", "one\r\ntwo\r\n")
    repo.write("new.crlf", "not\r\nin one form\n")
    objects = sorted((repo.git_dir / "objects").rglob("*"))
    done = run(repo.path, "--json", *words, taken["id"])
    assert done.code == 0, str(done)
    assert b"a.crlf" in done.out, str(done)
    assert sorted((repo.git_dir / "objects").rglob("*")) == objects


def test_a_converted_file_is_stored_once(repo: Repo) -> None:
    """Its own bytes are stored as well only where no checkout gives them."""
    repo.write(".gitattributes", "*.crlf text eol=crlf\n")
    repo.commit("rules")
    repo.write("new.crlf", "one\r\ntwo\r\n")
    repo.write("mixed.crlf", "one\r\nthree\n")
    stored = _blobs(repo)
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    contents = {repo.git("cat-file", "blob", oid) for oid in _blobs(repo) - stored}
    assert contents >= {b"one\ntwo\n", b"one\nthree\n", b"one\r\nthree\n"}
    assert b"one\r\ntwo\r\n" not in contents
    repo.remove("new.crlf", "mixed.crlf")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


def test_an_attributes_file_of_the_worktree_comes_from_the_checkpoint(repo: Repo) -> None:
    """core.attributesFile may name a file of the worktree. Then: CRLF by it. Now it is gone."""
    repo.config("core.attributesFile", "rules/attributes")
    repo.write("rules/attributes", "*.crlf text eol=crlf\n")
    repo.write("a.crlf", "one\r\ntwo\r\n")
    repo.commit("by a file of our own")
    repo.write("a.crlf", "one\r\ntwo\r\nthree\r\n")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("rules")
    repo.write("a.crlf", "other\n")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


def test_undo_to_attributes_that_git_cannot_apply_to_the_files(repo: Repo) -> None:
    """No file has a byte order mark: `git add` refuses each of them, and they come back all the same."""
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n")
    repo.git("rm", "-q", "--cached", "notes.txt")
    before = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    IN_PROCESS.undo(repo.path)
    assert_same(before, complete_state(repo.path), "undo")


def test_a_failing_required_filter_is_an_error_that_changes_nothing(repo: Repo) -> None:
    _simple_filter(repo)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("changed.rot", "changed\n")
    os.utime(repo.git_dir / "index", (2, 2))  # no entry is older than the index: git looks into every file
    before = complete_state(repo.path, strict=True)
    for words in (["checkpoint"], ["restore", str(taken["id"])]):
        repo.config("filter.rot.clean", "false")
        assert_is_error(run(repo.path, *words), 1)
        repo.config("filter.rot.clean", _ROT13)
        assert_unchanged(before, complete_state(repo.path, strict=True), f"a failed {words[0]} changed something")


def test_a_failing_required_filter_is_none_where_git_needs_not_look(repo: Repo) -> None:
    """The stat data tell what is modified, and of that the file's own bytes are saved."""
    _simple_filter(repo)
    for name in ("kept.rot", "changed.rot"):
        os.utime(repo.at(name), (1_700_000_000, 1_700_000_000))
    repo.git("add", "--renormalize", "-A")
    repo.git("update-index", "--refresh")
    repo.write("changed.rot", "changed\n")
    repo.config("filter.rot.clean", "false")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.config("filter.rot.clean", _ROT13)
    before = complete_state(repo.path)
    repo.git("reset", "-q", "--hard")
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")
