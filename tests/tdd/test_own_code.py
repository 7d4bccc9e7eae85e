"""From one end to the other: a command agent builds a small feature in this project's own code, by the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.confirming import set_up
from tests.support.env import PROJECT_ROOT
from tests.support.repo import Repo
from tests.support.state import assert_same
from tests.support.tdd_project import interpreter, users_state
from tests.support.tool import run

ROOT = PROJECT_ROOT

# What a headless agent does: it reads what it is to do, works in the folder that it stands in, and says something.
AGENT = r'''#!/bin/sh
set -eu
test "$(cat "$AGENTOS_PROMPT_FILE")" = "$(cat)"
grep -q 'how many secrets' "$AGENTOS_PROMPT_FILE"
case $AGENTOS_TDD_NODE in
scaffold)
    mkdir -p tests
    cat >tests/test_count.py <<'TEST'
"""Counting secrets."""

from git_agentos.redact import count


def test_none_in_plain_text() -> None:
    assert count("nothing to see") == 0


def test_each_is_counted() -> None:
    assert count("password=hunter22 and token: 'abcdef123'") == 2
TEST
    printf '\n\ndef count(text: str) -> int:\n    raise NotImplementedError\n' >>git_agentos/redact.py
    ;;
implement)
    grep -q 'NotImplementedError' "$AGENTOS_PROMPT_FILE"
    sed -i '/^def count/,$d' git_agentos/redact.py
    cat >>git_agentos/redact.py <<'CODE'
def count(text: str) -> int:
    """How many secrets there are in a text."""
    return redact(text)[1]
CODE
    ;;
esac
echo "$AGENTOS_TDD_NODE is done"
'''


OLD_TEST = '''"""What was there before."""

from git_agentos.errors import UsageError


def test_usage() -> None:
    assert UsageError("x").exit_code == 2
'''


@pytest.fixture
def own(empty_repo: Repo, tmp_path: Path) -> Repo:
    """This project's code with a test, as a repository of somebody with work in progress."""
    repo = empty_repo
    shutil.copytree(ROOT / "git_agentos", repo.path / "git_agentos", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, repo.path / name)
    repo.write("tests/test_errors.py", OLD_TEST)
    repo.write("docs/count.md", "# Counting\n\n`redact.count(text)` says how many secrets `redact` would take out.\n")
    repo.write(".gitignore", "__pycache__/\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message", "git-agentos")
    repo.config("agentos.tdd.python", str(interpreter()))
    key = tmp_path / "approval-key"
    key.write_text("for the one who runs the agents\n")
    set_up(repo, "agentos.approvalKey", str(key))
    repo.append("git_agentos/errors.py", "\n# in the middle of something\n")
    repo.write("draft.txt", "not in git\n")
    return repo


def test_a_feature_in_our_own_code(own: Repo, tmp_path: Path) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text(AGENT)
    before, base = users_state(own), own.oid()
    started = run(
        tmp_path,
        *(
            "-C",
            str(own.path),
            "--json",
            "tdd",
            "run",
            "--issue",
            "12",
            "--lld",
            "docs/count.md",
            "--context",
            "git_agentos/redact.py",
        ),
        *("--agent", f"command:sh '{agent}'", "--yes-data-policy"),
    )
    assert started.code == 3, str(started)
    workflow = started.json
    assert (workflow["schema"], workflow["state"], workflow["tests_passed"]) == ("agentos.tdd.v1", "waiting", True)
    assert [each["node"][:2] for each in workflow["history"]] == ["N0", "N1", "N2", "N3", "N4", "N5"], str(started)
    assert workflow["changed_files"] == ["git_agentos/redact.py", "tests/test_count.py"]
    assert_same(before, users_state(own), "the user's checkout", strict=True)

    approved = run(tmp_path, "-C", str(own.path), "--json", "tdd", "approve", "12")
    assert (approved.code, approved.json["state"]) == (0, "merged"), str(approved)
    assert own.text("diff", "--name-only", base, "HEAD").split() == ["git_agentos/redact.py", "tests/test_count.py"]
    assert own.text("status", "--porcelain").split("\n") == ["M git_agentos/errors.py", "?? draft.txt"]
    assert own.text("branch", "--list", "feat/*") == ""
    # The merged code does it.
    program = "from git_agentos.redact import count; print(count('password=hunter22'))"
    told = subprocess.run([sys.executable, "-c", program], cwd=own.path, capture_output=True, text=True, check=True)
    assert told.stdout == "1\n"
