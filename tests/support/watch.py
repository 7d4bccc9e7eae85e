"""Watching a worktree in this process, and what writes to one meanwhile."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from inotify_simple import Event, flags

from git_agentos import __version__
from git_agentos.watch import client, place
from git_agentos.watch.inotify import InotifyWatcher
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.scans import Scans
from git_agentos.watch.service import Service, Work
from git_agentos.watch.worktree import WatchedWorktree
from tests.support.repo import Repo
from tests.support.tool import run_ok

FOLDERS = ("", "a/", "a/b/", "c/", "c/d/e/", "x/")
_NAMES = 30
_HELD = 3
_MOST_TOUCHED = 20
QUEUE = 200
"""Events that a `SmallQueue` remembers."""


class SmallQueue:
    """An inotify instance that remembers only so many events: of those that are too many, it tells that they were."""

    def __init__(self, inotify: Any) -> None:
        self._inotify = inotify
        self.overflows = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inotify, name)

    def read(self, timeout: int) -> list[Event]:
        found = list(self._inotify.read(timeout=timeout))
        if len(found) <= QUEUE:
            return found
        self.overflows += 1
        return [*found[:QUEUE], Event(-1, flags.Q_OVERFLOW, 0, "")]


class Watch:
    """A watched worktree, asked as the daemon asks it."""

    def __init__(self, root: Path) -> None:
        self.repository = WatchedRepository(str(root / ".git"), InotifyWatcher())
        found = self.repository.worktree(str(root))
        assert found is not None
        self.worktree: WatchedWorktree = found
        self.token = self.ask("")[0]

    def ask(self, token: str) -> tuple[str, frozenset[bytes] | None]:
        """The present token, and the answer for an earlier one."""
        self.repository.read()
        answer = self.worktree.answer(token)
        return answer.token, answer.paths

    def changed(self) -> set[str] | None:
        """What changed since the last call; None for everything."""
        self.token, paths = self.ask(self.token)
        return None if paths is None else {os.fsdecode(path) for path in paths}


@contextlib.contextmanager
def watching(root: Path) -> Iterator[Watch]:
    """Watch the main worktree at `root`."""
    watch = Watch(root)
    try:
        yield watch
    finally:
        watch.repository.close()


def service(key: bytes | None, run: Callable[[Sequence[str]], int]) -> Service:
    """The service of a daemon that watches nothing, and does its work by `run`; no worktree is guarded."""
    work = Work(key, lambda argv, _: run(argv), lambda _: ())
    return Service(__version__, work, Scans(cast(WatchedRepository, SimpleNamespace(worktrees={}))))


def connect(repo: Repo) -> socket.socket:
    """A connection with the daemon of a repository."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    name, folder = place.address(place.socket_path(str(repo.git_dir)))
    try:
        connection.connect(name)
    finally:
        if folder is not None:
            os.close(folder)
    return connection


def covers(paths: frozenset[bytes] | set[str] | None, path: str) -> bool:
    """Whether an answer names a path, or a folder above it."""
    if paths is None:
        return True
    names = paths if isinstance(paths, set) else {os.fsdecode(each) for each in paths}
    parts = path.split("/")
    return path in names or any("/".join(parts[:n]) + "/" in names for n in range(len(parts)))


def daemon_pid(repo: Repo) -> int:
    """The process of the daemon that runs, or ran last."""
    return int(Path(place.file(str(repo.path / ".git"), "turn")).read_text())


def daemon_log(repo: Repo) -> str:
    """What the daemon has said."""
    return Path(place.file(str(repo.git_dir), "log")).read_text()


def ask(repo: Repo, name: str, *arguments: bytes, patience: float = 10.0) -> bytes:
    """The daemon's answer."""
    return client.ask(str(repo.git_dir), __version__, name, *arguments, patience=patience)


def newest(repo: Repo) -> dict[str, object] | None:
    """The newest checkpoint of a worktree."""
    found = run_ok(repo.path, "checkpoint", "list", "-n", "1")["checkpoints"]
    return found[0] if found else None


