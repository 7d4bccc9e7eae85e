"""Repositories with a watch daemon, which is ended after the test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from git_agentos.process import table
from git_agentos.watch import place
from tests.support import patient
from tests.support.repo import Repo
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until
from tests.support.watch import daemon_pid


@pytest.fixture
def watched(repo: Repo) -> Iterator[Repo]:
    """A repository with a daemon, which is killed afterwards if it still runs."""
    run_ok(repo.path, "watch", "start")
    pids = {daemon_pid(repo)}
    try:
        yield repo
    finally:
        if os.path.exists(place.file(str(repo.path / ".git"), "turn")):
            pids.add(daemon_pid(repo))
        for pid in pids:
            if "watch" in table.argv(pid):
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda pid=pid: not table.is_alive(pid), "the daemon ends")  # type: ignore[misc]


@pytest.fixture
def served(repo: Repo) -> Iterator[Repo]:
    """A repository with a daemon, for commands that wait for it (`patient`)."""
    patient.run_ok(repo.path, "watch", "start")
    try:
        yield repo
    finally:
        patient.run(repo.path, "watch", "stop")


@pytest.fixture
def asked(repo: Repo) -> Iterator[Repo]:
    """A repository in which commands may start a daemon."""
    repo.config("agentos.watch", "auto")
    try:
        yield repo
    finally:
        repo.config("agentos.watch", "false")
        run(repo.path, "watch", "stop")
