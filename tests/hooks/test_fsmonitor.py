"""Layer 1: `core.fsmonitor`, which git calls before it changes files."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.git import user_hooks
from tests.support.confirming import confirm
from tests.support.dirty import make_dirty
from tests.support.guard.guarded_worktree import (
    Spy,
    checkpoints,
    grant_all,
    guarded,
    location,
    scripts_dir,
    sh,
    without_refs,
)
from tests.support.repo import Repo
from tests.support.signals import with_default_handlers
from tests.support.state import State, assert_same, complete_state

# What overwrites or deletes files; each would do so in the state that `at_stake` makes.
DESTRUCTIVE = [
    "git reset --hard",
    "git reset --hard HEAD~1",
    "git reset --merge",
    "git checkout -f",
    "git checkout -- .",
    "git checkout HEAD~1 -- .",
    "git checkout -f -B elsewhere HEAD~1",
    "git switch -q --discard-changes -c elsewhere HEAD~1",
    "git restore .",
    "git restore --source=HEAD~1 --staged --worktree .",
    "git clean -fdx",
    "git clean -qfd -- .",
    "git read-tree -u --reset HEAD~1",
    "git checkout-index -fa",
    "git rm -rqf .",
    "git rebase HEAD~1",
    "git merge other",
    "git cherry-pick other",
    "git pull -q . other",
    "git commit -qm more --amend",
    "git commit -qm more --no-verify",
    "git -c alias.gone='reset --hard' gone",
    "git gone",
    "cd src && git reset --hard",
    "git -C src reset --hard",
    "GIT_EDITOR='git reset --hard;' git commit -q --allow-empty",
    "env -u AGENTOS_AGENT_ID git reset --hard",
    "(exec -a gitstatus git reset --hard)",
]


@pytest.fixture
def at_stake(repo: Repo) -> Repo:
    """A guarded worktree with uncommitted work of every kind, beside a branch `other` that differs."""
    repo.git("config", "alias.gone", "reset --hard")
    made = guarded(repo)
    make_dirty(made)
    made.write("ignored.log", "an hour of building\n")
    return made


def test_losing_command_is_stopped(at_stake: Repo) -> None:
    before = complete_state(at_stake.path)
    for text in DESTRUCTIVE:
        done = sh(at_stake, f"exec bash -c {shlex.quote(text)}")
        assert done.code != 0, (text, done)
        _assert_whole(before, at_stake, text)
        assert "git-agentos: " in done.err, (text, done)
        assert not list(Path(location(at_stake).git_dir).glob("*.lock")), text


def _assert_whole(before: State, repo: Repo, what: str) -> None:
    """Nothing has changed, but for the agent's log."""
    assert_same(before, complete_state(repo.path), what, permissions="all", refs=True)


def test_message_and_checkpoint_of_a_stopped_command(at_stake: Repo) -> None:
    before = complete_state(at_stake.path)
    with with_default_handlers(signal.SIGHUP):  # below nohup, git would not end by it
        done = sh(at_stake, "git reset --hard --quiet HEAD~1")
    # Claude Code tells its model that a command which ended by SIGTERM (143) timed out.
    assert done.code == 128 + signal.SIGHUP or done.code == -signal.SIGHUP, done
    taken = checkpoints(at_stake, "before_risky")[0]
    assert taken.meta["command"] == "git reset --hard --quiet 'HEAD~1'"
    assert taken.meta["layer"] == "fsmonitor"
    assert taken.created_by == "dev"
    for word in ("stopped 'git reset --hard", "reset-hard", taken.id[:8], "git agentos restore", "instead: "):
        assert word in done.err
    without_refs(at_stake)
    at_stake.git("-c", "core.fsmonitor=false", "reset", "-q", "--hard", "HEAD~1")
    at_stake.git("-c", "core.fsmonitor=false", "clean", "-qfdx")
    open_workspace(at_stake.path).restore(taken.id, no_branch=False)
    after = complete_state(at_stake.path)
    assert after.files == before.files


HARMLESS = [
    "git status",
    "git status -sb --porcelain=v2",
    "git --no-pager diff --stat",
    "git --no-optional-locks status",
    "git -C src status",
    "git -c color.ui=false diff HEAD",
    "git diff --cached -- notes.txt",
    "git ls-files -m",
    "git grep line",
    "git describe --always --dirty",
    "git blame notes.txt",
    "git log -1 --stat",
    "git show",
    "git rev-parse HEAD",
    "git update-index --refresh",
    "git clean -nd",
    "git clean --dry-run -x",
    "git stash list",
    "git fetch .",
    "git commit -qm 'a message with --amend in it'",
    "git commit -q --message 'not -a' --author 'me <me@example.com>'",
    "git stash",
    "git stash push -q -u",
    "git gc -q",
]


