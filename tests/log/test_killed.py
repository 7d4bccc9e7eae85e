"""SIGKILL at any moment: what `add` has said is written stays written, once, and every checkpoint stays in step."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from git_agentos import log, open_workspace
from tests.support.repo import Repo

_WORKER = """
import os, sys
from git_agentos import log, open_workspace
for n in range(10_000):
    context = open_workspace('.').context
    log.add(context, 'action', f'{sys.argv[1]}.{n}', details={'pad': 'x' * 2000})
    os.write(1, f'{sys.argv[1]}.{n}\\n'.encode())
    if n % 2:
        open_workspace('.').checkpoint(trigger='periodic')
"""


@pytest.mark.slow
def test_killed_again_and_again(repo: Repo) -> None:
    said: list[str] = []
    for round_ in range(8):
        worker = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(round_)], cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert worker.stdout is not None
        lines = [worker.stdout.readline()]
        time.sleep(0.011 * round_)  # another moment of the work each time
        os.kill(worker.pid, signal.SIGKILL)
        out, err = worker.communicate(timeout=60)
        assert err == b""
        said += b"".join([*lines, out]).decode().split()
    # The one that was being added when the kill came may be there or not.
    found = [entry.summary for entry in log.entries(open_workspace(repo.path).context, kinds=["action"])]
    assert len(found) == len(set(found))
    assert set(said) <= set(found)
    assert len(found) - len(said) <= 8
    with contextlib.closing(sqlite3.connect(repo.path / ".agentos/issue_workflow.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    open_workspace(repo.path).checkpoint("the last")
    before = log.entries(open_workspace(repo.path).context)
    repo.remove(".agentos")
    assert log.entries(open_workspace(repo.path).context) == before
    assert open_workspace(repo.path).checkpoint(trigger="periodic").unchanged
    repo.git("fsck", "--strict")
