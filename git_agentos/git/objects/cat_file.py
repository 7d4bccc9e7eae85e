"""A `git cat-file --batch-command` that keeps running: one object after the other, for the price of one start."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import weakref
from collections.abc import Mapping

from git_agentos.errors import RepositoryError
from git_agentos.git import process

_ATTEMPTS = 2  # a child that was killed is started again


class CatFile:
    """The child, started when something is read for the first time. It ends with this object, or with the process: when
    its input does."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Nothing is fetched here. git obeys this since 2.44; therefore the caller asks only for objects that exist.
        self._environment = {**environment, "GIT_NO_LAZY_FETCH": "1"}
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], CatFile] | None = None

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and content of an object; None if git does not find it, RepositoryError if git cannot read it."""
        found = self._ask("contents", oid)
        return None if found is None else (found[0], found[2])

    def header(self, oid: str) -> tuple[str, int] | None:
        """Kind and size of an object; None and RepositoryError as in `read`."""
        found = self._ask("info", oid)
        return None if found is None else found[:2]

    def _ask(self, command: str, oid: str) -> tuple[str, int, bytes] | None:
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    return _answer(self._started(), command, oid)
                except (EOFError, BrokenPipeError):
                    self._stop()
        raise RepositoryError(f"object {oid} cannot be read", "git fsck shows details")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = process.spawn(
                ["cat-file", "--batch-command"],
                cwd=os.sep,  # not in a worktree: a process there would be in the way of its removal
                env=self._environment,
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._end = weakref.finalize(self, _end, self._child)
        return self._child

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._child = self._end = None


def _answer(child: subprocess.Popen[bytes], command: str, oid: str) -> tuple[str, int, bytes] | None:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(f"{command} {oid}\n".encode("ascii"))
    child.stdin.flush()
    line = child.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    words = line.split()
    if len(words) != 3:
        return None  # `<oid> missing`
    kind, size = words[1].decode("ascii"), int(words[2])
    if command == "info":
        return kind, size, b""
    data = child.stdout.read(size + 1)  # a newline ends it
    if len(data) != size + 1:
        raise EOFError
    return kind, size, data[:-1]


def _end(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
    child.wait()
