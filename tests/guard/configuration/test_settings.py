"""The guard's settings: where they are taken from, and from where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from git_agentos.errors import ConfigurationError
from git_agentos.guard.configuration import settings
from git_agentos.guard.configuration.settings import GuardSettings, Remote, Rule
from tests.support.confirming import confirm, set_up
from tests.support.repo import Repo, git

KEY = "agentos.policy.reset-hard"


def read(repo: Repo, **environment: str) -> GuardSettings:
    return settings.read(str(repo.path), {**os.environ, **environment})


@pytest.fixture
def linked(repo: Repo) -> Repo:
    """A linked worktree of `repo`."""
    path = repo.scratch / "linked"
    repo.git("worktree", "add", "-q", "-b", "topic", str(path))
    return Repo(path)


def test_defaults(repo: Repo) -> None:
    found = read(repo)
    assert (found.mode, found.everyone, dict(found.policy), found.protected) == ("strict", False, {}, ())
    assert (found.approval_key, found.approval_expiry) == (None, 3600.0)
    automatic = ("beforeRisky", "afterCommit", "beforeMerge", "onTaskComplete", "onPhaseComplete")
    assert all(found.auto_on(name) for name in automatic)
    assert found.values["core.bare"] == ["false"]


def test_all_settings_are_read(repo: Repo) -> None:
    for key, value in (
        ("agentos.guard.mode", "Save"),
        ("agentos.guard.everyone", "yes"),
        (KEY, "allow"),
        ("agentos.policy.commit", "forbid"),
        ("agentos.protected", "main release/*"),
        ("agentos.auto.beforeRisky", "false"),
        ("agentos.approvalKey", "~/key"),
        ("agentos.approvalExpiry", "30m"),
        ("alias.st", "status"),
        ("remote.up.mirror", "true"),
        ("remote.up.push", "+a:b"),
    ):
        repo.config(key, value)
    repo.git("config", "--add", "agentos.protected", "stable, next")
    confirm(repo.path)
    found = read(repo)
    assert (found.mode, found.everyone) == ("save", True)
    assert found.policy == {
        "reset-hard": Rule("allow", KEY),
        "commit": Rule("forbid", "agentos.policy.commit"),
    }
    assert found.protected == ("main", "release/*", "stable", "next")
    assert not found.auto_on("beforeRisky")
    assert found.auto_on("afterCommit")
    assert found.approval_key == os.path.expanduser("~/key")
    assert found.approval_expiry == 1800.0
    assert found.aliases == {"st": "status"}
    assert found.remotes["up"] == Remote(mirror=True, push=("+a:b",))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("1h", 3600), ("2d", 172800), ("2 hours", 7200)]
)
def test_expiry(repo: Repo, text: str, seconds: float) -> None:
    set_up(repo, "agentos.approvalExpiry", text)
    assert read(repo).approval_expiry == seconds


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, "maybe"),
        (KEY, ""),
        ("agentos.guard.mode", "off"),
        ("agentos.guard.everyone", "perhaps"),
        ("agentos.auto.afterCommit", "sometimes"),
        ("agentos.approvalExpiry", "soon"),
        ("agentos.approvalExpiry", "-1"),
    ],
)
def test_invalid_value_is_an_error(repo: Repo, key: str, value: str) -> None:
    repo.config(key, value)
    with pytest.raises(ConfigurationError, match=key.lower()[:12]):
        read(repo)


# -- where from --------------------------------------------------------------------------------------------------------


def test_the_users_and_the_shared_configuration_count(
    linked: Repo, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "gitconfig"
    other.write_text('[agentos "policy"]\n\tclean = allow\n')
    repo.config(KEY, "allow")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(other))
    confirm(repo.path)
    found = read(linked)
    assert found.policy == {
        "clean": Rule("allow", "agentos.policy.clean"),
        "reset-hard": Rule("allow", KEY),
    }


def test_the_last_of_several_values_counts(repo: Repo) -> None:
    repo.config(KEY, "allow")
    repo.git("config", "--add", KEY, "approve")
    confirm(repo.path)
    assert read(repo).policy["reset-hard"].decision == "approve"


def test_a_worktrees_own_configuration_does_not_count(linked: Repo, repo: Repo) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    linked.git("config", "--worktree", KEY, "allow")
    linked.git("config", "--worktree", "agentos.guard.mode", "save")
    found = read(linked)
    assert (found.mode, dict(found.policy)) == ("strict", {})


def test_settings_given_with_a_command_do_not_count(repo: Repo) -> None:
    environment = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": KEY, "GIT_CONFIG_VALUE_0": "allow"}
    assert read(repo, **environment).policy == {}
    assert read(repo, GIT_CONFIG_PARAMETERS=f"'{KEY}'='allow'").policy == {}
    assert settings.read(str(repo.path), os.environ, ["-c", f"{KEY}=allow"]).policy == {}


@pytest.mark.parametrize("where", ["repo", "linked"])
def test_a_file_inside_of_a_worktree_does_not_count(repo: Repo, linked: Repo, where: str) -> None:
    holder = repo if where == "repo" else linked
    holder.write("shipped.gitconfig", '[agentos "policy"]\n\treset-hard = allow\n[alias]\n\tx = status\n')
    repo.config("include.path", str(holder.path / "shipped.gitconfig"))
    for each in (repo, linked):
        found = read(each)
        assert found.policy == {}
        assert found.aliases == {"x": "status"}  # git itself takes it
    holder.mkdir("src")
    assert settings.read(str(holder.path / "src"), os.environ).policy == {}


def test_a_link_to_a_file_inside_of_a_worktree_does_not_count(repo: Repo) -> None:
    repo.write("shipped.gitconfig", '[agentos "policy"]\n\treset-hard = allow\n')
    link = repo.scratch / "mine"
    link.symlink_to(repo.path / "shipped.gitconfig")
    repo.config("include.path", str(link))
    assert read(repo).policy == {}


def test_an_include_from_elsewhere_counts(repo: Repo, linked: Repo) -> None:
    file = repo.scratch / "policy"
    file.write_text('[agentos "policy"]\n\treset-hard = allow\n')
    repo.config("include.path", str(file))
    confirm(repo.path)
    assert read(linked).policy == {"reset-hard": Rule("allow", KEY)}


def test_an_include_in_the_common_git_directory_counts(repo: Repo, linked: Repo) -> None:
    (repo.git_dir / "agentos").mkdir(exist_ok=True)
    (repo.git_dir / "agentos" / "people.config").write_text('[agentos "guard"]\n\teveryone = true\n')
    repo.config("include.path", "agentos/people.config")
    assert read(repo).everyone
    assert read(linked).everyone
    assert settings.read(str(repo.path / "src"), os.environ).everyone


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "HOME", "XDG_CONFIG_HOME"])
def test_command_cannot_choose_user_configuration(repo: Repo, tmp_path: Path, variable: str) -> None:
    text = '[agentos "policy"]\n\treset-hard = allow\n[alias]\n\tx = status\n'
    evil = tmp_path / "evil"
    (evil / "git").mkdir(parents=True)
    for name in ("file", ".gitconfig", "git/config"):
        (evil / name).write_text(text)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_CONFIG", "XDG_"))}
    environment[variable] = str(evil / "file" if variable.startswith("GIT") else evil)
    found = settings.read(str(repo.path), environment)
    assert found.policy == {}
    assert found.aliases == {"x": "status"}  # the command would meet it


def test_user_file_in_worktree_does_not_count(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("gitconfig", '[agentos "policy"]\n\treset-hard = allow\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repo.path / "gitconfig"))
    assert read(repo).policy == {}


def test_redirected_repository_does_not_decide(repo: Repo, make_repo_with_policy: Repo) -> None:
    there = make_repo_with_policy
    env = {**os.environ, "GIT_DIR": str(there.git_dir), "GIT_WORK_TREE": str(repo.path)}
    assert settings.read(str(repo.path), env).policy != {}
    assert settings.read(str(repo.path), env, trust_local=False).policy == {}


@pytest.fixture
def make_repo_with_policy(tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "lenient")
    set_up(made, KEY, "allow")
    return made


def test_outside_of_a_repository_the_user_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "gitconfig"
    other.write_text('[agentos "policy"]\n\tclone = approve\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(other))
    found = settings.read(str(tmp_path), os.environ)
    assert found.policy == {"clone": Rule("approve", "agentos.policy.clone")}


def test_one_git_process_where_nothing_is_set(repo: Repo, tmp_path: Path) -> None:
    log = tmp_path / "trace"
    settings.read(str(repo.path), {**os.environ, "GIT_TRACE2_EVENT": str(log)})
    assert log.read_text().count('"event":"start"') == 1


def test_unreadable_configuration_is_an_error(repo: Repo) -> None:
    with open(repo.git_dir / "config", "a") as file:
        file.write("[broken\n")
    with pytest.raises(ConfigurationError):
        read(repo)


def test_names_and_values_of_any_kind(repo: Repo) -> None:
    git(repo.path, "config", "remote.a.b=c d.push", "+x\ny")
    git(repo.path, "config", "odd.flag", "a = b\n")
    with open(repo.git_dir / "config", "a") as file:
        file.write('[agentos]\n\tprotected\n[agentos "guard"]\n\teveryone\n')
    found = read(repo)
    assert found.everyone
    assert found.protected == ()
    assert found.values["odd.flag"] == ["a = b\n"]
    assert found.remotes["a.b=c d"].push == ("+x\ny",)
