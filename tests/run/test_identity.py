"""Name and mail of the user go along into a run, however they are configured; nothing else of that does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.errors import ConfigurationError
from git_agentos.run import evidence_store
from tests.support.repo import Repo
from tests.support.runs import context_of, start, worktree

COMMIT = "echo work >>work.txt && git add work.txt && git commit --quiet -m work"
SHOW = "%an <%ae>, %cn <%ce>"
CONFIG = """\
[user]
	name = Ada
	email = ada@example.com
[commit]
	gpgSign = true
[gpg]
	program = false
[alias]
	mine = !true
"""
# A home without configuration; then who commits is only in these variables.
CONFIGURED: dict[str, dict[str, str]] = {
    "a file": {"GIT_CONFIG_GLOBAL": "{file}"},
    "a file of the system": {"GIT_CONFIG_SYSTEM": "{file}", "GIT_CONFIG_GLOBAL": "/dev/null"},
    "variables": {
        "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ada",
        "GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "ada@example.com",
    },
    "git -c": {"GIT_CONFIG_PARAMETERS": "'user.name'='Ada' 'user.email'='ada@example.com'"},
    "the author's variables": {
        "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com",
        "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com",
    },
}  # fmt: skip


@pytest.fixture
def bare_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which git is not configured."""
    home = tmp_path / "bare home"
    home.mkdir()
    for name in [each for each in os.environ if each.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    return home


def configure(monkeypatch: pytest.MonkeyPatch, home: Path, how: str) -> None:
    file = home / "elsewhere.gitconfig"
    file.write_text(CONFIG)
    if "GIT_CONFIG_SYSTEM" in CONFIGURED[how]:
        monkeypatch.delenv("GIT_CONFIG_NOSYSTEM")
    for name, value in CONFIGURED[how].items():
        monkeypatch.setenv(name, value.format(file=file))


@pytest.mark.parametrize("how", CONFIGURED)
def test_an_agent_commits_as_the_user(repo: Repo, bare_home: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    configure(monkeypatch, bare_home, how)
    run = start(repo, COMMIT, validate=[COMMIT], run_id="r")
    inside = worktree(run)
    assert (run.state, run.reason) == ("passed", None)
    who = "Ada <ada@example.com>, Ada <ada@example.com>"
    assert inside.text("log", "-2", f"--format={SHOW}").splitlines() == [who, who]


def test_run_gets_only_name_and_mail_of_the_user(repo: Repo, bare_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, bare_home, "a file")
    run = start(repo, "git config --list --name-only >>seen; env >>seen", run_id="r")
    seen = worktree(run).read("seen").decode()
    assert not any(word in seen for word in ("gpg", "alias.mine", "elsewhere"))
    assert "user.name" in seen


def test_identity_of_repository_or_agent_wins(repo: Repo, bare_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, bare_home, "a file")
    repo.config("user.name", "The Project")
    own = f"{COMMIT} && git -c user.name=Bot -c user.email=bot@example.com commit --quiet --allow-empty -m own"
    inside = worktree(start(repo, own, run_id="r"))
    assert inside.text("log", "-2", "--format=%an <%ae>").splitlines() == [
        "Bot <bot@example.com>",
        "The Project <ada@example.com>",
    ]


def test_home_with_an_identity_needs_no_variables(repo: Repo, bare_home: Path) -> None:
    (bare_home / ".gitconfig").write_text("[user]\n\tname = Home\n\temail = home@example.com\n")
    inside = worktree(start(repo, f"env >seen; {COMMIT}", run_id="r"))
    assert inside.text("log", "-1", "--format=%an <%ae>") == "Home <home@example.com>"
    assert "GIT_CONFIG" not in inside.read("seen").decode()


def test_run_without_a_configured_identity(repo: Repo, bare_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_home / ".gitconfig").write_text("[user]\n\tname = Home\n\tuseConfigOnly = true\n")
    before = sorted(os.listdir(repo.path)), repo.text("for-each-ref")
    with pytest.raises(ConfigurationError, match="git does not know who commits here: no email was given") as caught:
        start(repo, COMMIT, run_id="r")
    assert caught.value.hint is not None and "user.email" in caught.value.hint
    assert (sorted(os.listdir(repo.path)), repo.text("for-each-ref")) == before
    assert evidence_store.ids(context_of(repo).location) == []
    repo.config("user.email", "here@example.com")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "no date at all")
    assert start(repo, COMMIT, run_id="r").state == "passed"
