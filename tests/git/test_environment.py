"""What git sets for hooks, aliases and the other programs that it starts: the worktree is the one that a shell in the
same folder is in, or there is a clear error. Nothing is recorded, made or restored in another place."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import RepositoryError
from git_agentos.git.location import Location, locate
from tests.support.repo import Repo, filled, git
from tests.support.tool import run, run_ok

AGENTOS = f"{shlex.quote(sys.executable)} -m git_agentos"
OPENED = f"{shlex.quote(sys.executable)} -c 'import git_agentos as g; print(g.open_workspace().root)'"
# A program that opens the workspace in the top folder and in two below it.
PROBE = """
import os
from git_agentos import open_workspace
with open({log!r}, "w") as log:
    for folder in ("", "src", "src/deep"):
        os.chdir(os.path.join({root!r}, folder))
        print(open_workspace().root, file=log)
"""
NAMED = pytest.mark.parametrize("which", ["main", "dev"])


@dataclass(frozen=True)
class Site:
    """A repository with files in folders and uncommitted changes; `linked` is its worktree `dev`."""

    main: Repo
    linked: Repo

    def __getitem__(self, which: str) -> Repo:
        return self.main if which == "main" else self.linked

    def hook(self, name: str, script: str) -> Path:
        """Make `script` the repository's hook; what it prints goes to the file that is returned."""
        log = self.main.scratch / f"{name}.log"
        path = self.main.path / ".git/hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec >{shlex.quote(str(log))} 2>&1\n{script}\necho exit $?\n")
        path.chmod(0o755)
        return log

    def places(self) -> set[Path]:
        """The folders in which the tool has made its own."""
        return {path.parent for path in self.main.path.parent.rglob(".agentos")}


@pytest.fixture
def site(repo: Repo) -> Site:
    repo.write("src/deep/m.py", "m = 1\n")
    repo.write("top.txt", "top\n")
    repo.commit("folders")
    linked = Repo(repo.scratch / "dev")
    repo.git("worktree", "add", "-q", "-b", "dev", str(linked.path))
    for each in (repo, linked):
        each.write("src/deep/m.py", "m = 2\n")
        each.write("src/new.py", "new\n")
    return Site(repo, linked)


def shown(where: Repo, id_: str = "latest") -> dict[str, Any]:
    """What a checkpoint says about the state that it recorded."""
    document = run_ok(where.path, "checkpoint", "show", id_)
    names = ("worktree_path", "branch", "commit", "staged_changes", "unstaged_changes", "untracked_files", "skipped")
    return {name: document[name] for name in names}


# -- the defect that was met -----------------------------------------------------------------------------------------


@NAMED
@pytest.mark.parametrize("folder", ["src", "src/deep"])
def test_a_checkpoint_in_a_hook_after_cd(site: Site, which: str, folder: str) -> None:
    """The whole round: what is recorded, what a restore in a hook brings back, and where the tool's folder is."""
    where = site[which]
    run_ok(where.path, "checkpoint", "-m", "from a shell")
    expected = shown(where)
    log = site.hook("pre-commit", f"cd {folder} && {AGENTOS} -q checkpoint -m 'from a hook'")
    where.git("commit", "--allow-empty", "-q", "-m", "with a hook")
    saved, done = log.read_text().split("\n", 1)
    assert done == "exit 0\n"
    assert shown(where, saved) == expected

    where.write("src/deep/m.py", "lost\n")
    log = site.hook("post-checkout", f"cd {folder} && {AGENTOS} restore --no-branch {saved}")
    where.git("checkout", "-q", "--detach")
    assert log.read_text().endswith("exit 0\n"), log.read_text()
    assert (where.path / "src/deep/m.py").read_text() == "m = 2\n"
    assert not (where.path / folder / "src").exists()
    assert site.places() <= {site.main.path, site.linked.path}


# -- each way in which git starts a program ----------------------------------------------------------------------------

