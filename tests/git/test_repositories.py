"""Places that are no repository, or none that the tool can serve."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import UnsupportedRepository
from git_agentos.git import repository_format
from git_agentos.git.hash_algorithm import of_oid
from git_agentos.git.location import Location, locate
from git_agentos.git.repository import Repository
from tests.support import git_version, ref_storage
from tests.support.git_version import before_git
from tests.support.refusal import assert_refused
from tests.support.repo import Repo, fill, git
from tests.support.tool import IN_PROCESS, run, run_ok

COMMANDS = pytest.mark.parametrize(
    "words",
    [["checkpoint"], ["checkpoint", "list"], ["restore", "latest"], ["undo"], ["status"], ["recover"]],
    ids=" ".join,
)


@COMMANDS
def test_not_a_repository(words: list[str], tmp_path: Path) -> None:
    assert_refused(tmp_path, *words, mentions="repository")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert_refused(tmp_path, "-C", "no/such/folder", "checkpoint", mentions="no/such/folder")


@COMMANDS
def test_a_bare_repository(words: list[str], tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    assert_refused(tmp_path / "bare.git", *words, mentions="bare")


def test_inside_the_git_dir(repo: Repo) -> None:
    assert_refused(repo.path / ".git", "checkpoint", keeps=repo.path)


def test_two_object_formats(repo: Repo) -> None:
    """git would look for the second id of every object, and has none of those that are written past it."""
    repo.git("config", "extensions.compatObjectFormat", repo.other_object_format())
    for words in (["checkpoint"], ["status"], ["restore", "latest"]):
        error = assert_refused(repo.path, *words, mentions="extensions.compatObjectFormat")
        assert error["kind"] == "unsupported-repository"
        assert "second id" in error["message"]


@before_git(2, 45)
@COMMANDS
def test_reftable(words: list[str], repo: Repo) -> None:
    """This git may be too old to know it; the error names the feature all the same."""
    repo.config("core.repositoryFormatVersion", "1")
    repo.config("extensions.refStorage", "reftable")
    before = (repo.path / ".git/config").read_bytes()
    assert_refused(repo.path, *words, mentions="reftable")
    assert (repo.path / ".git/config").read_bytes() == before


def test_reftable_of_a_git_that_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git opens it and so it is our own error: in the format version 0 this git passes over the extension."""
    ref_storage.use_oldest(monkeypatch)
    repo = fill(Repo.init(tmp_path / "repo"))
    repo.git("config", "extensions.refStorage", "reftable")
    for words in (
        ["checkpoint"],
        ["doctor"],
        ["log", "list"],
        ["worktree", "list"],
        ["run", "list"],
        ["guard", "status"],
    ):
        error = assert_refused(repo.path, *words, mentions="reftable")
        assert error["kind"] == "unsupported-repository"
        assert "libgit2" not in f"{error['message']} {error['hint']}"
    with pytest.raises(UnsupportedRepository, match="reftable"):
        open_workspace(repo.path)
    assert not (repo.path / ".agentos").exists()
    config = ("config", "--file", ".git/config")
    repo.git(*config, "extensions.refStorage", "files")
    if git_version.HERE >= (2, 45):  # it opens no repository of version 0 with the extension
        repo.git(*config, "core.repositoryFormatVersion", "1")
    assert run(repo.path, "checkpoint").code == 0


def test_extensions_that_change_nothing_for_us(repo: Repo) -> None:
    """Those that this git does not know are added when git is not asked any more."""
    taken = run_ok(repo.path, "checkpoint")["id"]
    repo.config("core.repositoryFormatVersion", "1")
    for name in ("preciousObjects", "worktreeConfig", "noop"):
        repo.config(f"extensions.{name}", "true")
    assert run_ok(repo.path, "checkpoint", "show", taken)["id"] == taken
    git_dir = str(repo.git_dir)
    with (repo.git_dir / "config").open("a") as file:
        file.write("[extensions] relativeWorktrees = true ; a comment\n\tsubmodulePathConfig\n\trefStorage = files\n")
        file.write(
            '[Extensions]\n # future = 1\n; future=1\n\tobjectFormat="' + of_oid(taken).name.upper() + '" # no = 1\n'
        )
        file.write('[extensions "]"] future = 1\n[remote "[extensions]"]\n\tfuture = 1\n')
    location = Location.read(str(repo.path), git_dir, git_dir)
    assert location.format == repository_format.RepositoryFormat(of_oid(taken), "files", names_refs=True)
    assert Repository(location).commit(taken).oid == taken


