"""Runs on a small repository: how tests start them, and what they look at afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.process import marked
from git_agentos.run import commands, evidence_store, spec
from git_agentos.run.events import Run, Step
from git_agentos.run.spec import RunSpec
from tests.support.repo import Repo
from tests.support.waiting import PATIENCE, wait_until

_WORKER = Path(__file__).with_name("run_worker.py")

# An agent that does its work at the second go, when it is told what was wrong with the first.
LEARNS = """
if [ -n "$AGENTOS_FEEDBACK_FILE" ]; then cp "$AGENTOS_FEEDBACK_FILE" learnt.txt; echo right > answer.txt
else echo wrong > answer.txt; echo first > first.txt; fi
"""
IS_RIGHT = "grep -q right answer.txt || { echo 'the answer is wrong' >&2; exit 3; }"


def context_of(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def start(repo: Repo, *agents: str, validate: Sequence[str] = (), **fields: Any) -> Run:
    """A run of `agents`, to its end."""
    return commands.start(context_of(repo), spec.from_options(agents, validate, **fields))


def worktree(run: Run) -> Repo:
    assert run.context is not None
    return Repo(Path(run.context.worktree_path))


def kept(run: Run, name: str) -> bytes:
    """A file of the run's evidence."""
    return (Path(run.evidence) / name).read_bytes()


def events(repo: Repo, run_id: str) -> list[dict[str, Any]]:
    return evidence_store.open_existing(context_of(repo).location, run_id).events()


def outcomes(run: Run) -> list[tuple[str, str | None]]:
    return [(each.kind, each.outcome) for each in run.steps]


def triggers(repo: Repo, run: Run) -> list[str]:
    """Those of the run's checkpoints, oldest first."""
    found = open_workspace(repo.path).checkpoints(agent=f"run-{run.run_id}")
    return [each.trigger for each in found[::-1]]


def processes_of(repo: Repo, run_id: str) -> list[int]:
    """The processes of a run that are alive: it has a mark of its own, which they have in their environment."""
    location = context_of(repo).location
    if run_id not in evidence_store.ids(location) or not events(repo, run_id):
        return []
    wanted = f"{marked.MARK}={events(repo, run_id)[0]['mark']}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


@dataclass
class RecordingWatcher:
    """A watcher that keeps what it is told, in order."""

    heard: list[str] = field(default_factory=list)

    def prepared(self, run: Run) -> None:
        self.heard.append(f"prepared {run.state}")

    def step_begins(self, run: Run, step: Step) -> None:
        self.heard.append(f"begins {step.n} {step.kind}")

    def output(self, line: bytes) -> None:
        self.heard.append(f"says {line.decode().rstrip()}")

    def step_ended(self, run: Run, step: Step) -> None:
        self.heard.append(f"ended {step.n} {step.outcome}")


class RunProcess:
    """A kernel in a process of its own; see `worker`."""

    def __init__(self, repo: Repo, verb: str, run_id: str, wanted: RunSpec | None = None, *strike: str | int) -> None:
        words = [sys.executable, str(_WORKER), str(repo.path), verb, run_id]
        if wanted is not None:
            path = repo.scratch / f"{run_id}.json"
            path.write_text(spec.to_json(replace(wanted, run_id=run_id)))
            words += [str(path), *(str(each) for each in strike)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> str:
        """The state that it said the run is in; nothing where it was killed."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode in (0, -signal.SIGKILL), err
        assert (self.process.returncode == 0) == bool(out), err
        return out.strip()


def assert_no_process_left(repo: Repo, run_id: str) -> None:
    """No process of a run is left, or will be in a moment."""
    wait_until(lambda: not processes_of(repo, run_id), f"processes of run {run_id} are left")
