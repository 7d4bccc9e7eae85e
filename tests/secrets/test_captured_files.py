"""`doctor` names the ignored files that checkpoints have, if their names say that they hold secrets."""

from __future__ import annotations

from typing import Any

import pytest

from git_agentos.secrets import captured_files
from git_agentos.secrets.captured_files import Pushed
from tests.support.command_line import Cli
from tests.support.repo import Repo

IGNORED = ".env*\n*.pem\nbuild/\nlocal/\n!.env.example\n"


def findings(repo: Repo, cli: Cli) -> list[dict[str, Any]]:
    answer = cli("-C", str(repo.path), "--json", "doctor")
    found: list[dict[str, Any]] = [each for each in answer.json["findings"] if each["code"] == "captured-secrets"]
    assert answer.code == 0
    return found


@pytest.fixture
def ignoring(repo: Repo) -> Repo:
    repo.write(".gitignore", IGNORED)
    for name in (".env", ".env.example", "build/a.o", "local/server.pem", "local/notes.txt", "local/.env.sample"):
        repo.write(name, "PASSWORD=hunter2\n")
    return repo


def test_captured_files_with_secrets_are_named(ignoring: Repo, cli: Cli) -> None:
    ignoring.config("agentos.includeIgnored", ".env*\nlocal/")
    assert findings(ignoring, cli) == [
        {
            "code": "captured-secrets",
            "severity": "info",
            "message": "checkpoints hold 2 ignored files that may have secrets, since agentos.includeIgnored matches:"
            " '.env', 'local/server.pem'",
            "hint": "do not push these checkpoints to others, or do so encrypted",
            "fixed": False,
        }
    ]


def test_many_are_counted(ignoring: Repo, cli: Cli) -> None:
    ignoring.config("agentos.includeIgnored", "/local/")
    for number in range(9):
        ignoring.write(f"local/{number}.key", "x")
    message = findings(ignoring, cli)[0]["message"]
    assert message.startswith("checkpoints hold 10 ignored files that may")
    assert message.endswith(": 'local/0.key', 'local/1.key', 'local/2.key', 'local/3.key', 'local/4.key' and 5 more")


def test_what_is_not_captured_or_holds_nothing_is_not_named(ignoring: Repo, cli: Cli) -> None:
    assert findings(ignoring, cli) == []
    for pattern in ("build/", "local/notes.txt", ".env.example"):
        ignoring.config("agentos.includeIgnored", pattern)
        assert findings(ignoring, cli) == []


def test_a_tracked_file_is_not_ignored(ignoring: Repo, cli: Cli) -> None:
    ignoring.git("add", "-f", ".env")
    ignoring.config("agentos.includeIgnored", ".env")
    assert findings(ignoring, cli) == []


def test_an_untracked_file_that_no_rule_ignores_is_not_ignored(repo: Repo, cli: Cli) -> None:
    repo.write(".env", "PASSWORD=hunter2")
    repo.config("agentos.includeIgnored", ".env")
    assert findings(repo, cli) == []


def test_timelines_that_were_pushed_with_them() -> None:
    pushed = [Pushed("dev-1", "origin", [b"a/.env", b"notes.txt"]), Pushed("dev-2", "origin", [b"build/x.o"])]
    assert [(each.code, each.severity, each.message, each.hint) for each in captured_files.examine_pushed(pushed)] == [
        (
            "pushed-secrets",
            "warning",
            "timeline 'dev-1' was pushed to 'origin' unencrypted, with ignored files that may have secrets: 'a/.env'",
            "replace the keys in them: whoever reads the remote has them",
        )
    ]
