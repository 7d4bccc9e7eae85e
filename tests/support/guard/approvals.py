"""What the tests of enforcing share: an agent's worktree, judgements made by hand, and somebody who may decide."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from git_agentos.git.location import locate
from git_agentos.guard.approval import approvals
from git_agentos.guard.approval.approvals import ApprovalRequest
from git_agentos.guard.call import Call
from git_agentos.guard.configuration.settings import GuardSettings
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, Assessment, Decision, SaveScope
from git_agentos.guard.enforcement.enforcer import LayerCall, Verdict, enforce
from git_agentos.guard.identity import Identity
from tests.support.repo import Repo
from tests.support.tool import Result

AGENT = Identity("dev", "environment")
PERSON = Identity(None, "nobody")


def judged(
    decision: str, root: Path, operation: str = "merge", save: SaveScope | None = None, **more: Any
) -> Assessment:
    """A judgement as the policy would make it."""
    stopped = decision != ALLOW
    reason = "it would change things" if stopped else None
    made = Decision(decision, [operation], operation if stopped else None, reason, "git stash" if stopped else None)
    return Assessment(made, save, root=str(root), **more)


def approve(root: Path, **more: Any) -> Assessment:
    return judged(APPROVE, root, save=SaveScope(), **more)


def forbid(root: Path, **more: Any) -> Assessment:
    return judged(FORBID, root, "reset-hard", save=SaveScope(), **more)


def run_by(
    who: Identity,
    assessment: Assessment,
    *words: str,
    cwd: Path,
    layer: str = "shim",
    pid: int | None = None,
    **settings: Any,
) -> Verdict:
    """What becomes of `git WORDS` by `who` in `cwd`; `settings` are those of the guard."""
    wait, tell = settings.pop("wait", False), settings.pop("tell", None)
    call = Call(("git", *words), str(cwd), os.environ)
    known = GuardSettings(**settings)
    pid = os.getpid() if pid is None else pid
    return enforce(call, assessment, who, LayerCall(layer, pid, known, on_wait=tell if wait else None))


def asked(repo: Repo, agent: Repo, *argv: str, checkpoint: str | None = None) -> str:
    """A request for a command line in the worktree of an agent; its id."""
    digest, where = approvals.command_digest(argv), str(agent.path)
    id_ = agent.path.name
    request = ApprovalRequest(
        argv[1], (argv[1],), argv, digest, where, where, agent.oid("HEAD"), f"refs/heads/agent/{id_}", id_, "because",
        checkpoint=checkpoint,
    )  # fmt: skip
    return approvals.file_request(approvals.open_store(str(repo.git_dir), os.environ), request).id


def common_dir(path: Path) -> str:
    return locate(str(path), use_environment=False).common_dir


def at_terminal(cwd: Path, *args: str, env: Mapping[str, str] | None = None) -> Result:
    """Run `git agentos ARGS` with a terminal as stdin; in an environment of its own, without an agent's identity."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "git_agentos", *args],
            cwd=cwd,
            stdin=theirs,
            capture_output=True,
            check=False,
            timeout=120,
            env={**os.environ, **(env or {})},
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return Result(args, done.returncode, done.stdout, done.stderr)


class Sleeper:
    """A process that is alive, to hold a grant."""

    def __init__(self, argv: Sequence[str] = ("sleep", "600"), **options: Any) -> None:
        self.process = subprocess.Popen(argv, **options)
        self.pid = self.process.pid

    def __enter__(self) -> Sleeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def in_parallel(count: int, work: Any) -> list[Any]:
    """What `work(n)` returns in `count` threads that begin at once."""
    found: list[Any] = [None] * count
    gate = threading.Barrier(count)

    def one(n: int) -> None:
        gate.wait()
        found[n] = work(n)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
