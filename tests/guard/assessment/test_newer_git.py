"""What git 2.40 to 2.55 have brought, in an agent's worktree: nothing is lost that no checkpoint holds."""

from __future__ import annotations

import os

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from tests.support import ref_storage
from tests.support.confirming import set_up
from tests.support.git_version import needs_git
from tests.support.guard.guarded_worktree import checkpoints, guarded, sh, without_files
from tests.support.repo import Repo
from tests.support.tool import run_ok


def decided(repo: Repo, *argv: str) -> tuple[str, list[str]]:
    found = assess_git(Call(argv, str(repo.path), dict(os.environ)), Identity("dev", "environment")).decision
    return found.decision, found.operations


def reachable(repo: Repo) -> set[str]:
    """All commits that the worktree's timeline keeps."""
    return set(repo.text("rev-list", "refs/agentos/timelines/dev").split())


@pytest.fixture
def agent(repo: Repo) -> Repo:
    """An agent's worktree with two commits of its own on top of main's."""
    made = guarded(repo)
    for name in ("one", "two"):
        made.write(f"{name}.txt", f"{name}\n")
        assert sh(made, f"git add . && git commit -q -m {name}").code == 0
    return made


def _edits(repo: Repo, text: str) -> dict[str, str]:
    """An editor that replaces the message."""
    editor = repo.scratch / "editor"
    editor.write_text(f'#!/bin/sh\necho "{text}" >"$1"\n')
    editor.chmod(0o755)
    return {"GIT_EDITOR": str(editor)}


# -- git history -------------------------------------------------------------------------------------------------------


@needs_git(2, 55)
@pytest.mark.parametrize("layers", ["both", "hooks"])
def test_history_of_own_commits_is_saved_and_goes_on(agent: Repo, layers: str) -> None:
    if layers == "hooks":
        without_files(agent)
    set_up(agent, "agentos.guard.preset", "recoverable")
    before = agent.oid()
    agent.write("one.txt", "staged for the first commit\n")
    assert sh(agent, "git add one.txt && git history fixup HEAD~1").code == 0
    assert agent.text("log", "-2", "--format=%s") == "two\none"
    assert agent.read("one.txt") == b"staged for the first commit\n"
    assert before in reachable(agent)
    restored = run_ok(agent.path, "checkpoint", "list")["checkpoints"][0]["id"]
    run_ok(agent.path, "restore", restored)
    assert agent.oid() == before


@needs_git(2, 54)
@pytest.mark.parametrize("layers", ["both", "hooks"])
def test_history_of_others_commits_needs_approval(repo: Repo, agent: Repo, layers: str) -> None:
    """The commit that is made again is main's, too: main and each other branch with it would be moved."""
    if layers == "hooks":
        without_files(agent)
    repo.git("branch", "someone", "main")
    before = repo.text("for-each-ref", "refs/heads")
    done = sh(agent, "git history reword HEAD~2", env=_edits(repo, "not theirs"))
    assert done.code != 0 and "approval" in done.err, done
    assert repo.text("for-each-ref", "refs/heads") == before


# -- git replay --------------------------------------------------------------------------------------------------------


@needs_git(2, 55)
@pytest.mark.parametrize(
    "text",
    [
        "git replay --onto main~1 main..agent/dev",
        "git replay --contained --onto main~1 main..agent/dev",
        "git replay --ref=refs/heads/someone --onto main~1 main..agent/dev",
        "git replay --advance someone main..agent/dev",
    ],
)
def test_replay_keeps_what_it_moves_away_from(repo: Repo, agent: Repo, text: str) -> None:
    repo.git("branch", "someone", "main")
    before = repo.text("for-each-ref", "refs/heads")
    done = sh(agent, text)
    assert done.code != 0 and "update aborted by the reference-transaction hook" in done.err, done
    assert repo.text("for-each-ref", "refs/heads") == before
    set_up(repo, "agentos.policy.rebase", "allow")
    set_up(repo, "agentos.policy.ref-rewrite", "allow")
    set_up(repo, "agentos.policy.branch-move", "allow")
    old = {name: oid for oid, _, name in (line.split() for line in before.splitlines())}
    assert sh(agent, text).code == 0
    moved = [name for name, oid in old.items() if repo.oid(name) != oid]
    assert moved
    for name in moved:
        left = set(repo.text("rev-list", old[name], f"^{name}").split())
        assert left <= reachable(agent), name


# -- the stash ---------------------------------------------------------------------------------------------------------


