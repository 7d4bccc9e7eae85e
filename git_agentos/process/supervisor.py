"""The process above a command: `python -I -S supervisor.py [--contain LIFELINE REPORT LIMIT GRACE] -- COMMAND ARG…`.

Standard library, `table`, `marked` and what these import only. A command cannot get rid of it: everything orphaned
below is reparented to it (PR_SET_CHILD_SUBREAPER), and its own environment cannot be changed from below. It forwards
signals and exits as the command does: with its exit code, 128 + N where signal N ended it, 127 where there is no such
command, 126 where it cannot be run. `guard exec` uses that: processes that the command leaves behind continue.

With `--contain`, which runs and workflows use, nothing is left. Everything below is ended when the command has ended,
when LIMIT seconds have passed (0: no limit), or when the other end of the descriptor LIFELINE is closed, as it is when
the process that holds it was killed. SIGTERM comes first, SIGKILL after GRACE seconds. There are two supervisors then,
one above the other, since a command can kill its parent: the one that is left ends what is reparented to it.

Where nothing is reparented to it (macOS has no subreapers), it ends the command's group, what is below it, and what has
the mark of its own environment (`marked.MARK`) or descends from such a process. It misses a process that has left all
of these, or that becomes another one faster than it can look.

To the descriptor REPORT go a line `supervisor PID`, and at the end `ended CODE WHY LEFT STAYED`: WHY is `itself`,
`limit` or `stopped`; LEFT is how many processes there were beside the command, STAYED how many could not be ended. Both
descriptors are closed before the command is started.
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

if not __package__:  # as a script with -I: the package is not on the path
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from git_agentos.process import marked, table
from git_agentos.util.named_tuple import NamedTuple

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_FORWARDED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
# A terminal sends these to every process in the foreground: the command has them already.
_FROM_TERMINAL = ("SIGINT", "SIGQUIT", "SIGWINCH", "SIGHUP")
_SI_KERNEL = 0x80
_ENDING = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM")
# Seconds: for what ends by itself right after the command (a pipe to `tee`); before the upper supervisor steps in; and
# after which a process that SIGKILL has not ended is given up (it waits for a disk).
_SETTLE, PATIENCE, _GIVE_UP = 0.2, 3.0, 10.0
# Why a command ended, as REPORT says it: by itself, by its time limit, or because the lifeline was closed.
ITSELF, LIMIT, STOPPED = "itself", "limit", "stopped"


def command_line(options: Sequence[str] = ()) -> tuple[str, ...]:
    """The words to put before a command to run it below a supervisor; `options` as in the module's docstring."""
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), *options, "--")


def is_supervisor(argv: Sequence[str]) -> bool:
    """Whether a process with these arguments is a supervisor."""
    return any(os.path.basename(word) == os.path.basename(__file__) for word in argv[:4])


def main(argv: Sequence[str]) -> int:
    """Run the command in `argv` to its end; the exit code."""
    separator = argv.index("--")
    options, command = argv[:separator], argv[separator + 1 :]
    if options:
        lifeline, report, limit, grace = options[1:]
        return _contain(command, _Options(int(lifeline), int(report), float(limit), float(grace)))
    return _accompany(command)


# -- guard exec: forward signals, leave the rest running -------------------------------------------------------------


def _accompany(argv: Sequence[str]) -> int:
    """Run `argv`; the processes that it leaves behind continue."""
    forwarded = {getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)}
    watched = forwarded | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    reader, writer = os.pipe()
    os.set_inheritable(writer, False)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _exec(argv, before, writer, parent)
    os.close(writer)
    with open(reader, "rb") as file:
        problem = file.read()  # nothing, as soon as the command has been started
    if problem:
        os.waitpid(child, 0)
        return _report_problem(argv[0], problem)
    return _forward_signals(child, watched)


def _report_problem(name: str, problem: bytes) -> int:
    number, _, text = problem.decode("utf-8", "replace").partition(" ")
    os.write(2, os.fsencode(f"git-agentos: cannot run '{name}': {text}\n"))
    return 127 if int(number) == errno.ENOENT else 126


