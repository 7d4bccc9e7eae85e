"""Checkpoints of hooks that git calls while it has locked all refs, as it does where they are in reftables."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests
from git_agentos.checkpoint import creation, deferred, timeline
from git_agentos.git import state_dir
from git_agentos.git.repository import Repository
from git_agentos.guard.enforcement import saving
from git_agentos.guard.setup import repository_hooks
from tests.support import ref_storage
from tests.support.concurrent_processes import assert_timeline, assert_whole, workers
from tests.support.confirming import confirm
from tests.support.git_version import needs_git
from tests.support.guard.guarded_worktree import (
    checkpoints,
    guarded,
    location,
    scripts_dir,
    sh,
    without_files,
)
from tests.support.repo import Repo, fill, filled
from tests.support.state import assert_same, complete_state
from tests.support.tool import run, run_ok

LOSSES = (
    "branch-delete branch-force branch-move branch-reset checkout-force commit-amend merge pull rebase ref-delete"
    " ref-rewrite reset-hard reset-soft stash-drop"
).split()
_SOURCES = Path(tests.__file__).parents[1]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A small history in a repository with reftables."""
    ref_storage.require()
    made = fill(Repo.init(tmp_path / "repo", "--ref-format=reftable"))
    assert ref_storage.is_reftable(made.git_dir)
    return made


def allow_losses(repo: Repo) -> None:
    """Let every command of these tests run, after a checkpoint; what tests edit of the guard does not stop it then."""
    for operation in (*LOSSES, "unresolved"):
        repo.git("config", f"agentos.policy.{operation}", "allow")
    confirm(repo.path)


@pytest.fixture
def agent(repo: Repo) -> Repo:
    """A guarded worktree without layer 1, where every loss is saved and nothing is asked; it has changes to lose."""
    allow_losses(repo)
    repo.git("branch", "loose", "other")
    made = guarded(repo)
    without_files(made)
    made.write("own.txt", "own\n")
    made.commit("own")
    made.write("staged.txt", "staged\n")
    made.add("staged.txt")
    made.append("notes.txt", "changed\n")
    made.write("untracked.txt", "untracked\n")
    run_ok(made.path, "checkpoint", "--trigger", "manual", "-m", "first")
    made.append("notes.txt", "again\n")
    return made


def notes(repo: Repo) -> list[str]:
    """What hooks have noted, and no one has published yet; nothing is published by looking."""
    return deferred.paths(location(repo))


def keep_files(repo: Repo) -> list[Path]:
    """The keep files of packs; one without a pack means nothing to git."""
    found = Path(location(repo).common_dir, "objects", "pack").glob("*.keep")
    return sorted(path for path in found if path.with_suffix(".pack").exists())


def on_timeline(repo: Repo, name: str = "dev") -> list[str]:
    """The ids of the checkpoints that plain git finds on the timeline, newest first."""
    rows = repo.text("log", "--first-parent", "--format=%P", f"refs/agentos/timelines/{name}").splitlines()
    return [row.split()[1] for row in rows if row]


def assert_settled(repo: Repo, name: str = "dev") -> None:
    """Nothing waits, and the timeline is whole and linear, with each checkpoint once."""
    assert notes(repo) == []
    assert keep_files(repo) == []
    assert_timeline(repo.path, name, on_timeline(repo, name))
    assert_whole(repo.path)


def found_by_doctor(repo: Repo, *args: str) -> list[dict[str, Any]]:
    """What a person's `doctor` says of what is noted."""
    findings = run(repo.path, "doctor", *args, "--json").json["findings"]
    return [each for each in findings if each["code"] == "deferred"]


def quiet(repo: Repo, *args: str) -> bytes:
    return repo.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *args)


# -- each command is saved before --------------------------------------------------------------------------------------

SAVED = [
    "git stash push -q -u",
    "git commit -q --amend -m again",
    "git reset -q --hard main~1",
    "git reset -q --soft main~1",
    "git branch -q -D loose",
    "git update-ref refs/heads/loose main",
    "git update-ref -d refs/heads/loose",
    "printf 'start\\nupdate refs/heads/loose main\\ncommit\\n' | git update-ref --stdin",
    "git checkout -q -f -B loose main",
]