def test_an_extension_that_only_git_knows(repo: Repo) -> None:
    """What libgit2 says of it is no help: the error names the extension."""
    location = locate(str(repo.path))
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.ofTheFuture", "true")
    with pytest.raises(UnsupportedRepository, match=r"extensions\.ofthefuture, which git-agentos does not support"):
        Repository(location)
    git(repo.path.parent, "config", "-f", str(repo.path / ".git/config"), "--unset", "extensions.ofTheFuture")
    git(repo.path.parent, "config", "-f", str(repo.path / ".git/config"), "core.repositoryFormatVersion", "7")
    with pytest.raises(UnsupportedRepository, match="cannot be opened"):
        Repository(location)


@pytest.mark.parametrize(
    ("damage", "mentions"),
    [
        ("rm -r .git/objects", "missing or damaged"),
        ("rm .git/HEAD", "missing or damaged"),
        ("echo '[core' >> .git/config", "bad config line"),
        ("git config core.fileMode maybe", "core.filemode"),
        ("git config core.repositoryFormatVersion 7", "newer git"),
    ],
)
def test_a_repository_that_git_cannot_open(repo: Repo, damage: str, mentions: str) -> None:
    subprocess.run(["sh", "-c", damage], cwd=repo.path, check=True)
    error = assert_refused(repo.path, "checkpoint", mentions=mentions)
    assert error["hint"] is not None


def test_an_unknown_extension(repo: Repo) -> None:
    repo.config("core.repositoryFormatVersion", "1")
    repo.config("extensions.ofTheFuture", "true")
    assert_refused(repo.path, "checkpoint", mentions="ofthefuture")


@COMMANDS
def test_safe_directory(words: list[str], repo: Repo) -> None:
    """Git refuses a repository of somebody else's, and so do we, with git's way out as the hint."""
    env = None
    if os.geteuid() == 0:
        for path in (repo.path, repo.path / ".git"):
            os.chown(path, 65534, 65534)
    else:
        env = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    error = assert_refused(repo.path, *words, mentions="safe.directory", env=env)
    assert "safe.directory" in (error["hint"] or "") + error["message"]


def test_safe_directory_that_the_user_allowed(repo: Repo, home: Path) -> None:
    """`safe.directory` in the user's configuration opens it for git, and must for us: libgit2 has its own check."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a repository to somebody else")
    for path in (repo.path, repo.path / ".git"):
        os.chown(path, 65534, 65534)
    config = repo.scratch / "gitconfig"
    config.write_bytes((home / ".gitconfig").read_bytes() + f"[safe]\n\tdirectory = {repo.path}\n".encode())
    repo.write("readme.txt", "dirty\n")
    env = {"GIT_CONFIG_GLOBAL": str(config)}
    done = run(repo.path, "checkpoint", env=env)
    assert done.code == 0, str(done)
    repo.write("readme.txt", "wrecked\n")
    assert run(repo.path, "restore", "latest", env=env).code == 0
    assert repo.read("readme.txt") == b"dirty\n"


def test_a_broken_index(repo: Repo) -> None:
    taken = IN_PROCESS.checkpoint(repo.path)
    (repo.path / ".git/index").write_bytes(b"DIRC this is no index at all")
    refs = repo.git("for-each-ref")
    for words in (["checkpoint"], ["restore", taken["id"]], ["status"]):
        assert_refused(repo.path, *words, mentions="index")
    assert repo.git("for-each-ref") == refs
    assert (repo.path / ".git/index").read_bytes() == b"DIRC this is no index at all"


def test_a_broken_head(repo: Repo) -> None:
    (repo.path / ".git/HEAD").write_text("nonsense\n")
    assert_refused(repo.path, "checkpoint")


def test_a_branch_that_points_nowhere(repo: Repo) -> None:
    """A branch with the id of a commit that does not exist: not an unborn branch."""
    ref_storage.point_nowhere(repo, "refs/heads/main")
    assert_refused(repo.path, "checkpoint")


def test_a_broken_gitmodules(repo: Repo) -> None:
    """Git itself refuses to work with it; the error says which file."""
    repo.write(".gitmodules", "this is [no configuration\n")
    done = run(repo.path, "checkpoint")
    if done.code != 0:
        assert_refused(repo.path, "checkpoint", mentions=".gitmodules")


@pytest.mark.parametrize("value", ["lots", "-1", "1x"])
def test_a_configuration_value_that_makes_no_sense(repo: Repo, value: str) -> None:
    """Never a guess: a limit that cannot be read is not no limit."""
    repo.config("agentos.maxFileSize", value)
    assert_refused(repo.path, "checkpoint", mentions="agentos.maxFileSize", keeps=repo.path)
