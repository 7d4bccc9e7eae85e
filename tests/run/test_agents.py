"""Agents that do their worst, in whole runs: each ends judged and taken back, and nothing of anybody else's is touched.

The agents are small scripts, and not guarded, so that they get to do it; what the guard stops is in `tests/guard`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.errors import AgentosError
from git_agentos.process import contained
from git_agentos.run import commands
from git_agentos.run.events import Run
from tests.support import ref_storage
from tests.support.agents import agent_worktree
from tests.support.repo import Repo, git_run
from tests.support.runs import assert_no_process_left, context_of, kept, outcomes, start, worktree
from tests.support.state import State, complete_state, differences

BUSY = "echo work > work.txt; git add work.txt; git commit -qm work; echo more > more.txt; mkdir -p empty/er; "


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained, "GRACE", 0.3)


class Ground:
    """A repository with work in progress in it, and another agent's worktree, likewise."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.beside = agent_worktree(repo, "beside")
        for each in (repo, self.beside):
            each.append("readme.txt", "unstaged\n")
            each.write("new.txt", "untracked\n")
            each.write("staged.txt", "staged\n")
            each.add("staged.txt")
        self._before = self._look()

    def _look(self) -> list[State]:
        return [_without_runs(complete_state(each.path)) for each in (self.repo, self.beside)]

    def assert_untouched(self) -> None:
        for one, other in zip(self._before, self._look(), strict=True):
            assert not differences(one, other)
        assert git_run(self.repo.path, "fsck", "--strict", "--no-dangling").returncode == 0

    def assert_taken_back(self, run: Run) -> None:
        """The worktree is as a fresh one would be."""
        assert run.rolled_back_to == "pre_run"
        assert run.context is not None
        inside = worktree(run)
        fresh = self.repo.scratch / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        self.repo.git("worktree", "add", "-q", "--detach", str(fresh), run.context.base_sha)
        wanted, found = complete_state(fresh), complete_state(inside.path)
        assert (found.files, found.index, found.status) == (wanted.files, wanted.index, wanted.status)
        assert inside.text("symbolic-ref", "HEAD") == f"refs/heads/{run.context.branch_name}"
        assert inside.oid() == run.context.base_sha
        self.repo.git("worktree", "remove", "--force", str(fresh))


def _without_runs(state: State) -> State:
    """Other worktrees' branches are looked at by their own state, and runs' own are theirs."""
    return replace(state, refs={})


@pytest.fixture
def ground(repo: Repo) -> Ground:
    return Ground(repo)


# What it does when it has worked for a while.
WRECKING = {
    "all files": "rm -rf ./* ./.[a-zA-Z]*",
    "its folder": 'cd / && rm -rf "$OLDPWD"',
    "its folder, for a file": 'cd / && rm -rf "$OLDPWD" && echo x > "$OLDPWD"',
    "its folder, for a way out": 'cd / && rm -rf "$OLDPWD" && ln -s REPO "$OLDPWD"',
    "git's entry": 'rm -rf "$(git rev-parse --absolute-git-dir)"',
    "its way to git": 'echo "gitdir: REPO/.git" > .git',
    "its index and HEAD": 'cd "$(git rev-parse --absolute-git-dir)" && echo x > index && echo x > HEAD',
    "what git holds": 'd=$(git rev-parse --absolute-git-dir); touch "$d/index.lock" "$d/HEAD.lock"; exit 3',
    "all that is ours": 'rm -rf "$(git rev-parse --absolute-git-dir)/agentos"',
    "permissions": "chmod -R a-w .; chmod 0 readme.txt src; exit 3",
    "odd files": "mkfifo pipe; ln -s nowhere dangling; printf x > \"$(printf 'bad\\377name')\"; exit 3",
    "its own branch": "git switch -q --detach; git branch -qD agentos/run-r1; exit 3",
    "a merge in the middle": "git merge -q other; git checkout -q --orphan lost; exit 3",
    "time": "(setsid sleep 9999 &); env -i setsid sleep 9999 & trap '' TERM; while :; do sleep 9; done",
}


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("name", WRECKING)
def test_wrecking_itself(ground: Ground, name: str) -> None:
    command = BUSY + WRECKING[name].replace("REPO", str(ground.repo.path))
    limit, outcome = (1.0, "timed-out") if name == "time" else (60.0, "failed")
    run = start(
        ground.repo, command, validate=["test -e work.txt"], run_id="r1", guard=False, on_failure="rollback",
        timeout=limit,
    )  # fmt: skip
    assert run.state == "failed"
    assert outcome in [each for _, each in outcomes(run)]
    assert_no_process_left(ground.repo, "r1")
    ground.assert_untouched()
    ground.assert_taken_back(run)


