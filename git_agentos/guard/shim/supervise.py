"""The process above an agent, as `guard exec` starts it: `python -I -S supervise.py COMMAND ARG…`.

Standard library only. It is what an agent cannot get rid of: everything orphaned below comes to it
(PR_SET_CHILD_SUBREAPER), and the marker is in the environment that it was started with, so that whoever looks at a
process's ancestors finds it, whatever the processes between have done to their own environment. It hands on signals,
and ends as the command does: with its exit code, 128 + N where signal N ended it, 127 where there is no such command,
126 where it cannot be run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_HANDED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
# A terminal sends these to everybody in the foreground: the command has them already.
_FROM_TERMINAL = ("SIGINT", "SIGQUIT", "SIGWINCH", "SIGHUP")
_SI_KERNEL = 0x80


def main(argv: Sequence[str]) -> int:
    """Run `argv` to its end; the exit code."""
    handed_on = {getattr(signal, name) for name in _HANDED_ON if hasattr(signal, name)}
    watched = handed_on | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ready, told = os.pipe()
    os.set_inheritable(told, False)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(ready)
        _become(argv, before, told, parent)
    os.close(told)
    with open(ready, "rb") as file:
        problem = file.read()  # nothing, as soon as the command has been started
    if problem:
        os.waitpid(child, 0)
        number, _, text = problem.decode("utf-8", "replace").partition(" ")
        os.write(2, os.fsencode(f"git-agentos: cannot run '{argv[0]}': {text}\n"))
        return 127 if int(number) == errno.ENOENT else 126
    return _until_it_ends(child, watched)


def _become(argv: Sequence[str], mask: set[int | signal.Signals], told: int, parent: int) -> None:
    """In the child: become the command. Without its supervisor an agent is to end."""
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
        # Python ignores these two; programs expect them to be as they are by default.
        for name in ("SIGPIPE", "SIGXFSZ"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(argv[0], list(argv))
    except OSError as error:
        os.write(told, f"{error.errno} {(error.strerror or str(error)).lower()}".encode())
    finally:
        os._exit(127)


def _until_it_ends(child: int, watched: set[signal.Signals]) -> int:
    while True:
        ended = _reap(child)
        if ended is not None:
            return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)
        number, is_from_terminal = _next_signal(watched)
        if number == signal.SIGCHLD or (is_from_terminal and signal.Signals(number).name in _FROM_TERMINAL):
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)


def _next_signal(watched: set[signal.Signals]) -> tuple[int, bool]:
    """The next signal, and whether the terminal sent it. Where that is not told, one that a terminal may send has come
    from it if there is one."""
    if not hasattr(signal, "sigwaitinfo"):
        return signal.sigwait(watched), os.isatty(0)
    heard = signal.sigwaitinfo(watched)
    return heard.si_signo, heard.si_code == _SI_KERNEL


def _reap(child: int) -> int | None:
    """Take note of all that have ended; how the command did, if it was among them. A stopped one stops us too."""
    ended = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid != child:
            continue
        if os.WIFSTOPPED(status):
            os.kill(os.getpid(), signal.SIGSTOP)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)
        else:
            ended = status


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere an orphan goes to the first process, and only its own environment tells."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(Exception):  # a Python without ctypes has lost no more than that
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
