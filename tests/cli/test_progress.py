"""Progress on a terminal: each command that may take long shows it, in one style; never in a pipe."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.terminal import AtTerminal, at_terminal
from tests.support.tool import run, run_ok

# As git's: `Saving files:  45% (450/1000)`, `Saving files: 450`, and where nothing is counted, how long it has taken.
_LINE = re.compile(r"[A-Z][^:]*(: +\d+% \(\d+/\d+\)|: \d+| \(\d+:\d\d\)|: .*)")


def _filled(repo: Repo, number: int = 40) -> None:
    for n in range(number):
        repo.write(f"many/{n}.txt", f"{n}\n" * 10)


def _committed(repo: Repo) -> None:
    _filled(repo)
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message=many")


def _checkpoint(repo: Repo) -> list[str]:
    _filled(repo)
    return ["checkpoint"]


def _restore(repo: Repo) -> list[str]:
    _filled(repo)
    run_ok(repo.path, "checkpoint")
    for n in range(40):
        os.unlink(repo.at(f"many/{n}.txt"))
    repo.write("other/new.txt", "x\n")
    return ["restore", "latest", "--no-branch"]


def _undo(repo: Repo) -> list[str]:
    run_ok(repo.path, *_restore(repo))
    return ["undo"]


def _rollback(repo: Repo) -> list[str]:
    run_ok(repo.path, "run", "start", "--id", "r1", "--agent", "echo x > new.txt", "--validate", "true")
    return ["rollback", "r1"]


def _create(repo: Repo) -> list[str]:
    repo.write(".gitignore", "cache/\nlocal.txt\n")
    _committed(repo)
    repo.config("agentos.link", "cache")
    repo.config("agentos.setup", "true")
    repo.write(".worktreeinclude", "local.txt\n")
    repo.write("local.txt", "x\n")
    _filled_cache(repo)
    return ["worktree", "create", "dev"]


def _filled_cache(repo: Repo) -> None:
    for n in range(20):
        repo.write(f"cache/{n}", "x\n")


def _created(repo: Repo) -> Repo:
    _committed(repo)
    run_ok(repo.path, "worktree", "create", "dev", "--no-guard")
    dev = Repo(repo.path.parent / "repo.worktrees" / "dev")
    _filled(dev, 60)
    return dev


def _archive(repo: Repo) -> list[str]:
    _created(repo)
    repo.config("agentos.teardown", "true")
    return ["worktree", "archive", "dev"]


def _remove(repo: Repo) -> list[str]:
    _created(repo)
    return ["worktree", "remove", "dev"]


def _revive(repo: Repo) -> list[str]:
    run_ok(repo.path, *_archive(repo))
    return ["worktree", "create", "dev", "--revive"]


def _cleanup(repo: Repo) -> list[str]:
    run_ok(_created(repo).path, "worktree", "complete")
    return ["worktree", "cleanup"]


def _two(repo: Repo) -> None:
    """Two agents that have changed one file, without a conflict."""
    lines = [f"{n}\n" for n in range(20)]
    repo.write("both.txt", "".join(lines))
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message=both")
    for name, kept in (("dev-1", lines[1:]), ("dev-2", lines[:-1])):
        run_ok(repo.path, "worktree", "create", name, "--no-guard")
        dev = Repo(repo.path.parent / "repo.worktrees" / name)
        dev.write("both.txt", "".join(kept))
        dev.git("add", "--all")
        dev.git("commit", "--quiet", "--message=mine")


def _conflicts(repo: Repo) -> list[str]:
    _two(repo)
    return ["worktree", "conflicts"]


def _merge(repo: Repo) -> list[str]:
    _two(repo)
    return ["worktree", "merge", "dev-1", "dev-2"]


def _list(repo: Repo) -> list[str]:
    _two(repo)
    return ["worktree", "list"]


def _update(repo: Repo) -> list[str]:
    _two(repo)
    repo.write("base.txt", "moved\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message=moved")
    return ["worktree", "sync", "--all"]


def _checkpoints(repo: Repo) -> None:
    for n in range(4):
        repo.write("state.txt", f"{n}\n" * 100)
        run_ok(repo.path, "checkpoint", "--trigger", "periodic")


def _storage(repo: Repo) -> list[str]:
    _checkpoints(repo)
    return ["storage", "--all"]


def _forget(repo: Repo) -> list[str]:
    _checkpoints(repo)
    return ["forget", "--keep-last", "1"]


def _retention(repo: Repo) -> list[str]:
    _checkpoints(repo)
    repo.config("agentos.retention", "last=1")
    return ["storage", "upkeep"]


def _forget_path(repo: Repo) -> list[str]:
    _checkpoints(repo)
    return ["forget", "--path", "state.txt"]


def _sync(repo: Repo) -> list[str]:
    _checkpoints(repo)
    remote = repo.path.parent / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    repo.git("remote", "add", "origin", str(remote))
    return ["sync"]


def _sync_status(repo: Repo) -> list[str]:
    run_ok(repo.path, *_sync(repo))
    return ["sync", "status"]


def _repair(repo: Repo) -> list[str]:
    _created(repo)
    return ["worktree", "repair"]


def _complete(repo: Repo) -> list[str]:
    _created(repo)
    return ["worktree", "complete", "dev"]


def _why(repo: Repo) -> list[str]:
    _checkpoints(repo)
    return ["why", "state.txt"]


def _doctor(repo: Repo) -> list[str]:
    _committed(repo)
    return ["doctor"]


def _init(repo: Repo) -> list[str]:
    _created(repo)
    return ["init", "--harness=claude-code", "--no-watch"]


def _init_remove(repo: Repo) -> list[str]:
    run_ok(repo.path, *_init(repo))
    return ["init", "--remove"]


_SAVING = {"Looking for changes", "Saving files", "Writing the checkpoint"}
_RESTORING = {*_SAVING, "Comparing files", "Preparing files", "Updating files", "Refreshing index"}
_DELETING = {"Looking for objects that nothing needs", "Deleting objects", "Repacking objects"}
COMMANDS: dict[str, tuple[Callable[[Repo], list[str]], set[str]]] = {
    "checkpoint": (_checkpoint, _SAVING),
    "restore": (_restore, _RESTORING),
    "undo": (_undo, {"Looking for changes", "Comparing files", "Removing files", "Refreshing index"}),
    "rollback": (_rollback, {"Looking for changes", "Comparing files", "Removing files", "Refreshing index"}),
    "worktree create": (
        _create,
        {"Checking out", "Copying 'cache'", "Copying files", "Running the set-up command", "Writing the checkpoint"},
    ),
    "worktree create --revive": (_revive, {"Comparing files", "Preparing files", "Refreshing index"}),
    "worktree archive": (_archive, {*_SAVING, "Listing files", "Running the teardown command"}),
    "worktree remove": (_remove, {*_SAVING, "Listing files"}),
    "worktree cleanup": (_cleanup, {*_SAVING, "Checking worktrees", "Listing files"}),
    "worktree complete": (_complete, _SAVING),
    "worktree repair": (_repair, {"Checking worktrees"}),
    "why": (_why, {"Searching where lines come from"}),
    "doctor": (_doctor, {"Checking the repository"}),
    "worktree conflicts": (_conflicts, {"Reading branches", "Merging branches in pairs"}),
    "worktree merge": (_merge, {"Merging in memory", "Looking for changes"}),
    "worktree list": (_list, {"Looking at worktrees"}),
    "worktree sync": (_update, {"Merging in memory", "Updating worktrees"}),
    "storage": (_storage, {"Measuring timelines"}),
    "forget": (_forget, {"Looking for checkpoints to forget", "Rewriting timelines", *_DELETING}),
    "storage upkeep": (_retention, {"Looking for checkpoints to forget", "Rewriting timelines", *_DELETING}),
    "forget --path": (_forget_path, {"Searching objects", "Rewriting timelines", *_DELETING}),
    "sync": (_sync, {"Asking 'origin' what it has", "Searching what is new for secrets", "Pushing 4 checkpoints of 1"}),
    "init": (_init, {"Installing hooks", "Integrating agent programs", "Checking what is protected"}),
    "init --remove": (_init_remove, {"Removing hooks from settings", "Removing hooks", "Checking what is protected"}),
    "sync status": (_sync_status, {"Asking 'origin' what it has"}),
}


def _same_style(done: AtTerminal) -> None:
    for line in done.drawn:
        assert _LINE.fullmatch(line), line


@pytest.mark.parametrize("name", COMMANDS)
def test_each_long_command_shows_it(repo: Repo, name: str) -> None:
    prepare, wanted = COMMANDS[name]
    done = at_terminal(repo.path, *prepare(repo))
    assert done.code == 0, done
    missing = {each for each in wanted if not any(line.startswith(each) for line in done.drawn)}
    assert not missing, (missing, done.phases)
    _same_style(done)
    assert not any(line and each in line for each in wanted for line in done.left.splitlines()), done.left


@pytest.mark.parametrize("name", COMMANDS)
def test_none_of_it_in_a_pipe(repo: Repo, name: str) -> None:
    prepare, wanted = COMMANDS[name]
    done = run(repo.path, *prepare(repo), env={"TERM": "xterm", "CI": "", "GIT_PROGRESS_DELAY": "0"})
    assert done.code == 0, str(done)
    for each in (b"\r", b"\x1b", *(name.encode() for name in wanted)):
        assert each not in done.err, (each, done.err)


@pytest.mark.parametrize(
    ("args", "env"),
    [(["-q"], {}), (["--json"], {}), ([], {"TERM": "dumb"}), ([], {"CI": "true"})],
)
def test_none_where_nobody_wants_it(repo: Repo, args: list[str], env: dict[str, str]) -> None:
    _filled(repo)
    done = at_terminal(repo.path, *args, "checkpoint", env=env)
    assert done.code == 0
    assert done.written == b""


def test_a_quick_command_shows_nothing(repo: Repo) -> None:
    """The delay is of the whole command: a day does not pass."""
    done = at_terminal(repo.path, *_checkpoint(repo), delay="86400")
    assert (done.code, done.written) == (0, b"")


def test_an_error_is_on_a_line_of_its_own(repo: Repo) -> None:
    _committed(repo)
    repo.config("agentos.setup", "echo no >&2; exit 3")
    done = at_terminal(repo.path, "worktree", "create", "dev")
    assert done.code == 1
    assert "Running the set-up command" in done.phases
    assert done.left.startswith("error: the set-up command")
    assert done.left.splitlines()[1] == "error: no"


def test_an_interruption_is_on_a_line_of_its_own(repo: Repo) -> None:
    _committed(repo)
    repo.config("agentos.setup", 'kill -INT "$PPID"; exec sleep 100')
    done = at_terminal(repo.path, "worktree", "create", "dev")
    assert done.code == 130
    assert "Running the set-up command" in done.phases
    assert done.left.splitlines()[0] == "error: interrupted"
    assert not Path(repo.path.parent / "repo.worktrees" / "dev").exists()


def test_a_warning_is_on_a_line_of_its_own(repo: Repo) -> None:
    repo.config("agentos.maxUntracked", "1")
    done = at_terminal(repo.path, *_checkpoint(repo))
    [warning] = [line for line in done.left.splitlines() if "maxUntracked" in line]
    assert warning.startswith("warning: checkpoints hold 40 untracked files")


def test_none_in_the_background(repo: Repo) -> None:
    """As git: the shell's prompt is on the terminal then."""
    _filled(repo)
    words = [sys.executable, "-c", _IN_BACKGROUND, sys.executable, "-m", "git_agentos", "checkpoint"]
    env = {**os.environ, "TERM": "xterm", "GIT_PROGRESS_DELAY": "0"}
    done = subprocess.run(words, cwd=repo.path, env=env, capture_output=True, check=True)
    assert b"Saving files" not in done.stdout
    assert b"[exit 0]" in done.stdout
    assert b"Saving files" in subprocess.run(
        [*words[:2], _IN_BACKGROUND.replace("setpgid(0, 0)", "getpid()"), *words[3:]],
        cwd=repo.path, env=env, capture_output=True, check=True,
    ).stdout  # fmt: skip


# Runs a command in a process group that is not that of the terminal.
_IN_BACKGROUND = """
import os, pty, signal, sys
def child():
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        os.execv(sys.argv[1], sys.argv[1:])
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(2, b"[exit %d]" % code)
    os._exit(0)
pid, terminal = pty.fork()
if not pid:
    child()
try:
    while data := os.read(terminal, 4096):
        os.write(1, data)
except OSError:
    pass
os.waitpid(pid, 0)
"""


def test_a_signal_that_kills_leaves_no_process(repo: Repo) -> None:
    _committed(repo)
    repo.config("agentos.setup", 'kill -TERM "$PPID"; exec sleep 100')
    done = at_terminal(repo.path, "worktree", "create", "dev")
    assert done.code == -signal.SIGTERM
