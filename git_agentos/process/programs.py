"""Running programs that are not git. Each gets a process group of its own, and nothing on stdin.

bubblewrap is one of them: it makes the sandboxes of the guard and of tdd.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.util.named_tuple import NamedTuple

TimeoutExpired = subprocess.TimeoutExpired
Child = subprocess.Popen[bytes]
_GRACE = 5.0  # seconds between SIGTERM and SIGKILL for a process group
_MAX_OUTPUT = 1 << 20


class Ended(NamedTuple):
    """How a program ended: `code` is negative for a signal, None where it ran out of time; `output` is the end (1 MiB)
    of what it wrote to stdout and stderr, in the order in which it came."""

    code: int | None
    output: bytes

    @property
    def timed_out(self) -> bool:
        return self.code is None


def run_shell(command: str, *, cwd: str, env: Mapping[str, str], timeout: float | None = None) -> Ended:
    """Run `command` by `sh -c`; see `run`."""
    return run(["/bin/sh", "-c", command], cwd=cwd, env=env, timeout=timeout)


def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Ended:
    """Run a program and wait for it; `stdin` is a descriptor that it reads from.

    After `timeout` seconds, and where it fails, or this process is interrupted, the whole group is ended; what a
    successful one left running continues. FileNotFoundError where there is no such program.
    """
    import tempfile  # it takes long to import

    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=stdin, stdout=output, stderr=output, start_new_session=True
        )
        code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(timeout)
        finally:
            if code != 0:
                _end_group(child)
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _MAX_OUTPUT))
        return Ended(code, output.read())


def feed(argv: Sequence[str], data: bytes, *, timeout: float | None = None) -> tuple[int, bytes, bytes]:
    """Run a program that only reads `data` and prints, in an empty environment and at the top of the file system:
    its exit code, stdout and stderr. `TimeoutExpired` after `timeout` seconds."""
    with subprocess.Popen(
        argv, cwd=os.sep, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        try:
            out, err = child.communicate(data, timeout)
        except BaseException:
            child.kill()
            raise
        return child.returncode, out, err


def start_piped(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], keep: Sequence[int] = (), stdin: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, with stdout and stderr in pipes; the caller reaps it. `keep` are
    descriptors that it inherits; `stdin` is the one that it reads from, None for nothing to read."""
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        pass_fds=tuple(keep),
    )


def start_for_answer(argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Child:
    """Start a program in a session of its own, with stdout in a pipe, and our stderr; the caller reaps it."""
    return subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    )


def start_tied(argv: Sequence[str], *, env: Mapping[str, str], output: int, keep: Sequence[int] = ()) -> Child:
    """Start a program in a session of its own, which gets SIGTERM when this thread is gone (on Linux); the caller reaps
    it. It works in `/`, and writes its stderr to the descriptor `output`; its stdout is discarded. `keep` are
    descriptors that it inherits."""
    return subprocess.Popen(
        argv,
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        start_new_session=True,
        pass_fds=tuple(keep),
        preexec_fn=_end_with_parent(),  # noqa: PLW1509  (it only calls prctl and getppid)
    )


def start_in_background(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: int = subprocess.DEVNULL
) -> None:
    """Start a program that outlives this process. It works in `/`, and its output is discarded; `stdin` is a descriptor
    that it reads from."""
    # The shell ends at once, so nobody has to reap the program. What it starts so would read nothing from its stdin.
    script = 'exec 3<&0; "$@" <&3 3<&- >/dev/null 2>&1 &'
    subprocess.run(
        ["/bin/sh", "-c", script, "sh", *argv],
        cwd="/",
        env=env,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def find_bubblewrap(environment: Mapping[str, str], error: type[AgentosError]) -> str:
    """Where bubblewrap is on PATH; `error` where it is missing."""
    import shutil  # it takes long to import

    found = shutil.which("bwrap", path=environment.get("PATH", os.defpath))
    if found is None:
        raise error(
            "there is no bubblewrap, which makes the sandbox",
            "install it (the package is called bubblewrap), or leave --sandbox out",
        )
    return found


def require_sandbox(words: Sequence[str], environment: Mapping[str, str], error: type[AgentosError]) -> None:
    """Make a sandbox with `words` and run nothing in it; `error` where that fails. Many systems do not allow it to
    their users, and do not say so before."""
    ended = run([*words, "/bin/sh", "-c", ":"], cwd="/", env=environment)
    if ended.code != 0:
        lines = ended.output.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].removeprefix("bwrap: ") if lines else f"exit code {ended.code}"
        raise error(f"bubblewrap cannot make a sandbox here: {why}", "leave --sandbox out, or allow user namespaces")


def _end_with_parent() -> Callable[[], None] | None:
    from git_agentos.process import tied  # few programs need it

    return tied.end_with_parent()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """End every process of the child's group: SIGTERM first, then SIGKILL."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