@needs_git(2, 55)
def test_what_checkout_puts_into_the_stash_is_the_agents_own(repo: Repo, agent: Repo) -> None:
    """Since git 2.55, `checkout -m` keeps local changes in the stash where they conflict."""
    set_up(repo, "agentos.policy.checkout-merge", "allow")
    repo.git("branch", "elsewhere", "main")
    other = Repo(repo.path.parent / "elsewhere")
    repo.git("worktree", "add", "-q", str(other.path), "elsewhere")
    other.write("notes.txt", "theirs\n")
    other.commit("theirs")
    repo.git("worktree", "remove", str(other.path))
    agent.write("notes.txt", "mine\n")
    assert sh(agent, "git checkout -q -m elsewhere").code in (0, 1)
    assert b"<<<<<<<" in agent.read("notes.txt")
    entry = agent.text("rev-parse", "refs/stash")
    assert agent.text("show", f"{entry}:notes.txt") == "mine"
    assert "before_risky" in {each.trigger for each in checkpoints(agent)}
    assert sh(agent, "git stash drop -q").code == 0
    assert entry in reachable(agent)


@needs_git(2, 51)
def test_stashes_are_exported_and_imported(repo: Repo, agent: Repo) -> None:
    agent.write("notes.txt", "to be stashed\n")
    assert sh(agent, "git stash -q").code == 0
    entry = agent.text("rev-parse", "refs/stash")
    repo.git("branch", "someone", "main")
    before = repo.text("for-each-ref", "refs/heads")
    done = sh(agent, "git stash export --to-ref refs/heads/someone")
    assert done.code != 0 and repo.text("for-each-ref", "refs/heads") == before
    assert sh(agent, "git stash export --to-ref refs/stashes/x && git stash drop -q").code == 0
    assert agent.text("for-each-ref", "refs/stash") == "" and entry in reachable(agent)
    assert sh(agent, "git stash import refs/stashes/x && git stash pop -q").code == 0
    assert agent.read("notes.txt") == b"to be stashed\n"


# -- refs, maintenance -------------------------------------------------------------------------------------------------


@needs_git(2, 46)
def test_refs_are_not_migrated_by_an_agent(repo: Repo, agent: Repo) -> None:
    before = sorted(path.name for path in (repo.path / ".git").iterdir())
    for words in ("--ref-format=reftable", "--ref-format=reftable --no-reflog"):
        done = sh(agent, f"git refs migrate {words}")
        assert done.code != 0, done
    assert sorted(path.name for path in (repo.path / ".git").iterdir()) == before


@needs_git(2, 50)
def test_maintenance_expires_no_reflog_at_once(repo: Repo, agent: Repo) -> None:
    """By the hook that git calls when it packs refs before."""
    ref_storage.require_files("git calls no hook when it packs them")
    log = agent.text("log", "-g", "--format=%H", "HEAD")
    repo.git("config", "gc.reflogExpire", "now")
    repo.git("config", "gc.reflogExpireUnreachable", "now")
    for text in ("git maintenance run --task=gc", "git maintenance run", "git gc"):
        assert sh(agent, text).code != 0, text
        assert agent.text("log", "-g", "--format=%H", "HEAD") == log, text


@needs_git(2, 50)
@pytest.mark.parametrize("text", ["maintenance run --task=gc", "maintenance run", "gc"])
def test_maintenance_that_expires_reflogs_is_decided_before_it_runs(repo: Repo, agent: Repo, text: str) -> None:
    """By the shim and a harness's hook, which need no hook of git."""
    repo.git("config", "gc.reflogExpire", "now")
    assert decided(agent, "git", *text.split()) == ("forbid", ["gc-prune", "gc"])
    assert decided(agent, "git", "maintenance", "run", "--task=reflog-expire") == ("forbid", ["gc-prune", "gc"])


@needs_git(2, 54)
def test_an_alias_may_be_a_section(repo: Repo, agent: Repo) -> None:
    repo.git("config", "alias.wipe.command", "reset --hard HEAD~1")
    agent.write("notes.txt", "not committed\n")
    set_up(repo, "agentos.policy.reset-hard", "forbid")
    done = sh(agent, "git wipe")
    assert done.code != 0 and agent.read("notes.txt") == b"not committed\n", done


def test_two_aliases_of_a_name_are_not_guessed_between(repo: Repo) -> None:
    repo.git("config", "alias.show-it", "status")
    repo.git("config", "alias.show-it.command", "reset --hard")
    decision, operations = decided(repo, "git", "show-it")
    assert decision != "allow" and "unresolved" in operations


def test_a_push_to_a_group_is_one_to_each_remote(repo: Repo) -> None:
    """Since git 2.55, `git push GROUP` pushes to all remotes of `remotes.<group>`."""
    for name, key, value in (("plain", "url", "../a.git"), ("copy", "mirror", "true"), ("wild", "push", "+main:main")):
        repo.git("config", f"remote.{name}.url", "../a.git")
        repo.git("config", f"remote.{name}.{key}", value)
    repo.git("config", "remotes.safe", "plain")
    repo.git("config", "remotes.all", "plain copy")
    repo.git("config", "--add", "remotes.all", "wild")
    assert decided(repo, "git", "push", "safe") == ("approve", ["push"])
    assert decided(repo, "git", "push", "all") == ("forbid", ["push-mirror", "push-force", "push"])
