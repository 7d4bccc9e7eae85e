"""`hooks install`, `uninstall`, `status`: our hooks for everybody, the user's own chained, and left as they were."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.git.location import Location, locate
from git_agentos.guard.diagnosis import checks
from git_agentos.guard.setup import activation, repository_hooks, scripts
from tests.support.agents import agent_worktree
from tests.support.json_reference import check_document
from tests.support.repo import Repo, git_run
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run, run_ok


def location(repo: Repo) -> Location:
    return locate(str(repo.path), use_environment=False)


def config(repo: Repo) -> bytes:
    return (Path(location(repo).common_dir) / "config").read_bytes()


def hook(folder: Path, name: str, body: str, *, mode: int = 0o755) -> Path:
    """A hook of the user's that notes how it was called in `calls`, beside the repository."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def triggers(repo: Repo) -> list[str]:
    return [each.trigger for each in reversed(open_workspace(repo.path).checkpoints())]


def codes(repo: Repo) -> list[str]:
    return [each.code for each in checks.hooks_status(location(repo), os.environ).findings]


def test_commits_become_checkpoints_and_uninstall_leaves_nothing(repo: Repo) -> None:
    before, everything = config(repo), snapshot(repo)
    on = run_ok(repo.path, "hooks", "install")
    assert (check_document(on), on["installed"], on["save"]) == ("hooks-status", True, False)
    assert [(each["name"], each["acts"]) for each in on["layers"]] == [("fsmonitor", True), ("hook", True)]
    assert on["hooks_path"] == scripts.hooks_dir(str(repo.git_dir))
    assert run_ok(repo.path, "hooks", "install") == on
    assert config(repo).startswith(before)
    off = run_ok(repo.path, "hooks", "uninstall")
    assert (off["installed"], off["layers"]) == (False, [])
    assert config(repo) == before
    assert_nothing_left(everything, repo)
    run_ok(repo.path, "hooks", "uninstall")
    run_ok(repo.path, "hooks", "install")
    repo.write("new.txt", "new\n")
    repo.commit("a commit")
    assert "after_commit" in triggers(repo)


def test_save_is_for_people(repo: Repo) -> None:
    """What somebody's `reset --hard` takes is in a checkpoint; it is never stopped."""
    run_ok(repo.path, "hooks", "install", "--save")
    assert run_ok(repo.path, "hooks", "status")["save"] is True
    repo.write("notes.txt", "not committed\n")
    done = git_run(repo.path, "reset", "--hard", "-q")
    assert done.returncode == 0, done
    assert repo.read("notes.txt") == b"one\ntwo\nthree\n"
    assert triggers(repo) == ["before_risky"]
    open_workspace(repo.path).restore("latest", no_branch=True)
    assert repo.read("notes.txt") == b"not committed\n"
    run_ok(repo.path, "hooks", "install")  # without --save again
    assert run_ok(repo.path, "hooks", "status")["save"] is False