def _exec(argv: Sequence[str], mask: set[int | signal.Signals], writer: int, parent: int) -> None:
    """In the child: become the command, or write why not. It ends when its supervisor does."""
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
        # Python ignores these two; programs expect the default.
        for name in ("SIGPIPE", "SIGXFSZ"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(argv[0], list(argv))
    except OSError as error:
        os.write(writer, f"{error.errno} {(error.strerror or str(error)).lower()}".encode())
    finally:
        os._exit(127)


def _forward_signals(child: int, watched: set[signal.Signals]) -> int:
    while True:
        status = _reap(child)
        if status is not None:
            return exit_code(status)
        number, is_from_terminal = _next_signal(watched)
        if number == signal.SIGCHLD or (is_from_terminal and signal.Signals(number).name in _FROM_TERMINAL):
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)


def _next_signal(watched: set[signal.Signals]) -> tuple[int, bool]:
    """The next signal, and whether the terminal sent it. Where the system does not tell, one that a terminal may send
    counts as sent by it, if there is one."""
    if not hasattr(signal, "sigwaitinfo"):
        return signal.sigwait(watched), os.isatty(0)
    received = signal.sigwaitinfo(watched)
    return received.si_signo, received.si_code == _SI_KERNEL


def _reap(child: int) -> int | None:
    """Reap all that have ended; the status of the command, if it was among them. When the command is stopped, the
    supervisor stops too."""
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


# -- --contain: end everything below ---------------------------------------------------------------------------------


class _Options(NamedTuple):
    """The values of `--contain`."""

    lifeline: int
    report: int
    limit: float
    grace: float

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more
            os.write(self.report, text.encode() + b"\n")


def _contain(argv: Sequence[str], options: _Options) -> int:
    """Run `argv` below two supervisors; when the upper one ends, nothing is left."""
    for descriptor in (options.lifeline, options.report):
        os.set_inheritable(descriptor, False)
    began = time.monotonic()
    late = options.limit + options.grace + PATIENCE if options.limit else 0.0
    upper = _Supervisor(options.lifeline, began, late, options.grace + PATIENCE)
    lower = os.fork()
    if lower == 0:
        upper.close_wakeup()
        os._exit(_run_below(argv, options, began))
    options.write(f"supervisor {lower}")
    status, why = upper.wait(lower)
    left = upper.count_others(lower) if status != 0 else 0
    stayed = upper.kill_all(lower)
    if status != 0:
        # The lower one was ended before it could report.
        options.write(f"ended {128 + signal.SIGKILL} {why} {left} {stayed}")
    return 0


def _run_below(argv: Sequence[str], options: _Options, began: float) -> int:
    """The lower supervisor: run the command and end whatever it leaves."""
    lower = _Supervisor(options.lifeline, began, options.limit, 0.0)
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _exec(argv, set(), writer, parent)
    os.close(writer)
    with open(reader, "rb") as file:
        problem = file.read()
    code = _report_problem(argv[0], problem) if problem else None
    status, why = lower.wait(child)
    left = lower.terminate_all(child, options.grace, at_once=why != ITSELF)
    stayed = lower.kill_all(child)
    if status is None:
        status = lower.ended.get(child, signal.SIGKILL)
    options.write(f"ended {code if code is not None else exit_code(status)} {why} {left} {stayed}")
    return 0


