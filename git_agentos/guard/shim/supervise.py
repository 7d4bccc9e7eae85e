"""The process above an agent: `python -I -S supervise.py [--contain LIFELINE REPORT LIMIT GRACE] -- COMMAND ARG…`.

Standard library only. It is what an agent cannot get rid of: everything orphaned below comes to it
(PR_SET_CHILD_SUBREAPER), and the marker is in the environment that it was started with, so that whoever looks at a
process's ancestors finds it, whatever the processes between have done to their own environment. It hands on signals,
and ends as the command does: with its exit code, 128 + N where signal N ended it, 127 where there is no such command,
126 where it cannot be run.

That is `guard exec`, which leaves running what the command left running. A run leaves nothing (`--contain`): when the
command has ended, or LIMIT seconds have passed (0: no limit), or the descriptor LIFELINE is closed at its other end (as
it is when the one who held it was killed), everything below is ended: asked by SIGTERM first, and made to after GRACE
seconds. There are two of us then, one above the other, since an agent can kill its parent: whoever is left ends what
comes to it. To the descriptor REPORT goes a line `supervisor PID`, and in the end `ended CODE WHY LEFT STAYED`: WHY is
`itself`, `limit` or `told`; LEFT is how many processes there were beside the command, STAYED how many could not be
ended. Both descriptors are closed before the command is started.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_HANDED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
# A terminal sends these to everybody in the foreground: the command has them already.
_FROM_TERMINAL = ("SIGINT", "SIGQUIT", "SIGWINCH", "SIGHUP")
_SI_KERNEL = 0x80
_ENDING = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM")
# Seconds: for what ends by itself as soon as the command has (a pipe to `tee`); before the upper one of us steps in;
# and after which a process that SIGKILL has not ended is given up (it waits for a disk).
_SETTLE, PATIENCE, _GIVE_UP = 0.2, 3.0, 10.0
_HAS_PROC = os.path.isdir("/proc/self")
ITSELF, LIMIT, TOLD = "itself", "limit", "told"


def main(argv: Sequence[str]) -> int:
    """Run the command in `argv` to its end; the exit code."""
    at = argv.index("--")
    options, command = argv[:at], argv[at + 1 :]
    if options:
        lifeline, report, limit, grace = options[1:]
        return _contain(command, _Order(int(lifeline), int(report), float(limit), float(grace)))
    return _accompany(command)


def _accompany(argv: Sequence[str]) -> int:
    """Run `argv`; whatever is left of it goes on."""
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
        return _told_problem(argv[0], problem)
    return _until_it_ends(child, watched)


def _told_problem(name: str, problem: bytes) -> int:
    number, _, text = problem.decode("utf-8", "replace").partition(" ")
    os.write(2, os.fsencode(f"git-agentos: cannot run '{name}': {text}\n"))
    return 127 if int(number) == errno.ENOENT else 126


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


# -- nothing is left -----------------------------------------------------------------------------------------------


class _Order(NamedTuple):
    """What `--contain` says."""

    lifeline: int
    report: int
    limit: float
    grace: float

    def tell(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            os.write(self.report, text.encode() + b"\n")


def _contain(argv: Sequence[str], order: _Order) -> int:
    """Run `argv` below two of us; when the upper one ends, nothing is left."""
    for descriptor in (order.lifeline, order.report):
        os.set_inheritable(descriptor, False)
    began = time.monotonic()
    late = order.limit + order.grace + PATIENCE if order.limit else 0.0
    upper = _Warden(order.lifeline, began, late, order.grace + PATIENCE)
    lower = os.fork()
    if lower == 0:
        upper.forget()
        os._exit(_command(argv, order, began))
    order.tell(f"supervisor {lower}")
    status, why = upper.wait(lower)
    left = len(below(os.getpid())) if status != 0 else 0
    stayed = upper.end_all(lower)
    if status != 0:
        # It did not come to say how the command ended.
        order.tell(f"ended {128 + signal.SIGKILL} {why} {left} {stayed}")
    return 0


def _command(argv: Sequence[str], order: _Order, began: float) -> int:
    """The lower one of us: run the command and end whatever it leaves."""
    warden = _Warden(order.lifeline, began, order.limit, 0.0)
    ready, told = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _become(argv, set(), told, parent)
    os.close(told)
    with open(ready, "rb") as file:
        problem = file.read()
    code = _told_problem(argv[0], problem) if problem else None
    status, why = warden.wait(child)
    left = warden.settle(child, order.grace, asks=why != ITSELF)
    stayed = warden.end_all(child)
    if status is None:
        status = warden.ended.get(child, signal.SIGKILL)
    order.tell(f"ended {code if code is not None else code_of(status)} {why} {left} {stayed}")
    return 0


class _Warden:
    """One of us at its post, above a child; everything orphaned below comes to it.

    `limit` is in seconds from `began` (0: none); `delay` how long it waits until it does as it is told.
    """

    def __init__(self, lifeline: int, began: float, limit: float, delay: float) -> None:
        self.ended: dict[int, int] = {}
        self._lifeline = lifeline
        self._deadline = began + limit if limit else None
        self._delay = delay
        self._parent = os.getppid()
        self._told_at: float | None = None
        self._heard = False
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._wake, self._waker = os.pipe()
        for descriptor in (self._wake, self._waker):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for name in _ENDING:
            # What `nohup`, or a shell that starts a job in the background, has made us ignore stays ignored.
            if name == "SIGTERM" or signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
                signal.signal(getattr(signal, name), self._hear)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # the one above is gone, and its end of the lifeline may not be

    def forget(self) -> None:
        """In a child that is to have a post of its own."""
        signal.set_wakeup_fd(-1)
        for descriptor in (self._wake, self._waker):
            os.close(descriptor)

    def wait(self, child: int) -> tuple[int | None, str]:
        """Until the child has ended: how, and `itself`; or until it has to be ended, None and why."""
        while True:
            self.reap()
            if child in self.ended:
                return self.ended[child], ITSELF
            now = time.monotonic()
            if self._told_at is None and self._is_told():
                self._told_at = now
            if self._told_at is not None and now >= self._told_at + self._delay:
                return None, TOLD
            if self._deadline is not None and now >= self._deadline:
                return None, LIMIT
            ends = [end for end in (self._deadline, self._told_at and self._told_at + self._delay) if end is not None]
            self._sleep(min(ends) - now if ends else None, listens=self._told_at is None)

    def settle(self, child: int, grace: float, *, asks: bool) -> int:
        """Let what is below end by itself, asked (by SIGTERM) at once or after a moment; how many there were beside the
        child. GRACE seconds are given to those that were asked."""
        until = time.monotonic() + _SETTLE
        while not asks and self._has_any() and time.monotonic() < until:
            self._sleep(0.02, listens=False)
        # One that forks and ends all the time may be seen only as the process that it no longer is.
        at_least = int(self._has_any() and child in self.ended)
        left = max(at_least, sum(pid != child for pid in below(os.getpid())))
        until = time.monotonic() + grace
        for pid in below(os.getpid()) if _HAS_PROC else (-child,):
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)  # a stopped one cannot listen
        while self._has_any() and time.monotonic() < until:
            self._sleep(0.02, listens=False)
        return left

    def end_all(self, child: int) -> int:
        """Kill everything below, generation by generation: orphans come to us. How many would not go. Where the system
        does not tell what there is, it is the child and its group."""
        until = time.monotonic() + _GIVE_UP
        while self._has_any():
            if time.monotonic() > until:
                return max(1, len(children(os.getpid())))
            for pid in children(os.getpid()) if _HAS_PROC else (-child, child):
                send(pid, signal.SIGKILL)
            self._sleep(0.005, listens=False)
        return 0

    def reap(self) -> bool:
        """Take note of all that have ended; whether there is still somebody below."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.ended[pid] = status

    _has_any = reap

    def _is_told(self) -> bool:
        return self._heard or os.getppid() != self._parent or self._lifeline in _readable([self._lifeline], 0.0)

    def _hear(self, *_: object) -> None:
        self._heard = True

    def _sleep(self, seconds: float | None, *, listens: bool) -> None:
        """Until something happens."""
        _readable([self._wake, self._lifeline] if listens else [self._wake], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)