def test_harmless_command_starts_no_python(repo: Repo) -> None:
    agent = guarded(repo)
    without_refs(agent)
    spy = Spy(agent)
    for text in HARMLESS:
        make_dirty(agent)
        agent.git("status")  # the configuration is noted
        spy.started()
        done = sh(agent, text)
        assert done.code in (0, 1), (text, done)
        assert spy.started() == [], text
        agent.git("-c", "core.fsmonitor=false", "reset", "-q", "--hard", "main")
        agent.git("-c", "core.fsmonitor=false", "clean", "-qfdx")


def test_adding_where_nothing_is_staged_starts_no_python(repo: Repo) -> None:
    agent = guarded(repo)
    agent.git("status")
    agent.write("notes.txt", "first\n")
    agent.write("readme.txt", "first\n")
    spy = Spy(agent)
    agent.git("add", "notes.txt")
    assert spy.started() == []
    agent.write("notes.txt", "second\n")
    agent.git("add", "notes.txt")
    assert spy.started() == ["fsmonitor"]
    # What was staged before is nowhere else.
    taken = checkpoints(agent, "before_risky")[0]
    assert agent.git("show", f"{taken.id}^2:notes.txt") == b"first\n"


@pytest.mark.parametrize("form", ["-qam all", "-a -m all", "--all -qm all", "-qm all notes.txt", "-m all -- notes.txt"])
def test_a_commit_of_more_than_what_is_staged(repo: Repo, form: str) -> None:
    agent = guarded(repo)
    without_refs(agent)
    agent.write("notes.txt", "staged\n")
    agent.git("add", "notes.txt")
    agent.write("notes.txt", "in the worktree\n")
    assert sh(agent, f"git commit {form}").code == 0
    taken = checkpoints(agent, "before_risky")[0]
    assert agent.git("show", f"{taken.id}^2:notes.txt") == b"staged\n"


def test_pruning_at_once_is_stopped_and_careful_pruning_is_not(repo: Repo) -> None:
    agent = guarded(repo)
    oid = agent.git("hash-object", "-w", "--stdin", stdin=b"dangling\n").decode().strip()
    packed = agent.text("commit-tree", "-m", "dangling", "HEAD^{tree}")
    agent.git("update-ref", "refs/heads/packed", packed)
    agent.git("repack", "-q")
    agent.git("-c", "core.hooksPath=/dev/null", "update-ref", "-d", "refs/heads/packed")
    for text in ("git gc -q --prune=now", "git gc --prune=all", "git prune", "git prune --expire=now"):
        done = sh(agent, text)
        assert done.code != 0, (text, done)
        assert "stopped" in done.err, (text, done)
        assert agent.text("cat-file", "-t", oid) == "blob"
        assert agent.text("cat-file", "-t", packed) == "commit"
    agent.git("gc", "-q")
    assert agent.text("cat-file", "-t", oid) == "blob"


def test_a_policy_of_ones_own_holds_for_what_is_harmless(repo: Repo) -> None:
    agent = guarded(repo)
    agent.git("status")
    repo.git("config", "agentos.policy.stash", "forbid")
    agent.append("notes.txt", "more\n")
    before = complete_state(agent.path)
    done = sh(agent, "git stash")
    assert done.code != 0
    assert "agentos.policy.stash" in done.err
    _assert_whole(before, agent, "git stash")
    repo.git("config", "--unset", "agentos.policy.stash")
    confirm(repo.path)
    agent.git("stash")


@pytest.mark.parametrize("options", ["", " -u", " push -k", " push -- notes.txt"])
def test_stash_round_trips(repo: Repo, options: str) -> None:
    agent = guarded(repo)
    make_dirty(agent)
    agent.git("reset", "-q")
    before = complete_state(agent.path)
    agent.git(*["stash", *options.split()])
    assert complete_state(agent.path).files != before.files
    agent.git("stash", "pop")
    assert complete_state(agent.path).files == before.files
    assert agent.git("stash", "list") == b""


def test_git_ignoring_signals_is_stopped(at_stake: Repo) -> None:
    before = complete_state(at_stake.path)
    for ignored in ("HUP", "HUP INT", "HUP TERM", "HUP INT QUIT TERM PIPE"):
        done = sh(at_stake, f"trap '' {ignored}; git reset --hard")
        assert done.code != 0
        _assert_whole(before, at_stake, ignored)
        assert not (Path(location(at_stake).git_dir) / "index.lock").exists()


