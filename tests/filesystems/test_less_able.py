"""Where a file system cannot do something, git works, and so do checkpoint, restore, worktrees, runs and the guard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_line import Cli
from tests.support.faults import killed_restore
from tests.support.faults.server import Runner
from tests.support.filesystems import MakeRepo, checkpoint_from_elsewhere, ok, spelt
from tests.support.repo import Repo
from tests.support.state import index_entries

# Every fourth or eighth is among the samples. Those with one inability each are beside those that are met.
KINDS = [
    "share", "nolinks", "nosymlinks", "xfs", "overlay", "nomodes", "coarse", "nodirsync", "btrfs", "busy", "ntfs",
    "exfat", "apfs",
]  # fmt: skip


def _fill(repo: Repo) -> None:
    repo.write("a.txt", "one\n")
    repo.write("src/b.py", "b\n")
    repo.write("src/deep/c.py", "c\n")
    repo.write(".git/info/exclude", "*.o\n")
    repo.commit("first")


@pytest.fixture(params=KINDS)
def repo(request: pytest.FixtureRequest, repo_on: MakeRepo) -> Repo:
    return repo_on(request.param, _fill)


def _edit(repo: Repo) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "edited\n")
    repo.git("rm", "-q", "src/b.py")
    repo.write("new/é.txt", "untracked\n")
    repo.write("new.o", "ignored\n")


def _wreck(repo: Repo) -> None:
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qfd")
    repo.write("src/deep/c.py", "another\n")


def _state(repo: Repo) -> tuple[Mapping[str, bytes | None], bytes, bytes]:
    """The files, the index, and what git says of both."""
    status = repo.git("--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=all")
    return spelt(repo), repo.git("ls-files", "--stage"), status


@pytest.mark.sampled(one_in=4)
def test_every_state_comes_back(repo: Repo, cli: Cli) -> None:
    _edit(repo)
    before = _state(repo)
    ok(cli("checkpoint"))
    _wreck(repo)
    wrecked = _state(repo)
    ok(cli("restore", "latest", "--no-branch"))
    assert _state(repo) == before
    ok(cli("undo"))
    assert _state(repo) == wrecked
    repo.git("fsck", "--strict")


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
def test_a_restore_that_is_killed(repo: Repo, runner: Runner) -> None:
    _edit(repo)
    killed_restore.check(runner, repo, _wreck, exact=_state, like=_state)


def _stopped(command: list[str], dev: Repo, environment: Mapping[str, str]) -> None:
    """A command of the agent is stopped, and nothing in its worktree has changed."""
    before = _state(dev)
    done = subprocess.run(command, cwd=dev.path, env=environment, capture_output=True, check=False)
    assert done.returncode != 0, (command, done.stdout)
    assert b"git-agentos" in done.stderr or b"git agentos" in done.stderr, done.stderr
    assert _state(dev) == before, command


def _harness(dev: Repo, environment: Mapping[str, str], text: str) -> str:
    """What a harness hears that asks whether its agent may run a shell command."""
    event = {
        "hook_event_name": "PreToolUse",
        "cwd": str(dev.path),
        "tool_name": "Bash",
        "tool_input": {"command": text},
    }
    done = subprocess.run(
        [sys.executable, "-m", "git_agentos", "guard", "harness", "claude-code"],
        cwd=dev.path, env=environment, input=json.dumps(event).encode(), capture_output=True, check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout or b"{}").get("hookSpecificOutput", {})
    return str(answer.get("permissionDecision", "allow"))


@pytest.mark.sampled(one_in=8)
def test_the_life_of_a_worktree(repo: Repo, cli: Cli) -> None:
    """Created, guarded (by the hooks, core.fsmonitor, the shim and a harness), archived, revived, merged."""
    ok(cli("worktree", "create", "dev-1"))
    dev = Repo(repo.path.parent / "repo.worktrees/dev-1")
    dev.write("a.txt", "work\n")
    dev.write("notes", "more work\n")
    dev.write("x.o", "ignored\n")
    before = _state(dev)
    environment = {key: value for key, value in os.environ.items() if key != "AGENTOS_AGENT_ID"}
    by_shim = [sys.executable, "-m", "git_agentos", "guard", "exec", "--", "git"]
    _stopped(["git", "reset", "--hard"], dev, environment)
    _stopped(["git", "update-ref", "-d", "refs/heads/main"], dev, environment)
    _stopped([*by_shim, "clean", "-fdx"], dev, environment)
    for text in ("git reset --hard", "git checkout -f", "git -C . clean -fd", "git stash drop; git branch -D main"):
        assert _harness(dev, environment, text) == "deny", text
    assert _harness(dev, environment, "git status") == "allow"
    # What a text deletes without git is saved first.
    assert _harness(dev, environment, "rm a.txt notes") == "allow"
    os.unlink(dev.at("notes"))
    dev.write("a.txt", "torn\n")
    ok(cli("restore", "latest", "--no-branch", "-C", str(dev.path)))
    assert _state(dev) == before
    ok(cli("worktree", "archive", "dev-1"))
    assert not dev.path.exists()
    ok(cli("worktree", "create", "dev-1", "--revive"))
    assert _state(dev) == before
    dev.git("add", "a.txt", "notes")
    dev.git("commit", "-q", "-m", "work")
    ok(cli("worktree", "merge", "dev-1"))
    assert repo.read("notes") == b"more work\n"
    ok(cli("worktree", "complete", "dev-1"))


@pytest.mark.sampled(one_in=8)
def test_a_run_and_its_rollback(repo: Repo, cli: Cli) -> None:
    ok(
        cli(
            "run",
            "start",
            "--id",
            "one",
            "--agent",
            "echo 42 >answer; echo b >src/b.py",
            "--validate",
            "test -s answer",
        )
    )
    ok(cli("run", "verify", "one"))
    folder = Path(repo.path.parent, "repo.worktrees/run-one")
    assert (folder / "answer").read_bytes() == b"42\n"
    ok(cli("rollback", "one"))
    assert not (folder / "answer").exists()
    assert Repo(folder).git("status", "--porcelain") == b""


@pytest.mark.parametrize("kind", ["exfat", "share"])
def test_a_link_that_is_only_intended(repo_on: MakeRepo, cli: Cli, tmp_path: Path, kind: str) -> None:
    """Its index entry says that it is a link; in the worktree it is a file with the target, as git writes it."""

    def intend(other: Repo) -> None:
        other.link("link", "a.txt")
        other.write("tool", "#!/bin/sh\n", 0o755)
        other.git("add", "-N", "link", "tool")

    repo = repo_on(kind, _fill)
    elsewhere = checkpoint_from_elsewhere(repo, tmp_path, intend)
    repo.write("mine", "mine\n")
    before = _state(repo)
    ok(cli("restore", elsewhere, "--all"))
    entries = {entry.path: (entry.mode, entry.flags) for entry in index_entries(repo.path)}
    intended = ("intent-to-add",)
    assert (entries[b"link"], entries[b"tool"]) == (("120000", intended), ("100755", intended))
    assert spelt(repo)["link"] == b"a.txt"
    ok(cli("undo"))
    assert _state(repo) == before


@pytest.mark.parametrize("kind", ["exfat", "share"])
def test_modes_that_only_the_index_has(repo_on: MakeRepo, cli: Cli, kind: str) -> None:
    """All files on disk have the same modes, which `chmod` does not change, or refuses to change."""
    repo = repo_on(kind, _fill)
    before = _state(repo)
    ok(cli("checkpoint"))
    repo.git("update-index", "--chmod=+x", "a.txt", "src/b.py")
    repo.git("commit", "-q", "-m", "executable")
    wrecked = _state(repo)
    ok(cli("restore", "latest"))
    assert _state(repo) == before
    ok(cli("undo"))
    assert _state(repo) == wrecked