# The words of the git command; PROBE is a program that goes to the folder and opens the workspace there.
WAYS = {
    "alias": ["-c", "alias.x=!PROBE", "x"],
    "alias behind -C": ["-C", "src", "-c", "alias.x=!PROBE", "x"],
    "editor": ["-c", "core.editor=PROBE", "commit", "--amend"],
    "rebase --exec": ["-c", "rebase.autoStash=true", "rebase", "--exec", "PROBE", "HEAD~1"],
    "filter": ["-c", "filter.f.clean=PROBE", "hash-object", "--path", "f.filtered", "top.txt"],
    "fsmonitor": ["-c", "core.fsmonitor=PROBE", "status"],
    "external diff": ["-c", "diff.external=PROBE", "diff"],
    "difftool": ["difftool", "-y", "-x", "PROBE"],
    "explicit": ["--git-dir=GITDIR", "--work-tree=.", "-c", "alias.x=!PROBE", "x"],
    "credential": ["-c", "credential.helper=!PROBE", "credential", "fill"],
}


@NAMED
@pytest.mark.parametrize("way", WAYS)
def test_programs_started_by_git_find_the_worktree(site: Site, which: str, way: str) -> None:
    """The folder below the top, and the top itself, lead to the worktree."""
    where = site[which]
    site.main.write(".git/info/attributes", "*.filtered filter=f\n")
    log = site.main.scratch / "log"
    probe = site.main.scratch / "probe"
    probe.write_text(f"#!{sys.executable}\n{PROBE.format(root=str(where.path), log=str(log))}")
    probe.chmod(0o755)
    words = [word.replace("PROBE", str(probe)).replace("GITDIR", str(where.git_dir)) for word in WAYS[way]]
    env = {name: value for name, value in os.environ.items() if name != "GIT_EDITOR"}
    asked = b"url=https://x\n\n"
    subprocess.run(["git", *words], cwd=where.path, env=env, input=asked, capture_output=True, check=False)
    assert log.read_text() == f"{where.path}\n" * 3


