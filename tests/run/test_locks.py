"""The locks of a run's gits that were killed in the middle of their work go; those of the living stay."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from git_agentos.git import stale_locks
from git_agentos.run import commands, rebuild, spec
from git_agentos.run.events import Run
from git_agentos.worktree import removal
from git_agentos.worktree.final_checkpoint import RemovalRequest
from tests.support import ref_storage
from tests.support.repo import Repo
from tests.support.rollbacks import RolledBackWorktree, prepare
from tests.support.runs import IS_RIGHT, RunProcess, assert_no_process_left, context_of, outcomes, worktree
from tests.support.waiting import wait_until

# Real gits that a hook of theirs kills while they hold locks: COMMIT before it commits, REF while it moves a ref.
KILLED = {
    "index": "echo > a; git add a; COMMIT commit -qam mine",
    "index of some paths": "echo > a; git add a; COMMIT commit -qm mine a",
    "HEAD and branch": "REF commit -q --allow-empty -m mine",
    "branch": "REF branch aside",
    "tag": "REF tag aside",
    "stash": "echo > a; git add a; REF stash",
    "packed refs": "REF pack-refs --all",
    "repository inside": "git init -q in; cd in; REF commit -q --allow-empty -m mine; cd ..",
    "submodule": "git -c protocol.file.allow=always submodule --quiet add ORIGIN sub; cd sub; REF tag aside; cd ..",
}
# What git locks for too short a time to be killed in between.
COMMON, OWN = '"$(git rev-parse --git-common-dir)"', '"$(git rev-parse --git-dir)"'
MADE = {
    "configuration": f": > {COMMON}/config.lock",
    "configuration of the worktree": f": > {OWN}/config.worktree.lock",
    "shallow": f": > {COMMON}/shallow.lock",
    "commit-graphs": f"mkdir -p {COMMON}/objects/info/commit-graphs;"
    f" : > {COMMON}/objects/info/commit-graphs/commit-graph-chain.lock",
    "maintenance": f": > {COMMON}/objects/maintenance.lock",
    "sparse checkout": f"mkdir -p {OWN}/info; : > {OWN}/info/sparse-checkout.lock",
    "reflog": f"mkdir -p {COMMON}/logs/refs/heads; : > {COMMON}/logs/refs/heads/main.lock",
    "reftable inside": "git init -q in; mkdir -p in/.git/reftable; : > in/.git/reftable/tables.list.lock",
}


def agent(repo: Repo, command: str) -> str:
    """An agent that leaves locks at its first go, and hangs then; at its second it does its work."""
    for name, hook, when in (("COMMIT", "pre-commit", "true"), ("REF", "reference-transaction", '[ "$1" = prepared ]')):
        folder = repo.scratch / name
        if not folder.exists():
            folder.mkdir()
            (folder / hook).write_text(f"#!/bin/sh\nif {when}; then kill -9 $PPID; fi\n")
            (folder / hook).chmod(0o755)
        command = command.replace(f"{name} ", f"git -c core.hooksPath={folder} ")
    if "ORIGIN" in command:
        Repo.init(repo.scratch / "origin").commit("of the submodule")
    command = command.replace("ORIGIN", str(repo.scratch / "origin"))
    ready = repo.scratch / "ready"
    return f"if [ ! -e {ready} ]; then {command}; touch {ready}; sleep 1000; else echo right > answer.txt; fi"


def begun(repo: Repo, command: str, **fields: object) -> RunProcess:
    """A run whose agent hangs; a git of it has been killed, and has left locks."""
    wanted = spec.from_options([agent(repo, command)], [IS_RIGHT], guard=False, **fields)
    worker = RunProcess(repo, "start", "T-1", wanted)
    wait_until((repo.scratch / "ready").exists, "the agent is at work")
    assert locked(repo), "the git that was killed has left no lock"
    return worker


def locked(repo: Repo) -> list[str]:
    """All locks of git's in the repository, and in those inside of the run's worktree."""
    tops = [repo.git_dir, worktree(commands.show(context_of(repo), "T-1")).path]
    names = [
        path for top in tops for path in top.rglob("*") if path.suffix == ".lock" or path.name == "packed-refs.new"
    ]
    return sorted(str(path) for path in names if ".agentos" not in path.parts)


def check_works(repo: Repo, run: Run) -> None:
    """Nothing is locked, and git can do all that it was doing."""
    assert locked(repo) == []
    there = worktree(run)
    there.write("a", "again\n")
    there.git("add", "a")
    there.git("commit", "-qam", "git works again")
    for command in (("tag", "-f", "aside"), ("branch", "-f", "aside"), ("pack-refs", "--all"), ("config", "a.b", "c")):
        there.git(*command)


SEVERAL = "; ".join(KILLED[each] for each in ("index of some paths", "tag", "packed refs", "repository inside"))


@pytest.mark.parametrize(
    "command", [SEVERAL, KILLED["HEAD and branch"], "; ".join(MADE.values())], ids=["several", "HEAD", "made"]
)
def test_cancelled(repo: Repo, command: str) -> None:
    worker = begun(repo, command)
    run = commands.cancel(context_of(repo), "T-1")
    assert (worker.ended(), run.state) == ("cancelled", "cancelled")
    check_works(repo, run)


def test_cancelled_by_a_command_that_git_has_started(repo: Repo) -> None:
    """`git agentos run cancel`: a git that waits for us makes no lock, and is no reason to leave one."""
    worker = begun(repo, KILLED["HEAD and branch"])
    folder = repo.scratch / "bin"
    folder.mkdir()
    (folder / "git-agentos").write_text(f'#!/bin/sh\nexec {sys.executable} -m git_agentos "$@"\n')
    (folder / "git-agentos").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["git", "agentos", "run", "cancel", "T-1"], cwd=repo.path, env=environment, check=True)
    assert worker.ended() == "cancelled"
    check_works(repo, commands.show(context_of(repo), "T-1"))


@pytest.mark.parametrize("what", ["index", "stash"])
def test_out_of_time(repo: Repo, what: str) -> None:
    wanted = spec.from_options([agent(repo, KILLED[what])], [], guard=False, timeout="3s", run_id="T-1")
    run = commands.start(context_of(repo), wanted)
    assert outcomes(run) == [("agent", "timed-out")]
    check_works(repo, run)


@pytest.mark.parametrize(
    ("what", "then"),
    [("HEAD and branch", then) for then in ("resume", "cancel", "rollback", "remove", "archive")]
    + [("submodule", "resume")],
)
def test_the_kernel_is_killed(repo: Repo, what: str, then: str) -> None:
    worker = begun(repo, KILLED[what])
    worker.process.kill()
    worker.ended()
    if then == "resume":
        run = commands.resume(context_of(repo), "T-1")
        assert run.state == "passed"
    elif then == "cancel":
        run = commands.cancel(context_of(repo), "T-1")
    elif then == "rollback":
        commands.rollback(context_of(repo), "T-1", "pre_run")
        run = commands.show(context_of(repo), "T-1")
    else:  # nothing of ours has come to see that it was killed
        assert_no_process_left(repo, "T-1")
        removal.end_worktree(context_of(repo), "run-T-1", RemovalRequest(then, then == "remove"))
        assert not list(repo.git_dir.rglob("*.lock"))
        return
    check_works(repo, run)


# -- of the living -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ground(repo: Repo) -> RolledBackWorktree:
    return prepare(repo)


@contextlib.contextmanager
def at_work(repo: Repo, cwd: Path, *command: str, only: str) -> Iterator[subprocess.Popen[bytes]]:
    """A git of the user that works in `cwd`, and stands still while it holds its locks; it does its work in the end."""
    hooks, go = repo.scratch / "still", repo.scratch / "go"
    hooks.mkdir()
    # Since git 2.54, reference-transaction is called before there are locks, too.
    script = f'#!/bin/sh\n[ "$1" != preparing ] || exit 0\ntouch {repo.scratch}/ready\n'
    script += f"while [ ! -e {go} ]; do sleep 0.05; done\n"
    (hooks / only).write_text(script)
    (hooks / only).chmod(0o755)
    child = subprocess.Popen(["git", "-c", f"core.hooksPath={hooks}", *command], cwd=cwd)
    try:
        wait_until((repo.scratch / "ready").exists, "the git is at work")
        yield child
    finally:
        go.touch()
        child.wait()


def unlock(ground: RolledBackWorktree, *, patience: float = stale_locks.PATIENCE) -> dict[str, str]:
    """As after a command of the run whose processes were ended."""
    return rebuild.unlock(context_of(ground.there).location, ground.run, killed=True, patience=patience)


@pytest.mark.parametrize(
    "command",
    [("commit", "-qam", "theirs"), ("commit", "-q", "--allow-empty", "-m", "theirs")],
    ids=["index", "HEAD"],
)
def test_a_git_that_works_in_the_worktree_keeps_its_locks(ground: RolledBackWorktree, command: tuple[str, ...]) -> None:
    lock, said = ref_storage.lock_of(ground.there, "HEAD"), "is at work in this repository"
    if ref_storage.is_reftable(ground.entry):
        said = "has it open"  # git holds it open as long as it needs it
    if "-qam" in command:
        lock, said = ground.entry / "index.lock", "is at work in this repository"
        ground.there.write("base.txt", "theirs\n")
        ground.there.add("base.txt")
    dead = ground.repo.git_dir / "config.lock"
    dead.touch()
    with at_work(
        ground.repo, ground.path, *command, only="pre-commit" if "-qam" in command else "reference-transaction"
    ):
        found = unlock(ground, patience=0.0)
        assert said in found[str(lock)]
        assert lock.exists()
    assert ground.there.text("log", "-1", "--format=%s") == "theirs"
    assert unlock(ground) == {}
    assert not dead.exists()


def test_a_git_elsewhere_keeps_its_locks_and_not_those_of_the_worktree(ground: RolledBackWorktree) -> None:
    (ground.entry / "index.lock").touch()
    command = ("branch", "theirs")
    with at_work(ground.repo, ground.repo.path, *command, only="reference-transaction"):
        lock = ref_storage.lock_of(ground.repo, "refs/heads/theirs")
        assert list(unlock(ground, patience=0.0)) == [str(lock)]
        assert lock.exists()
    assert not (ground.entry / "index.lock").exists()
    assert ground.repo.oid("theirs") == ground.repo.oid()


def test_a_git_that_is_about_to_end_is_waited_for(ground: RolledBackWorktree) -> None:
    lock = ground.entry / "index.lock"
    lock.touch()
    go = threading.Timer(0.3, (ground.repo.scratch / "go").touch)
    with at_work(ground.repo, ground.path, "branch", "theirs", only="reference-transaction"):
        go.start()
        assert unlock(ground) == {}
    assert not lock.exists()


def test_concurrent_lock_checks_do_not_wait_for_each_other(ground: RolledBackWorktree) -> None:
    lock = ground.entry / "index.lock"
    lock.touch()
    places = [str(ground.path), str(ground.entry)]
    there = [stale_locks.Candidate(str(lock), places)]
    script = f"""if True:
        from git_agentos.git import stale_locks
        with stale_locks.examined([stale_locks.Candidate({str(lock)!r}, {places!r})]) as found:
            print(found[0].reason, flush=True)
            input()
        """
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "None\n"
    with stale_locks.examined(there, patience=0.0) as found:
        assert [each.reason for each in found] == [None]
        assert found[0].remove(context_of(ground.there).location)
        lock.touch()  # a new one, of somebody else
        assert not found[0].remove(context_of(ground.there).location)
    other.communicate("\n")
    assert lock.exists()


def test_locks_from_before_the_run_and_those_of_the_main_worktree_stay(ground: RolledBackWorktree) -> None:
    old, main = ground.repo.git_dir / "config.lock", ground.repo.git_dir / "index.lock"
    main.touch()
    old.touch()
    run = replace(ground.run, created_at="2999-01-01T00:00:00.000Z")
    assert rebuild.unlock(context_of(ground.there).location, run, killed=True) == {}
    assert (old.exists(), main.exists()) == (True, True)


def test_gits_elsewhere_that_begin_and_end_all_the_time_are_no_reason(ground: RolledBackWorktree) -> None:
    """Nothing can be read of a process that is just ending: where it works is not known then."""
    elsewhere = Repo.init(ground.repo.scratch / "elsewhere").path
    lock = ground.entry / "index.lock"
    looping = ["sh", "-c", "while :; do git rev-parse HEAD >/dev/null 2>&1; done"]
    children = [subprocess.Popen(looping, cwd=elsewhere, start_new_session=True) for _ in range(2)]
    try:
        for _ in range(15):
            lock.touch()
            assert unlock(ground) == {}
            assert not lock.exists()
    finally:
        for child in children:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
