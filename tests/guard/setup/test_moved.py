"""The guard after the repository, its worktrees or the tool were moved or copied: it acts again, or says that it does
not."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.git.location import Location
from git_agentos.guard.diagnosis import checks, probe
from git_agentos.guard.setup import activation, launcher, repository_hooks, scripts
from git_agentos.worktree import creation, repair
from tests.support.guard.guarded_worktree import location, sh, sign_placed
from tests.support.repo import Repo, git
from tests.support.tool import run, run_ok

_STATUS_CODES = ("guard-moved", "guard-tampered", "guard-program")


def make(repo: Repo, *ids: str) -> list[Repo]:
    """Guarded worktrees, made by the tool; what is committed is checked out in each."""
    context = open_workspace(repo.path).context
    return [Repo(Path(str(creation.create(context, id_).path))) for id_ in ids]


def mend(repo: Repo) -> None:
    found = repair.repair(open_workspace(repo.path).context).findings
    assert [each for each in found if not each.fixed] == []
    assert repair.examine(open_workspace(repo.path).context) == []


def assert_guarded(agent: Repo) -> None:
    """git starts the guard in this worktree, and a destructive command does not happen."""
    here = location(agent)
    assert probe.config_problems(here, os.environ) == (None, None)
    assert probe.fsmonitor_problem(here, os.environ) is None
    agent.write("notes.txt", "not committed\n")
    done = sh(agent, "git reset --hard")
    assert done.code != 0
    assert "stopped 'git reset --hard'" in done.err
    assert "cannot run" not in done.err
    assert agent.read("notes.txt") == b"not committed\n"
    tip = agent.text("rev-parse", "HEAD")
    assert sh(agent, "git update-ref -d refs/heads/main").code != 0
    assert agent.text("rev-parse", "main") == tip


def configurations(common_dir: Path) -> dict[str, bytes]:
    """Every configuration file of a repository, by its path in it."""
    found = [
        common_dir / "config",
        *common_dir.glob("config.worktree"),
        *common_dir.glob("worktrees/*/config.worktree"),
    ]
    return {str(path.relative_to(common_dir)): path.read_bytes() for path in found}


def move_both(repo: Repo, to: Path) -> Repo:
    to.mkdir()
    for path in (repo.path, repo.path.parent / f"{repo.path.name}.worktrees"):
        os.rename(path, to / path.name)
    return Repo(to / repo.path.name)


def copy_and_delete(repo: Repo, to: Path) -> Repo:
    """As `mv` does to another file system: every file is a new one."""
    to.mkdir()
    for path in (repo.path, repo.path.parent / f"{repo.path.name}.worktrees"):
        shutil.copytree(path, to / path.name, symlinks=True)
        shutil.rmtree(path)
    return Repo(to / repo.path.name)


def move_main_alone(repo: Repo, to: Path) -> Repo:
    os.rename(repo.path, to)
    return Repo(to)


def move_and_let_git_repair(repo: Repo, to: Path) -> Repo:
    moved = move_both(repo, to)
    folders = sorted(str(path) for path in (to / f"{repo.path.name}.worktrees").iterdir())
    moved.git("worktree", "repair", *folders)
    return moved


@pytest.mark.parametrize("move", [move_both, copy_and_delete, move_main_alone, move_and_let_git_repair])
def test_a_moved_repository_is_guarded_again(repo: Repo, tmp_path: Path, move: Callable[[Repo, Path], Repo]) -> None:
    before = configurations(repo.git_dir)
    make(repo, "dev-1", "dev-2")
    moved = move(repo, tmp_path / "elsewhere")
    mend(moved)
    names = moved.text("worktree", "list", "--porcelain")
    agents = [Repo(Path(path)) for path in re.findall(r"^worktree (.*/dev-\d)$", names, re.MULTILINE)]
    assert len(agents) == 2
    old = os.fsencode(str(repo.path)) + b"/"
    assert all(old not in content for content in configurations(moved.git_dir).values())
    for agent in agents:
        assert_guarded(agent)
        activation.disable(location(agent))
    assert configurations(moved.git_dir) == before


def test_a_creation_after_a_move_guards_the_others_too(repo: Repo, tmp_path: Path) -> None:
    make(repo, "dev-1")
    moved = move_both(repo, tmp_path / "elsewhere")
    (made,) = make(moved, "dev-2")
    agent = Repo(made.path.parent / "dev-1")
    moved.git("worktree", "repair", str(agent.path))
    for each in (agent, made):
        assert_guarded(each)


def test_hooks_for_everybody_after_a_move(repo: Repo, tmp_path: Path) -> None:
    before = configurations(repo.git_dir)
    make(repo, "dev-1")
    repository_hooks.install(location(repo), save=True)
    moved = move_both(repo, tmp_path / "elsewhere")
    assert probe.config_problems(location(moved), os.environ)[1] is not None
    mend(moved)
    assert probe.config_problems(location(moved), os.environ)[1] is None
    assert probe.config_problems(location(moved), os.environ)[0] is None
    assert probe.fsmonitor_problem(location(moved), os.environ) is None
    assert repository_hooks.saves(location(moved))
    activation.disable(location(Repo(tmp_path / "elsewhere" / f"{repo.path.name}.worktrees" / "dev-1")))
    repository_hooks.uninstall(location(moved))
    assert configurations(moved.git_dir) == before


def test_a_moved_bare_repository(make_repo: Callable[[str], Repo], tmp_path: Path) -> None:
    source = make_repo("source")
    (tmp_path / "one").mkdir()
    bare = tmp_path / "one" / "project.git"
    git(tmp_path, "clone", "-q", "--bare", str(source.path), str(bare))
    before = configurations(bare)
    git(bare, "worktree", "add", "-q", "-b", "work", str(tmp_path / "one" / "work"))
    make(Repo(tmp_path / "one" / "work"), "dev-1")
    os.rename(tmp_path / "one", tmp_path / "two")
    git(tmp_path / "two" / "project.git", "worktree", "repair", str(tmp_path / "two" / "work"))
    mend(Repo(tmp_path / "two" / "work"))
    names = git(tmp_path / "two" / "project.git", "worktree", "list", "--porcelain").decode()
    (path,) = re.findall(r"^worktree (.*dev-1)$", names, re.MULTILINE)
    assert path.startswith(str(tmp_path / "two"))
    assert_guarded(Repo(Path(path)))
    activation.disable(location(Repo(Path(path))))
    assert configurations(tmp_path / "two" / "project.git") == before


def test_a_copy_leaves_the_original_alone(repo: Repo, tmp_path: Path) -> None:
    """`cp -a` of both: each is guarded by its own, and taking the copy's guard away changes nothing in the
    original."""
    (original,) = make(repo, "dev-1")
    activation.enable(location(repo))
    repository_hooks.install(location(repo), save=False)
    copied = tmp_path / "copy"
    copied.mkdir()
    for path in (repo.path, original.path.parent):
        shutil.copytree(path, copied / path.name, symlinks=True)
    before = {path: path.read_bytes() for path in _files(repo)}
    main, agent = Repo(copied / repo.path.name), Repo(copied / original.path.parent.name / "dev-1")
    refused = run(agent.path, "checkpoint")
    assert refused.code == 1
    assert b"is a copy of the worktree" in refused.err
    mend(main)
    assert location(agent).common_dir == str(main.git_dir)
    assert location(original).common_dir == str(repo.git_dir)
    assert_guarded(agent)
    for each in (agent, main):
        activation.disable(location(each))
    repository_hooks.uninstall(location(main))
    assert {path: path.read_bytes() for path in _files(repo)} == before
    assert_guarded(original)


def _files(repo: Repo) -> list[Path]:
    """What must not change in the original; objects and indexes are git's."""
    paths = [path for path in repo.git_dir.rglob("*") if path.is_file() and "objects" not in path.parts]
    paths += (repo.path.parent / f"{repo.path.name}.worktrees").glob("*/.git")
    return [path for path in paths if path.name != "index"]


