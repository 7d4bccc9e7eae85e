"""Ready for work: `.worktreeinclude`, `agentos.setup`, submodules."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import ConfigurationError, WorktreeError
from git_agentos.worktree import creation, record, user_command
from tests.support.repo import ZERO, Repo, filled
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run, run_ok


def make(repo: Repo, id_: str = "dev", *, guard: bool = True) -> Repo:
    made = creation.create(open_workspace(repo.path).context, id_, guard=guard)
    return Repo(Path(str(made.path)))


def kept(repo: Repo, id_: str = "dev") -> record.Record:
    return record.find(str(repo.git_dir), id_).record


# -- .worktreeinclude --------------------------------------------------------------------------------------------------


@pytest.fixture
def ignoring(repo: Repo) -> Repo:
    """A repository with ignored files of many kinds."""
    repo.write(
        ".gitignore", ".env*\nsecret/\ncache/\n*.key\n.agentos-like\nnot-here\nsrc/local/\nodd*\n:(top)*\n\\[a]*\n"
    )
    repo.write(
        ".worktreeinclude",
        "# what an agent needs\n.env*\n!.env.production\nsecret/\n*.txt\n"
        "src/local/\nodd*\n:(top)*\n\\[a]*\nreadme.txt\n",
    )
    repo.commit("rules")
    repo.write(".env", "A=1\n", 0o600)
    repo.write(".env.production", "not for agents\n")
    repo.write("src/.env.local", "deep\n")
    repo.write("secret/inner/token", "t\n", 0o640)
    repo.write("cache/large", "not asked for\n")
    repo.write(":(top).envs", "not magic\n")
    repo.write("[a].env*", "not a pattern\n")
    repo.write("untracked.txt", "matches, and is not ignored\n")
    repo.write("src/local/x.py", "x\n", 0o755)
    repo.link("secret/link", "../.env")
    repo.link("secret/dangling", "/nowhere/at/all")
    repo.write(b"odd\xff\n name", "odd\n")
    os.utime(repo.at(".env"), ns=(1_500_000_000_123_456_789, 1_500_000_000_123_456_789))
    return repo


COPIED = sorted(
    [
        ":(top).envs", "[a].env*", ".env", "src/.env.local", "secret/inner/token", "src/local/x.py", "secret/link",
        "secret/dangling", os.fsdecode(b"odd\xff\n name"),
    ]
)  # fmt: skip


def test_requested_ignored_files_are_copied(ignoring: Repo) -> None:
    there = make(ignoring)
    assert sorted(kept(ignoring).copied) == COPIED
    for path in COPIED:
        old, new = os.lstat(ignoring.at(os.fsencode(path))), os.lstat(there.at(os.fsencode(path)))
        assert (old.st_mode, old.st_mtime_ns) == (new.st_mode, new.st_mtime_ns), path
        assert old.st_ino != new.st_ino
    assert there.read(".env") == b"A=1\n"
    assert os.readlink(there.at("secret/dangling")) == b"/nowhere/at/all"
    for path in (".env.production", "cache", "untracked.txt"):
        assert not there.exists(path)
    assert there.git("status", "--porcelain") == b""


def test_files_are_copied_from_the_current_worktree(ignoring: Repo) -> None:
    first = make(ignoring, "first")
    first.write(".env", "A=2\n")
    second = Repo(Path(creation.create(open_workspace(first.path / "src").context, "second").path or ""))
    assert second.read(".env") == b"A=2\n"


def test_committed_files_are_not_overwritten(ignoring: Repo) -> None:
    """In the base a copied file is tracked, a folder on the way is a link or a file."""
    ignoring.git("checkout", "-q", "-b", "base")
    ignoring.remove("secret", "src/local")
    (ignoring.scratch / "inner").mkdir()
    ignoring.link("secret", str(ignoring.scratch))
    ignoring.write("src/local", "a file\n")
    ignoring.write(".env", "tracked\n")
    ignoring.git("add", "-f", ".env", "secret", "src/local")
    ignoring.git("commit", "-q", "-m", "other shapes")
    ignoring.git("checkout", "-q", "main")
    ignoring.write(".env", "A=1\n")
    ignoring.write("secret/inner/token", "t\n")
    ignoring.write("src/local/x.py", "x\n")
    made = creation.create(open_workspace(ignoring.path).context, "dev", from_ref="base")
    there = Repo(Path(str(made.path)))
    assert there.read(".env") == b"tracked\n"
    assert [path.name for path in ignoring.scratch.rglob("*")] == ["inner"]
    assert there.git("status", "--porcelain", "--untracked-files=no") == b""
    assert sorted(kept(ignoring).copied) == sorted(
        [":(top).envs", "[a].env*", "src/.env.local", os.fsdecode(b"odd\xff\n name")]
    )


def test_git_and_state_folders_are_never_copied(repo: Repo) -> None:
    repo.write(".gitignore", "*\n")
    repo.write(".worktreeinclude", "*\n")
    repo.git("add", "-f", ".gitignore", ".worktreeinclude")
    repo.git("commit", "-q", "-m", "everything")
    repo.write(".agentos/mine", "mine\n")
    filled(repo.path / "nested")
    os.mkfifo(repo.at("pipe"))
    repo.write("wanted", "x\n")
    make(repo)
    assert kept(repo).copied == ["wanted"]


def test_rules_behind_a_link_are_not_followed(repo: Repo) -> None:
    repo.link(".worktreeinclude", "/etc/passwd")
    before = snapshot(repo)
    with pytest.raises(WorktreeError, match="not a regular file"):
        make(repo)
    assert_nothing_left(before, repo)


def test_a_read_only_folder(repo: Repo) -> None:
    repo.write(".gitignore", "cache/\n")
    repo.write(".worktreeinclude", "cache/\n")
    repo.write("cache/deep/file", "x\n", 0o444)
    repo.chmod("cache/deep", 0o555)
    try:
        there = make(repo)
        assert stat.S_IMODE(os.stat(there.at("cache/deep")).st_mode) == 0o555
        assert stat.S_IMODE(os.stat(there.at("cache/deep/file")).st_mode) == 0o444
        there.chmod("cache/deep", 0o755)
    finally:
        repo.chmod("cache/deep", 0o755)


# -- agentos.setup -----------------------------------------------------------------------------------------------------

SETUP = 'printf "%s %s %s" "$AGENTOS_AGENT_ID" "$AGENTOS_TASK_ID" "$PWD" >made-by-setup; env >environment'


def test_the_command_runs_in_it(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.config("agentos.setup", SETUP)
    monkeypatch.setenv("GIT_DIR", str(repo.git_dir))
    monkeypatch.setenv("GIT_WORK_TREE", str(repo.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.git_dir / "index"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    run_ok(repo.path, "worktree", "create", "dev", "--task", "T-9")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    there = Repo(repo.path.parent / "repo.worktrees/dev")
    assert there.read("made-by-setup").decode() == f"dev T-9 {there.path}"
    names = {line.partition("=")[0] for line in there.read("environment").decode().splitlines()}
    assert not names & {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_LITERAL_PATHSPECS", "GIT_NO_REPLACE_OBJECTS"}
    assert b"LC_ALL=C.UTF-8" in there.read("environment")
    assert kept(repo).setup == SETUP
    # What it made is in the first checkpoint.
    assert "made-by-setup" in open_workspace(there.path).checkpoints()[0].untracked_files


def test_failed_setup_command_undoes_the_creation(repo: Repo) -> None:
    repo.config(
        "agentos.setup",
        "mkdir -p deep/er; echo 1 >deep/er/x; chmod 555 deep/er; git commit -q --allow-empty -m mine; "
        "seq 100; echo 'the end' >&2; exit 3",
    )
    before = snapshot(repo)
    done = run(repo.path, "worktree", "create", "dev")
    assert done.code == 1
    assert b"exited with 3" in done.err
    assert b"the end" in done.err
    assert b" 100\n" in done.err
    assert b" 2\n" not in done.err
    assert_nothing_left(before, repo)
    assert json.loads(run(repo.path, "--json", "worktree", "create", "dev").out)["error"]["kind"] == "worktree"


def test_setup_command_is_read_only_from_user_configuration(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("shared.gitconfig", "[agentos]\n\tsetup = echo hostile >hostile\n")
    repo.commit("hostile")

    def command() -> str | None:
        context = open_workspace(repo.path).context
        return user_command.find(context.location, context.settings.values, "agentos.setup")

    assert command() is None
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "agentos.setup")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "from the command line")
    assert command() == "from the command line"
    monkeypatch.delenv("GIT_CONFIG_COUNT")
    included = home / "included.gitconfig"
    included.write_text("[agentos]\n\tsetup = global\n")
    repo.git("config", "--global", "include.path", str(included))
    try:
        assert command() == "global"
        repo.config("agentos.setup", "local")
        assert command() == "local"
        repo.config("agentos.setup", "")
        assert command() is None
    finally:
        repo.git("config", "--global", "--unset", "include.path")


@pytest.mark.parametrize("place", ["include", "worktree", "include-of-other"])
def test_a_command_from_elsewhere_is_refused(repo: Repo, place: str) -> None:
    repo.write("shared.gitconfig", "[agentos]\n\tsetup = echo hostile >hostile\n")
    repo.commit("hostile")
    if place == "include":
        repo.config("include.path", "../shared.gitconfig")
    elif place == "worktree":
        repo.config("extensions.worktreeConfig", "true")
        repo.git("config", "--worktree", "agentos.setup", "echo hostile >hostile")
    else:
        other = make(repo, "other")
        repo.config("include.path", str(other.path / "shared.gitconfig"))
    before = snapshot(repo)
    with pytest.raises(ConfigurationError, match="not your own configuration"):
        make(repo)
    assert_nothing_left(before, repo)


# -- submodules --------------------------------------------------------------------------------------------------------


@pytest.fixture
def deep(repo: Repo) -> Repo:
    """A repository with a submodule that has one itself, initialised; the origins of both are gone."""
    inner = filled(repo.scratch / "inner")
    outer = filled(repo.scratch / "outer")
    outer.git("submodule", "--quiet", "add", str(inner.path), "parts/inner")
    outer.commit("with a submodule")
    repo.git("submodule", "--quiet", "add", "--name", "a = name", str(outer.path), "sub/mod")
    repo.git("submodule", "--quiet", "add", str(inner.path), "unused")
    repo.git("submodule", "--quiet", "update", "--init", "--recursive")
    repo.commit("with submodules")
    repo.git("submodule", "--quiet", "deinit", "unused")
    for each in (inner, outer):
        each.path.rename(each.path.with_name(each.path.name + "-gone"))
    return repo


def test_submodules_are_initialised_without_the_network(deep: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    # git's default, since 2.38: no submodule from a path.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "user")
    configuration = (deep.git_dir / "config").read_bytes()
    there = make(deep, guard=False)  # which is set up in that file
    for path in ("sub/mod", "sub/mod/parts/inner"):
        assert Repo(there.path / path).oid() == Repo(deep.path / path).oid()
        assert Repo(there.path / path).text("config", "remote.origin.url") == Repo(deep.path / path).text(
            "config", "remote.origin.url"
        )
        assert (there.path / path / "readme.txt").exists()
    assert Repo(there.path / "sub/mod").git("branch", "-r") == Repo(deep.path / "sub/mod").git("branch", "-r")
    assert list((there.path / "unused").iterdir()) == []
    assert there.git("status", "--porcelain") == b""
    assert (deep.git_dir / "config").read_bytes() == configuration
    status = Repo(there.path / "sub/mod").text("submodule", "status")
    assert status.split()[0] == Repo(deep.path / "sub/mod/parts/inner").oid()
    # Of its own: what happens in one is nothing to the other.
    Repo(there.path / "sub/mod").git("checkout", "-q", "-b", "mine")
    assert b"mine" not in Repo(deep.path / "sub/mod").git("branch")


def test_missing_submodule_commit_undoes_the_creation(deep: Repo) -> None:
    deep.git("update-index", "--cacheinfo", "160000," + "1" * len(ZERO) + ",sub/mod")
    deep.git("commit", "-q", "-m", "a commit that nobody has")
    before = snapshot(deep)
    done = run(deep.path, "worktree", "create", "dev")
    assert done.code == 1
    assert b"submodule" in done.err
    assert_nothing_left(before, deep)


def test_a_submodule_that_leads_out_is_left_alone(repo: Repo) -> None:
    outside = filled(repo.scratch / "outside")
    repo.write(
        ".gitmodules",
        '[submodule "x"]\n\tpath = ../repo.scratch/outside\n\turl = ./x\n'
        '[submodule "y"]\n\tpath = link/y\n\turl = ./y\n',
    )
    repo.link("link", str(repo.scratch))
    repo.commit("hostile")
    there = make(repo)
    assert outside.git("status", "--porcelain") == b""
    assert there.git("status", "--porcelain") == b""
