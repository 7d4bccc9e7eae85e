"""`agentos.teardown`: a command of the user that runs in a worktree before it is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import open_workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosWarning, ConfigurationError, WorktreeError
from git_agentos.worktree import cleanup, creation, removal, status, teardown
from tests.support.repo import Repo
from tests.support.snapshot import snapshot
from tests.support.tool import run, run_ok
from tests.support.waiting import running_process, wait_until

SEEN = 'printf "%s %s %s" "$AGENTOS_AGENT_ID" "$AGENTOS_TASK_ID" "$PWD" >"$HOME/torn-down"'


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def context(repo: Repo) -> OpenWorktree:
    return open_workspace(repo.path).context


def make(repo: Repo, command: str, id_: str = "dev") -> Repo:
    repo.git("config", "agentos.teardown", command)
    return Repo(Path(str(creation.create(context(repo), id_, task="T-1", guard=False).path)))


def was_run() -> bool:
    return Path(os.environ["HOME"], "torn-down").exists()


@pytest.mark.parametrize("end", [removal.archive, removal.remove])
def test_it_runs_first(repo: Repo, end: Callable[[OpenWorktree, str], removal.Removal]) -> None:
    repo.write(".gitignore", "cache/\n")
    repo.commit("rules")
    there = make(repo, f"{SEEN}; rm -r notes cache; echo more >made")
    there.write("notes", "of the agent\n")
    there.write("cache/large", "not to be saved\n")
    gone = end(context(repo), "dev")
    assert not there.path.exists()
    assert Path(os.environ["HOME"], "torn-down").read_text() == f"dev T-1 {there.path}"
    assert gone.teardown is not None
    assert (gone.teardown.exit_code, gone.teardown.output) == (0, [])
    # The state before has what the command deleted, but for ignored files; the archive has what it left.
    assert repo.git("show", f"{gone.teardown.checkpoint}^3:notes") == b"of the agent\n"
    assert gone.losses.untracked == ["made"]
    assert gone.losses.ignored == []
    back = creation.create(context(repo), "dev", revive=True, guard=False)
    assert Repo(Path(str(back.path))).read("made") == b"more\n"
    entries = run_ok(Path(str(back.path)), "log", "list")["entries"]
    assert any(each["summary"].startswith("teardown command done") for each in entries)


@pytest.mark.parametrize(
    ("command", "code", "how"),
    [
        ("seq 50; echo the end >&2; exit 3", 3, "exited with 3"),
        ("kill -9 $$", 137, "was killed by signal 9"),
        ("no-such-program-at-all", 127, "exited with 127"),
    ],
)
def test_one_that_fails(repo: Repo, command: str, code: int, how: str) -> None:
    there = make(repo, command)
    there.write("notes", "of the agent\n")
    with pytest.warns(AgentosWarning, match=how):
        gone = removal.remove(context(repo), "dev")
    assert gone.teardown is not None
    assert gone.teardown.exit_code == code
    assert len(gone.teardown.output) <= 20
    assert gone.losses.untracked == ["notes"]
    assert not there.path.exists()


def test_one_that_does_not_end(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    there = make(repo, 'echo $$ >"$HOME/torn-down"; exec sleep 600')
    monkeypatch.setattr(teardown, "TIMEOUT", 0.5)
    with pytest.warns(AgentosWarning, match="ran out of time"):
        gone = removal.remove(context(repo), "dev")
    assert gone.teardown is not None
    assert gone.teardown.exit_code is None
    assert not there.path.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(int(Path(os.environ["HOME"], "torn-down").read_text()), 0)


def test_secrets_in_its_output(repo: Repo) -> None:
    make(repo, "echo ghp_" + "a1B2c3D4e5F6" * 3 + "; exit 1")
    done = run(repo.path, "--json", "worktree", "remove", "dev")
    assert done.code == 0, str(done)
    assert b"a1B2c3D4e5F6" not in done.out + done.err
    assert done.json["teardown"]["exit_code"] == 1


def test_it_stops_what_works_in_the_worktree(repo: Repo) -> None:
    there = make(repo, 'kill "$(cat server)"; while kill -0 "$(cat server)" 2>/dev/null; do sleep 0.01; done')
    server = subprocess.Popen(["sleep", "600"], cwd=there.path)
    there.write("server", f"{server.pid}\n")
    # It is reaped as soon as it ends, as a server's own parent would.
    ender = subprocess.Popen([sys.executable, "-c", WORKER, str(repo.path)], stdout=subprocess.PIPE)
    assert server.wait(60) == -signal.SIGTERM
    out, _ = ender.communicate(timeout=60)
    assert (ender.returncode, out) == (0, b"0\n")
    assert not there.path.exists()


WORKER = (
    "import sys\n"
    "from git_agentos import open_workspace\n"
    "from git_agentos.worktree import removal\n"
    "print(removal.remove(open_workspace(sys.argv[1]).context, 'dev').teardown.exit_code)\n"
)


# As a command that the guard has allowed.
UNASKED = (
    "import os, sys\n"
    "from git_agentos import open_workspace\n"
    "from git_agentos.worktree import final_checkpoint, removal\n"
    "context = open_workspace(sys.argv[1]).context\n"
    "os.chdir('/')\n"
    "removal.end_worktree(context, 'dev', final_checkpoint.RemovalRequest('remove'))\n"
)


def test_a_process_that_it_does_not_stop(repo: Repo) -> None:
    there = make(repo, SEEN)
    with (
        running_process("sleep", "600", cwd=there.path),
        pytest.raises(WorktreeError, match="a process works in the worktree") as caught,
    ):
        removal.remove(context(repo), "dev")
    assert "the teardown command was run before" in str(caught.value.hint)
    assert was_run()
    assert [each.state for each in status.list_worktrees(context(repo)).worktrees] == ["active"]
    removal.remove(context(repo), "dev")


@pytest.mark.parametrize("why", ["locked", "inside", "option", "missing", "current"])
def test_it_is_not_run(repo: Repo, why: str) -> None:
    there = make(repo, SEEN)
    words, where = ["worktree", "remove", "dev"], repo.path
    if why == "locked":
        repo.git("worktree", "lock", str(there.path))
    elif why == "inside":
        command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", UNASKED, str(repo.path)]
        done = subprocess.run(command, cwd=there.path, capture_output=True, check=False)
        assert (done.returncode, b"you are in the worktree 'dev'" in done.stderr) == (1, True), done.stderr
    elif why == "option":
        words.append("--no-teardown")
    elif why == "missing":
        there.path.rename(there.path.with_name("elsewhere"))
    elif why == "current":
        where = there.path
    if why != "inside":
        assert run(where, *words).code == {"option": 0, "missing": 0, "locked": 1, "current": 3}[why]
    assert not was_run()


@pytest.mark.parametrize("place", ["include", "worktree"])
def test_a_command_from_elsewhere_is_refused(repo: Repo, place: str) -> None:
    make(repo, "")
    repo.git("config", "--unset", "agentos.teardown")
    if place == "include":
        repo.write("shared.gitconfig", "[agentos]\n\tteardown = " + SEEN.replace('"', '\\"') + "\n")
        repo.git("config", "include.path", "../shared.gitconfig")
    else:
        repo.git("config", "extensions.worktreeConfig", "true")
        repo.git("config", "--worktree", "agentos.teardown", SEEN)
    before = snapshot(repo)
    with pytest.raises(ConfigurationError, match="not your own configuration"):
        removal.remove(context(repo), "dev")
    assert snapshot(repo) == before
    assert not was_run()


def test_a_worktree_cannot_bring_one(repo: Repo) -> None:
    """What an agent sets for its own worktree alone is not read where another one removes it."""
    there = make(repo, "")
    repo.git("config", "extensions.worktreeConfig", "true")
    there.git("config", "--worktree", "agentos.teardown", SEEN)
    assert removal.remove(context(repo), "dev").teardown is None
    assert not was_run()


def test_cleanup_runs_it_where_it_archives(repo: Repo) -> None:
    first, second = make(repo, SEEN, "busy"), make(repo, SEEN, "done")
    for there in (first, second):
        run_ok(there.path, "worktree", "complete")
    with running_process("sleep", "600", cwd=first.path):
        assert [each.id for each in cleanup.cleanup(context(repo)).archived] == ["done"]
    assert Path(os.environ["HOME"], "torn-down").read_text().startswith("done ")
    # Its own changes are no reason to keep it.
    repo.git("config", "agentos.teardown", "echo more >made")
    assert [each.id for each in cleanup.cleanup(context(repo)).archived] == ["busy"]


def test_a_removal_that_is_killed_meanwhile(repo: Repo) -> None:
    there = make(repo, 'echo $$ >"$HOME/new"; mv "$HOME/new" "$HOME/torn-down"; rm notes; sleep 600')
    there.write("notes", "of the agent\n")
    child = subprocess.Popen([sys.executable, "-c", WORKER, str(repo.path)], start_new_session=True)
    wait_until(was_run, "the teardown command has not begun")
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    os.killpg(int(Path(os.environ["HOME"], "torn-down").read_text()), signal.SIGKILL)
    done = run(repo.path, "worktree", "repair")
    assert b"but for what its teardown command has done" in done.out, str(done)
    assert [each.state for each in status.list_worktrees(context(repo)).worktrees] == ["active"]
    run_ok(there.path, "restore", "latest", "--no-branch")
    assert there.read("notes") == b"of the agent\n"
    repo.git("config", "agentos.teardown", SEEN)
    gone = removal.remove(context(repo), "dev")
    assert gone.losses.untracked == ["notes"]