def test_a_copy_of_the_repository_alone(repo: Repo, tmp_path: Path) -> None:
    """Its entries lead to worktrees that are not its own."""
    (original,) = make(repo, "dev-1")
    copy = Repo(tmp_path / "copy")
    shutil.copytree(repo.path, copy.path, symlinks=True)
    before = (original.path / ".git").read_bytes(), original.read("notes.txt")
    assert run(copy.path, "worktree", "repair").code == 1
    assert run(copy.path, "guard", "enable", "dev-1").code == 1
    assert run(copy.path, "worktree", "remove", "dev-1").code == 1
    assert ((original.path / ".git").read_bytes(), original.read("notes.txt")) == before
    assert_guarded(original)


# -- what git cannot start ---------------------------------------------------------------------------------------------


def remove_script(here: Location) -> None:
    os.unlink(scripts.fsmonitor(here.common_dir))


def take_bit(here: Location) -> None:
    os.chmod(scripts.fsmonitor(here.common_dir), 0o644)


def take_hook(here: Location) -> None:
    os.unlink(os.path.join(scripts.hooks_dir(here.common_dir), "reference-transaction"))


def put_folder(here: Location) -> None:
    remove_script(here)
    os.mkdir(scripts.fsmonitor(here.common_dir))


def remove_all(here: Location) -> None:
    shutil.rmtree(scripts.hooks_dir(here.common_dir))


