"""The Python API as a client sees it: an example that runs, and results that cannot change."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import typing
from datetime import datetime

import pytest

from git_agentos import api, open_repository
from git_agentos.errors import UsageError
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo

CLIENT = PROJECT_ROOT / "docs" / "examples" / "client.py"


def test_client_example_runs(repo: Repo) -> None:
    done = subprocess.run([sys.executable, CLIENT, repo.path], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "dev-1 ('notes.txt',) True",
        "['notes.txt']",
        "first",
        "('notes.txt',) first",
        "second",
        "decision ('notes.txt',) 1",
        "allow",
        "checkpoint-not-found",
    ]


@pytest.mark.parametrize(
    "result", [api.SavedCheckpoint, api.RestoreResult, api.RecoverResult, api.LogEntry, api.GuardDecision]
)
def test_results_are_frozen_and_hold_no_list(result: type) -> None:
    assert dataclasses.is_dataclass(result)
    assert result.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for name, kind in typing.get_type_hints(result).items():
        assert typing.get_origin(kind) not in (list, dict), name
        assert "_at" not in name or kind is datetime, name


def test_times_are_aware(repo: Repo) -> None:
    assert open_repository(repo.path).checkpoints.create("c").created_at.tzinfo is not None


def test_branch_with_keep_head_is_refused_in_words_of_the_api(repo: Repo) -> None:
    repo_ = open_repository(repo.path)
    saved = repo_.checkpoints.create("c")
    with pytest.raises(UsageError, match="'branch' cannot be combined with 'keep_head' or 'paths'"):
        repo_.restore(saved.id, branch="x", keep_head=True)
