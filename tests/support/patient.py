"""Commands that wait for as long as it takes until the watch daemon answers: on a busy machine that is longer than they
do otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.repo import Repo

LAUNCH_CODE = "from git_agentos.watch import client; client.PATIENCE = 60; from git_agentos.launch import main; main()"
LAUNCH = [sys.executable, "-c", LAUNCH_CODE]


def run(cwd: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    """Run `git agentos ARGS` in `cwd`."""
    return subprocess.run([*LAUNCH, *args], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def run_ok(cwd: Path, *args: str) -> Any:
    """The document of `git agentos --json ARGS`."""
    done = run(cwd, "--json", *args)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def served(cwd: Path) -> int:
    """How many commands the daemon has done."""
    return int(run_ok(cwd, "watch", "status")["served"])


def checkpoints(repo: Repo) -> list[dict[str, object]]:
    """The checkpoints of a worktree, the newest first."""
    found: list[dict[str, object]] = run_ok(repo.path, "checkpoint", "list")["checkpoints"]
    return found
