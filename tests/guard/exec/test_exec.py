"""`guard exec`: the command as it would run without it, and every git below it decided about."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agents import agent_worktree
from tests.support.confirming import set_up
from tests.support.guard.approvals import at_terminal
from tests.support.repo import Repo, git_run
from tests.support.signals import with_default_handlers
from tests.support.state import complete_state
from tests.support.tool import Result, run, run_ok
from tests.support.waiting import wait_until


@pytest.fixture
def dev(repo: Repo) -> Repo:
    """An agent's worktree with work in it."""
    made = agent_worktree(repo, "dev")
    made.append("readme.txt", "unstaged\n")
    made.write("new.txt", "untracked\n")
    return made


def shell(where: Path, text: str, *options: str, env: dict[str, str] | None = None) -> Result:
    """Run shell text below `guard exec`."""
    return run(where, "guard", "exec", *options, "--", "bash", "-c", text, env=env)


def start(where: Path, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "git_agentos", "guard", "exec", "--", *words]
    with with_default_handlers(signal.SIGHUP, signal.SIGINT):
        return subprocess.Popen(
            argv, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "exit 255"), 255),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("/no/such/program",), 127),
        (("no-such-program-anywhere",), 127),
        (("/etc/passwd",), 126),
        (("git", "rev-parse", "--verify", "-q", "nothing"), 1),
    ],
)
def test_exit_code_is_that_of_the_command(dev: Repo, words: tuple[str, ...], code: int) -> None:
    done = run(dev.path, "guard", "exec", "--", *words)
    assert done.code == code, str(done)
    assert (b"cannot run" in done.err) is (code in (126, 127))


