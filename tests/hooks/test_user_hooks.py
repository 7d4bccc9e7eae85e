"""The user's own hooks, which ours stand in front of: which they are, what they are given, and what they decide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.confirming import set_up
from tests.support.guard.guarded_worktree import guarded, location, notes_of, scripts_dir, sh, unguarded, without_files
from tests.support.repo import Repo

_NOTES = """#!/bin/sh
{
	printf '%s:' "${0##*/}"
	printf ' [%s]' "$@"
	printf ' in %s as %s' "$PWD" "$0"
	[ -z "$GIT_INDEX_FILE" ] || printf ' index %s' "${GIT_INDEX_FILE##*/}"
	printf '\\n'
	case ${0##*/} in reference-transaction | pre-push | post-rewrite) cat ;; esac
} >>"$NOTES"
"""


def hook(folder: Path, name: str, text: str = _NOTES, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "notes"
    path.touch()
    monkeypatch.setenv("NOTES", str(path))
    return path


def own(repo: Repo) -> Path:
    return Path(location(repo).common_dir) / "hooks"


def test_users_hook_gets_what_git_gives_it(repo: Repo, notes: Path) -> None:
    """The same commands with the guard and without it: the hooks are told the same."""
    names = [
        "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "pre-rebase", "post-rewrite",
        "pre-merge-commit", "post-merge", "pre-push", "reference-transaction", "applypatch-msg", "pre-applypatch",
        "post-applypatch", "pre-auto-gc",
    ]  # fmt: skip
    for name in names:
        hook(own(repo), name)
    set_up(repo, "agentos.policy.merge", "allow")
    for operation in ("rebase", "commit-amend", "push", "am", "branch-rename"):
        set_up(repo, f"agentos.policy.{operation}", "allow")
    plain, agent = unguarded(repo), guarded(repo)
    told = []
    for each in (plain, agent):
        texts = (
            "echo more >>notes.txt && git add notes.txt && git commit -q -m one",
            "echo more >>notes.txt && git commit -q -a -m two",
            "echo more >>notes.txt && git commit -q -m three notes.txt",
            "git commit -q --amend -m four",
            "git checkout -q -b side HEAD~2 && echo side >side.txt && git add . && git commit -q -m side",
            "git checkout -q - && git merge -q -m merge side",
            "git rebase -q --force-rebase HEAD~1",
            "git format-patch -q --stdout HEAD~1 >../patch && git checkout -q --detach HEAD~1 && git am -q ../patch",
            "git push -q . HEAD:refs/heads/pushed",
            "git branch -q -m pushed renamed && git fetch -q . main:refs/remotes/x/main",
        )
        told.append(notes_of(each, notes, texts))
        each.git(
            "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "checkout", "-q", f"agent/{each.path.name}"
        )
        for branch in ("side", "renamed"):
            each.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "branch", "-q", "-D", branch)
        each.git(
            "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "update-ref", "-d", "refs/remotes/x/main"
        )
    assert _comparable(told[0]) == _comparable(told[1])
    for name in names[:-1]:
        assert f"{name}:" in told[1], name


def _comparable(text: str) -> list[str]:
    """Without what is another's each time: the name of a temporary index."""
    found = []
    for line in text.splitlines():
        head, _, index = line.partition(" index ")
        found.append(head + (" index next" if index.startswith("next-index") else f" index {index}" if index else ""))
    return found


@pytest.mark.parametrize("where", ["default", "relative", "absolute", "home", "global", "worktree"])
def test_wherever_the_users_hooks_are(
    repo: Repo, notes: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "global":
        # Not in the file that the other tests have as well.
        mine = tmp_path / "gitconfig"
        mine.write_bytes(Path(os.environ["GIT_CONFIG_GLOBAL"]).read_bytes())
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    repo.write("tools/hooks/pre-commit", _NOTES, 0o755)
    repo.commit("hooks of the project")
    folders = {
        "default": (own(repo), []),
        "relative": (None, ["--local", "core.hooksPath", "tools/hooks"]),
        "absolute": (tmp_path / "abs", ["--local", "core.hooksPath", str(tmp_path / "abs")]),
        "home": (Path.home() / "h" / tmp_path.name, ["--local", "core.hooksPath", f"~/h/{tmp_path.name}"]),
        "global": (tmp_path / "glob", ["--global", "core.hooksPath", str(tmp_path / "glob")]),
        "worktree": (tmp_path / "own", []),
    }
    folder, setting = folders[where]
    if folder is not None:
        hook(folder, "pre-commit")
    if setting:
        repo.git("config", *setting)
    if where == "worktree":
        from tests.support.agents import agent_worktree as made_plain

        repo.git("config", "extensions.worktreeConfig", "true")
        agent = made_plain(repo, "dev")
        agent.git("config", "--worktree", "core.hooksPath", str(tmp_path / "own"))
        from git_agentos.guard.setup import activation

        activation.enable(location(agent))
    else:
        agent = guarded(repo)
    assert agent.text("config", "core.hooksPath") == str(scripts_dir(agent))
    sh(agent, "git commit -q --allow-empty -m one")
    shown = notes.read_text()
    assert shown.startswith("pre-commit:")
    assert f" in {agent.path} as " in shown
    # An exit code of the user's stops, and is kept.
    target = agent.path / "tools/hooks" if folder is None else folder
    hook(target, "pre-commit", "#!/bin/sh\necho no >&2\nexit 7\n")
    done = sh(agent, "git commit -q --allow-empty -m two")
    assert done.code != 0
    assert done.err.rstrip().endswith("no")
    (target / "pre-commit").chmod(0o644)
    assert sh(agent, "git commit -q --allow-empty -m three").code == 0


def test_hooks_that_come_later(repo: Repo, notes: Path, tmp_path: Path) -> None:
    agent = guarded(repo)
    agent.git("commit", "-q", "--allow-empty", "-m", "none")
    assert notes.read_text() == ""
    hook(own(repo), "commit-msg")
    agent.git("commit", "-q", "--allow-empty", "-m", "default")
    assert notes.read_text().count("commit-msg:") == 1
    hook(tmp_path / "husky", "commit-msg")
    repo.git("config", "core.hooksPath", str(tmp_path / "husky"))
    agent.git("commit", "-q", "--allow-empty", "-m", "set later")
    assert notes.read_text().count(str(tmp_path / "husky")) == 1
    repo.git("config", "--unset", "core.hooksPath")
    agent.git("commit", "-q", "--allow-empty", "-m", "and unset")
    assert notes.read_text().count(str(tmp_path / "husky")) == 1
    assert notes.read_text().count("commit-msg:") == 3


def test_exit_codes_and_vetoes_are_the_users(repo: Repo) -> None:
    agent = guarded(repo)
    hook(own(repo), "reference-transaction", '#!/bin/sh\n[ "$1" != prepared ] || ! grep -q refs/heads/no\n')
    assert sh(agent, "git branch yes").code == 0
    assert sh(agent, "git branch no").code != 0
    hook(own(repo), "commit-msg", '#!/bin/sh\necho "Signed-off-by: me" >>"$1"\n')
    agent.git("commit", "-q", "--allow-empty", "-m", "signed")
    assert agent.text("log", "-1", "--format=%B").endswith("Signed-off-by: me")
    set_up(repo, "agentos.policy.push", "allow")
    hook(own(repo), "pre-push", '#!/bin/sh\nread -r a b c d && test "$c" = refs/heads/fine\n')
    assert sh(agent, "git push -q . HEAD:refs/heads/fine").code == 0
    assert sh(agent, "git push -q . HEAD:refs/heads/other-name").code != 0
    assert sh(agent, "git push -q . HEAD:refs/heads/fine").code == 1  # nothing to push: nothing on stdin


def test_guard_decides_before_the_users_hook_runs(repo: Repo, notes: Path) -> None:
    agent = guarded(repo)
    without_files(agent)
    hook(own(repo), "pre-push")
    hook(own(repo), "reference-transaction")
    assert sh(agent, "git push -q --force . HEAD:main").code != 0
    assert sh(agent, "git branch -D other").code != 0
    assert "pre-push" not in notes.read_text()
    assert "[prepared]" not in notes.read_text()


def test_other_worktrees_run_their_own_hooks(repo: Repo, notes: Path) -> None:
    agent = guarded(repo)
    hook(own(repo), "post-commit")
    repo.git("commit", "-q", "--allow-empty", "-m", "by a person")
    assert (
        notes.read_text().count(f"in {repo.path} as {own(repo)}")
        + notes.read_text().count(f"in {repo.path} as .git/hooks")
        == 1
    )
    agent.git("commit", "-q", "--allow-empty", "-m", "by an agent")
    assert notes.read_text().count(f"in {agent.path} as {own(repo)}") == 1


def test_missing_python_still_runs_the_users_hooks(repo: Repo, notes: Path, tmp_path: Path) -> None:
    hook(tmp_path / "mine", "commit-msg")
    agent = guarded(repo)
    hook(own(repo), "post-checkout")
    script = scripts_dir(agent) / "guard.sh"
    script.write_text(script.read_text().replace("\nagentos() {\n", "\nagentos() {\n\treturn 127\n"))
    os.unlink(os.path.join(location(agent).git_dir, "agentos", "id"))
    agent.git("checkout", "-q", "-b", "one")
    repo.git("config", "core.hooksPath", str(tmp_path / "mine"))
    agent.git("commit", "-q", "--allow-empty", "-m", "two")
    assert [line.split(":")[0] for line in notes.read_text().splitlines()] == ["post-checkout", "commit-msg"]