FORGE = "new=$(git commit-tree -p main -m forged 'main^{tree}'); git update-ref refs/heads/main $new"
# Each is done by a run that is guarded as well, with a git that is not the guard's and without its hooks.
CLOSED = {
    "plumbing": FORGE,
    "a fetch from here": BUSY + "git fetch -q --update-head-ok . HEAD:main",
    "a file": BUSY + 'git rev-parse HEAD > "$(git rev-parse --git-common-dir)/refs/heads/main"',
    "a daemon that does it later": f"(setsid sh -c 'sleep 0.1; {FORGE}' &)  ; {BUSY}",
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("guard", [False, True])
def test_a_protected_branch(ground: Ground, name: str, guard: bool) -> None:
    if name == "a file":
        ref_storage.require_files("none is written without git")
    before = ground.repo.oid("main")
    real = shutil.which("git")
    command = CLOSED[name].replace("git ", f"{real} -c core.hooksPath=/dev/null -c core.fsmonitor= ")
    run = start(ground.repo, command, validate=["true"], run_id="r1", guard=guard, on_failure="rollback")
    assert (run.state, outcomes(run)) == ("failed", [("agent", "protected-branch")])
    assert "'main'" in (run.steps[0].detail or "")
    assert ground.repo.oid("main") == before
    ground.assert_untouched()
    ground.assert_taken_back(run)


def test_the_guard_stops_what_goes_through_git(ground: Ground) -> None:
    """So nothing has to be set back, in whichever worktree it is tried."""
    tries = [
        "git update-ref refs/heads/main HEAD",
        "git fetch -q --update-head-ok . HEAD:main",
        f"cd '{ground.repo.path}'; git commit -qam x",
        f"cd '{ground.repo.path}'; env -u AGENTOS_RUN_ID git update-ref refs/heads/main agentos/run-r1",
        f"env -i PATH=\"$PATH\" git -C '{ground.repo.path}' commit -qam x",
        # past the one on PATH, it is the hooks of its own worktree that see it
        "env -i PATH=/usr/bin:/bin git update-ref refs/heads/main HEAD",
    ]
    command = BUSY + " ".join(f"( {each} ) && echo through: {n};" for n, each in enumerate(tries)) + " true"
    run = start(ground.repo, command, validate=["true"], run_id="r1")
    assert kept(run, "steps/001-agent/stdout") == b""
    assert (run.state, run.steps[0].outcome, run.steps[0].detail) == ("passed", "ok", None)
    ground.assert_untouched()


def test_edits_outside_of_its_worktree_are_none_of_the_run(ground: Ground) -> None:
    """Nobody but a sandbox keeps an agent from writing elsewhere; what it wrote there is neither its work, nor saved as
    such, nor taken back with it."""
    command = f"echo x >> '{ground.repo.path}/readme.txt'; echo x > '{ground.beside.path}/planted.txt'"
    run = start(ground.repo, command, validate=["true"], run_id="r1", guard=False, on_failure="rollback")
    assert (run.state, outcomes(run)) == ("failed", [("agent", "no-changes")])
    assert ground.repo.read("readme.txt").endswith(b"unstaged\nx\n")
    assert ground.beside.read("planted.txt") == b"x\n"
    ground.assert_taken_back(run)
    assert ground.repo.read("readme.txt").endswith(b"unstaged\nx\n")


def test_secrets_are_kept_nowhere(ground: Ground) -> None:
    """Neither in the evidence, nor in what of it a checkpoint carries, nor in the log."""
    token = "ghp_" + "a1B2" * 9
    command = f"echo work > work.txt; echo '{token}'; echo 'password={token[5:25]}' >&2; echo '{token}' | cut -c1-20"
    run = start(ground.repo, command, validate=[f"echo {token}; exit 1"], run_id="r1", guard=False)
    assert run.state == "failed"
    for folder, _, names in os.walk(run.evidence):
        for name in names:
            data = Path(folder, name).read_bytes()
            assert token.encode() not in data, name
            assert f"password={token[5:25]}".encode() not in data, name
    objects = ground.repo.git("cat-file", "--batch-all-objects", "--batch", "--unordered")
    assert token.encode() not in objects


def test_run_with_destroyed_evidence_is_tampered(ground: Ground) -> None:
    """A run without its record is not shown as anything better than it was."""
    command = f"{BUSY} rm -rf '{ground.repo.path}/.agentos/runs/r1'; sleep 0.1"
    with contextlib.suppress(AgentosError):
        run = start(ground.repo, command, validate=["true"], run_id="r1", guard=False, on_failure="rollback")
        assert run.state == "tampered"
    ground.assert_untouched()
    open_workspace(ground.repo.path).checkpoint(description="all is well here")
    assert [each.state for each in commands.list_runs(context_of(ground.repo))] == ["tampered"]
