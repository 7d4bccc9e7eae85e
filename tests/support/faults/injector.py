"""The tool in a process that dies, or whose calls fail, at a chosen step.

A step is one call with which the tool changes a file or starts git: audit events, and `os.write` and `os.fsync`, which
are not audited. They are counted from the moment the imports are done.

`python injector.py N MODE ARGS...` runs `git-agentos ARGS` and, at step N (counted from 1), before the call is made,

    kill            kills this process with SIGKILL; git processes that it started go on
    kill-group      kills its process group, and git with it
    ENOSPC, EIO...  lets the call fail with this error

N = 0 does nothing at all. `python injector.py serve` does the same for each request on stdin, in a fork (which saves
importing everything anew). A request is one JSON object a line, `{"cwd", "argv", "step", "mode", "env", "stdin"}`;
its answer is `{"code", "out", "err", "steps"}`. A fork has no descriptor in common with another one, so locks are
those of processes that have nothing to do with each other. `code` is negative for a signal; `steps` are the names of
the steps made.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any, NoReturn

_EVENTS = frozenset(
    {
        "os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod", "os.truncate",
        "os.utime", "subprocess.Popen",
    }
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_SUBREAPER = 36
_LONGEST = 120  # seconds; a command that waits for ever ends by a signal, and so fails its test


class Steps:
    """Counts the steps and strikes at the chosen one; what it sees goes to the descriptor `log`, a line each."""

    def __init__(self, step: int, mode: str, log: int | None) -> None:
        self._step = step
        self._mode = mode
        self._log = log
        self._count = 0
        self._guard = threading.Lock()
        self._write = os.write

    def begin(self) -> None:
        """From here on. There is no end: an audit hook stays."""
        os.write = self._wrapped("os.write", os.write)
        # What is killed is a process, not the machine: nothing needs to reach the disk, and it is slow.
        os.fsync = self._wrapped("os.fsync", lambda descriptor: None)
        sys.addaudithook(self._audit)

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(descriptor: int, *args: Any) -> Any:
            if descriptor > 2:
                self._strike(name, f"/proc/self/fd/{descriptor}", None)
            return call(descriptor, *args)

        return wrapper

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(args[2], int) and args[2] & _WRITING and args[0] != os.devnull and _named(args[0]):
                self._strike(event, args[0], None)
        elif event == "subprocess.Popen":
            self._strike(event, " ".join(os.fsdecode(word) for word in args[1]), None)
        elif event in _EVENTS:
            if event == "os.link" and "AGENTOS_TEST_NO_LINKS" in os.environ:
                raise OSError(errno.EPERM, os.strerror(errno.EPERM), args[0])  # a file system without hard links
            self._strike(event, args[0], args[1] if event in ("os.rename", "os.link") else None)

    def _strike(self, event: str, path: Any, other: Any) -> None:
        with self._guard:
            self._count += 1
            count = self._count
            if self._log is not None:
                self._write(self._log, json.dumps(" ".join([event, *_texts(path, other)])).encode() + b"\n")
        if count != self._step:
            return
        if self._mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._mode == "kill-group":
            os.killpg(0, signal.SIGKILL)
        else:
            number = getattr(errno, self._mode)
            raise OSError(number, os.strerror(number), path if _named(path) else None)


def _named(path: Any) -> bool:
    return isinstance(path, str | bytes)


def _texts(*paths: Any) -> list[str]:
    texts = []
    for path in paths:
        if path is None:
            continue
        text = os.fsdecode(path) if _named(path) else str(path)
        texts.append(os.readlink(text) if text.startswith("/proc/self/fd/") else text)
    return texts


def import_everything() -> None:
    """Every module of ours, and what they import; but those that are only run by a project's own interpreter."""
    import git_agentos

    for module in pkgutil.walk_packages(git_agentos.__path__, "git_agentos."):
        if not module.name.endswith(("__main__", ".gate.plugin", ".gate.plugin_imports")):
            importlib.import_module(module.name)


def work(argv: list[str], steps: Steps) -> NoReturn:
    """Run a command line and end this process as the executable would."""
    from git_agentos.cli import entry

    steps.begin()
    entry.exit_now(entry.run(argv))


def _end_children() -> None:
    """Kill everything that a request has left."""
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{entry}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                os.kill(int(entry), signal.SIGKILL)


def serve() -> None:
    """Answer requests until stdin ends."""
    # Orphans come to us: a request is answered when all that it started has ended.
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as log:
            pid = os.fork()
            if pid == 0:
                _answer(request, out.fileno(), err.fileno(), log.fileno())
            status = os.waitpid(pid, 0)[1]
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
                _end_children()  # what it waited for would be waited for here
            while True:
                try:
                    os.waitpid(-1, 0)
                except ChildProcessError:
                    break
            answer: dict[str, Any] = {"code": os.waitstatus_to_exitcode(status)}
            for name, file in (("out", out), ("err", err)):
                file.seek(0)
                answer[name] = file.read().decode("utf-8", "replace")
            log.seek(0)
            answer["steps"] = [json.loads(row) for row in log]
        print(json.dumps(answer), flush=True)


def _answer(request: dict[str, Any], out: int, err: int, log: int) -> NoReturn:
    os.setsid()
    signal.alarm(_LONGEST)
    with tempfile.TemporaryFile() as given:
        given.write(request.get("stdin", "").encode())
        given.seek(0)
        for source, target in ((given.fileno(), 0), (out, 1), (err, 2)):
            os.dup2(source, target)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = ["git-agentos", *request["argv"]]
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    work(request["argv"], Steps(request["step"], request["mode"], log))


def main() -> None:
    import_everything()
    if sys.argv[1:] == ["serve"]:
        serve()
        return
    step, mode, *argv = sys.argv[1:]
    if mode == "kill-group":
        os.setsid()
    sys.argv = ["git-agentos", *argv]
    work(argv, Steps(int(step), mode, None))


if __name__ == "__main__":
    main()