def test_words_streams_and_folder_are_the_commands(dev: Repo) -> None:
    script = "import os, sys; print(sys.argv[1:], os.getcwd()); print(sys.stdin.read(), file=sys.stderr)"
    words = ["-q", "--json", "--", "a b", "", "--help", "é"]
    argv = [sys.executable, "-m", "git_agentos", "guard", "exec", "--", sys.executable, "-c", script, *words]
    done = subprocess.run(argv, cwd=dev.path / "src", input=b"in", capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{words} {dev.path / 'src'}\n", b"in\n")
    odd = [*argv[:6], "printf", "%s", os.fsdecode(b"bad\xff")]
    assert subprocess.run(odd, cwd=dev.path, capture_output=True, check=True).stdout == b"bad\xff"


def test_the_dashes_may_be_left_out(dev: Repo) -> None:
    assert run(dev.path, "guard", "exec", "sh", "-c", "exit 5").code == 5
    assert run(dev.path, "guard", "exec", "--wait", "sh", "-c", "exit 5").code == 5
    assert run(dev.path, "-C", str(dev.path), "guard", "exec", "--as", "x", "sh", "-c", "exit 5").code == 5
    for words in ((), ("--",)):
        assert run(dev.path, "guard", "exec", *words).code == 2
    assert run(dev.path, "guard", "exec", "--bogus", "--", "true").code == 2


def test_command_gets_the_agents_id(dev: Repo, repo: Repo) -> None:
    text = 'echo "$AGENTOS_AGENT_ID $AGENTOS_GUARD ${PATH%%:*} $(command -v git)"'
    shims = repo.git_dir / "agentos" / "guard" / "bin"
    assert shell(dev.path, text).out.decode() == f"dev dev {shims} {shims / 'git'}\n"
    assert shell(repo.path, text).out.decode().startswith("main main ")
    named = run(repo.path, "--as", "boss", "guard", "exec", "--", "bash", "-c", text)
    assert named.out.decode().startswith("boss boss ")
    assert shell(repo.path, text, env={"AGENTOS_AGENT_ID": "given"}).out.decode().startswith("given given ")
    assert shell(repo.path, text, env={"AGENTOS_AGENT_ID": "not an id"}).code == 2
    inner = f"{sys.executable} -m git_agentos --as inner guard exec -- bash -c '{text}'"
    nested = shell(dev.path, inner).out.decode()
    assert nested.startswith("inner inner ")
    assert nested.count(str(shims)) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(dev: Repo, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    text = f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
    with start(dev.path, "bash", "-c", text) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        assert child.stdout.read() == b"got\n"
    assert child.returncode == 9


def test_below_nohup_a_hangup_is_ignored(dev: Repo) -> None:
    """As without `guard exec`: what was started to survive its terminal does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        text = "trap 'exit 9' HUP; kill -HUP $PPID; kill -HUP $$; echo still here"
        done = shell(dev.path, text)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (done.code, done.out) == (0, b"still here\n")


def test_the_command_ends_with_its_supervisor(dev: Repo) -> None:
    with start(dev.path, "bash", "-c", "echo $$; exec sleep 600") as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.kill()
    stat = Path(f"/proc/{pid}/stat")
    wait_until(lambda: not stat.exists() or b") Z" in stat.read_bytes(), "the command has ended")


def test_outside_of_a_repository(tmp_path: Path) -> None:
    assert run(tmp_path, "guard", "exec", "--", "true").code == 1


# -- what it is for ----------------------------------------------------------------------------------------------------

DESTRUCTIVE = [
    "git reset --hard",
    "git clean -fdx",
    "git checkout -f",
    "git checkout -- .",
    "git restore .",
    "git stash drop",
    "git stash clear",
    "git -c core.hooksPath=/dev/null -c core.fsmonitor= reset --hard",
    "cd src && git -C .. reset --har",
    'env -i PATH="$PATH" git reset --hard',
    "env -u AGENTOS_AGENT_ID -u AGENTOS_GUARD git reset --hard",
    "echo .. | xargs -I{} git -C src/{} reset --hard",
    "find . -maxdepth 0 -exec git reset --hard ';'",
    "python3 -c \"import subprocess, sys; sys.exit(subprocess.call(['git', 'reset', '--hard']))\"",
    "(setsid git reset --hard)",
    "bash -c \"exec -a git bash -c 'git reset --hard; true' stash\"",
    "git -c alias.x='!git reset --hard' x",
    "git branch -D other",
    "git update-ref -d refs/heads/other",
    "git reflog expire --expire=now --all",
    "git worktree remove --force .",
]


def stashed_elsewhere(repo: Repo, dev: Repo) -> str:
    """A commit for the stash that is not the agent's own: it says that it was made on `main`."""
    made = dev.text("stash", "create")
    head, index = f"{made}^1", f"{made}^2"
    return repo.text("commit-tree", "-p", head, "-p", index, "-m", "WIP on main: work", f"{made}^{{tree}}")


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("text", DESTRUCTIVE)
def test_destructive_git_below_the_command_is_stopped(dev: Repo, repo: Repo, text: str) -> None:
    (repo.git_dir / "info").mkdir(exist_ok=True)
    (repo.git_dir / "info" / "exclude").write_text("secret.env\n")
    dev.write("secret.env", "KEY=1\n")
    repo.git("stash", "store", stashed_elsewhere(repo, dev))
    before = complete_state(dev.path), repo.text("for-each-ref", "refs/heads", "refs/stash"), dev.read("secret.env")
    done = shell(dev.path, text)
    assert (
        complete_state(dev.path),
        repo.text("for-each-ref", "refs/heads", "refs/stash"),
        dev.read("secret.env"),
    ) == before
    assert done.code != 0 or text.startswith("find"), str(done)
    assert b"git-agentos: stopped" in done.err or b"needs approval" in done.err, str(done)


def test_git_itself_as_the_command(dev: Repo) -> None:
    before = complete_state(dev.path)
    for program in (
        "git",
        str(next(Path(p) / "git" for p in os.environ["PATH"].split(":") if (Path(p) / "git").exists())),
    ):
        done = run(dev.path, "guard", "exec", "--", program, "reset", "--hard")
        assert done.code == 3, str(done)
    assert complete_state(dev.path) == before


def test_daily_work_is_not_hindered(dev: Repo) -> None:
    text = (
        "set -e; git status -s; git diff; git add readme.txt; git commit -qm one; git stash -u; git stash pop; "
        "git add -A; git commit -qm two; git log --oneline -2; git switch -q -c topic; git switch -q -; git tag t1"
    )
    done = shell(dev.path, text)
    assert done.code == 0, str(done)
    assert done.out.decode().splitlines()[-2:] == dev.text("log", "--oneline", "-2", "agent/dev").splitlines()
    assert run_ok(dev.path, "status")["pending_approvals"] == []


def test_approval_end_to_end(dev: Repo, repo: Repo) -> None:
    dev.commit("all of it")
    repo.git("branch", "same", "other")
    done = run(dev.path, "guard", "exec", "--", "git", "merge", "-q", "--no-edit", "other")
    assert done.code == 3, str(done)
    [request] = run_ok(repo.path, "approvals", "list")["approvals"]
    assert request["id"] in done.err.decode()
    assert shell(dev.path, f"{sys.executable} -m git_agentos approvals grant {request['id']}").code == 3
    assert at_terminal(repo.path, "approvals", "grant", request["id"]).code == 0
    assert run(dev.path, "guard", "exec", "--", "git", "merge", "-q", "--no-edit", "same").code == 3
    merged = run(dev.path, "guard", "exec", "--", "git", "merge", "-q", "--no-edit", "other")
    assert merged.code == 0, str(merged)
    assert dev.exists("other.txt")
    dev.git("switch", "-q", "--detach", "HEAD~1")
    assert run(dev.path, "guard", "exec", "--", "git", "merge", "-q", "--no-edit", "other").code == 3


def test_waiting_for_approval(dev: Repo, repo: Repo) -> None:
    dev.commit("all of it")
    repo.git("branch", "same", "other")
    argv = [sys.executable, "-m", "git_agentos", "guard", "exec", "--wait", "--"]
    for verb, code in (("deny", 3), ("grant", 0)):
        words = ["git", "merge", "-q", "--no-edit", "other" if verb == "grant" else "same"]
        with subprocess.Popen([*argv, *words], cwd=dev.path, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
            assert child.stderr is not None
            heard = child.stderr.readline().decode()
            [request] = run_ok(repo.path, "status")["pending_approvals"]
            assert request["id"] in heard
            assert at_terminal(repo.path, "approvals", verb, request["id"]).code == 0
            child.stderr.read()
        assert child.returncode == code
    assert dev.exists("other.txt")


def test_save_mode_end_to_end(dev: Repo, repo: Repo) -> None:
    set_up(repo, "agentos.guard.mode", "save")
    before = complete_state(dev.path)
    done = shell(dev.path, "git reset --hard && git clean -fdq")
    assert done.code == 0, str(done)
    assert complete_state(dev.path) != before
    first = run_ok(dev.path, "checkpoint", "list")["checkpoints"][-1]
    assert first["id"][:8] in done.err.decode()
    run_ok(dev.path, "restore", first["id"], "--no-branch")
    assert complete_state(dev.path) == before


def test_undecidable_command_does_not_run(dev: Repo, repo: Repo) -> None:
    repo.config("agentos.guard.mode", "bogus")
    before = complete_state(dev.path)
    done = run(dev.path, "guard", "exec", "--", "git", "reset", "--hard")
    assert done.code == 3, str(done)
    assert b"bad value 'bogus'" in done.err
    assert run(dev.path, "guard", "exec", "--", "git", "status").code == 0
    repo.config("agentos.guard.mode", "strict")
    (repo.git_dir / "agentos" / "approvals").write_text("not a folder")
    done = run(dev.path, "guard", "exec", "--", "git", "merge", "other")
    assert done.code == 3, str(done)
    assert complete_state(dev.path) == before


# -- with the other layers ---------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(repo: Repo) -> Repo:
    """An agent's worktree where hooks and fsmonitor act too."""
    made = Repo(Path(run_ok(repo.path, "worktree", "create", "dev", "--guard")["path"]))
    made.append("readme.txt", "unstaged\n")
    return made


def decisions(where: Repo) -> list[str]:
    """What the log says was decided, the newest first."""
    entries = run_ok(where.path, "log", "list")["entries"]
    return [entry["summary"].removeprefix("guard: ") for entry in entries if entry["type"] == "decision"]


def test_one_command_is_saved_and_told_once(guarded: Repo, repo: Repo) -> None:
    guarded.git("stash", "-q")
    assert shell(guarded.path, "git stash pop -q").code == 0
    assert decisions(guarded) == ["allowed: stash-apply: git stash pop -q"]
    set_up(repo, "agentos.guard.mode", "save")
    before = complete_state(guarded.path)
    done = shell(guarded.path, "git reset -q --hard")
    assert done.code == 0, str(done)
    assert done.err.decode().count("git agentos restore") == 1
    assert decisions(guarded)[:-1] == ["saved: reset-hard: git reset -q --hard"]
    saved = run_ok(guarded.path, "checkpoint", "list")["checkpoints"][0]["id"]
    run_ok(guarded.path, "restore", saved, "--no-branch")
    assert complete_state(guarded.path) == before


@pytest.mark.parametrize("start", [("git",), ("guard exec",)])
def test_a_grant_covers_a_command_in_all_layers(guarded: Repo, repo: Repo, start: tuple[str]) -> None:
    def merge() -> int:
        words = ("merge", "-q", "--no-edit", "other")
        if start == ("git",):
            return git_run(guarded.path, *words).returncode
        return run(guarded.path, "guard", "exec", "--", "git", *words).code

    guarded.commit("all of it")
    assert merge() != 0
    [request] = run_ok(repo.path, "approvals", "list")["approvals"]
    assert at_terminal(repo.path, "approvals", "grant", request["id"]).code == 0
    assert merge() == 0
    assert guarded.exists("other.txt")
    assert [line.split(":")[0] for line in decisions(guarded)][:2] == ["granted", "waits for approval"]


@pytest.mark.parametrize("leaves", [False, True])
def test_ctrl_c_reaches_everybody_once(dev: Repo, leaves: bool) -> None:
    """A terminal sends SIGINT to the whole foreground: the command must not get it a second time from us, nor at all
    where it has left the foreground."""
    count = dev.path.parent / "count"
    wait = "signal.sigtimedwait([signal.SIGINT], 0.5)"
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        f"leaves = {leaves}\n"
        "if leaves: os.setpgid(0, 0)\n"
        "print('ready', flush=True)\n"
        f"seen = [] if leaves else [signal.sigwait([signal.SIGINT])]\n"
        f"seen += [2] if {wait} else []\n"
        f"open({str(count)!r}, 'w').write(str(len(seen)))\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(dev.path)
        words = ["-m", "git_agentos", "guard", "exec", "--", sys.executable, "-c", code]
        os.execv(sys.executable, [sys.executable, *words])
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert count.read_text() == ("0" if leaves else "1")
    assert os.waitstatus_to_exitcode(status) == 0


# -- login shells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_login_shell_finds_the_guards_git(dev: Repo, shell: str, home: Path) -> None:
    """Codex runs `bash -lc`, and the profile of many systems sets PATH anew."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if shell == "bash":
        (home / ".bash_profile").write_text("PATH=/usr/local/bin:/usr/bin:/bin\nexport PATH\n")
    before = complete_state(dev.path)
    done = run(dev.path, "guard", "exec", "--", shell, "-lc", "git reset --hard; exit $?" if shell != "fish"
               else "git reset --hard; exit $status")  # fmt: skip
    assert (done.code, b"stopped" in done.err) == (3, True), str(done)
    assert complete_state(dev.path) == before
    # Below that it is as before, and so is what a shell reads that BASH_ENV was set for.
    found = run(dev.path, "guard", "exec", "--", shell, "-lc", "bash -c 'command -v git'").out
    assert found.strip().endswith(b"/agentos/guard/bin/git")


def test_a_bash_env_of_the_users_own_is_read(dev: Repo, tmp_path: Path) -> None:
    mine = tmp_path / "mine.sh"
    mine.write_text("export MINE=read; PATH=/usr/bin:/bin\n")
    text = "echo $MINE; command -v git; bash -c 'echo $MINE'"
    done = run(dev.path, "guard", "exec", "--", "bash", "-c", text, env={"BASH_ENV": str(mine)})
    assert done.out.split()[::2] == [b"read", b"read"]
    assert done.out.split()[1].endswith(b"/agentos/guard/bin/git")


def test_hooks_of_the_users_own_meet_git(dev: Repo, repo: Repo) -> None:
    hook = repo.git_dir / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/bash\ncommand -v git >&2\n")
    hook.chmod(0o755)
    done = shell(dev.path, "git commit -qam one")
    assert done.code == 0, str(done)
    assert b"agentos/guard/bin" not in done.err