def test_a_submodule(site: Site) -> None:
    """`submodule foreach` sets GIT_DIR=.git; a hook of the submodule has another git directory than its `.git`."""
    above = filled(site.main.scratch / "above")
    above.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(site.main.path), "sub")
    above.commit("sub")
    sub = above.path / "sub"
    out = above.text("submodule", "--quiet", "foreach", f"{OPENED}; cd src/deep && {OPENED}")
    assert out.splitlines() == [str(sub)] * 2
    assert git(sub, "-c", f"alias.x=!cd src && {OPENED}", "x").decode() == f"{sub}\n"
    # The hook of the one above, in the submodule: two worktrees are meant.
    done = subprocess.run(
        ["git", "-c", f"alias.x=!GIT_DIR={above.path}/.git; export GIT_DIR; cd sub && {AGENTOS} checkpoint", "x"],
        cwd=above.path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"GIT_DIR names the worktree '{above.path}', but".encode() in done.stderr
    assert not (sub / ".agentos").exists()


# -- the index of a commit that is being made ------------------------------------------------------------------------


@NAMED
@pytest.mark.parametrize("words", [["-a"], ["src/deep/m.py"], []], ids=["-a", "path", "plain"])
def test_a_checkpoint_before_a_commit_has_the_index_of_the_worktree(site: Site, which: str, words: list[str]) -> None:
    """git commits from an index of its own (GIT_INDEX_FILE): the worktree's is what comes back if the commit fails."""
    where = site[which]
    where.write("staged.txt", "staged\n")
    where.git("add", "staged.txt")
    run_ok(where.path, "checkpoint", "-m", "from a shell")
    expected = shown(where)
    log = site.hook("pre-commit", f"cd src && {AGENTOS} -q checkpoint -m 'from a hook'; false")
    where.git("commit", "-q", "-m", "in a hook", *words)
    saved, done = log.read_text().split("\n", 1)
    assert (done, shown(where, saved)) == ("exit 1\n", expected)


# -- variables, however they were set --------------------------------------------------------------------------------


def located(path: Path, **given: str | Path) -> Location:
    return locate(str(path), environment={**os.environ, **{name: str(value) for name, value in given.items()}})


def refused(path: Path, mentions: str, **given: str | Path) -> None:
    with pytest.raises(RepositoryError, match=mentions) as caught:
        located(path, **given)
    assert caught.value.hint is not None


@NAMED
def test_variables_that_lead_to_the_worktree_of_the_folder(site: Site, which: str) -> None:
    where = site[which]
    expected = located(where.path)
    src = where.path / "src"
    environments: list[Mapping[str, str | Path]] = [
        {"GIT_DIR": where.git_dir},
        {"GIT_DIR": where.git_dir, "GIT_WORK_TREE": "."},
        {"GIT_DIR": where.git_dir, "GIT_WORK_TREE": ".."},
        {"GIT_DIR": where.git_dir, "GIT_WORK_TREE": where.path},
        {"GIT_DIR": os.path.relpath(where.git_dir, src)},
        {"GIT_DIR": os.path.relpath(where.git_dir, where.path)},
        {"GIT_DIR": where.git_dir, "GIT_WORK_TREE": src},
        {"GIT_WORK_TREE": "."},
        {"GIT_WORK_TREE": where.path},
        {"GIT_COMMON_DIR": site.main.git_dir},
        {"GIT_INDEX_FILE": "other"},
        {"GIT_NAMESPACE": "n", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_PREFIX": "src/", "GIT_DIR": where.git_dir},
    ]
    for given in environments:
        assert located(src, **given) == expected, given


@NAMED
def test_from_a_folder_outside_the_record_tells_the_root(site: Site, which: str) -> None:
    where = site[which]
    outside = site.main.path.parent
    expected = located(where.path)
    assert located(outside, GIT_DIR=where.git_dir) == expected
    assert located(outside, GIT_DIR=where.git_dir, GIT_WORK_TREE=where.path) == expected
    assert located(where.git_dir, GIT_DIR=where.git_dir) == expected


@NAMED
def test_environment_contradicting_the_record_is_refused(site: Site, which: str) -> None:
    where = site[which]
    other = filled(site.main.scratch / "other")
    rival = site["dev" if which == "main" else "main"]
    outside = site.main.path.parent
    refused(other.path, "GIT_DIR names the worktree", GIT_DIR=where.git_dir)
    refused(rival.path, "GIT_DIR names the worktree", GIT_DIR=where.git_dir)
    refused(other.path, "GIT_DIR names the worktree", GIT_DIR=where.git_dir, GIT_WORK_TREE=where.path)
    refused(where.path, "GIT_WORK_TREE names", GIT_WORK_TREE=outside)
    refused(outside, "GIT_WORK_TREE names", GIT_DIR=where.git_dir, GIT_WORK_TREE=".")
    refused(where.path, "GIT_COMMON_DIR names", GIT_COMMON_DIR=other.git_dir)
    refused(where.path, "GIT_DIR names 'no.git'", GIT_DIR="no.git")
    refused(where.path / "src", "GIT_DIR names '.'", GIT_DIR=".")


def test_core_worktree_is_a_record(site: Site) -> None:
    elsewhere = site.main.scratch / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    site.main.config("core.worktree", str(elsewhere))
    assert located(elsewhere / "deep", GIT_DIR=site.main.git_dir).root == str(elsewhere)
    assert located(site.main.path.parent, GIT_DIR=site.main.git_dir).root == str(elsewhere)
    refused(elsewhere, "GIT_WORK_TREE names", GIT_DIR=site.main.git_dir, GIT_WORK_TREE=site.main.path)


def test_a_git_directory_without_a_record(site: Site) -> None:
    """Files of the home folder in a repository beside it: the working tree has to be named."""
    outside = site.main.path.parent / "home"
    (outside / "deep").mkdir(parents=True)
    dots = site.main.scratch / "dots.git"
    git(site.main.path, "clone", "-q", "--bare", ".", str(dots))
    assert located(outside / "deep", GIT_DIR=dots, GIT_WORK_TREE=outside).root == str(outside)
    refused(outside, "bare", GIT_DIR=dots)
    git(dots, "config", "core.bare", "false")
    refused(outside, "is not known to be its working tree", GIT_DIR=dots)
    assert located(outside, GIT_DIR=dots, GIT_WORK_TREE=".").root == str(outside)


def test_a_separate_git_directory(site: Site) -> None:
    root = site.main.scratch / "separate"
    git(site.main.path, "init", "-q", f"--separate-git-dir={site.main.scratch / 'store'}", str(root))
    (root / "deep").mkdir()
    assert located(root / "deep", GIT_DIR=site.main.scratch / "store").root == str(root)


def test_a_worktree_of_a_bare_repository_and_one_that_was_moved(site: Site) -> None:
    bare = site.main.scratch / "bare.git"
    git(site.main.path, "clone", "-q", "--bare", ".", str(bare))
    git(bare, "worktree", "add", "-q", "../of-bare", "main")
    root = site.main.scratch / "of-bare"
    entry = bare / "worktrees/of-bare"
    assert located(root / "src", GIT_DIR=entry) == located(root)
    assert located(site.main.path.parent, GIT_DIR=entry) == located(root)
    moved = root.rename(site.main.scratch / "moved")
    assert located(moved / "src", GIT_DIR=entry).root == str(moved)
    refused(site.main.path.parent, "is not where the entry says", GIT_DIR=entry)
    refused(bare, "is not where the entry says", GIT_DIR=entry)
    refused(bare, "bare", GIT_DIR=".")


def test_a_copy_of_a_worktree_is_not_its_original(site: Site) -> None:
    copy = site.main.scratch / "copy"
    shutil.copytree(site.linked.path, copy, symlinks=True)
    for folder in (copy, copy / "src"):
        for given in ({}, {"GIT_DIR": site.linked.git_dir}, {"GIT_DIR": site.linked.git_dir, "GIT_WORK_TREE": "."}):
            refused(folder, "is a copy of the worktree", **given)


# -- hooks of a push ---------------------------------------------------------------------------------------------------


def test_the_hooks_of_a_push(site: Site) -> None:
    """git directory, no working tree, and a quarantine in which no ref may be written: errors that say so."""
    receiver = site.main
    receiver.config("receive.denyCurrentBranch", "ignore")
    logs = {
        "pre-receive": site.hook("pre-receive", f"{AGENTOS} checkpoint; cd .. && {AGENTOS} checkpoint; unset GIT_DIR;"
                                 f" {AGENTOS} checkpoint; {AGENTOS} checkpoint list"),
        "post-receive": site.hook("post-receive", f"cd .. && {AGENTOS} checkpoint; unset GIT_DIR;"
                                  f" {AGENTOS} checkpoint"),
    }  # fmt: skip
    sender = site.main.scratch / "sender"
    git(site.main.scratch, "clone", "-q", str(receiver.path), str(sender))
    git(sender, "commit", "-q", "--allow-empty", "-m", "new")
    git(sender, "push", "-q", "origin", "HEAD:pushed")
    before, after = logs["pre-receive"].read_text(), logs["post-receive"].read_text()
    errors = [line for line in before.splitlines() if line.startswith("error")]
    assert ["quarantine" in line for line in errors] == [True, False, True]
    assert errors[1].startswith("error: GIT_DIR names '.', which is not a git directory")
    assert before.endswith("exit 0\n")  # looking is allowed
    assert after.startswith("error: GIT_DIR names '.', which is not a git directory")
    assert after.endswith("exit 0\n")
    assert len(run_ok(receiver.path, "checkpoint", "list")["checkpoints"]) == 1
    assert site.places() <= {receiver.path}


def test_a_pick_in_a_hook_uses_the_index_of_the_worktree(site: Site) -> None:
    where = site.linked
    where.git("stash", "-q", "-u")
    where.git("switch", "-q", "-c", "side")
    where.write("side.txt", "side\n")
    where.commit("side")
    where.git("switch", "-q", "dev")
    done = run(where.path / "src", "pick", "side", env={"GIT_DIR": str(where.git_dir), "GIT_INDEX_FILE": "no-index"})
    assert done.code == 0, str(done)
    assert where.text("status", "--porcelain", "--untracked-files=no") == ""
    assert not (where.path / "no-index").exists()
