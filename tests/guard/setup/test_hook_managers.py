"""Our hooks together with those of pre-commit, lefthook and husky, as these come from their registries."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from git_agentos import open_workspace
from git_agentos.git.location import Location, locate
from git_agentos.guard.diagnosis import checks
from git_agentos.guard.setup import activation, repository_hooks, scripts
from tests.support.agents import agent_worktree
from tests.support.confirming import set_up
from tests.support.repo import Repo, git_run

pytestmark = pytest.mark.slow

_CHECK = "git diff --cached --name-only | grep -q bad && { echo 'the check says no'; exit 1; } || exit 0"
_PRE_COMMIT = """\
repos:
  - repo: local
    hooks:
      - {id: check, name: check, language: system, entry: sh check.sh, pass_filenames: false, always_run: true}
      - {id: message, name: message, language: system, entry: sh message.sh, stages: [commit-msg]}
      - {id: push, name: push, language: system, entry: sh push.sh, stages: [pre-push], always_run: true,
         pass_filenames: false}
"""
_LEFTHOOK = """\
pre-commit: {commands: {check: {run: sh check.sh}}}
commit-msg: {commands: {message: {run: "sh message.sh {1}"}}}
pre-push: {commands: {push: {run: sh push.sh}}}
"""


class Manager(NamedTuple):
    """`set_up` makes the manager run check.sh, message.sh and push.sh of a repository; `env` is how it is found."""

    name: str
    set_up: Callable[[Repo], None]
    env: dict[str, str]


def _run(repo: Repo, env: dict[str, str], *words: str) -> None:
    done = subprocess.run(words, cwd=repo.path, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done


def _of_python(name: str, config: str, text: str, *install_words: str) -> Manager:
    """A manager that PyPI has, installed with the tests."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    if shutil.which(name, path=path) is None:
        pytest.skip(f"{name} is not installed (pip install --group test)")
    env = {"PATH": path, "LEFTHOOK_OUTPUT": "true", "LEFTHOOK": "1"}

    def set_up(repo: Repo) -> None:
        repo.write(config, text)
        repo.git("add", config)
        repo.git("commit", "-q", "--allow-empty", "-m", f"use {name}")
        _run(repo, env, name, "install", *install_words)

    return Manager(name, set_up, env)


@pytest.fixture(scope="session")
def husky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """husky in a folder `node_modules`, from the npm registry, as npm is set up for whoever runs the tests."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"name": "x", "version": "1.0.0", "private": true}')
    settings = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".npmrc")
    env = {**os.environ, **({"NPM_CONFIG_USERCONFIG": settings} if os.access(settings, os.R_OK) else {})}
    words = [npm, "install", "--silent", "--no-audit", "--no-fund", "husky@9"]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"husky could not be installed: {done.stderr.strip()[-200:]}")
    return folder / "node_modules"


@pytest.fixture(params=["pre-commit", "lefthook", "husky"])
def manager(request: pytest.FixtureRequest) -> Manager:
    if request.param == "pre-commit":
        kinds = [f"--hook-type={kind}" for kind in ("pre-commit", "commit-msg", "pre-push")]
        return _of_python("pre-commit", ".pre-commit-config.yaml", _PRE_COMMIT, *kinds)
    if request.param == "lefthook":
        return _of_python("lefthook", "lefthook.yml", _LEFTHOOK)
    modules: Path = request.getfixturevalue("husky")

    def set_up(repo: Repo) -> None:
        for name, line in {"pre-commit": "check.sh", "commit-msg": 'message.sh "$1"', "pre-push": "push.sh"}.items():
            repo.write(f".husky/{name}", f"sh {line}\n")
        repo.git("add", ".husky")
        repo.git("commit", "-q", "--allow-empty", "-m", "use husky")
        _run(repo, {}, "node", str(modules / "husky" / "bin.js"))

    return Manager("husky", set_up, {})


@pytest.fixture
def used(repo: Repo, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository whose checks the manager runs: no file `bad`, no message with `bad` in it, no push while `no` is
    there."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(repo.scratch / "pre-commit"))
    for key, value in manager.env.items():
        monkeypatch.setenv(key, value)
    repo.write("check.sh", _CHECK)
    repo.write("message.sh", 'grep -q bad "$1" && { echo "the message says no"; exit 1; } || exit 0')
    repo.write("push.sh", f"[ -e '{repo.scratch}/no' ] && {{ echo 'the push says no'; exit 1; }} || exit 0")
    repo.commit("the checks")
    manager.set_up(repo)
    repo.git("init", "-q", "--bare", str(repo.scratch / "origin.git"))
    repo.git("remote", "add", "origin", str(repo.scratch / "origin.git"))
    return repo


def assert_checks(repo: Repo, scratch: Path) -> None:
    """The manager's hooks decide about commits and pushes, in this worktree."""

    def attempt(*words: str) -> tuple[bool, str]:
        done = git_run(repo.path, *words)
        return done.returncode == 0, (done.stdout + done.stderr).decode()

    repo.write("good", "good\n")
    repo.add("good")
    assert attempt("commit", "-m", "fine")[0]
    done, said = attempt("commit", "--allow-empty", "-m", "bad")
    assert (done, "the message says no" in said) == (False, True), said
    repo.write("bad", "bad\n")
    repo.add("bad")
    done, said = attempt("commit", "-m", "fine")
    assert (done, "the check says no" in said) == (False, True), said
    repo.git("rm", "-q", "--cached", "bad")
    repo.remove("bad")
    (scratch / "no").touch()
    done, said = attempt("push", "origin", "HEAD:refs/heads/x")
    assert (done, "the push says no" in said) == (False, True), said
    (scratch / "no").unlink()
    assert attempt("push", "origin", "HEAD:refs/heads/x")[0]
    repo.git("rm", "-q", "--cached", "good")
    repo.remove("good")
    repo.git("commit", "-q", "-m", "as before")
    repo.git("-c", "core.hooksPath=/dev/null", "push", "-q", "origin", ":refs/heads/x")