@pytest.mark.parametrize("text", SAVED)
def test_the_state_before_is_on_the_timeline(agent: Repo, text: str) -> None:
    before, head = complete_state(agent.path), agent.oid()
    first = on_timeline(agent)
    done = sh(agent, text)
    assert done.code == 0, done
    assert notes(agent) == []  # it is published at once: nobody has to ask for it
    assert on_timeline(agent)[-len(first) :] == first
    created = [each for each in reversed(checkpoints(agent)) if each.id not in first]
    saved = created[0]
    assert (saved.trigger in ("before_risky", "pre_commit"), saved.commit) == (True, head), created
    assert [each.trigger for each in created].count("before_risky") == 1
    assert_settled(agent)
    run_ok(agent.path, "restore", saved.id, "--no-branch", "--json")
    if "reset -q --hard" not in text and "checkout" not in text:  # these have changed files before they move a ref
        assert complete_state(agent.path).files == before.files


def test_a_dropped_stash_is_restored(agent: Repo) -> None:
    before = complete_state(agent.path)
    assert sh(agent, "git stash push -q -u && git stash drop -q").code == 0
    assert (agent.git("stash", "list"), (agent.path / "untracked.txt").exists()) == (b"", False)
    quiet(agent, "reflog", "expire", "--expire=now", "--all")
    quiet(agent, "gc", "-q", "--prune=now")
    run_ok(agent.path, "restore", checkpoints(agent, "before_risky")[-1].id, "--no-branch", "--json")
    assert_same(before, complete_state(agent.path), "restore", permissions="all")


def test_history_that_is_rewritten_or_forwarded(repo: Repo) -> None:
    allow_losses(repo)
    for text, base in (
        ("git rebase -q main", "main~1"),
        ("git pull -q --ff-only . main", "main~1"),
        ("git pull -q --no-rebase --no-edit . other", "main"),
        ("git merge -q --no-edit other", "main"),
    ):
        name = text.split()[1] + base[-1] + str(len(text))
        agent = guarded(repo, name, base)
        without_files(agent)
        if "ff-only" not in text:
            agent.write("own.txt", "own\n")
            quiet(agent, "add", "own.txt")
            quiet(agent, "commit", "-q", "-m", "own")
        agent.write("untracked.txt", "untracked\n")
        head = agent.oid()
        done = sh(agent, text)
        assert done.code == 0, (text, done)
        assert agent.oid() != head, text
        assert head in [each.commit for each in checkpoints(agent)], text
        assert_settled(agent, name)
        before = next(each for each in checkpoints(agent) if each.commit == head)
        assert before.untracked_files == ["untracked.txt"], text


def test_in_the_main_worktree_of_a_person(repo: Repo) -> None:
    repository_hooks.install(location(repo), save=True)
    without_files(repo)
    repo.write("untracked.txt", "untracked\n")
    head = repo.oid()
    done = sh(repo, "git reset -q --soft HEAD~1")
    assert done.code == 0, done
    assert [(each.trigger, each.commit) for each in checkpoints(repo)] == [("before_risky", head)]
    assert "git agentos restore" in done.err
    assert_settled(repo, "main")


def test_a_stopped_command_is_recorded_when_git_has_given_up(repo: Repo) -> None:
    agent = guarded(repo)
    without_files(agent)
    agent.write("untracked.txt", "untracked\n")
    done = sh(agent, "git tag -d v1")
    assert done.code != 0
    assert "approvals grant" in done.err
    assert agent.oid("v1") == repo.oid("main~1")
    assert_settled(agent)
    (saved,) = checkpoints(agent)
    assert (saved.trigger, saved.untracked_files) == ("before_risky", ["untracked.txt"])
    assert saved.id[:8] in done.err


# -- killed ------------------------------------------------------------------------------------------------------------

_KILLED = {
    # git dies after the note is written, with its locks.
    "git in prepared": [('[ -n "$hook" ] || exit 0\nexec "$hook"', 'command -p kill -9 "$PPID"\nexit 0\nexec "$hook"')],
    # git and the hook die after the ref has moved.
    "all in committed": [("|| publish_deferred\n", '|| command -p kill -9 "$PPID" "$$"\n')],
    # Only the program that publishes dies.
    "the program": [("run_recorder publish </dev/null", ":")],
}