class Writer:
    """Makes random edits below `top`. Each one's path is logged with the times before and after it
    (`time.monotonic_ns`)."""

    def __init__(self, seed: int, top: Path) -> None:
        self._seed, self._top, self._random = seed, str(top), random.Random(seed)
        self._held: list[tuple[mmap.mmap, int, str]] = []
        self._names: dict[str, str] = {}  # path -> a second name of the file that it was given
        self._swaps = 0

    def edit(self) -> list[tuple[int, int, str]]:
        """One edit; nothing where it was not possible."""
        begin = time.monotonic_ns()
        try:
            touched = self._edit()
        except OSError:
            return []
        end = time.monotonic_ns()
        if len(touched) > _MOST_TOUCHED:  # of a folder that is moved
            touched = self._random.sample(touched, _MOST_TOUCHED)
        return [(begin, end, os.path.relpath(path, self._top)) for path in touched]

    def close(self) -> None:
        for held, _, _ in self._held:
            held.close()

    def _path(self, suffix: str = "") -> str:
        folder = os.path.join(self._top, self._random.choice(FOLDERS))
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f"f{self._random.randrange(_NAMES)}{suffix}")

    def _edit(self) -> list[str]:
        edits = (
            self._write, self._write, self._write, self._replace, self._delete, self._chmod, self._move_folder,
            self._link, self._symlink, self._map, self._write_mapped, self._write_mapped, self._unmap, self._overwrite,
            self._write_linked, self._write_linked, self._swap_folders,
        )  # fmt: skip
        return self._random.choice(edits)()

    def _write(self) -> list[str]:
        path = self._path()
        Path(path).write_text(str(self._random.random()))
        return [path]

    def _overwrite(self) -> list[str]:
        path = self._path()
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.write(descriptor, b"%d" % self._random.randrange(10))
        finally:
            os.close(descriptor)
        return [path]

    def _replace(self) -> list[str]:
        path = self._path()
        new = self._path(f".t{self._seed}")
        Path(new).write_text(str(self._random.random()))
        os.rename(new, path)
        return [new, path]

    def _delete(self) -> list[str]:
        path = self._path()
        os.unlink(path)
        return [path]

    def _chmod(self) -> list[str]:
        path = self._path()
        os.chmod(path, self._random.choice((0o644, 0o755)))
        return [path]

    def _link(self) -> list[str]:
        path, other = self._path(), self._path()
        os.link(path, other)
        self._names[path], self._names[other] = other, path
        return [path, other]

    def _write_linked(self) -> list[str]:
        """Write to a file that has a second name: it changes by that name, too."""
        if not self._names:
            return []
        path, other = self._random.choice(list(self._names.items()))
        if not os.path.samefile(path, other):
            del self._names[path]
            return []
        Path(path).write_text(str(self._random.random()))
        return [path, other] if os.path.samefile(path, other) else [path]

    def _symlink(self) -> list[str]:
        path = self._path("s")
        os.symlink("nowhere", path)
        return [path]

    def _move_folder(self) -> list[str]:
        folder = os.path.join(self._top, self._random.choice(("a", "a/b", "c", "c/d/e", "x")))
        moved = f"{folder}-{self._seed}"
        os.rename(folder, moved)
        touched = [os.path.join(at, name) for at, _, names in os.walk(moved) for name in names]
        touched += [folder + path[len(moved) :] for path in touched]
        if self._random.random() < 0.5:
            shutil.rmtree(moved)
        else:
            os.rename(moved, os.path.join(self._top, f"m{self._random.randrange(5)}"))
        return touched

    def _swap_folders(self) -> list[str]:
        one, other = (os.path.join(self._top, name) for name in self._random.sample(("a", "c", "x"), 2))
        self._swaps += 1
        held = [os.path.join(self._top, f"swap-{self._seed}-{self._swaps}-{number}") for number in range(2)]
        touched = []
        try:
            os.rename(one, held[0])
            os.rename(other, held[1])
            for folder, before, after in ((held[0], one, other), (held[1], other, one)):
                below = [os.path.join(at, name)[len(folder) :] for at, _, names in os.walk(folder) for name in names]
                touched += [place + name for place in (before, folder, after) for name in below]
            os.rename(held[0], other)
            os.rename(held[1], one)
        finally:
            for folder in held:  # where somebody has made one again meanwhile
                shutil.rmtree(folder, ignore_errors=True)
        return touched

    def _map(self) -> list[str]:
        if len(self._held) >= _HELD:
            return []
        # Nobody else writes to it: what is mapped beyond the end of a file cannot be written.
        path = self._path(f".m{self._seed}")
        if not os.path.exists(path):
            Path(path).write_text("mapped\n")
        descriptor = os.open(path, os.O_RDWR)
        try:
            self._held.append((mmap.mmap(descriptor, 7), os.fstat(descriptor).st_ino, path))
        finally:
            os.close(descriptor)
        return [path]

    def _write_mapped(self) -> list[str]:
        if not self._held:
            return []
        held, inode, path = self._random.choice(self._held)
        was_there = os.lstat(path).st_ino == inode
        held[0:1] = bytes([65 + self._random.randrange(26)])
        return [path] if was_there and os.lstat(path).st_ino == inode else []

    def _unmap(self) -> list[str]:
        if self._held:
            self._held.pop(self._random.randrange(len(self._held)))[0].close()
        return []


def main() -> None:
    """`python -m tests.support.watch SEED TOP LOG EDITS`: a process that writes."""
    seed, top, log, edits = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    writer = Writer(seed, top)
    with log.open("w") as file:
        for number in range(edits):
            for each in writer.edit():
                file.write(json.dumps(each) + "\n")
            if number % 7 == 0:
                time.sleep(0.001)
    writer.close()


if __name__ == "__main__":
    main()