def change_interpreter(here: Location) -> None:
    script = Path(scripts.fsmonitor(here.common_dir))
    script.write_bytes(script.read_bytes().replace(b"#!/bin/sh", b"#!/gone/sh", 1))


def point_elsewhere(here: Location) -> None:
    git(Path(here.root), "-c", "core.fsmonitor=", "config", "--worktree", "core.fsmonitor", "/gone/fsmonitor")


@pytest.mark.parametrize(
    "damage", [remove_script, take_bit, take_hook, put_folder, remove_all, change_interpreter, point_elsewhere]
)
def test_unstartable_script_is_noticed_and_repaired(repo: Repo, damage: Callable[[Location], None]) -> None:
    (agent,) = make(repo, "dev-1")
    here = location(agent)
    damage(here)
    reasons = probe.config_problems(here, os.environ)
    assert reasons != (None, None)
    found = checks.problems(here, os.environ)
    assert found, reasons
    assert {each.code for each in found} <= set(_STATUS_CODES)
    fixed = {each.code for each in repair.repair(open_workspace(repo.path).context).findings if each.fixed}
    assert fixed == {each.code for each in found}
    assert_guarded(agent)


def test_status_says_what_does_not_act(repo: Repo, tmp_path: Path) -> None:
    """The scripts work where they are tried; git does not start them here."""
    make(repo, "dev-1")
    moved = move_both(repo, tmp_path / "elsewhere")
    agent = Repo(tmp_path / "elsewhere" / f"{repo.path.name}.worktrees" / "dev-1")
    moved.git("worktree", "repair", str(agent.path))
    said = run_ok(agent.path, "guard", "status")
    assert [(each["name"], each["acts"]) for each in said["layers"]][:2] == [("fsmonitor", False), ("hook", False)]
    assert str(repo.path) in said["layers"][0]["reason"]
    assert "guard-moved" in [each["code"] for each in said["findings"]]
    assert run_ok(agent.path, "worktree", "show", "dev-1")["guard"] == "broken"
    assert b"the guard does not act" in run(moved.path, "worktree", "list").err
    assert run(moved.path, "doctor").code == 1
    assert run(moved.path, "doctor", "--fix").code == 0
    assert run_ok(moved.path, "worktree", "show", "dev-1")["guard"] == "on"
    assert_guarded(agent)


def test_the_python_of_the_hooks_is_gone(repo: Repo, tmp_path: Path) -> None:
    """The tool was moved, uninstalled, or installed anew into another environment."""
    (agent,) = make(repo, "dev-1")
    script = Path(scripts.hooks_dir(location(agent).common_dir)) / "guard.sh"
    text = script.read_text()
    python, _ = launcher.hook_launcher()
    script.write_text(text.replace(python, str(tmp_path / "gone" / "python")))
    sign_placed(location(agent).common_dir)  # as an earlier installation has placed it
    env = {"PATH": "/usr/bin:/bin"}
    reason = probe.program_problem(location(agent).common_dir, env)
    assert reason is not None
    assert str(tmp_path / "gone" / "python") in reason
    mend(repo)
    assert probe.program_problem(location(agent).common_dir, env) is None
    assert_guarded(agent)
