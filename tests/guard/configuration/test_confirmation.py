"""`guard confirm`: what makes the guard weaker counts once it is confirmed; what makes it stricter, at once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from git_agentos.guard.configuration import settings
from tests.support.agents import agent_worktree
from tests.support.confirming import confirm, set_up
from tests.support.guard.approvals import at_terminal
from tests.support.guard.guarded_worktree import guarded, sh
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.tool import run, run_ok

KEY = "agentos.policy.reset-hard"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test: what is confirmed is kept there."""
    place = tmp_path / "home"
    place.mkdir()
    shutil.copy(Path(os.environ["HOME"], ".gitconfig"), place)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return place


def read(repo: Repo) -> settings.GuardSettings:
    return settings.read(str(repo.path), os.environ)


def pending(repo: Repo) -> list[tuple[str, str | None]]:
    return [(each.key, each.value) for each in read(repo).pending]


def effective(found: settings.GuardSettings, key: str) -> Any:
    if key.startswith("agentos.policy."):
        rule = found.policy.get(key.rpartition(".")[2])
        return rule.decision if rule is not None else None
    return {
        "agentos.guard.mode": found.mode,
        "agentos.approvalKey": found.approval_key,
        "agentos.approvalExpiry": found.approval_expiry,
        "agentos.auto.beforeRisky": found.auto_on("beforeRisky"),
    }[key]


# key, value that makes the guard weaker, what holds without it, what holds with it
WEAKER = [
    (KEY, "allow", None, "allow"),
    (KEY, "approve", None, "approve"),
    ("agentos.policy.merge", "allow", None, "allow"),
    ("agentos.guard.mode", "save", "strict", "save"),
    ("agentos.approvalKey", "/k", None, "/k"),
    ("agentos.approvalExpiry", "2d", 3600.0, 172800.0),
    ("agentos.auto.beforeRisky", "no", True, False),
]
# key, value that makes it stricter, what holds with it
STRICTER = [
    (KEY, "forbid", "forbid"),
    ("agentos.policy.merge", "approve", "approve"),
    ("agentos.policy.commit", "forbid", "forbid"),
    ("agentos.guard.mode", "strict", "strict"),
    ("agentos.approvalExpiry", "5m", 300.0),
    ("agentos.auto.beforeRisky", "true", True),
]


@pytest.mark.parametrize(("key", "value", "without", "with_"), WEAKER)
def test_weaker_value_is_pending(repo: Repo, key: str, value: str, without: Any, with_: Any) -> None:
    repo.config(key, value)
    assert (effective(read(repo), key), pending(repo)) == (without, [(key, value)])
    confirm(repo.path)
    assert (effective(read(repo), key), pending(repo)) == (with_, [])
    repo.git("config", "--unset", key)
    assert (effective(read(repo), key), pending(repo)) == (without, [])
    # What was taken out is not confirmed any more: a person has revoked it.
    repo.config(key, value)
    assert (effective(read(repo), key), pending(repo)) == (without, [(key, value)])


@pytest.mark.parametrize(("key", "value", "with_"), STRICTER)
def test_stricter_value_counts_at_once(repo: Repo, key: str, value: str, with_: Any) -> None:
    repo.config(key, value)
    assert (effective(read(repo), key), pending(repo)) == (with_, [])


def test_removed_strict_value_still_counts(repo: Repo) -> None:
    confirm(repo.path)  # there is a key
    repo.config("agentos.policy.commit", "forbid")
    repo.config("agentos.protected", "main, release/*")
    assert read(repo).protected == ("main", "release/*")
    repo.git("config", "--unset", "agentos.policy.commit")
    repo.config("agentos.protected", "main wip")
    found = read(repo)
    assert found.policy["commit"].decision == "forbid"
    assert set(found.protected) == {"main", "release/*", "wip"}
    assert pending(repo) == [("agentos.protected", "main wip"), ("agentos.policy.commit", None)]
    repo.git("config", "--unset", "agentos.protected")
    assert set(read(repo).protected) == {"main", "release/*", "wip"}
    confirm(repo.path)
    found = read(repo)
    assert (found.protected, dict(found.policy), found.pending) == ((), {}, ())


def test_the_last_confirmed_value_holds(repo: Repo) -> None:
    set_up(repo, KEY, "approve")
    set_up(repo, "agentos.approvalExpiry", "2h")
    set_up(repo, "agentos.approvalKey", "/mine")
    repo.config(KEY, "allow")
    repo.config("agentos.approvalExpiry", "300d")
    repo.config("agentos.approvalKey", "/another")
    found = read(repo)
    assert found.policy["reset-hard"].decision == "approve"
    assert (found.approval_expiry, found.approval_key) == (7200.0, "/mine")
    assert len(found.pending) == 3


def test_a_wider_rule_holds_where_a_closer_one_waits(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "--global", "agentos.policy.merge", "forbid")
    repo.config("agentos.policy.merge", "approve")  # the default, and weaker than what holds
    assert read(repo).policy["merge"].decision == "forbid"
    assert pending(repo) == [("agentos.policy.merge", "approve")]


def test_a_users_file_is_confirmed_once_for_all_repositories(repo: Repo, tmp_path: Path, _own_home: Path) -> None:
    other = Repo.init(tmp_path / "other")
    repo.git("config", "--global", KEY, "allow")
    assert pending(other) == [(KEY, "allow")]
    confirm(repo.path)
    assert read(other).policy["reset-hard"].decision == "allow"
    # The same value in another file is another question.
    other.config("agentos.policy.clean", "allow")
    confirm(other.path)
    repo.config("agentos.policy.clean", "allow")
    assert pending(repo) == [("agentos.policy.clean", "allow")]
    (_own_home / ".config" / "git").mkdir(parents=True, exist_ok=True)
    (_own_home / ".config" / "git" / "config").write_text('[agentos "policy"]\n\tpush-force = allow\n')
    assert pending(other) == [("agentos.policy.push-force", "allow")]