def location(repo: Repo) -> Location:
    return locate(str(repo.path), use_environment=False)


def test_our_hooks_beside_theirs(used: Repo, manager: Manager) -> None:
    assert_checks(used, used.scratch)
    config = used.git_dir / "config"
    before = config.read_bytes()
    theirs = {path: path.read_bytes() for path in (used.git_dir / "hooks").glob("*")}
    repository_hooks.install(location(used), save=True)
    found = checks.hooks_status(location(used), os.environ)
    assert (found.manager, found.findings) == (manager.name, [])
    assert all(each.acts for each in found.layers)
    assert_checks(used, used.scratch)
    assert "after_commit" in [each.trigger for each in open_workspace(used.path).checkpoints()]
    repository_hooks.uninstall(location(used))
    assert config.read_bytes() == before
    assert {path: path.read_bytes() for path in (used.git_dir / "hooks").glob("*")} == theirs
    assert_checks(used, used.scratch)


def test_hook_manager_is_installed_again_over_our_hooks(used: Repo, manager: Manager) -> None:
    """As their `prepare` scripts do at every install of a project's packages."""
    if manager.name == "pre-commit":
        pytest.skip("pre-commit refuses while core.hooksPath is set, whoever set it")
    repository_hooks.install(location(used), save=False)
    for path in (used.git_dir / "hooks").glob("*"):
        path.unlink()
    manager.set_up(used)
    if manager.name == "husky":
        assert used.text("config", "--local", "core.hooksPath") == ".husky/_"
    else:
        # It has replaced ours, which do not act any more, and that is noticed.
        found = checks.hooks_status(location(used), os.environ).findings
        assert {each.code for each in found} == {"guard-tampered", "guard-layer"}
        repository_hooks.install(location(used), save=False)
    assert checks.hooks_status(location(used), os.environ).findings == []
    assert_checks(used, used.scratch)
    assert "after_commit" in [each.trigger for each in open_workspace(used.path).checkpoints()]
    repository_hooks.uninstall(location(used))
    assert not os.path.lexists(scripts.folder(str(used.git_dir)))
    assert_checks(used, used.scratch)


def test_set_up_in_the_place_of_ours_and_not_noticed(used: Repo, manager: Manager) -> None:
    """Nothing of theirs goes with ours."""
    if manager.name != "lefthook":
        pytest.skip("only lefthook puts its hooks in the place of ours")
    for path in (used.git_dir / "hooks").glob("*"):
        path.unlink()
    repository_hooks.install(location(used), save=False)
    manager.set_up(used)
    repository_hooks.uninstall(location(used))
    assert not os.path.lexists(scripts.folder(str(used.git_dir)))
    assert_checks(used, used.scratch)


def test_in_a_guarded_worktree(used: Repo, manager: Manager) -> None:
    """An agent's commits are checked as well, where the manager's hooks reach other worktrees at all."""
    made = agent_worktree(used, "dev")
    set_up(used, "agentos.policy.push", "allow")
    set_up(used, "agentos.policy.push-delete", "allow")
    activation.enable(location(made))
    found = checks.guard_status(location(made), os.environ)
    if manager.name == "husky":
        # Its folder is ignored, and so it is not in other worktrees: none of its hooks runs there, with or without us.
        assert [each.code for each in found.findings] == ["missing-hooks"]
        return
    assert found.findings == []
    assert_checks(made, used.scratch)
