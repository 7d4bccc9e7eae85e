"""A restore that was killed left its journal: whichever command meets it names the way on."""

from __future__ import annotations

import fcntl
import json

import pytest

from tests.support.repo import Repo
from tests.support.tool import IN_PROCESS, run

COMMANDS = (
    "checkpoint",
    "checkpoint list",
    "log list",
    "--json checkpoint show latest",
    "--json status",
    "worktree list",
)


@pytest.fixture
def interrupted(repo: Repo) -> Repo:
    """As if `restore` had been killed after it had written its journal."""
    taken = IN_PROCESS.checkpoint(repo.path)["id"]
    repo.append("readme.txt", "more\n")
    saved = IN_PROCESS.checkpoint(repo.path)["id"]
    fields: dict[str, object] = {"version": 1, "command": "restore", "saved": saved, "target": taken, "stamp": "x"}
    fields |= {"head_ref": None, "head_commit": None, "create": False, "paths": ["readme.txt"], "keep_new": False}
    fields |= {"with_operation": False, "original": saved}
    (repo.path / ".git/agentos/journal.json").write_text(json.dumps(fields))
    return repo


def test_every_command_names_recover(interrupted: Repo) -> None:
    for words in COMMANDS:
        done = run(interrupted.path, *words.split())
        assert done.code == 0 and done.err.count(b"left this worktree between two states") == 1, str(done)
        assert b"hint: 'git agentos recover' finishes it" in done.err, str(done)
    assert b"between two states" not in run(interrupted.path, "status").err
    assert run(interrupted.path, "recover").code == 0
    assert run(interrupted.path, "checkpoint", "list").err == b""


def test_running_restore_is_not_reported_as_interrupted(interrupted: Repo) -> None:
    with open(interrupted.path / ".git/agentos/worktree.turn", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert b"recover" not in run(interrupted.path, "checkpoint", "list").err