def test_the_list_names_what_is_read_here_and_no_other_file(repo: Repo, tmp_path: Path, _own_home: Path) -> None:
    repo.git("config", "--global", KEY, "allow")
    confirm(repo.path)
    elsewhere = tmp_path / "gitconfig"
    elsewhere.write_text((_own_home / ".gitconfig").read_text())
    other = {**os.environ, "GIT_CONFIG_GLOBAL": str(elsewhere)}
    assert run_ok(repo.path, "guard", "confirm", "--list", env=other)["confirmed"] == []
    [here] = run_ok(repo.path, "guard", "confirm", "--list")["confirmed"]
    assert (here["key"], here["source"]) == (KEY, str(_own_home / ".gitconfig"))


# -- the command -------------------------------------------------------------------------------------------------------


def test_a_person_confirms_in_a_terminal(repo: Repo) -> None:
    repo.config(KEY, "allow")
    repo.config("agentos.guard.mode", "save")
    source = str(repo.git_dir / "config")
    listed = run_ok(repo.path, "guard", "confirm", "--list")
    waiting = [
        {"key": "agentos.policy.reset-hard", "value": "allow", "source": source},
        {"key": "agentos.guard.mode", "value": "save", "source": source},
    ]
    assert listed == {"schema": "agentos.confirm.v1", "pending": waiting, "confirmed": []}
    check_document(listed)
    # One of them, then the rest.
    done = at_terminal(repo.path, "--json", "guard", "confirm", "agentos.guard.mode")
    assert (done.code, done.json["pending"], done.json["confirmed"]) == (0, waiting[:1], waiting[1:]), str(done)
    check_document(done.json)
    done = at_terminal(repo.path, "guard", "confirm")
    assert done.out.decode() == f"confirmed agentos.policy.reset-hard = allow ({source})\n", str(done)
    assert run_ok(repo.path, "guard", "confirm", "--list")["pending"] == []
    assert at_terminal(repo.path, "guard", "confirm", "agentos.guard.mode").code == 1
    assert run(repo.path, "guard", "confirm", "--list", KEY).code == 2


def test_agents_may_not_confirm(repo: Repo, tmp_path: Path) -> None:
    dev = agent_worktree(repo, "dev")
    repo.config(KEY, "allow")
    for done in (
        run(repo.path, "guard", "confirm"),
        at_terminal(dev.path, "guard", "confirm"),
        at_terminal(repo.path, "--as", "dev", "guard", "confirm"),
        at_terminal(repo.path, "guard", "confirm", env={"AGENTOS_AGENT_ID": "dev"}),
        at_terminal(repo.path, "guard", "confirm", env={"AGENTOS_GUARD": "dev"}),
    ):
        assert done.code == 3, str(done)
    assert run_ok(dev.path, "guard", "confirm", "--list")["pending"] != []
    # A key that nobody has confirmed opens nothing.
    key = tmp_path / "orchestrator.key"
    key.write_text("any text")
    repo.config("agentos.approvalKey", str(key))
    assert run(repo.path, "guard", "confirm").code == 3
    assert at_terminal(repo.path, "guard", "confirm", "agentos.approvalKey").code == 0
    assert run(repo.path, "guard", "confirm").code == 0
    assert pending(repo) == []


def test_pending_setting_is_shown_everywhere(repo: Repo) -> None:
    dev = guarded(repo)
    repo.git("config", "--global", KEY, "allow")
    dev.write("readme.txt", "an edit\n")
    done = sh(dev, "git reset -q --hard")
    assert done.code != 0
    assert dev.read("readme.txt") == b"an edit\n"
    assert "agentos.policy.reset-hard = allow" in done.err
    assert "guard confirm" in done.err
    for words in (("doctor",), ("guard", "status", "dev")):
        found = run(repo.path, "--json", *words).json["findings"]
        assert "unconfirmed-setting" in [each["code"] for each in found], found
    assert at_terminal(repo.path, "guard", "confirm").code == 0
    assert sh(dev, "git reset -q --hard").code == 0
    assert dev.read("readme.txt") != b"an edit\n"


# -- forgeries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{}", "[]", "not json", "null", '{"values": 1}',
        '{"values": [{"repository": "", "scope": "global"}]}',
    ],
)  # fmt: skip
def test_record_of_others_does_not_count(repo: Repo, _own_home: Path, text: str) -> None:
    set_up(repo, KEY, "allow")
    record = _own_home / ".config" / "git-agentos" / "confirmed.json"
    before = record.read_text()
    forged = json.loads(before)
    forged["values"][0]["key"] = "agentos.policy.clean"
    repo.config("agentos.policy.clean", "allow")
    for each in (json.dumps(forged), json.dumps({**json.loads(before), "mac": None}), text):
        record.write_text(each)
        assert dict(read(repo).policy) == {}
        assert len(read(repo).pending) == 2
    record.unlink()
    record.symlink_to("/dev/zero")
    assert dict(read(repo).policy) == {}
    record.unlink()
    record.write_text(before)
    assert [*read(repo).policy] == ["reset-hard"]
    (record.parent / "key").write_bytes(os.urandom(32))
    assert dict(read(repo).policy) == {}
    assert "confirmations-damaged" in [each["code"] for each in run(repo.path, "--json", "doctor").json["findings"]]
    (record.parent / "key").chmod(0o666)
    assert dict(read(repo).policy) == {}