def test_hostile_environment_does_not_disarm_the_script(at_stake: Repo, tmp_path: Path) -> None:
    """git goes on where a fsmonitor fails, so it must not."""
    for name in ("tr", "cat", "ps", "sleep", "python3", "git-agentos"):
        fake = tmp_path / "bin" / name
        fake.parent.mkdir(exist_ok=True)
        fake.write_text("#!/bin/sh\nprintf 'git\\nstatus\\n'\n")
        fake.chmod(0o755)
    git_dir = location(at_stake).git_dir
    before = complete_state(at_stake.path)
    for text in (
        f"PATH={tmp_path}/bin:$PATH git reset --hard",
        f"GIT_DIR={git_dir}/. git reset --hard",
        f"GIT_DIR={git_dir}/ git reset --hard",
        "IFS=resthd git reset --hard",
        "exec 2>&- >&- <&-; git reset --hard",
        "PYTHONHOME=/nowhere PYTHONPATH=/nowhere git reset --hard",
    ):
        done = sh(at_stake, text)
        assert done.code != 0, (text, done)
        sh(at_stake, f"rm -f '{git_dir}/index.lock'")
        _assert_whole(before, at_stake, text)


def test_folder_of_the_command_is_known(repo: Repo) -> None:
    agent = guarded(repo)
    agent.write("deep/er/file.txt", "untracked\n")
    for text, cwd in (
        ("git clean -fd", "deep/er"),
        ("git -C er clean -fd", "deep"),
        ("git -C .. clean -fd", "deep/er"),
    ):
        assert sh(agent, text, cwd=cwd).code != 0
        assert (agent.path / "deep/er/file.txt").exists()
    # There is nothing to lose above `src`.
    assert sh(agent, "git clean -fd", cwd="src").err.count("git-agentos") <= 1


def test_a_rebase_asks_once(repo: Repo) -> None:
    agent = guarded(repo, base="main~1")
    for number in range(10):
        agent.write(f"file {number}.txt", "x\n")
        agent.commit(f"commit {number}")
    assert sh(agent, "git rebase main").code != 0
    assert len(grant_all(agent)) == 1
    spy = Spy(agent)
    done = sh(agent, "git rebase main")
    assert done.code == 0, done
    assert spy.started() == ["fsmonitor", "post-rewrite"]
    assert agent.text("rev-list", "--count", "main..HEAD") == "10"
    # The leave was for that one.
    agent.git("checkout", "-q", "--detach", "main~1")
    assert sh(agent, "git rebase main").code != 0


def test_an_edited_hook_is_noticed(repo: Repo) -> None:
    agent = guarded(repo)
    agent.write("new.txt", "untracked\n")
    script = scripts_dir(agent) / "pre-push"
    script.write_text("#!/bin/sh\nexit 0\n")
    done = sh(agent, "git clean -fd")
    assert done.code != 0
    assert "tampered" in done.err
    assert "pre-push" in done.err
    entries = open_workspace(agent.path)
    from git_agentos import log

    assert any(entry.summary == "the guard was tampered with" for entry in log.entries(entries.context))


def test_missing_python_stops_agents_and_allows_reading(repo: Repo) -> None:
    agent = guarded(repo)
    make_dirty(agent)
    agent.git("status")
    script = scripts_dir(agent) / "guard.sh"
    text = script.read_text()
    script.write_text(text.replace("\nagentos() {\n", "\nagentos() {\n\treturn 127\n"))
    before = complete_state(agent.path)
    done = sh(agent, "git reset --hard")
    assert done.code != 0
    assert "cannot decide" in done.err
    _assert_whole(before, agent, "git reset --hard")
    assert sh(agent, "git status").code == 0


def test_a_bad_setting_stops_an_agent(repo: Repo) -> None:
    agent = guarded(repo)
    make_dirty(agent)
    repo.git("config", "agentos.policy.clean", "perhaps")
    before = complete_state(agent.path)
    done = sh(agent, "git clean -fd")
    assert done.code != 0
    assert "agentos.policy.clean" in done.err
    _assert_whole(before, agent, "git clean -fd")


@pytest.mark.parametrize(
    "name", ["with a blank", "we ird'$(touch PWN)\"; é", "it's", 'a "b" $(touch gone) `x`', "ünïcode"]
)
def test_a_repository_with_an_odd_name(make_repo: Callable[[str], Repo], name: str) -> None:
    agent = guarded(make_repo(name))
    make_dirty(agent)
    before = complete_state(agent.path)
    assert user_hooks.options(location(agent))[2:] == ["-c", "core.fsmonitor=false"]
    assert sh(agent, "git status").code == 0
    done = sh(agent, "git reset --hard")
    assert done.code != 0
    assert "stopped 'git reset --hard'" in done.err
    assert done.err.count("stopped") == 1
    _assert_whole(before, agent, name)
    agent.git("stash", "-u")
    agent.git("commit", "-q", "--allow-empty", "-m", "empty")
    assert checkpoints(agent, "after_commit")


# -- the user's own fsmonitor ---------------------------------------------------------------------------------------

