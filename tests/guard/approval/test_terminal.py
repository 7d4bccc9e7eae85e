"""A terminal that an agent has made for itself decides nothing; a person's does."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import agent_worktree
from tests.support.guard.approvals import AGENT, approve, at_terminal, run_by
from tests.support.repo import Repo
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until

TOOL = f"{sys.executable} -m git_agentos"
EMPTY = f"env -i HOME={os.environ['HOME']} PATH={os.environ['PATH']} PYTHONPATH={os.environ.get('PYTHONPATH', '')}"
_PATIENCE = 40.0

needs_script = pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1)")
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

# A double fork, a session of its own, and a pseudo-terminal: what `expect` does.
FORK = """
import os, pty, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
pty.spawn(["sh", "-c", sys.argv[1]])
"""
# The same, and its other end is held by nobody who is above: only by a process beside it.
ASIDE = """
import os, pty, sys, fcntl, termios
ours, theirs = pty.openpty()
if os.fork() == 0:
    os.close(theirs)
    try:
        while os.read(ours, 1024):
            pass
    except OSError:
        pass
    os._exit(0)
if os.fork():
    os._exit(0)
os.close(ours)
os.setsid()
fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
for number in range(3):
    os.dup2(theirs, number)
os.chdir("/")
os.execvp("sh", ["sh", "-c", sys.argv[1]])
"""
# Takes a terminal that somebody else has for its own.
STEAL = """
import os, sys, fcntl, termios
os.setsid()
number = os.open(sys.argv[2], os.O_RDWR)
try:
    fcntl.ioctl(number, termios.TIOCSCTTY, 1)
except OSError:
    pass
for each in range(3):
    os.dup2(number, each)
os.chdir("/")
os.execvp("sh", ["sh", "-c", sys.argv[1]])
"""
NAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, b"sshd", 0, 0, 0)
exec(sys.stdin.read() if len(sys.argv) < 3 else open(sys.argv[2]).read())
"""


@pytest.fixture
def dev(repo: Repo) -> Repo:
    return agent_worktree(repo, "dev")


@pytest.fixture
def request_id(dev: Repo) -> str:
    return file_request(dev)


def file_request(dev: Repo) -> str:
    verdict = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path)
    assert verdict.approval is not None
    return verdict.approval


@pytest.fixture
def persons() -> Iterator[str]:
    """The path of a person's terminal, which any process of the same user can open."""
    ours, theirs = pty.openpty()
    yield os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


