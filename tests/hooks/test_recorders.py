"""Layer 2: the recorders. What they do wrong stops nothing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.guard.setup import repository_hooks
from tests.support import ref_storage
from tests.support.confirming import set_up
from tests.support.dirty import make_dirty
from tests.support.guard.guarded_worktree import (
    ShellResult,
    Spy,
    checkpoints,
    guarded,
    location,
    scripts_dir,
    sh,
    without_files,
)
from tests.support.repo import Repo
from tests.support.state import complete_state
from tests.support.tool import run_ok

# A ref with which no timeline can be created, and its value.
IN_THE_WAY = ("refs/agentos/timelines", "HEAD")
# What is started when git has unlocked the refs, after a checkpoint that a hook has created while they were locked.
PUBLISHED = [] if ref_storage.by_default() == ref_storage.FILES else ["publish"]


def triggers(repo: Repo) -> list[str]:
    return [each.trigger for each in reversed(checkpoints(repo))]


def quiet(repo: Repo, *args: str) -> None:
    repo.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *args)


def test_a_commit_is_recorded(repo: Repo) -> None:
    agent = guarded(repo)
    agent.write("new.txt", "new\n")
    agent.git("add", "new.txt")
    agent.git("commit", "-q", "-m", "first")
    assert triggers(agent) == ["pre_commit", "after_commit"]
    before, after = reversed(checkpoints(agent))
    assert (before.staged_changes, before.commit) == (["new.txt"], agent.oid("HEAD~1"))
    assert (after.staged_changes, after.commit) == ([], agent.oid())
    assert after.created_by == "dev"
    assert after.meta["command"] == "git commit -q -m first"


@pytest.mark.parametrize("form", ["-a", "-q -a", "notes.txt", "--only notes.txt", "-i notes.txt"])
def test_staged_content_is_recorded_before_it_is_replaced(repo: Repo, form: str) -> None:
    agent = guarded(repo)
    without_files(agent)
    agent.write("notes.txt", "staged\n")
    agent.git("add", "notes.txt")
    agent.write("notes.txt", "in the worktree\n")
    done = sh(agent, f"git commit -q -m commit {form}")
    assert done.code == 0, done
    before = checkpoints(agent, "pre_commit")[0]
    assert agent.git("show", f"{before.id}^2:notes.txt") == b"staged\n"
    assert agent.git("show", f"{before.id}:notes.txt") == b"in the worktree\n"
    assert agent.git("show", "HEAD:notes.txt") == b"in the worktree\n"


def test_switching_branches_is_recorded(repo: Repo) -> None:
    agent = guarded(repo)
    agent.write("new.txt", "new\n")
    agent.git("switch", "-q", "-c", "elsewhere")
    assert triggers(agent) == ["after_checkout"]
    assert checkpoints(agent)[0].branch == "elsewhere"
    agent.git("restore", "--staged", ".")
    assert triggers(agent) == ["after_checkout"]


def test_a_merge_is_recorded_before_and_after(repo: Repo) -> None:
    set_up(repo, "agentos.policy.merge", "allow")
    agent = guarded(repo)
    without_files(agent)
    agent.write("own.txt", "own\n")
    quiet(agent, "add", "own.txt")
    quiet(agent, "commit", "-q", "-m", "own")
    agent.write("untracked.txt", "untracked\n")
    head = agent.oid()
    done = sh(agent, "git merge -q other")
    assert done.code == 0, done
    # What may lose something is saved as that; one checkpoint of a state is enough.
    assert triggers(agent) == ["before_risky", "after_commit"]
    after, before = checkpoints(agent)
    assert (before.commit, after.commit) == (head, agent.oid())


def test_a_rebase_is_recorded_once(repo: Repo) -> None:
    set_up(repo, "agentos.policy.rebase", "allow")
    agent = guarded(repo, base="main~1")
    without_files(agent)
    for number in range(3):
        agent.write(f"{number}.txt", "x\n")
        quiet(agent, "add", ".")
        quiet(agent, "commit", "-q", "-m", str(number))
    spy = Spy(agent)
    done = sh(agent, "git rebase -q main")
    assert done.code == 0, done
    assert spy.started() == ["pre-rebase", "reference-transaction", *PUBLISHED, "post-rewrite"]
    assert triggers(agent)[-1] == "after_commit"
    assert checkpoints(agent)[0].commit == agent.oid()


def test_a_rebase_is_decided_once_before_it_begins(repo: Repo) -> None:
    """By the core.fsmonitor script, if git has called it for the rebase; `pre-rebase` would get the same answer."""
    set_up(repo, "agentos.policy.rebase", "allow")
    agent = guarded(repo, base="main~1")
    agent.write("new.txt", "x\n")
    quiet(agent, "add", ".")
    quiet(agent, "commit", "-q", "-m", "new")
    spy = Spy(agent)
    done = sh(agent, "git rebase -q main")
    assert done.code == 0, done
    assert spy.started() == ["fsmonitor", "reference-transaction", *PUBLISHED, "post-rewrite"]
    assert "before_risky" in triggers(agent)


@pytest.mark.parametrize(
    ("switch", "left"),
    [
        ("agentos.auto.afterCommit", ["pre_commit"]),
        ("agentos.auto.beforeRisky", ["after_commit"]),
    ],
)
def test_switches(repo: Repo, switch: str, left: list[str]) -> None:
    set_up(repo, switch, "false")
    agent = guarded(repo)
    agent.write("new.txt", "new\n")
    agent.git("add", "new.txt")
    agent.git("commit", "-q", "-m", "first")
    assert triggers(agent) == left


def test_peoples_work_is_recorded_and_never_stopped(repo: Repo) -> None:
    repository_hooks.install(location(repo), save=False)
    repo.git("branch", "mine", "other")
    repo.git("checkout", "-q", "-b", "own", "main")
    assert triggers(repo) == ["after_checkout"]
    repo.write("own.txt", "own\n")
    repo.commit("own")
    assert triggers(repo) == ["after_checkout", "pre_commit", "after_commit"]
    repo.write("untracked.txt", "untracked\n")
    repo.git("merge", "-q", "--no-edit", "mine")
    assert triggers(repo)[3:] == ["before_merge", "after_commit"]
    assert checkpoints(repo, "before_merge")[0].untracked_files == ["untracked.txt"]
    assert {each.created_by for each in checkpoints(repo)} == {"main"}
    for text in (
        "git branch -q -D mine",
        "git commit -q --amend -m again --no-verify",
        "git reset -q --hard main",
        "git clean -qfd",
        "git push -q --force . HEAD:other",
        "git update-ref -d refs/heads/other",
        "git rebase -q --root",
    ):
        assert sh(repo, text).code == 0, text


@pytest.mark.parametrize(
    "text",
    [
        "git --git-dir .git merge -q --no-edit mine",
        "git --git-dir=.git --work-tree . merge -q --no-edit mine",
        "git --namespace n merge -q --no-edit mine",
        "git --no-pager -c user.name=me --attr-source HEAD merge -q --no-edit mine",
        'cd src && GIT_DIR="$PWD/../.git" git --work-tree .. -C . merge -q --no-edit mine',
        "git --git-dir .git pull -q --no-rebase --no-edit . mine",
    ],
)
def test_merge_is_recorded_with_any_options(repo: Repo, text: str) -> None:
    if "--attr-source" in text and "--attr-source" not in repo.text("--help"):
        text = text.replace("--attr-source HEAD ", "")
    repository_hooks.install(location(repo), save=False)
    repo.git("branch", "mine", "other")
    repo.write("own.txt", "own\n")
    repo.commit("own")
    assert triggers(repo)[-1] == "after_commit"  # waits for it
    repo.write("untracked.txt", "untracked\n")
    done = sh(repo, text)
    assert done.code == 0, done
    assert checkpoints(repo, "before_merge")[0].untracked_files == ["untracked.txt"]


def test_the_switch_before_merges(repo: Repo) -> None:
    repository_hooks.install(location(repo), save=False)
    for name in ("beforeMerge", "afterCommit"):
        repo.git("config", f"agentos.auto.{name}", "false")
    repo.write("untracked.txt", "untracked\n")
    assert sh(repo, "git merge -q --no-ff -m merge other").code == 0
    assert triggers(repo) == []


def test_an_agent_in_a_persons_repository_is_stopped(repo: Repo) -> None:
    repository_hooks.install(location(repo), save=False)
    for env in ({"AGENTOS_AGENT_ID": "dev"}, {"AGENTOS_AGENT_ID": "no/id"}, {"AGENTOS_GUARD": "dev"}):
        for text in ("git branch -D other", "git commit -q --amend -m again", "git push -q --force . HEAD:other"):
            done = sh(repo, text, env=env)
            assert done.code != 0, (text, env, done)
            assert "git-agentos" in done.err
            # Unset on the way, it is one all the same.
            unset = sh(repo, f"exec sh -c 'env -u AGENTOS_AGENT_ID -u AGENTOS_GUARD {text}'", env=env)
            assert unset.code != 0, (text, env, unset)


def test_losses_of_people_are_saved_where_configured(repo: Repo) -> None:
    repository_hooks.install(location(repo), save=True)
    make_dirty(repo)
    before = complete_state(repo.path)
    done = sh(repo, "git reset -q --hard HEAD~1 && git clean -qfd")
    assert done.code == 0, done
    assert "git agentos restore" in done.err
    assert not (repo.path / "untracked.txt").exists()
    first = checkpoints(repo, "before_risky")[-1]
    assert first.meta["command"].startswith("git reset -q --hard")
    open_workspace(repo.path).restore(first.id)
    assert complete_state(repo.path).files == before.files


def test_failed_recording_is_reported_once(repo: Repo) -> None:
    agent = guarded(repo)
    quiet(agent, "update-ref", *IN_THE_WAY)
    first = commit(agent, "one")
    second = commit(agent, "two")
    assert (first.code, second.code) == (0, 0), (first, second)
    assert first.err.count("warning: no checkpoint") == 1
    assert "warning" not in second.err
    quiet(agent, "update-ref", "-d", IN_THE_WAY[0])
    assert "warning" not in commit(agent, "three").err
    assert triggers(agent)[-1] == "after_commit"
    quiet(agent, "update-ref", "-d", f"{IN_THE_WAY[0]}/dev")
    quiet(agent, "update-ref", *IN_THE_WAY)
    assert commit(agent, "four").err.count("warning: no checkpoint") == 1


def test_without_python_a_commit_goes_on(repo: Repo) -> None:
    agent = guarded(repo)
    script = scripts_dir(agent) / "guard.sh"
    script.write_text(script.read_text().replace("\nagentos() {\n", "\nagentos() {\n\treturn 127\n"))
    # Whether an agent may commit cannot be decided; a person's repository only warns.
    os.unlink(os.path.join(location(agent).git_dir, "agentos", "id"))
    first, second = commit(agent, "one"), commit(agent, "two")
    assert (first.code, second.code) == (0, 0), (first, second)
    assert first.err.count("warning") == 1
    assert "warning" not in second.err


def commit(repo: Repo, message: str) -> ShellResult:
    return sh(repo, f"git commit -q --allow-empty -m {message}")


# -- nobody waits for what is recorded afterwards ----------------------------------------------------------------------


def held_up(repo: Repo, with_: str) -> None:
    """Run shell text before our program records something in the background."""
    script = scripts_dir(repo) / "guard.sh"
    text = script.read_text()
    start = "command -p setsid "
    assert text.count(start) == 1
    script.write_text(text.replace(start, f"command -p setsid sh -c '{with_}; exec \"$@\"' sh "))


def waiting(repo: Repo) -> list[str]:
    folder = Path(location(repo).git_dir, "agentos", "recording")
    return sorted(path.name.rpartition(".")[2] for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize(
    ("command", "hook", "trigger"),
    [
        ("git commit -q -m 'two words'", "post-commit", "after_commit"),
        ("git switch -q -c elsewhere", "post-checkout", "after_checkout"),
        ("git merge -q --ff-only main", "post-merge", "after_commit"),
    ],
)
def test_the_command_does_not_wait(repo: Repo, tmp_path: Path, command: str, hook: str, trigger: str) -> None:
    set_up(repo, "agentos.policy.merge", "allow")
    agent = guarded(repo, base="main~1" if "merge" in command else "main")
    agent.write("new.txt", "new\n")
    if "commit" in command:
        agent.git("add", "new.txt")
    os.mkfifo(tmp_path / "go")
    held_up(agent, f"read -r _ <{tmp_path}/go")
    done = sh(agent, command)  # returns, and closes its pipes
    assert done.code == 0, done
    assert waiting(agent) == [hook]
    (tmp_path / "go").write_text("now\n")
    found = checkpoints(agent)[0]
    assert (found.trigger, found.commit, found.created_by) == (trigger, agent.oid(), "dev")
    assert shlex.split(found.meta["command"]) == shlex.split(command)
    assert waiting(agent) == []


def test_a_recorder_that_was_killed_is_made_up_for(repo: Repo) -> None:
    agent = guarded(repo)
    held_up(agent, "kill -9 $$")
    for number in range(2):
        agent.write(f"{number}.txt", "new\n")
        agent.git("add", ".")
        agent.git("commit", "-q", "-m", f"number {number}")
    assert waiting(agent) == ["post-commit", "post-commit"]
    # From another worktree, and by the command line.
    listed = run_ok(repo.path, "checkpoint", "list", "--agent", "dev", "--json")["checkpoints"]
    assert [each["trigger"] for each in listed] == ["after_commit", "pre_commit", "pre_commit"]
    assert (listed[0]["commit"], listed[0]["created_by"]) == (agent.oid(), "dev")
    assert waiting(agent) == []


def test_pending_recording_is_done_before_files_change(repo: Repo) -> None:
    agent = guarded(repo)
    agent.git("branch", "elsewhere", "main~1")
    held_up(agent, "kill -9 $$")
    agent.write("new.txt", "new\n")
    agent.git("add", ".")
    agent.git("commit", "-q", "-m", "first")
    committed = agent.oid()
    agent.git("switch", "-q", "elsewhere")
    recorded = {each.trigger: each.commit for each in checkpoints(agent)}
    assert recorded["after_commit"] == committed


def test_python_is_started_once_before_a_command_goes_on(repo: Repo) -> None:
    agent = guarded(repo)
    agent.write("new.txt", "new\n")
    spy = Spy(agent)
    script = scripts_dir(agent) / "guard.sh"
    script.write_text(script.read_text().replace('echo "$1" >>', 'echo "${background:+later-}$1" >>'))
    for command, before, later in (
        ("git add -A", [], []),
        ("git commit -q -m one", ["pre-commit"], ["post-commit"]),
        ("git switch -q -c elsewhere", [], ["post-checkout"]),
        ("git stash push -q -u", ["stash", *PUBLISHED], []),
        ("git stash pop -q", ["fsmonitor"], []),
    ):
        if "pop" not in command:
            agent.append("readme.txt", "more\n")
        checkpoints(agent)  # waits for what is recorded of the one before
        agent.git("status")
        spy.started()
        done = sh(agent, command)
        assert done.code == 0, (command, done)
        assert spy.started() == [*before, *(f"later-{each}" for each in later)], command


def test_late_failure_is_reported_by_the_next_hook(repo: Repo) -> None:
    set_up(repo, "agentos.auto.beforeRisky", "false")
    agent = guarded(repo)
    quiet(agent, "update-ref", *IN_THE_WAY)
    assert commit(agent, "one").code == 0
    open_workspace(agent.path).status()  # waits for it
    said = [commit(agent, number).err.count("warning: no checkpoint after a commit") for number in ("two", "three")]
    assert said == [1, 0]


def test_a_worktree_can_end_right_after_a_commit(repo: Repo) -> None:
    agent = guarded(repo)
    for number in range(3):
        assert commit(agent, str(number)).code == 0
    run_ok(repo.path, "worktree", "remove", "dev", "--json")
    assert not agent.path.exists()


def test_a_repository_that_is_named_by_the_environment(repo: Repo, tmp_path: Path) -> None:
    repository_hooks.install(location(repo), save=False)
    elsewhere = tmp_path / "files"
    elsewhere.mkdir()
    text = f"cd {elsewhere} && git --git-dir '{repo.git_dir}' --work-tree . commit -q --allow-empty -m one"
    assert sh(repo, text).code == 0
    assert triggers(repo)[-1:] == ["after_commit"]


def test_a_run_leaves_no_process(repo: Repo, tmp_path: Path) -> None:
    agent = guarded(repo)
    held_up(agent, f"touch {tmp_path}/later")
    done = sh(agent, "git commit -q --allow-empty -m one", env={"AGENTOS_RUN_MARK": "x"})
    assert done.code == 0, done
    assert waiting(agent) == []
    assert not (tmp_path / "later").exists()