def code_of(status: int) -> int:
    """The exit code of a wait status, as a shell has it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended, or be another user's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def children(pid: int) -> list[int]:
    """The children of a process; an ended one that was not noted yet is among them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:
        # The kernel has not got that file, or the process is gone.
        return [each for each, (parent, _) in table().items() if parent == pid] if os.path.isdir(f"/proc/{pid}") else []
    except OSError:
        return []
    return found


def below(pid: int) -> list[int]:
    """The living processes that descend from one."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.append(each)
            waiting += children(each)
    return [each for each in found if is_alive(each)]


def table() -> dict[int, tuple[int, str]]:
    """Every process: its parent and its state (proc(5)); empty where there is no /proc."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                fields = _stat(int(name))
                if fields is not None:
                    found[int(name)] = (int(fields[1]), fields[0].decode("ascii"))
    return found


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    fields = _stat(pid)
    return fields is not None and (fields[0] not in (b"Z", b"X") or int(fields[17]) > 1)


def _stat(pid: int) -> list[bytes] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _readable(descriptors: list[int], seconds: float | None) -> list[int]:
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return [each for each, _ in poll.poll(None if seconds is None else max(0.0, seconds * 1000))]


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere an orphan goes to the first process, and only its own environment tells."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(Exception):  # a Python without ctypes has lost no more than that
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