class Attacker:
    """An agent in its worktree, without `guard exec`, that runs shell text in the background and lives on."""

    def __init__(self, dev: Repo, folder: Path) -> None:
        self.dev = dev
        self.folder = folder
        folder.mkdir()
        for name, text in (("fork", FORK), ("aside", ASIDE), ("steal", STEAL), ("named", NAMED)):
            (folder / f"{name}.py").write_text(text)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("AGENTOS", "TMUX"))}

    def start(self, text: str) -> None:
        done = subprocess.run(
            ["bash", "-c", text], cwd=self.dev.path, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=_PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, text

    def command(self, words: str, name: str) -> str:
        """Shell text for `git agentos WORDS` in the main checkout, which notes how it went under a name."""
        where = shlex.quote(str(self.dev.path.parents[1] / "repo"))
        log = self.folder / name
        return f"cd / && {TOOL} -C {where} {words} >{log}.out 2>&1; echo $? >{log}.tmp; mv {log}.tmp {log}.code"

    def code(self, name: str) -> tuple[int, str]:
        path = self.folder / f"{name}.code"
        wait_until(path.exists, f"{name} has ended")
        return int(path.read_text()), (self.folder / f"{name}.out").read_text()


@pytest.fixture
def attacker(dev: Repo, tmp_path: Path) -> Attacker:
    return Attacker(dev, tmp_path / "attacker")


def ways(attacker: Attacker, words: str, persons: str) -> dict[str, str]:
    """Attempts of one who works in the worktree to run `git agentos WORDS` as a person: shell text by name."""
    at = attacker.folder

    def quoted(name: str) -> str:
        return shlex.quote(attacker.command(words, name))

    found = {
        "fork": f"{EMPTY} {sys.executable} {at}/fork.py {quoted('fork')}",
        "aside": f"setsid {EMPTY} {sys.executable} {at}/aside.py {quoted('aside')} &",
        "named": f"setsid {EMPTY} {sys.executable} {at}/named.py {quoted('named')} {at}/fork.py &",
        "inside": f"{EMPTY} {sys.executable} -c 'import pty, sys; pty.spawn(sys.argv[1:])' sh -c {quoted('inside')}",
        "opened": f"cd /; setsid {EMPTY} sh -c {quoted('opened')} <{persons} &",
        "opened-twice": f"cd /; (setsid {EMPTY} sh -c {quoted('opened-twice')} <>{persons} &) &",
        "stolen": f"{EMPTY} {sys.executable} {at}/steal.py {quoted('stolen')} {persons} &",
        "no-terminal": f"cd /; setsid {EMPTY} sh -c {quoted('no-terminal')} </dev/null &",
        "pipe": f"cd /; yes | setsid {EMPTY} sh -c {quoted('pipe')} &",
        "ptmx": f"cd /; setsid {EMPTY} sh -c {quoted('ptmx')} </dev/ptmx &",
        "fake-stdin": f"cd /; setsid {EMPTY} {sys.executable} -c "
        + shlex.quote(
            "import sys, io, os, subprocess\n"
            "class Fake(io.StringIO):\n"
            "    def isatty(self): return True\n"
            "sys.stdin = Fake()\n"
            f"sys.argv = ['git-agentos', '-C', {str(attacker.dev.path.parents[1] / 'repo')!r}, *{words.split()!r}]\n"
            "import git_agentos.__main__\n"
            "from git_agentos.cli.entry import main\n"
            "code = main()\n"
        )
        + f"; echo 3 >{at}/fake-stdin.code; touch {at}/fake-stdin.out",
    }
    if shutil.which("script") is not None:

        def script(name: str) -> str:
            return f"script -qec {shlex.quote('sh -c ' + quoted(name))} /dev/null"

        found |= {
            "script": f"setsid {EMPTY} sh -c {shlex.quote('cd /; ' + script('script'))} &",
            "script-nohup": f"cd / && {EMPTY} nohup {script('script-nohup')} &",
            "script-fork": f"cd / && setsid -f {EMPTY} {script('script-fork')}",
            "script-in-script": f"setsid {EMPTY} script -qec {shlex.quote(script('script-in-script'))} /dev/null &",
            "script-as-sshd": f"cp $(which script) {at}/sshd; cd /; setsid {EMPTY} {at}/sshd -qec "
            f"{shlex.quote('sh -c ' + quoted('script-as-sshd'))} /dev/null &",
            "script-as-desktop": f"cp $(which script) {at}/gnome-shell; cd /; setsid {EMPTY} {at}/gnome-shell -qec "
            f"{shlex.quote('sh -c ' + quoted('script-as-desktop'))} /dev/null &",
            "script-exec-a": f"cd /; setsid {EMPTY} bash -c {shlex.quote('exec -a sshd ' + script('script-exec-a'))} &",
            "script-cwd": f"cd {shlex.quote(str(attacker.dev.path.parents[1] / 'repo'))} && setsid {EMPTY} "
            f"{script('script-cwd')} &",
        }  # fmt: skip
    if shutil.which("tmux") is not None:

        def tmux(name: str) -> str:
            return f"tmux -L {name}-{os.getpid()} -f /dev/null"

        found |= {
            "tmux": f"cd / && setsid {EMPTY} {tmux('tmux')} new -d sh -c {quoted('tmux')}",
            "tmux-attached": f"cd / && setsid {EMPTY} TERM=xterm script -qec "
            + shlex.quote(f"{tmux('tmux-attached')} new sh -c {quoted('tmux-attached')}")
            + " /dev/null &",
        }  # fmt: skip
    if shutil.which("unshare") is not None and os.geteuid() == 0:
        found["namespace"] = (
            f"cd / && setsid {EMPTY} script -qec "
            + shlex.quote(f"unshare -pf --mount-proc sh -c {quoted('namespace')}")
            + " /dev/null &"
        )
    return found


def test_an_orphan_does_not_grant(repo: Repo, attacker: Attacker, request_id: str, persons: str) -> None:
    attempts = ways(attacker, f"approvals grant {request_id}", persons)
    for text in attempts.values():
        attacker.start(text)
    done = {name: attacker.code(name) for name in attempts}
    assert {name: each for name, each in done.items() if each[0] != 3} == {}
    [still] = run_ok(repo.path, "approvals", "list")["approvals"]
    assert still["state"] == "pending"
    # A person does, at a terminal that was there before.
    assert at_terminal(repo.path, "approvals", "grant", request_id).code == 0


def test_an_orphan_does_not_confirm(repo: Repo, attacker: Attacker, persons: str) -> None:
    repo.config("agentos.policy.push-force", "allow")
    attempts = ways(attacker, "guard confirm", persons)
    some = ["fork", "opened", "stolen", *(name for name in ("script", "tmux", "namespace") if name in attempts)]
    for name in some:
        attacker.start(attempts[name])
    done = {name: attacker.code(name) for name in some}
    assert {name: each for name, each in done.items() if each[0] != 3} == {}
    assert run_ok(repo.path, "guard", "confirm", "--list")["confirmed"] == []
    assert at_terminal(repo.path, "guard", "confirm").code == 0


@needs_script
def test_a_terminal_that_waits_for_the_request(repo: Repo, attacker: Attacker, dev: Repo) -> None:
    """`script`, begun before the request was filed and kept."""
    orders = attacker.folder / "orders"
    os.mkfifo(orders)
    attacker.start(f"cd /; setsid {EMPTY} script -qec 'sh {orders}' /dev/null &")
    request_id = file_request(dev)
    orders.write_text(attacker.command(f"approvals grant {request_id}", "kept") + "\n")
    code, said = attacker.code("kept")
    assert code == 3, said
    assert "script" in said


@needs_tmux
def test_a_multiplexer_that_an_agent_has_begun(repo: Repo, attacker: Attacker, dev: Repo) -> None:
    name = f"kept-{os.getpid()}"
    attacker.start(f"cd /; setsid {EMPTY} tmux -L {name} -f /dev/null new -d sh")
    try:
        request_id = file_request(dev)
        text = attacker.command(f"approvals grant {request_id}", "kept")
        attacker.start(f"tmux -L {name} send-keys {shlex.quote(text)} Enter")
        code, said = attacker.code("kept")
        assert code == 3, said
        assert "tmux" in said
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], check=False)