@contextlib.contextmanager
def edited(repo: Repo, name: str, *changes: tuple[str, str]) -> Iterator[None]:
    """A script of ours, with changes (old and new text)."""
    script = scripts_dir(repo) / name
    text = ours = script.read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    script.write_text(text)
    try:
        yield
    finally:
        script.write_text(ours)


@pytest.mark.parametrize("reader", ["list", "checkpoint", "doctor", "repair", "git", "fsmonitor"])
@pytest.mark.parametrize("what", _KILLED)
def test_what_was_noted_is_published_once(agent: Repo, repo: Repo, what: str, reader: str) -> None:
    before, first = complete_state(agent.path), on_timeline(agent)
    with edited(agent, "reference-transaction", *_KILLED[what]):
        done = sh(agent, "git update-ref refs/heads/loose main")
    assert (done.code == 0) == (what == "the program"), done
    (noted,) = notes(agent)
    saved = agent.text("rev-parse", deferred.read(noted).commit + "^2")
    assert on_timeline(agent) == first
    assert len(keep_files(agent)) >= 1
    published = [saved]
    if reader == "list":
        assert run_ok(agent.path, "checkpoint", "list", "--json")["checkpoints"][0]["id"] == saved
    elif reader == "checkpoint":
        agent.append("notes.txt", "more\n")
        published.insert(0, run_ok(agent.path, "checkpoint", "--json")["id"])
    elif reader == "doctor":
        assert found_by_doctor(repo) == []
    elif reader == "repair":
        run_ok(repo.path, "worktree", "repair", "--json")
    elif reader == "git":
        if what == "git in prepared":  # no other git can lock refs before the lock of the killed one is removed
            run_ok(repo.path, "worktree", "repair", "dev", "--json")
        agent.git("branch", "another")
    else:
        agent.git("config", "--worktree", "core.fsmonitor", f"{scripts_dir(agent)}/fsmonitor")
        agent.git("rm", "-q", "--cached", "own.txt")
        published = on_timeline(agent)[: -len(first)]
        assert published[-1] == saved
    assert on_timeline(agent) == [*published, *first]
    assert_settled(agent)
    run_ok(agent.path, "restore", saved, "--no-branch", "--json")
    assert complete_state(agent.path).files == before.files


def dying(repo: Repo, hook: str, step: int) -> contextlib.AbstractContextManager[None]:
    """Our program dies at a step when it is started as `hook`; it writes the names of the steps to a file."""
    start = f"PYTHONPATH='{_SOURCES}' '{sys.executable}' -m tests.support.hook_worker '{repo.scratch}/steps' {step}"
    new = f'\nagentos() {{\n\tif [ "$1" = {hook} ]; then\n\t\t{start} "$@"\n\t\treturn\n\tfi\n'
    return edited(repo, "guard.sh", ("\nagentos() {\n", new))


def all_steps(repo: Repo, hook: str, text: str) -> list[str]:
    """The names of the steps of our program as `hook`, when a command is run."""
    with dying(repo, hook, 0):
        done = sh(repo, text)
    assert done.code == 0, done
    return steps_of(repo)


def steps_of(repo: Repo) -> list[str]:
    """The names of the steps of the last run of our program, the one before which it was killed included."""
    return [json.loads(line) for line in (repo.scratch / "steps").read_text().splitlines()]


def is_note(step: str) -> bool:
    """Whether a step makes the note visible."""
    return step.startswith("os.link") and "/deferred/" in step


