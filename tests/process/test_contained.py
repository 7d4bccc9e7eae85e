"""A command of a run: what it gets, how its end is told, and that nothing is left of it, whatever it does.

Each agent is a script; the processes that it starts are told from all others by a number that only they have.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from git_agentos.git.location import Location, locate
from git_agentos.guard.exec import launch
from git_agentos.process import contained, marked, supervisor, table
from git_agentos.process.contained import Command, Result
from git_agentos.run import step
from tests.support import without_linux
from tests.support.repo import Repo
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained, "GRACE", 0.3)


@pytest.fixture
def place(empty_repo: Repo) -> Location:
    return locate(str(empty_repo.path))


@pytest.fixture
def number() -> Iterator[str]:
    """What the processes of one agent are known by: `sleep NUMBER` sleeps longer than any test takes."""
    made = f"9{uuid.uuid4().int % 10**11:011}"
    yield made
    for pid in living(made):
        os.kill(pid, signal.SIGKILL)


def living(number: str) -> list[int]:
    """The processes that have the number on their command line, without those that have ended."""
    rows = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,args="], stdout=subprocess.PIPE, text=True, check=True)
    found = (line.split(None, 2) for line in rows.stdout.splitlines() if number in line)
    return [int(pid) for pid, state, _ in found if int(pid) != os.getpid() and state[0] not in "ZX"]


def environment(mark: str = "", **extra: str) -> dict[str, str]:
    mark = mark or uuid.uuid4().hex
    return step.command_environment({**os.environ, **extra}, run_id="r1", agent="run-r1", task=None, mark=mark)


class Said:
    """What a command said, and how it ended."""

    def __init__(self) -> None:
        self.out, self.err, self.shown = io.BytesIO(), io.BytesIO(), list[bytes]()

    def run(
        self,
        place: Location,
        command: str,
        *,
        limit: float | None = None,
        guarded: bool = False,
        env: dict[str, str] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Result:
        words, env = contained.shell(command), environment() if env is None else env
        if guarded:
            words, env = launch.with_shim(place, "run-r1", words, env)
        return contained.run(
            Command(words, place.root, env, limit), self.out, self.err, show=self.shown.append, stop=stop
        )

    @property
    def streams(self) -> tuple[bytes, bytes]:
        return self.out.getvalue(), self.err.getvalue()


# -- what it gets ------------------------------------------------------------------------------------------------------


def test_command_runs_in_the_worktree_with_empty_stdin(place: Location) -> None:
    said = Said()
    ended = said.run(place, 'pwd; echo "$PWD"; cat; echo no >&2; exit 7')
    assert (ended.exit_code, ended.timed_out, ended.interrupted, ended.left_behind) == (7, False, False, 0)
    assert said.streams == (f"{place.root}\n{place.root}\n".encode(), b"no\n")
    assert sorted(said.shown) == [place.root.encode()] * 2 + [b"no"]


def test_command_has_its_own_process_group_and_session(place: Location) -> None:
    said = Said()
    said.run(place, f"{sys.executable} -c 'import os; print(os.getpgid(0), os.getsid(0), os.getppid())'")
    group, session, _ = map(int, said.out.getvalue().split())
    assert group not in (os.getpgid(0), session)
    assert session != os.getsid(0)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 0", 0),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("/no/such/program", 127),
        ("/etc/passwd", 126),
        ("exec >&- 2>&-; exit 4", 4),
        ("if", 2),
        ("kill -TERM $PPID; sleep 9", 143),
    ],
)
def test_exit_code_of_the_command(place: Location, command: str, code: int) -> None:
    assert Said().run(place, command).exit_code == code


def test_the_environment() -> None:
    base = {
        "PATH": "/bin", "HOME": "/h", "GIT_DIR": "x", "GIT_INDEX_FILE": "x", "GIT_CONFIG_PARAMETERS": "'a.b=c'",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c", "GIT_AUTHOR_DATE": "x",
        "GIT_CONFIG_GLOBAL": "/h/config", "GIT_SSH_COMMAND": "ssh -4", "GIT_WHATEVER": "x", "OLDPWD": "/",
        "AGENTOS_TASK_ID": "outer", "AGENTOS_RUN_ID": "outer", "AGENTOS_ATTEMPT": "2", "AGENTOS_STEP": "3",
        "AGENTOS_FEEDBACK_FILE": "/f", "AGENTOS_RUN_MARK": "outer", "AGENTOS_AGENT_ID": "outer",
    }  # fmt: skip
    kept = {"PATH": "/bin", "HOME": "/h"}
    identity = {"AGENTOS_AGENT_ID": "a", "AGENTOS_RUN_ID": "r", "AGENTOS_RUN_MARK": "m"}
    assert step.command_environment(base, run_id="r", agent="a", task=None, mark="m") == kept | identity
    with_task = step.command_environment(base, run_id="r", agent="a", task="T-1", mark="m")
    assert with_task == kept | identity | {"AGENTOS_TASK_ID": "T-1"}


def test_no_folder_to_run_it_in(place: Location) -> None:
    for root in (place.root + "/none", place.git_dir + "/HEAD"):
        said = Said()
        assert said.run(place._replace(root=root), "true").exit_code == 126
        assert said.streams == (
            b"",
            f"git-agentos: cannot run anything in '{root}': there is no such folder\n".encode(),
        )


def test_a_guarded_one_has_the_guard_s_git(repo: Repo) -> None:
    place = locate(str(repo.path))
    repo.append("readme.txt", "work\n")
    for guarded, code in ((True, 3), (False, 0)):
        said = Said()
        ended = said.run(place, 'env -i PATH="$PATH" git reset -q --hard', guarded=guarded)
        assert ended.exit_code == code, said.streams
        assert (repo.read("readme.txt").endswith(b"work\n")) is guarded


# -- nothing is left ---------------------------------------------------------------------------------------------------

# Two forks and a session of its own, nothing in the environment, no descriptor and no folder that tells.
DAEMON = (
    "import os, sys\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "os.chdir('/'); os.closerange(0, 64)\n"
    "os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})\n"
)
STUBBORN = (
    "import signal, sys, time\n"
    "for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(each, signal.SIG_IGN)\n"
    "print('up', flush=True)\n"
    "time.sleep(9999)\n"
)
# Always one process only, and never the same for long; it gives up in the end, in case the test itself is killed.
HOPPER = (
    "import os, time\nend = time.monotonic() + 120\n"
    "while time.monotonic() < end and not os.path.exists('enough'):\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
)
SUBREAPER = (
    "import ctypes, os, subprocess, sys, time\nctypes.CDLL(None).prctl(36, 1)\n"
    "subprocess.Popen(['setsid', 'sleep', sys.argv[1]])\nprint('up', flush=True)\ntime.sleep(9999)\n"
)

LEAVING = {
    "a job": "sleep N & exit 5",
    "another session": "setsid sleep N & nohup setsid sleep N & exit 5",
    "a daemon": "py DAEMON N; exit 5",
    "one that hears nothing": "py STUBBORN N > up & while [ ! -s up ]; do :; done; exit 5",
    "one that has stopped": "sleep N & kill -STOP $!; exit 5",
    "one that is never the same": "py HOPPER N & sleep 0.2; exit 5",
    "one that collects its own": "py SUBREAPER N > up & while [ ! -s up ]; do :; done; exit 5",
    "a hundred": "for i in 1 2 3 4 5 6 7 8 9 10; do (for j in 1 2 3 4 5 6 7 8 9 10; do sleep N & done); done; exit 5",
}
HANGING = {
    "sleep": "sleep N",
    "hears nothing": "exec py STUBBORN N",
    "stops itself": "kill -STOP $$; sleep N",
    "stops who watches": "kill -STOP $PPID; sleep N",
    "stops all who watch": "kill -STOP $PPID $(ps -o ppid= $PPID); sleep N",
    "without streams": "exec >&- 2>&-; sleep N",
    "a daemon too": "py DAEMON N; sleep N",
}
# Of these there may be nothing to end where there is no subreaper: the kernel itself ends a stopped one whose group has
# lost its parent, and the others are missed (docs/runs.md).
MAY_BE_MISSED = ("a daemon", "one that has stopped", "one that is never the same")
KILLING = {
    "its parent": "kill -9 $PPID; sleep N",
    "its grandparent": "kill -9 $(ps -o ppid= $PPID); sleep N",
    "stops its grandparent": "kill -STOP $(ps -o ppid= $PPID); exit 143",
    "both": "(trap '' HUP TERM; setsid sleep N &) ; kill -9 $(ps -o ppid= $PPID) $PPID; sleep N",
    "its parent, after a daemon": "py DAEMON N; kill -9 $PPID; sleep N",
    "its grandparent, after a daemon": "py DAEMON N; kill -9 $(ps -o ppid= $PPID); sleep N",
}


def scripted(command: str, number: str, folder: Path) -> str:
    """The command of an agent; its scripts are files, so that the number stands on every command line."""
    for name in ("DAEMON", "STUBBORN", "HOPPER", "SUBREAPER"):
        if name in command:
            (folder / f"{name}.py").write_text(globals()[name])
            command = command.replace(f"py {name}", f"{sys.executable} -I {folder / name}.py")
    return command.replace(" N", f" {number}")


def missed(command: str) -> int:
    """How many processes of a command may be missed: only a subreaper holds a daemon that nothing else tells of."""
    return int("DAEMON" in command and not without_linux.has_subreaper())


@pytest.mark.parametrize("name", LEAVING)
def test_processes_left_by_the_command_are_ended(place: Location, number: str, tmp_path: Path, name: str) -> None:
    ended = Said().run(place, scripted(LEAVING[name], number, tmp_path))
    (Path(place.root) / "enough").touch()
    assert len(living(number)) <= missed(LEAVING[name])
    assert (ended.exit_code, ended.timed_out, ended.interrupted) == (5, False, False)
    if without_linux.has_subreaper() or name not in MAY_BE_MISSED:
        assert ended.left_behind >= (100 if name == "a hundred" else 1)


@pytest.mark.parametrize("name", HANGING)
def test_the_limit_ends_all_of_it(place: Location, number: str, tmp_path: Path, name: str) -> None:
    ended = Said().run(place, scripted(HANGING[name], number, tmp_path), limit=1.0)
    assert len(living(number)) <= missed(HANGING[name])
    assert (ended.exit_code > 128, ended.timed_out, ended.interrupted) == (True, True, False)


@pytest.mark.parametrize("limit", [40 * 86400.0, 1e14])
def test_a_limit_may_be_long(place: Location, limit: float) -> None:
    ended = Said().run(place, "sleep 0.1; exit 5", limit=limit)
    assert (ended.exit_code, ended.timed_out, ended.interrupted) == (5, False, False)


def test_command_gets_sigterm_before_sigkill(place: Location, number: str) -> None:
    said = Said()
    command = f"trap 'echo bye; exit 9' TERM; sleep {number} & echo up; wait"
    ended = said.run(place, command, stop=lambda: b"up" in said.out.getvalue())
    assert (ended.exit_code, ended.timed_out, ended.interrupted) == (9, False, True)
    assert said.out.getvalue() == b"up\nbye\n"
    assert living(number) == []


@pytest.mark.parametrize("name", KILLING)
def test_command_that_kills_its_supervisors_leaves_no_process(
    place: Location, number: str, tmp_path: Path, name: str
) -> None:
    ended = Said().run(place, scripted(KILLING[name], number, tmp_path))
    assert len(living(number)) <= missed(KILLING[name])
    assert (ended.exit_code in (137, 143), ended.timed_out, ended.interrupted) == (True, False, False)


def test_output_of_a_background_job_that_ends_is_kept(place: Location) -> None:
    said = Said()
    # It writes once the command has ended and was waited for, however long that takes.
    ended = said.run(place, "(while kill -0 $$ 2>/dev/null; do :; done; echo late) & exit 0")
    assert (said.out.getvalue(), ended.exit_code, ended.left_behind) == (b"late\n", 0, 0)


class Trouble(Exception):
    """Something goes wrong on our side."""


@pytest.mark.parametrize("where", ["show", "stop", "write"])
def test_an_error_of_ours_ends_it_too(place: Location, number: str, where: str) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise Trouble

    def trouble(*_: object) -> bool:
        raise Trouble

    words = contained.shell(f"echo out; setsid sleep {number} & sleep {number}")
    command = Command(words, place.root, environment())
    out = Full() if where == "write" else io.BytesIO()
    show = trouble if where == "show" else lambda line: None
    with pytest.raises(Trouble):
        contained.run(command, out, io.BytesIO(), show=show, stop=trouble if where == "stop" else lambda: False)  # type: ignore[arg-type]  # what it returns is not looked at
    assert living(number) == []


# -- whoever is killed -------------------------------------------------------------------------------------------------

KERNEL = """
import io, os, sys
from git_agentos.process import contained
from git_agentos.run import step