_TWO = """#!/bin/sh
printf '%s\\n' "$*" >>'{log}'
[ "$1" = 2 ] || exit 1
printf 'token:1\\0'
printf 'notes.txt\\0'
"""
_ONE = """#!/bin/sh
printf '%s\\n' "$*" >>'{log}'
[ "$1" = 1 ] || exit 1
printf 'notes.txt\\0'
"""


@pytest.mark.parametrize(
    ("script", "version", "asked"),
    [(_TWO, "2", {"2"}), (_TWO, None, {"2"}), (_ONE, "1", {"1"}), (_ONE, None, {"1", "2"})],
)
@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_a_fsmonitor_of_the_users_own(
    repo: Repo, script: str, version: str | None, asked: set[str], scope: str, tmp_path: Path
) -> None:
    log = tmp_path / "asked"
    monitor = tmp_path / "my monitor"
    monitor.write_text(script.replace("{log}", str(log)))
    monitor.chmod(0o755)
    env = {"GIT_CONFIG_GLOBAL": str(tmp_path / "config")}
    (tmp_path / "config").write_bytes(Path(os.environ["GIT_CONFIG_GLOBAL"]).read_bytes())
    for key, value in (("core.fsmonitor", f"'{monitor}'"), ("core.fsmonitorHookVersion", version)):
        if value is not None:
            repo.git("config", scope, key, value, env=env)
    agent = guarded(repo)
    # With version 1 the first time has nothing to count from.
    for _ in range(3):
        agent.git("status", env=env)
    assert {line.split(" ")[0] for line in log.read_text().splitlines()} == asked
    # git trusts what it says: of these two, it names one.
    agent.write("notes.txt", "changed\n")
    agent.write("readme.txt", "changed\n")
    assert agent.git("diff-files", "--name-only", env=env) == b"notes.txt\n"
    # And ours is asked all the same.
    done = sh(agent, "git reset --hard", env=env)
    assert done.code != 0
    assert "stopped" in done.err
    assert agent.read("notes.txt") == b"changed\n"


def test_users_fsmonitor_that_calls_ours_does_not_loop(repo: Repo, tmp_path: Path) -> None:
    agent = guarded(repo)
    script = tmp_path / "disguise"
    script.write_text(f"#!/bin/sh\nexec '{scripts_dir(agent)}/fsmonitor' \"$@\"\n")
    script.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(script))
    agent.write("notes.txt", "changed\n")
    assert agent.git("diff-files", "--name-only") == b"notes.txt\n"


def test_a_builtin_fsmonitor_only_costs_its_speed(repo: Repo) -> None:
    repo.git("config", "core.fsmonitor", "true")
    agent = guarded(repo)
    agent.write("notes.txt", "changed\n")
    assert agent.git("diff-files", "--name-only") == b"notes.txt\n"


# -- who says that he is git -------------------------------------------------------------------------------------------

PRETENDERS = [
    'exec -a git bash -c "$GIT reset --hard; true" stash',
    'exec -a git bash -c "cd . && $GIT checkout -f; true" stash push',
    'exec -a git-stash bash -c "$GIT clean -fdx; true"',
    'exec -a /usr/bin/git bash -c "$GIT checkout-index -fa; true" stash',
    'exec -a git-worktree bash -c "$GIT reset --hard; true"',
    "exec -a git python3 -c \"import subprocess; subprocess.call(['$GIT', 'reset', '--hard'])\" stash",
    # A program of one's own that has git's name, and a git with a shell's name below what calls itself git.
    'cp /bin/bash "$OWN/git"; exec -a git "$OWN/git" -c "$GIT reset --hard; true" stash',
    'cp /bin/bash "$OWN/git"; echo "cd $PWD; $GIT reset --hard; :" >"$OWN/stash"; cd "$OWN"; exec -a git ./git stash',
    'cp "$GIT" "$OWN/zsh"; exec -a git bash -c "$OWN/zsh reset --hard; true" status',
    'cp "$GIT" "$OWN/bash"; exec -a git-status bash -c "$OWN/bash checkout -- .; true"',
]


@pytest.mark.parametrize("text", PRETENDERS)
def test_a_program_that_calls_itself_git_is_not_git(at_stake: Repo, tmp_path: Path, text: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    git = shutil.which("git")
    assert git is not None
    before = complete_state(at_stake.path)
    done = sh(at_stake, f"exec bash -c {shlex.quote(text)}", env={"GIT": git, "OWN": str(own)})
    _assert_whole(before, at_stake, text)
    assert "git-agentos: stopped" in done.err, (text, done)


def test_a_stash_through_a_second_copy_of_git_goes_through(at_stake: Repo, tmp_path: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    copied = tmp_path / "git"
    shutil.copy(git, copied)
    done = sh(at_stake, f"{shlex.quote(str(copied))} stash push -q -u")
    assert done.code == 0, done
    assert at_stake.text("status", "--porcelain") == ""
