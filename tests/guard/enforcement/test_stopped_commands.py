"""What is said of a command that was stopped, and what is saved for it: nothing that was not looked at, and no ignored
file of a command that did not run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from git_agentos.guard.decision import SaveScope
from tests.support.guard.approvals import AGENT, approve, forbid, run_by
from tests.support.guard.guarded_worktree import checkpoints, grant_all, guarded, sh
from tests.support.repo import Repo
from tests.support.state import assert_same, complete_state
from tests.support.tool import run_ok

SECRET = "TOKEN=do-not-publish\n"


@pytest.fixture
def dev(repo: Repo) -> Repo:
    made = guarded(repo)
    made.write(".gitignore", ".env\nbuild/\n")
    made.commit("rules")
    made.write(".env", SECRET)
    made.append("readme.txt", "an hour of work\n")
    run_ok(made.path, "checkpoint", "-m", "before")
    return made


def is_published(repo: Repo) -> bool:
    """Whether a ref leads to the secret, so that a push of all refs would send it."""
    blob = repo.text("hash-object", ".env").strip()
    return blob in repo.text("rev-list", "--objects", "--all", "--reflog")


def other_way(words: str) -> str:
    """git by its whole path, with layer 1 off: it is stopped late."""
    return f"exec {shutil.which('git')} -c core.fsmonitor=false {words}"


# -- what is said ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["reset -q --hard HEAD~1", "checkout -q -f -B agent/dev HEAD~1"])
def test_files_overwritten_before_the_stop_are_listed(dev: Repo, words: str) -> None:
    before = complete_state(dev.path)
    newest = checkpoints(dev)[0]
    done = sh(dev, other_way(words))
    assert done.code != 0
    assert "nothing has changed" not in done.err
    assert "stopped late: since it was started, it has written" in done.err and "'readme.txt'" in done.err, done.err
    assert f"git agentos restore {newest.id[:8]}" in done.err
    run_ok(dev.path, "restore", newest.id, "--no-branch")
    assert_same(before, complete_state(dev.path), words)


def test_overwritten_index_is_listed(dev: Repo) -> None:
    dev.add("readme.txt")
    run_ok(dev.path, "checkpoint", "-m", "staged")
    newest = checkpoints(dev)[0]
    done = sh(dev, other_way("reset -q HEAD~1"))
    assert done.code != 0
    assert "nothing has changed" not in done.err and "the index" in done.err, done.err
    assert f"the newest checkpoint from before: {newest.id[:8]}" in done.err


def test_reflogs_expired_before_the_stop_are_listed(dev: Repo) -> None:
    done = sh(dev, "git -c gc.reflogExpire=now gc -q --prune=now")
    assert done.code != 0
    assert "nothing has changed" not in done.err and "reflogs" in done.err, done.err


@pytest.mark.parametrize(
    "text",
    [
        "git reset -q --hard HEAD~1",
        "git add readme.txt; git checkout -q -f -B agent/dev HEAD~1",
        "echo new >new.txt; git add new.txt; git update-ref -d refs/heads/main",
        "echo new >>readme.txt; git branch other main; git branch -D other",
    ],
)
def test_unchanged_worktree_is_reported_as_unchanged(dev: Repo, text: str) -> None:
    *first, last = text.split("; ")
    for part in first:
        sh(dev, part)
    before = complete_state(dev.path)
    done = sh(dev, last)
    assert done.code != 0
    assert "nothing has changed; the state is saved as" in done.err, done.err
    assert_same(before, complete_state(dev.path), text)


def test_unstoppable_git_is_not_reported_as_stopped(dev: Repo) -> None:
    unshare = ["unshare", "-Urpf", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process namespaces here")
    before = complete_state(dev.path)
    done = sh(dev, "exec unshare -Urpf --mount-proc git reset -q --hard")
    assert "nothing has changed" not in done.err and "stopped 'git" not in done.err
    assert "'git reset -q --hard' cannot be stopped" in done.err and "it goes on" in done.err, done.err
    run_ok(dev.path, "restore", "latest", "--no-branch")
    assert_same(before, complete_state(dev.path), "process 1")


def test_vanished_process_leaves_state_unknown(dev: Repo) -> None:
    script = Path(dev.text("rev-parse", "--path-format=absolute", "--git-common-dir").strip()) / "agentos/guard/hooks"
    assert "nothing was changed" not in (script / "guard.sh").read_text()


# -- what is saved -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["git clean -qfdx", "git clean -qfX", "git clean -qfx", "git clean -qi -dx"])
def test_stopped_command_saves_no_ignored_files(dev: Repo, text: str) -> None:
    done = sh(dev, text)
    assert done.code != 0 and "is saved as" in done.err, done
    assert (dev.path / ".env").read_text() == SECRET
    assert not is_published(dev)


def test_nor_below_the_other_layers(dev: Repo) -> None:
    everything = SaveScope(everything_ignored=True)
    for layer in ("shim", "harness"):
        verdict = run_by(AGENT, forbid(dev.path)._replace(save=everything), "clean", "-fdx", cwd=dev.path, layer=layer)
        assert not verdict.run and verdict.decision.checkpoint is not None
        waits = approve(dev.path)._replace(save=SaveScope(frozenset({b".env"})))
        assert not run_by(AGENT, waits, "merge", "x", cwd=dev.path, layer=layer).run
    assert not is_published(dev)


def test_approved_command_is_saved_when_it_runs(dev: Repo) -> None:
    text = "git clean -qdx -i"
    assert sh(dev, text).code != 0
    assert not is_published(dev)
    grant_all(dev)
    done = subprocess.run(["git", "clean", "-qdx", "-i"], cwd=dev.path, input=b"1\n", capture_output=True, check=False)
    assert done.returncode == 0, done
    assert not os.path.lexists(dev.path / ".env")
    run_ok(dev.path, "restore", "latest", "--no-branch")
    assert (dev.path / ".env").read_text() == SECRET


def test_incompletely_saved_command_does_not_run(dev: Repo) -> None:
    inner = Repo.init(dev.path / "inner", f"--object-format={dev.other_object_format()}")
    inner.write("file.txt", "only here\n")
    wanted = forbid(dev.path, fully_saved=True)._replace(save=SaveScope(everything_ignored=True))
    verdict = run_by(AGENT, wanted, "clean", "-ffdx", cwd=dev.path, mode="save")
    assert not verdict.run and "inner" in verdict.message
    assert not is_published(dev)