def _sampled(steps: list[str]) -> Iterator[int]:
    """Some of the steps that write objects, and all that follow, from the pack with a keep file on."""
    first = next((number for number, name in enumerate(steps, 1) if name.endswith(".keep")), 1)
    yield from range(1, first, max(1, first // 4))
    yield from range(first, len(steps) + 1)


@pytest.mark.slow
def test_hook_killed_at_each_step_while_it_notes(agent: Repo, repo: Repo) -> None:
    texts = [f"git update-ref refs/heads/loose {name}" for name in (agent.oid("main"), agent.oid("main~1"))]
    steps = all_steps(agent, "reference-transaction", texts[0])
    assert any(is_note(name) for name in steps)
    for count, step in enumerate(_sampled(steps)):
        agent.append("notes.txt", f"{step}\n")
        first, state = on_timeline(agent), complete_state(agent.path)
        with dying(agent, "reference-transaction", step):
            done = sh(agent, texts[(count + 1) % 2])
        made = steps_of(agent)
        killed = len(made) == step  # there are fewer steps where a folder of objects exists already
        # An agent's command does not run without the answer; when git has given up, it calls the hook that publishes.
        assert (done.code != 0) == killed, (step, done)
        assert notes(agent) == []
        run(repo.path, "doctor", "--fix", "--json")
        assert on_timeline(agent)[-len(first) :] == first
        assert len(on_timeline(agent)) == len(first) + sum(map(is_note, made[: step - 1])), (step, made)
        assert_settled(agent)
        assert_same(state, complete_state(agent.path), str(step), permissions="all")
        assert sh(agent, texts[(count + 1) % 2]).code == 0
        assert_settled(agent)


@pytest.mark.slow
def test_hook_killed_at_each_step_while_it_publishes(agent: Repo, repo: Repo) -> None:
    texts = [f"git update-ref refs/heads/loose {name}" for name in (agent.oid("main"), agent.oid("main~1"))]
    steps = all_steps(agent, "publish", texts[0])
    assert any("update-ref" in name for name in steps)
    for count, step in enumerate(range(1, len(steps) + 1)):
        agent.append("notes.txt", f"{step}\n")
        first = on_timeline(agent)
        with dying(agent, "publish", step):
            done = sh(agent, texts[(count + 1) % 2])
        assert done.code == 0, (step, done)
        newest = run_ok(agent.path, "checkpoint", "list", "--json")["checkpoints"][0]
        assert newest["trigger"] == "before_risky", step
        assert on_timeline(agent) == [newest["id"], *first], step
        run(repo.path, "doctor", "--fix", "--json")
        assert_settled(agent)


# -- notes and timelines that do not fit -------------------------------------------------------------------------------


def unpublished(agent: Repo, *texts: str) -> list[str]:
    """Notes of these commands, which nobody publishes; the ids of their checkpoints."""
    with edited(agent, "reference-transaction", *_KILLED["the program"]):
        for number, text in enumerate(texts):
            agent.append("notes.txt", f"before {number}\n")
            assert sh(agent, text).code == 0
    return [agent.text("rev-parse", deferred.read(path).commit + "^2") for path in notes(agent)]


MOVES = ["git update-ref refs/heads/loose main", "git update-ref refs/heads/loose main~1", "git branch -q -D loose"]


def test_several_are_published_in_their_order(agent: Repo) -> None:
    first = on_timeline(agent)
    noted = unpublished(agent, *MOVES)
    assert len(noted) == 3
    assert [each.id for each in checkpoints(agent)] == [*reversed(noted), *first]
    assert_settled(agent)


def test_one_that_is_on_the_timeline_is_only_removed(agent: Repo) -> None:
    (saved,) = unpublished(agent, MOVES[0])
    (path,) = notes(agent)
    text = Path(path).read_bytes()
    assert checkpoints(agent)[0].id == saved
    agent.append("notes.txt", "more\n")
    run_ok(agent.path, "checkpoint", "--json")
    held = on_timeline(agent)
    Path(path).write_bytes(text)
    assert [each.id for each in checkpoints(agent)] == held
    assert_settled(agent)


def test_timeline_that_has_moved_meanwhile_keeps_both(agent: Repo) -> None:
    first = on_timeline(agent)
    (saved,) = unpublished(agent, MOVES[0])
    (path,) = notes(agent)
    text = Path(path).read_bytes()
    Path(path).unlink()
    between = run_ok(agent.path, "checkpoint", "-m", "between", "--json")["id"]
    Path(path).write_bytes(text)
    assert [each.id for each in checkpoints(agent)] == [saved, between, *first]
    assert_settled(agent)


def test_the_first_checkpoint_of_a_timeline(repo: Repo) -> None:
    allow_losses(repo)
    repo.git("branch", "loose", "other")
    agent = guarded(repo)
    without_files(agent)
    agent.write("untracked.txt", "untracked\n")
    noted = unpublished(agent, *MOVES[:2])
    assert agent.git("for-each-ref", "refs/agentos/timelines") == b""
    assert [each.id for each in checkpoints(agent)] == list(reversed(noted))
    assert_settled(agent)


def test_unreachable_objects_survive_a_gc(agent: Repo) -> None:
    before = complete_state(agent.path)
    (saved,) = unpublished(agent, MOVES[0])
    quiet(agent, "reflog", "expire", "--expire=now", "--all")
    quiet(agent, "gc", "-q", "--prune=now")
    assert len(notes(agent)) == 1
    run_ok(agent.path, "restore", saved, "--no-branch", "--json")
    assert complete_state(agent.path).files[b"untracked.txt"] == before.files[b"untracked.txt"]
    assert_settled(agent)
    quiet(agent, "gc", "-q", "--prune=now")
    assert saved in on_timeline(agent)


DAMAGED = [b"", b"{", b"[]", b'{"timeline": "dev"}', b'{"timeline": 1, "commit": 2, "committer": 3, "keep": 4}']


@pytest.mark.parametrize("data", [*DAMAGED, b"a commit of another kind", b"no object", b"another timeline"])
def test_a_damaged_note_is_a_finding(agent: Repo, repo: Repo, data: bytes) -> None:
    first = on_timeline(agent)
    noted = unpublished(agent, *MOVES[:2])
    path = Path(notes(agent)[0])
    body = json.loads(path.read_bytes())
    if data == b"a commit of another kind":
        data = json.dumps({**body, "commit": agent.oid()}).encode()
    elif data == b"no object":
        data = json.dumps({**body, "commit": agent.oid()[::-1]}).encode()
    elif data == b"another timeline":
        data = json.dumps({**body, "timeline": "../../heads/loose"}).encode()
    path.write_bytes(data)
    refs = agent.git("for-each-ref", "refs/heads")
    assert [each.id for each in checkpoints(agent)] == [noted[1], *first]  # the other one is published
    created = run_ok(agent.path, "checkpoint", "-m", "more", "--json")["id"]
    (found,) = found_by_doctor(repo)
    assert (found["severity"], str(path) in found["message"], found["fixed"]) == ("error", True, False)
    assert [each["fixed"] for each in found_by_doctor(repo, "--fix")] == [True]
    assert found_by_doctor(repo) == []
    assert on_timeline(agent) == [created, noted[1], *first]
    assert agent.git("for-each-ref", "refs/heads") == refs
    run(repo.path, "doctor", "--fix", "--json")
    assert_settled(agent)


def test_missing_objects_are_a_finding(agent: Repo, repo: Repo) -> None:
    first = on_timeline(agent)
    unpublished(agent, MOVES[0])
    for path in keep_files(agent):
        path.unlink()
    quiet(agent, "reflog", "expire", "--expire=now", "--all")
    quiet(agent, "gc", "-q", "--prune=now")
    assert [each.id for each in checkpoints(agent)] == first
    assert ["missing" in each["message"] for each in found_by_doctor(repo)] == [True]
    created = run_ok(agent.path, "checkpoint", "-m", "more", "--json")["id"]
    run(repo.path, "doctor", "--fix", "--json")
    assert on_timeline(agent) == [created, *first]
    assert_settled(agent)


def test_a_missing_tree_is_a_finding(agent: Repo, repo: Repo) -> None:
    """No timeline may lead to a checkpoint that cannot be restored."""
    first = on_timeline(agent)
    (saved,) = unpublished(agent, MOVES[0])
    tree = agent.text("rev-parse", f"{saved}^{{tree}}")
    agent.loose_object(tree).unlink()
    assert [each.id for each in checkpoints(agent)] == first
    assert [tree in each["message"] for each in found_by_doctor(repo)] == [True]


def test_the_domain_publishes_before_it_appends(agent: Repo) -> None:
    """A checkpoint that is not created by way of the workspace, as those of the shim."""
    first = on_timeline(agent)
    (saved,) = unpublished(agent, MOVES[0])
    agent.append("notes.txt", "more\n")
    context = saving.context_at(location(agent), "dev", {})
    created = creation.create_checkpoint(context, context.metadata(trigger="manual")).checkpoint.id
    assert on_timeline(agent) == [created, saved, *first]
    assert_settled(agent)


def test_a_note_moves_no_other_ref(tmp_path: Path) -> None:
    """Planted by an agent, where refs are in files: the name of a timeline is no path."""
    planted = filled(tmp_path / "planted")
    saved = run_ok(planted.path, "checkpoint", "--json")["id"]
    name = "../../heads/other"
    text = f"planted\n\nAgentos-Worktree: {name}\n"
    commit = planted.text("commit-tree", "-p", "other", "-p", saved, "-m", text, f"{saved}^{{tree}}")
    before = planted.git("for-each-ref")
    deferred.note(location(planted), name, commit, b"A <a@b>", [])
    run_ok(planted.path, "checkpoint", "list", "--json")
    assert planted.git("for-each-ref") == before
    assert len(notes(planted)) == len(found_by_doctor(planted)) == 1


def test_keep_file_of_a_waiting_note_is_not_stale(agent: Repo, repo: Repo) -> None:
    """Not in `doctor` of another worktree either: it publishes there."""
    (saved,) = unpublished(agent, MOVES[0])
    findings = run(repo.path, "doctor", "--fix", "--json").json["findings"]
    assert {"stale-keep", "deferred"}.isdisjoint(each["code"] for each in findings)
    assert on_timeline(agent)[0] == saved
    assert_settled(agent)


# -- others at the same time -------------------------------------------------------------------------------------------


@needs_git(2, 48)  # it knows reftable.lockTimeout; an older git gives up at once where another one changes a ref
def test_many_processes_at_once(repo: Repo) -> None:
    """Four worktrees: in each, git commands that are saved before, and checkpoints by the command line."""
    allow_losses(repo)
    repo.git("config", "reftable.lockTimeout", "60000")  # of the gits, which else give up after 0.1 seconds
    agents = []
    for number in range(4):
        repo.git("branch", f"loose-{number}", "other")
        made = guarded(repo, f"agent-{number}")
        without_files(made)
        made.write("untracked.txt", f"{number}\n")
        agents.append(made)
    loop = (
        "for n in 1 2 3; do echo $n >>notes.txt; git update-ref refs/heads/loose-{0} main"
        " && git update-ref refs/heads/loose-{0} main~1 && git stash push -q -u && git stash drop -q || exit 9; done"
    )
    with workers() as crowd:
        for made in agents:
            crowd.add("checkpoint", made.path, 4)
        gits = []
        crowd.begin()
        for number, made in enumerate(agents):
            text = loop.replace("{0}", str(number))
            gits.append(subprocess.Popen(["sh", "-c", text], cwd=made.path, stderr=subprocess.PIPE))
        reported = crowd.finish()
        errors = [child.communicate(timeout=300)[1].decode() for child in gits]
    assert [child.returncode for child in gits] == [0] * 4, errors
    for number, (made, turns) in enumerate(zip(agents, reported, strict=True)):
        assert [turn.error for turn in turns] == [None] * 4
        held = on_timeline(made, f"agent-{number}")
        assert {turn.id for turn in turns} <= set(held)
        assert_settled(made, f"agent-{number}")
        stashes = [each for each in checkpoints(made, "before_risky") if "stash" in each.meta["command"]]
        assert len(stashes) == 3
        assert all(each.untracked_files == ["untracked.txt"] for each in stashes[-1:])


def test_a_user_hook_that_creates_a_checkpoint(repo: Repo) -> None:
    """Our command in a hook of the user's, without the guard: the next reader publishes."""
    program = f"PYTHONPATH='{_SOURCES}' '{sys.executable}' -m git_agentos checkpoint -q -m hooked"
    hook = repo.git_dir / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n[ "$1" != prepared ] || {program}\n')
    hook.chmod(0o755)
    done = sh(repo, "git branch new")
    hook.unlink()
    assert done.code == 0, done
    assert len(notes(repo)) == 1
    assert [each.description for each in checkpoints(repo)] == ["hooked"]
    assert_settled(repo, "main")


def test_while_a_restore_is_at_work_the_command_is_stopped(agent: Repo) -> None:
    """Its lock is not waited for: the restore may be waiting for the refs that git has locked."""
    refs = agent.git("for-each-ref", "refs/heads")
    with state_dir.lock(location(agent), "worktree"):
        done = sh(agent, "git update-ref refs/heads/loose main")
    assert done.code != 0
    assert "another git-agentos command is at work in this worktree" in done.err
    assert agent.git("for-each-ref", "refs/heads") == refs
    assert sh(agent, "git update-ref refs/heads/loose main").code == 0


def test_publishing_needs_no_note(agent: Repo) -> None:
    assert timeline.publish(Repository(location(agent))) == []
    assert os.listdir(location(agent).state_dir).count(deferred.FOLDER) == 0