contained.GRACE = 0.3
where, command, mark, limit = sys.argv[1:]
env = step.command_environment(os.environ, run_id="r1", agent="run-r1", task=None, mark=mark)
words = contained.shell(command)
command = contained.Command(words, os.path.realpath(where), env, float(limit) or None)
contained.run(command, io.BytesIO(), io.BytesIO(), show=lambda line: None, stop=lambda: False)
"""


@contextmanager
def started(*argv: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, while the test needs it."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, env={**os.environ, **environment}) as process:
        try:
            yield process
        finally:
            process.kill()


def kernel(
    place: Location, command: str, mark: str, limit: float = 0.0
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return started(sys.executable, "-c", KERNEL, place.root, command, mark, str(limit))


@pytest.mark.parametrize("name", ["a daemon", "one that hears nothing", "another session"])
def test_killed_kernel_leaves_no_process(place: Location, number: str, tmp_path: Path, name: str) -> None:
    command = scripted(LEAVING[name], number, tmp_path).replace("exit 5", f"touch ready; sleep {number}")
    with kernel(place, command, uuid.uuid4().hex) as ours:
        wait_until((Path(place.root) / "ready").exists, "the command is ready")
        assert living(number)
        ours.kill()
    wait_until(lambda: len(living(number)) <= missed(LEAVING[name]), "its processes have ended")


def test_a_stopped_kernel_keeps_no_agent_beyond_its_limit(place: Location, number: str, tmp_path: Path) -> None:
    command = scripted(f"py DAEMON N; kill -STOP $(ps -o ppid= $(ps -o ppid= $PPID)); sleep {number}", number, tmp_path)
    with kernel(place, command, uuid.uuid4().hex, limit=2.0) as ours:
        wait_until(lambda: living(number), "its processes run")
        # The kernel has the command on its own command line.
        left = 1 + missed("DAEMON")
        wait_until(lambda: ours.pid in living(number) and len(living(number)) <= left, "only the kernel is left")


def test_sweeping_after_everybody_was_killed(place: Location, number: str) -> None:
    """Kernel and supervisors are gone: what has the mark, or is below one that has it, is found by that."""
    mark = uuid.uuid4().hex
    inner = f"echo $PPID $(ps -o ppid= $PPID) > above; setsid env -i sleep {number} & setsid sleep {number} & wait"
    with kernel(place, f"setsid sh -c {inner!r} & touch ready; wait", mark) as ours:
        above = Path(place.root) / "above"
        wait_until(lambda: above.exists() and len(living(number)) >= 4, "all of its processes run")
        shell = os.getpid()
        supervisors = [
            pid for pid in table.with_variable(marked.MARK, mark) if supervisor.is_supervisor(table.argv(pid))
        ]
        assert shell not in supervisors
        for pid in (ours.pid, *supervisors):
            os.kill(pid, signal.SIGSTOP)
        for pid in (ours.pid, *supervisors):
            os.kill(pid, signal.SIGKILL)
    assert len(supervisors) == 2
    assert living(number)
    assert marked.sweep(mark)
    assert living(number) == []
    assert list(marked.sweep(mark)) == []


def test_sweep_ends_no_other_process(place: Location, number: str) -> None:
    """Another run's processes, and whoever asks: also one that is itself a process of the run."""
    mark, other = uuid.uuid4().hex, uuid.uuid4().hex
    script = f"from git_agentos.process import marked; print(len(marked.sweep({mark!r})))"
    with started("sleep", number, **{marked.MARK: other}) as innocent:
        text = f"sleep {number} & {sys.executable} -c {script!r}; echo here"
        done = subprocess.run(
            ["sh", "-c", text], env={**os.environ, marked.MARK: mark}, stdout=subprocess.PIPE, text=True, check=True
        )
        assert done.stdout == "1\nhere\n"
        assert living(number) == [innocent.pid]


# -- what it says ------------------------------------------------------------------------------------------------------


def test_secrets_are_redacted_in_kept_and_shown_output(place: Location) -> None:
    said = Said()
    token = "ghp_" + "a1B2" * 9
    env = environment(DEPLOY_PASSWORD="correct-horse", API_KEY_FILE="/etc/passwd", PLAIN="plain-value")
    said.run(place, f'echo {token}; echo "$DEPLOY_PASSWORD is $PLAIN in $PWD" >&2; printf "token {token}"', env=env)
    everything = b"".join([*said.streams, *said.shown])
    assert said.streams == (
        b"[redacted]\ntoken [redacted]",
        f"[redacted] is plain-value in {place.root}\n".encode(),
    )
    assert token.encode() not in everything
    assert b"correct-horse" not in everything


def test_all_output_is_read_after_the_command_has_ended(place: Location) -> None:
    """More than a pipe holds, and the command has ended before anybody read it."""
    said = Said()
    text = "for i in 1 2 3 4 5 6 7 8; do printf '%65536s\\n' $i; done"
    assert said.run(place, f"{text}; {text} >&2").exit_code == 0
    wanted = b"".join(b"%65536d\n" % n for n in range(1, 9))
    assert said.streams == (wanted, wanted)