@needs_tmux
def test_a_persons_multiplexer(repo: Repo, dev: Repo, tmp_path: Path) -> None:
    """It is no older than the worktree, and nobody's child; but a person looks at it in a terminal."""
    request_id = file_request(dev)
    person = Attacker(repo, tmp_path / "person")
    name = f"person-{os.getpid()}"
    log = person.folder / "p"
    text = f"{TOOL} approvals grant {request_id} >{log}.out 2>&1; echo $? >{log}.tmp; mv {log}.tmp {log}.code"
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(repo.path)
        os.execve(
            shutil.which("tmux") or "", ["tmux", "-L", name, "-f", "/dev/null", "new", text],
            {**person.env, "TERM": "xterm"},
        )  # fmt: skip
    try:
        code, said = person.code("p")
        assert code == 0, said
        [granted] = run_ok(repo.path, "approvals", "list")["approvals"]
        assert (granted["state"], granted["decided_by"]) == ("granted", "terminal")
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], check=False, stderr=subprocess.DEVNULL)
        os.close(ours)
        os.waitpid(pid, 0)


def test_a_key_does_where_the_terminal_does_not(
    repo: Repo, attacker: Attacker, request_id: str, tmp_path: Path
) -> None:
    """An agent's own key is not confirmed; the orchestrator's is."""
    key = tmp_path / "own.key"
    key.write_text("any text")
    for number, text in enumerate((
        f"git config --global agentos.approvalKey {key}",
        f"git -C {repo.path} config agentos.approvalKey {key}",
        f"mkdir -p ~/.config/git && printf '[agentos]\\n\\tapprovalKey = {key}\\n' >>~/.config/git/config",
        f"export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=agentos.approvalKey GIT_CONFIG_VALUE_0={key}",
        f"printf '[agentos]\\n\\tapprovalKey = {key}\\n' >{key}.config; export GIT_CONFIG_GLOBAL={key}.config",
        f"printf '[agentos]\\n\\tapprovalKey = {key}\\n' >{key}.config; export GIT_CONFIG_SYSTEM={key}.config",
    )):  # fmt: skip
        name = f"key-{number}"
        script = f"cd /; {text}; {attacker.command(f'approvals grant {request_id}', name)}"
        attacker.start(f"setsid {EMPTY} HOME={tmp_path} sh -c {shlex.quote(script)} &")
        code, said = attacker.code(name)
        assert code == 3, said
    [still] = run(repo.path, "--json", "approvals", "list").json["approvals"]
    assert still["state"] == "pending"