def test_people_are_not_stopped(repo: Repo) -> None:
    run_ok(repo.path, "hooks", "install")
    repo.write("notes.txt", "not committed\n")
    for words in (["reset", "--hard", "-q"], ["branch", "-D", "other"], ["clean", "-fdq"], ["tag", "-d", "v1"]):
        assert git_run(repo.path, *words).returncode == 0


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("where", ["default", "absolute", "relative", "global", "worktree"])
def test_own_hooks_run_as_before(repo: Repo, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their arguments, stdin, exit codes and own names, from wherever git takes them."""
    calls = repo.path.parent / "calls"
    folder = {"default": repo.git_dir / "hooks", "relative": repo.path / "my hooks"}.get(where, repo.scratch / "hooks")
    hook(
        folder,
        "commit-msg",
        f'echo "commit-msg $# $(cat "$1") $(cd "${{0%/*}}" && pwd)" >>"{calls}"\ngrep -q bad "$1" && exit 7 || exit 0',
    )
    hook(folder, "pre-push", f'echo "pre-push $1 $(wc -l)" >>"{calls}"\n[ ! -e "{calls}.no" ]')
    hook(folder, "post-index-change", f'echo index >>"{calls}"')
    if where == "absolute":
        repo.config("core.hooksPath", str(folder))
    elif where == "relative":
        repo.config("core.hooksPath", "my hooks")
        repo.write(".git/info/exclude", "my hooks\n")
    elif where == "global":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repo.scratch / "global"))
        (repo.scratch / "global").write_text(Path(os.environ["HOME"], ".gitconfig").read_text())
        repo.git("config", "--global", "core.hooksPath", str(folder))
    elif where == "worktree":
        repo.config("extensions.worktreeConfig", "true")
        repo.git("config", "--worktree", "core.hooksPath", str(folder))
    origin = repo.scratch / "origin.git"
    repo.git("init", "-q", "--bare", str(origin))
    repo.git("remote", "add", "origin", str(origin))

    def use() -> list[str]:
        calls.unlink(missing_ok=True)
        calls.with_name("calls.no").unlink(missing_ok=True)
        repo.git("commit", "-q", "--allow-empty", "-m", "good")
        assert git_run(repo.path, "commit", "-q", "--allow-empty", "-m", "bad").returncode != 0
        repo.git("push", "-q", "origin", "main:refs/heads/x", "other:refs/heads/y")
        calls.with_name("calls.no").touch()
        repo.git("commit", "-q", "--allow-empty", "-m", "more")
        assert git_run(repo.path, "push", "-q", "origin", "main:refs/heads/x").returncode != 0
        repo.git("push", "-q", "--no-verify", "origin", "--delete", "x", "y")
        return [line for line in calls.read_text().splitlines() if line != "index"]

    before = use()
    assert len(before) == 5
    saved = config(repo)
    repository_hooks.install(location(repo), save=False)
    found = checks.hooks_status(location(repo), os.environ)
    assert os.path.realpath(found.user_hooks_path) == str(folder)
    assert found.user_hooks == ["commit-msg", "post-index-change", "pre-push"]
    assert found.findings == []
    assert use() == before
    assert "index" in calls.read_text()
    repository_hooks.uninstall(location(repo))
    assert config(repo) == saved
    assert use() == before


def test_hooks_that_come_later_run_too(repo: Repo) -> None:
    repository_hooks.install(location(repo), save=False)
    calls = repo.path.parent / "calls"
    hook(repo.git_dir / "hooks", "post-commit", f"echo default >>{calls}")
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    hook(repo.scratch / "theirs", "post-commit", f"echo theirs >>{calls}")
    # As hook managers do: their own value, while ours is there.
    repo.config("core.hooksPath", str(repo.scratch / "theirs"))
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    assert calls.read_text() == "default\ntheirs\n"
    repository_hooks.uninstall(location(repo))
    assert repo.text("config", "core.hooksPath") == str(repo.scratch / "theirs")
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    assert calls.read_text() == "default\ntheirs\ntheirs\n"


def test_edited_in_between(repo: Repo) -> None:
    before = config(repo)
    repository_hooks.install(location(repo), save=True)
    repo.config("user.email", "new@example.com")
    repo.git("config", "--add", "include.path", "../theirs")  # git puts it into our section
    repository_hooks.uninstall(location(repo))
    assert repo.text("config", "--local", "include.path") == "../theirs"
    repo.git("config", "--unset", "include.path")
    repo.git("config", "--unset", "user.email")
    assert config(repo) == before


def test_beside_guarded_worktrees(repo: Repo) -> None:
    before = config(repo)
    made = agent_worktree(repo, "dev")
    repository_hooks.install(location(repo), save=False)
    activation.enable(location(made))
    repository_hooks.uninstall(location(repo))
    assert activation.tampered(location(made)) == []
    assert checks.guard_status(location(made), os.environ).findings == []
    repository_hooks.install(location(repo), save=False)
    activation.disable(location(made))
    assert checks.hooks_status(location(repo), os.environ).findings == []
    repository_hooks.uninstall(location(repo))
    assert config(repo) == before
    assert not os.path.lexists(scripts.folder(str(repo.git_dir)))


def test_findings_about_hooks(repo: Repo) -> None:
    hook(repo.git_dir / "hooks", "pre-commit", "exit 0")
    dead = hook(repo.scratch / "theirs", "pre-push", "exit 0", mode=0o644)
    assert codes(repo) == []
    repo.config("core.hooksPath", str(dead.parent))
    assert codes(repo) == ["silenced-hooks", "hook-not-executable"]
    repo.config("core.hooksPath", "gone/hooks")
    assert codes(repo) == ["silenced-hooks", "missing-hooks"]
    assert {"silenced-hooks", "missing-hooks"} <= {each.code for each in open_workspace(repo.path).doctor()}
    repo.git("config", "--unset", "core.hooksPath")
    repository_hooks.install(location(repo), save=False)
    assert codes(repo) == []
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "/nowhere"}
    found = checks.hooks_status(location(repo), {**os.environ, **env})
    assert "guard-hooks-path" in [each.code for each in found.findings]


def test_a_python_that_is_gone(repo: Repo) -> None:
    """People's commands go on, and are told once; an agent's that cannot be judged is stopped."""
    repository_hooks.install(location(repo), save=False)
    shared = Path(scripts.hooks_dir(str(repo.git_dir))) / "guard.sh"
    shared.write_bytes(shared.read_bytes().replace(os.fsencode(sys.executable), b"/gone/python"))
    env = {"PATH": "/usr/bin:/bin"}
    told = []
    for _ in range(2):
        done = git_run(repo.path, "commit", "-q", "--allow-empty", "-m", "x", env=env)
        assert done.returncode == 0, done
        told.append(b"git-agentos: warning" in done.stderr)
    assert told == [True, False]
    as_agent = {**env, "AGENTOS_AGENT_ID": "dev"}
    repo.write("notes.txt", "not committed\n")
    assert git_run(repo.path, "branch", "-D", "other", env=as_agent).returncode != 0
    assert git_run(repo.path, "reset", "--hard", env=as_agent).returncode != 0
    assert repo.read("notes.txt") == b"not committed\n"
    assert git_run(repo.path, "status", env=as_agent).returncode == 0


def test_the_program_is_found_by_its_name(repo: Repo) -> None:
    """Where the Python that the scripts know is gone, `git-agentos` on PATH does it."""
    repository_hooks.install(location(repo), save=False)
    shared = Path(scripts.hooks_dir(str(repo.git_dir))) / "guard.sh"
    shared.write_bytes(shared.read_bytes().replace(os.fsencode(sys.executable), b"/gone/python"))
    tools = repo.scratch / "bin"
    tools.mkdir()
    (tools / "git-agentos").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m git_agentos "$@"\n')
    (tools / "git-agentos").chmod(0o755)
    done = git_run(repo.path, "commit", "-q", "--allow-empty", "-m", "x", env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert "after_commit" in triggers(repo)


def test_words_for_people(repo: Repo) -> None:
    hook(repo.git_dir / "hooks", "commit-msg", "exit 0")
    said = run(repo.path, "hooks", "install")
    assert b"Hooks of your own still run: commit-msg" in said.out
    assert run(repo.path, "hooks", "status", "-q").out == b"on\n"
    assert run(repo.path, "hooks", "uninstall", "-q").out == b"off\n"
