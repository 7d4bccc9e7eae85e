"""Names on a file system that does not tell case or normal form apart, as APFS: every state comes back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import Answer, Cli
from tests.support.filesystems import MakeRepo, checkpoint_from_elsewhere, ok, spelt
from tests.support.repo import Repo
from tests.support.state import index_entries

NFC = "caf\u00e9"
NFD = "cafe\u0301"


def save(cli: Cli) -> None:
    ok(cli("checkpoint"))


@pytest.fixture
def repo(repo_on: MakeRepo) -> Repo:
    repo = repo_on("apfs")
    repo.write("Readme.md", "one\n")
    repo.write("Src/a.py", "a\n")
    repo.write("Src/deep/b.py", "b\n")
    repo.commit("first")
    return repo


def rename(repo: Repo, old: str, new: str) -> None:
    os.rename(repo.at(old), repo.at(new))


def assert_comes_back(repo: Repo, cli: Cli, wreck: object) -> None:
    """What is on disk and in the index comes back after `wreck`, and undo gives back what was there before it."""
    before, status, index = spelt(repo), repo.git("status", "--porcelain"), repo.git("ls-files", "-s")
    save(cli)
    assert callable(wreck)
    wreck()
    wrecked, wrecked_index = spelt(repo), repo.git("ls-files", "-s")
    ok(cli("restore", "latest"))
    assert spelt(repo) == before
    assert (repo.git("status", "--porcelain"), repo.git("ls-files", "-s")) == (status, index)
    ok(cli("undo"))
    after = spelt(repo)
    assert {name.casefold(): data for name, data in after.items()} == {
        name.casefold(): data for name, data in wrecked.items()
    }
    assert repo.git("ls-files", "-s") == wrecked_index


def test_an_untracked_file_renamed_by_case(repo: Repo, cli: Cli) -> None:
    repo.write("Notes", "notes\n")
    assert_comes_back(repo, cli, lambda: rename(repo, "Notes", "notes"))
    assert "notes" in spelt(repo)


def test_an_untracked_file_renamed_by_case_and_changed(repo: Repo, cli: Cli) -> None:
    repo.write("Notes", "notes\n")

    def wreck() -> None:
        rename(repo, "Notes", "notes")
        repo.write("notes", "other notes\n")

    assert_comes_back(repo, cli, wreck)


def test_a_rename_by_case_that_was_reset(repo: Repo, cli: Cli) -> None:
    repo.git("mv", "-f", "Readme.md", "README.md")
    assert_comes_back(repo, cli, lambda: repo.git("reset", "-q", "--hard"))


def test_a_tracked_file_renamed_by_case_since(repo: Repo, cli: Cli) -> None:
    assert_comes_back(repo, cli, lambda: rename(repo, "Readme.md", "README.md"))


def test_a_tracked_file_renamed_by_case_since_and_staged(repo: Repo, cli: Cli) -> None:
    assert_comes_back(repo, cli, lambda: repo.git("mv", "-f", "Readme.md", "README.md"))


def test_a_tracked_folder_renamed_by_case_since(repo: Repo, cli: Cli) -> None:
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("Src/a.o", "ignored\n")
    assert_comes_back(repo, cli, lambda: rename(repo, "Src", "src"))
    assert repo.read("src/a.o") == b"ignored\n"


def test_a_tracked_folder_renamed_by_case_in_a_commit(repo: Repo, cli: Cli) -> None:
    def wreck() -> None:
        repo.git("mv", "-f", "Src", "src.tmp")
        repo.git("mv", "-f", "src.tmp", "src")
        repo.git("commit", "-qm", "renamed")

    assert_comes_back(repo, cli, wreck)


def test_an_untracked_folder_renamed_by_case(repo: Repo, cli: Cli) -> None:
    repo.write("Build/out", "out\n")
    repo.mkdir("Empty")

    def wreck() -> None:
        rename(repo, "Build", "BUILD")
        rename(repo, "Empty", "EMPTY")

    assert_comes_back(repo, cli, wreck)


def test_a_file_that_became_a_folder_of_another_case(repo: Repo, cli: Cli) -> None:
    repo.write("Thing", "thing\n")

    def wreck() -> None:
        repo.remove("Thing")
        repo.write("thing/inside", "inside\n")

    assert_comes_back(repo, cli, wreck)


def test_a_folder_that_became_a_file_of_another_case(repo: Repo, cli: Cli) -> None:
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("Thing/inside", "inside\n")

    def wreck() -> None:
        repo.remove("Thing")
        repo.write("thing", "thing\n")

    assert_comes_back(repo, cli, wreck)


def test_a_file_over_a_folder_with_ignored_files(repo: Repo, cli: Cli) -> None:
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("Thing", "thing\n")
    save(cli)
    repo.remove("Thing")
    repo.write("thing/inside.o", "ignored\n")
    ok(cli("restore", "latest"))
    assert spelt(repo)["Thing"] == b"thing\n"
    ok(cli("undo"))
    assert spelt(repo)["thing/inside.o"] == b"ignored\n"


def test_an_ignored_file_in_the_way_is_saved(repo: Repo, cli: Cli) -> None:
    """It has the name of a file of the checkpoint in another case."""
    repo.write("Notes", "notes\n")
    save(cli)
    repo.remove("Notes")
    repo.write("notes", "ignored\n")
    repo.write(".git/info/exclude", "notes\n")
    ok(cli("restore", "latest"))
    assert spelt(repo)["Notes"] == b"notes\n"
    ok(cli("undo"))
    assert spelt(repo)["notes"] == b"ignored\n"


@pytest.mark.parametrize("tracked", [True, False])
def test_a_name_that_changed_its_normal_form(repo: Repo, cli: Cli, tracked: bool) -> None:
    repo.write(NFC, "coffee\n")
    if tracked:
        repo.commit("coffee")
    assert_comes_back(repo, cli, lambda: rename(repo, NFC, NFD))
    assert spelt(repo).get(NFD) == b"coffee\n"


def _colliding(repo: Repo, first: bytes, second: bytes) -> None:
    """Two entries in HEAD and index that no such file system can have both of."""
    rows = b""
    for name in (first, second):
        oid = repo.git("hash-object", "-w", "--stdin", stdin=b"content of " + name).strip()
        rows += b"100644 " + oid + b"\t" + name + b"\0"
    repo.git("update-index", "-z", "--index-info", stdin=rows)
    repo.git("commit", "-qm", "colliding")


def test_two_entries_that_differ_by_case(repo: Repo, cli: Cli, tmp_path: Path) -> None:
    """A checkpoint from a file system that tells them apart: one is written, the other keeps its index entry and is
    named, and nothing else is lost."""
    elsewhere = _elsewhere(repo, tmp_path, ["File", "file"])
    repo.write("mine", "mine\n")
    done = ok(cli("restore", elsewhere, "--all", "--json"))
    assert [item["path"] for item in done.json["skipped"]] == ["File"]
    assert repo.git("ls-files").split() == [b"File", b"Readme.md", b"Src/a.py", b"Src/deep/b.py", b"file"]
    assert spelt(repo) == {
        "file": b"of file\n", "Readme.md": b"one\n", "Src/a.py": b"a\n", "Src/deep/b.py": b"b\n", "other": b"other\n"
    }  # fmt: skip
    ok(cli("undo"))
    assert spelt(repo)["mine"] == b"mine\n" and "file" not in spelt(repo)


def test_a_file_and_a_folder_that_differ_by_case(repo: Repo, cli: Cli, tmp_path: Path) -> None:
    elsewhere = _elsewhere(repo, tmp_path, ["File", "file/inside"])
    done = ok(cli("restore", elsewhere, "--all", "--json"))
    assert [item["path"] for item in done.json["skipped"]] == ["File"]
    assert spelt(repo)["file/inside"] == b"of file/inside\n"
    ok(cli("undo"))


def test_two_folders_that_differ_by_case_become_one(repo: Repo, cli: Cli, tmp_path: Path) -> None:
    elsewhere = _elsewhere(repo, tmp_path, ["Dir/one", "dir/two"])
    done = ok(cli("restore", elsewhere, "--all", "--json"))
    assert done.json["skipped"] == []
    assert repo.read("dir/one") == b"of Dir/one\n" and repo.read("Dir/two") == b"of dir/two\n"


def test_a_name_that_is_not_utf8(repo: Repo, cli: Cli, tmp_path: Path) -> None:
    elsewhere = _elsewhere(repo, tmp_path, [b"bad\xff", "fine"])
    done = ok(cli("restore", elsewhere, "--all", "--json"))
    assert [item["path"] for item in done.json["skipped"]] == ["bad\udcff"]
    assert b"bad\\377" in repo.git("ls-files") and spelt(repo)["fine"] == b"of fine\n"
    save(cli)
    repo.write("more", "more\n")
    ok(cli("restore", "latest"))
    assert b"bad\\377" in repo.git("ls-files")


def test_a_name_that_is_not_utf8_and_only_intended(repo: Repo, cli: Cli, tmp_path: Path) -> None:
    def intend(other: Repo) -> None:
        other.write(b"bad\xff", "bad\n")
        other.write("fine", "fine\n")
        other.git("add", "-N", "fine", b"bad\xff")

    done = ok(cli("restore", checkpoint_from_elsewhere(repo, tmp_path, intend), "--all", "--json"))
    assert [item["path"] for item in done.json["skipped"]] == ["bad\udcff"]
    intended = [entry.path for entry in index_entries(repo.path) if entry.flags == ("intent-to-add",)]
    assert intended == [b"bad\xff", b"fine"]
    assert spelt(repo)["fine"] == b"fine\n"
    ok(cli("undo"))
    assert "fine" not in spelt(repo)


def _elsewhere(repo: Repo, tmp_path: Path, names: list[str | bytes]) -> str:
    """A checkpoint, in this repository, of a state with these names and an untracked file `other`."""

    def fill(other: Repo) -> None:
        for name in names:
            other.write(name, b"of " + os.fsencode(name) + b"\n")
        other.git("add", "-A")
        other.git("commit", "-qm", "colliding")
        other.write("other", "other\n")

    return checkpoint_from_elsewhere(repo, tmp_path, fill)


# -- refs ------------------------------------------------------------------------------------------------------------


def refused(done: Answer, *words: str) -> None:
    assert done.code != 0
    assert all(word in done.talk for word in words), done.talk


@pytest.mark.parametrize("packed", [True, False])
def test_a_branch_that_differs_by_case_is_refused(repo: Repo, cli: Cli, packed: bool) -> None:
    repo.git("branch", "Topic")
    repo.git("branch", "folder/one")
    if packed:
        repo.git("pack-refs", "--all")
    save(cli)
    repo.write("more", "more\n")
    before = repo.git("for-each-ref")
    refused(cli("restore", "latest", "--branch", "topic"), "'Topic' exists already", "'topic'", "the same name")
    refused(cli("restore", "latest", "--branch", "Folder/two"), "'folder' exists already", "the same name")
    assert repo.git("for-each-ref") == before and repo.exists("more")
    ok(cli("restore", "latest", "--branch", "another"))


def test_an_agent_that_differs_by_case_is_refused(repo: Repo, cli: Cli) -> None:
    ok(cli("worktree", "create", "dev-1"))
    refused(cli("worktree", "create", "DEV-1"), "agent/dev-1", "the same name")
    ok(cli("worktree", "archive", "dev-1"))
    repo.git("branch", "-q", "-D", "agent/dev-1")
    before = repo.git("for-each-ref")
    # The timeline of the archived agent must not become another's.
    done = cli("worktree", "create", "DEV-1")
    refused(done, "a timeline 'dev-1' exists already", "the same name")
    assert repo.git("for-each-ref") == before
    ok(cli("worktree", "create", "dev-1", "--revive"))


# -- the probe -------------------------------------------------------------------------------------------------------


def _known(repo: Repo) -> dict[str, object]:
    found: dict[str, object] = json.loads((repo.path / ".git/agentos/filesystem.json").read_text())
    return found


def test_the_probe_decides_and_git_only_believes(repo: Repo, cli: Cli) -> None:
    """A repository that was copied from a machine with another file system has another core.ignoreCase."""
    repo.config("core.ignoreCase", "false")
    repo.write("Notes", "notes\n")
    assert_comes_back(repo, cli, lambda: rename(repo, "Notes", "notes"))
    assert_comes_back(repo, cli, lambda: rename(repo, "Readme.md", "README.md"))
    assert _known(repo)["names"] == [True, True, True]


def test_the_probe_is_repeated_on_another_device(repo: Repo, cli: Cli) -> None:
    from git_agentos.git import filesystem
    from git_agentos.git.location import locate

    location = locate(str(repo.path))
    record = repo.path / ".git/agentos/filesystem.json"
    assert filesystem.names(location) == (True, True, True)
    kept = record.read_bytes()
    wrong = {**_known(repo), "names": [False, False, False]}
    record.write_text(json.dumps(wrong))
    assert filesystem.names(location) == (False, False, False)  # it is not probed each time
    record.write_text(json.dumps({**wrong, "device": 1}))
    assert filesystem.names(location) == (True, True, True)
    assert record.read_bytes() == kept
    record.write_text("{")
    assert filesystem.names(location) == (True, True, True)


def test_names_of_a_worktree_on_another_device(
    repo: Repo, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The git directory's file system tells names apart, that of the worktree does not, and the other way round."""
    from git_agentos.git import filesystem
    from git_agentos.git.location import locate

    plain = Repo.init(tmp_path / "plain")
    plain.write("Readme.md", "one\n")
    plain.commit("first")
    linked = Repo(repo.path.parent / "linked")
    plain.git("worktree", "add", "-q", str(linked.path))
    assert filesystem.names(locate(str(linked.path))) == (True, True, True)
    assert filesystem.names_of_refs(locate(str(linked.path))) == (False, False, False)
    assert linked.git("status", "--porcelain") == b""
    monkeypatch.chdir(linked.path)
    linked.write("Notes", "notes\n")
    save(cli)
    rename(linked, "Notes", "notes")
    rename(linked, "Readme.md", "README.md")
    ok(cli("restore", "latest"))
    assert linked.git("ls-files", "--others") == b"Notes\n"
    assert sorted(os.listdir(linked.path)) == [".git", "Notes", "Readme.md"]