class _Supervisor:
    """One of the two supervisors, with one child; everything orphaned below is reparented to it.

    `limit` is in seconds from `began` (0: none); `delay` is how many seconds after it is stopped it acts.
    """

    def __init__(self, lifeline: int, began: float, limit: float, delay: float) -> None:
        self.ended: dict[int, int] = {}
        self._lifeline = lifeline
        self._deadline = began + limit if limit else None
        self._delay = delay
        self._parent = os.getppid()
        self._stopped_at: float | None = None
        self._got_signal = False
        self._adopts = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._wakeup_reader, self._wakeup_writer = os.pipe()
        for descriptor in (self._wakeup_reader, self._wakeup_writer):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for name in _ENDING:
            # What `nohup`, or a shell that starts a job in the background, has set to be ignored stays ignored.
            if name == "SIGTERM" or signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
                signal.signal(getattr(signal, name), self._on_signal)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # the parent may end while its end of the lifeline stays open

    def close_wakeup(self) -> None:
        """In a child that makes a supervisor of its own."""
        signal.set_wakeup_fd(-1)
        for descriptor in (self._wakeup_reader, self._wakeup_writer):
            os.close(descriptor)

    def wait(self, child: int) -> tuple[int | None, str]:
        """Wait until the child has ended: its status and `itself`; or until it has to be ended: None and why."""
        while True:
            self.reap()
            if child in self.ended:
                return self.ended[child], ITSELF
            now = time.monotonic()
            if self._stopped_at is None and self._is_stopped():
                self._stopped_at = now
            act_at = None if self._stopped_at is None else self._stopped_at + self._delay
            if act_at is not None and now >= act_at:
                return None, STOPPED
            if self._deadline is not None and now >= self._deadline:
                return None, LIMIT
            ends = [end for end in (self._deadline, act_at) if end is not None]
            self._sleep(min(ends) - now if ends else None, until_stopped=self._stopped_at is None)

    def terminate_all(self, child: int, grace: float, *, at_once: bool) -> int:
        """Send SIGTERM to everything below, `at_once` or after a moment in which it may end by itself, and wait up to
        `grace` seconds; how many processes there were beside the child."""
        deadline = time.monotonic() + _SETTLE
        while not at_once and self._has_any() and time.monotonic() < deadline:
            self._sleep(0.02, until_stopped=False)
        # A process that forks and ends all the time may be seen only as one that has just ended.
        at_least = int(self._has_any() and child in self.ended)
        left = max(at_least, self.count_others(child))
        deadline = time.monotonic() + grace
        for pid in self._below() if self._adopts else {-child, *self._below()}:
            marked.send(pid, signal.SIGTERM)
            marked.send(pid, signal.SIGCONT)  # a stopped one cannot act on it
        while self._has_any() and time.monotonic() < deadline:
            self._sleep(0.02, until_stopped=False)
        return left

    def kill_all(self, child: int) -> int:
        """Kill everything below, generation by generation: orphans are reparented to this process. Where they are not,
        all is found first. How many could not be killed."""
        deadline = time.monotonic() + _GIVE_UP
        if not self._adopts:
            marked.send(-child, signal.SIGKILL)
            marked.end_all(self._below)
        while self.reap():
            if time.monotonic() > deadline:
                return max(1, len(table.children(os.getpid())))
            for pid in table.children(os.getpid()):
                marked.send(pid, signal.SIGKILL)
            self._sleep(0.005, until_stopped=False)
        return 0

    def count_others(self, child: int) -> int:
        """How many living processes there are to be ended, beside the child."""
        return sum(pid != child for pid in self._below())

    def _below(self) -> list[int]:
        """The living processes that are to be ended."""
        below = table.descendants(os.getpid())
        mark = os.environ.get(marked.MARK)
        if self._adopts or not mark:
            return below
        others = {os.getpid(), *table.parents(os.getpid()), *below}
        return [*below, *(pid for pid in table.with_variable(marked.MARK, mark) if pid not in others)]

    def _has_any(self) -> bool:
        return self.reap() or (not self._adopts and self._below() != [])

    def reap(self) -> bool:
        """Reap all that have ended; whether there is still a process below."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.ended[pid] = status

    def _is_stopped(self) -> bool:
        return self._got_signal or os.getppid() != self._parent or self._lifeline in _readable([self._lifeline], 0.0)

    def _on_signal(self, *_: object) -> None:
        self._got_signal = True

    def _sleep(self, seconds: float | None, *, until_stopped: bool) -> None:
        """Sleep until a signal comes; `until_stopped`: or the lifeline is closed."""
        _readable([self._wakeup_reader, self._lifeline] if until_stopped else [self._wakeup_reader], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup_reader, 4096)


def exit_code(status: int) -> int:
    """The exit code of a wait status, as a shell has it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _readable(descriptors: list[int], seconds: float | None) -> list[int]:
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return [each for each, _ in poll.poll(None if seconds is None else max(0.0, seconds * 1000))]


def _prctl(option: int, value: int) -> bool:
    """Whether it was done: it is Linux only, and a Python without ctypes does without."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(Exception):
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
