"""Generated repositories for the benchmarks: packed, of a realistic tree shape, the same on every machine.

A *template* is a bare, fully packed repository of a given number of files, made once with `git fast-import` and kept in
the cache folder. An *arena* is a worktree checked out from a template, in which contenders run; `Arena.fresh` brings it
back to a clean checkout with a warm index, however the run before left it.

Everything here is outside of what is timed. Contents follow from path and generation alone, so two arenas that were
given the same generation hold the same bytes.
"""

from __future__ import annotations

import keyword
import os
import random
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SHAPE_VERSION = 1
"""Part of every template's folder name; raise it when the generated tree changes."""

_HISTORY = 10
"""Commits after the first, each changing up to 50 files, so that the packs hold deltas as real ones do."""

_WORDS = (*keyword.kwlist, "self", "value", "result", "path", "index", "tree", "commit", "branch", "name", "data")


class BenchError(Exception):
    """A benchmark cannot be set up or a contender cannot run. The message goes into the table: it holds no path."""


def sealed_environment(home: Path) -> dict[str, str]:
    """The environment every contender runs in: the caller's PATH, git's own defaults, and an empty home, but that no
    daemon is started which is not asked for."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text("[agentos]\n\twatch = false\n")
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


@cache
def tree_paths(size: int) -> tuple[str, ...]:
    """`size` paths in nested folders of about 10 to 30 entries each (8-20 files, 3-9 folders), in a fixed order."""
    rng = random.Random(f"shape {SHAPE_VERSION} {size}")
    paths: list[str] = []
    folders = [""]
    for number, folder in enumerate(folders):  # grows while it is walked: breadth first
        files = min(rng.randint(8, 20), size - len(paths))
        paths += [f"{folder}{rng.choice(_WORDS)}_{i:02d}.py" for i in range(files)]
        if len(paths) == size:
            break
        folders += [f"{folder}{rng.choice(_WORDS).lower()}{number % 7}_{i}/" for i in range(rng.randint(3, 9))]
    return tuple(paths)


def content(path: str, generation: int = 0) -> bytes:
    """Text of about 1.5 KiB that follows from the path; every generation above 0 changes one line and adds one."""
    rng = random.Random(zlib.crc32(os.fsencode(path)))
    lines = [" ".join(rng.choices(_WORDS, k=8)) for _ in range(rng.randint(4, 50))]
    if generation:
        lines[len(lines) // 2] = f"changed in generation {generation}"
        lines.append(f"# {path} {generation}")
    return ("\n".join(lines) + "\n").encode()


@dataclass(frozen=True)
class Changes:
    """Which paths are dirty, and how: two thirds modified (of them a third staged, some of those edited again), the
    rest untracked. 30 changes are 20 modified (3 staged, 3 staged and edited again, 14 unstaged) and 10 untracked."""

    staged: tuple[str, ...]
    staged_and_edited: tuple[str, ...]
    unstaged: tuple[str, ...]
    untracked: tuple[str, ...]

    @property
    def modified(self) -> tuple[str, ...]:
        return self.staged + self.staged_and_edited + self.unstaged

    def __len__(self) -> int:
        return len(self.modified) + len(self.untracked)


def choose_changes(size: int, count: int) -> Changes:
    """`count` paths spread over the tree of `size` files (at most as many as it can hold), always the same ones."""
    paths = tree_paths(size)
    untracked = count // 3
    modified = min(count - untracked, len(paths))
    rng = random.Random(f"changes {size} {count}")
    chosen = rng.sample(paths, modified)
    staged = len(chosen) // 6
    beside = rng.sample(paths, min(untracked, len(paths)))
    return Changes(
        staged=tuple(chosen[:staged]),
        staged_and_edited=tuple(chosen[staged : 2 * staged]),
        unstaged=tuple(chosen[2 * staged :]),
        untracked=tuple(
            f"scratch/notes/{i:04d}.txt" if i % 3 == 0 else os.path.join(os.path.dirname(path), f"new_{i:04d}.txt")
            for i, path in enumerate(beside)
        ),
    )


@dataclass(frozen=True)
class Arena:
    """A worktree in which contenders run. `environment` is sealed; `backup` holds what `GitDirectory` puts back."""

    path: Path
    template: Path
    backup: Path
    size: int
    environment: Mapping[str, str]
    hurried: bool = False

    def git(self, *arguments: str, stdin: bytes | None = None, may_fail: bool = False) -> bytes:
        """Run git in the arena, untimed; stdout."""
        return _git(self.path, self.environment, *arguments, stdin=stdin, may_fail=may_fail)

    def fresh(self) -> None:
        """A clean checkout of `main`, index warm, no object or ref that the template does not have."""
        git_directory = self.path / ".git"
        self.path.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(git_directory, ignore_errors=True)
        # Packs are linked, not copied: nothing writes into a pack, and a repack replaces the name.
        shutil.copytree(self.template, git_directory, copy_function=_link_pack_or_copy)
        _git(self.path, self.environment, "config", "core.bare", "false")
        self.git("read-tree", "HEAD")
        self.git("update-index", "-q", "--refresh", may_fail=True)
        self.git("reset", "-q", "--hard")
        self.git("clean", "-qfdxff")
        self.settle()

    def write(self, path: str, data: bytes) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def dirty(self, changes: Changes, generation: int) -> None:
        """Bring exactly `changes` about, with this generation's contents; may be called again with another one."""
        again = 1_000_000 + generation
        for path in changes.staged + changes.staged_and_edited + changes.unstaged:
            self.write(path, content(path, generation))
        staged = changes.staged + changes.staged_and_edited
        if staged:
            self.git("update-index", "-z", "--stdin", stdin=b"".join(os.fsencode(p) + b"\0" for p in staged))
        for path in changes.staged_and_edited:
            self.write(path, content(path, again))
        for path in changes.untracked:
            self.write(path, content(path, generation))

    def expected(self, changes: Changes, generation: int) -> dict[str, bytes]:
        """What `dirty` left in the worktree."""
        again = 1_000_000 + generation
        edited = set(changes.staged_and_edited)
        paths = changes.modified + changes.untracked
        return {path: content(path, again if path in edited else generation) for path in paths}

    def wreck(self, changes: Changes, generation: int) -> None:
        """Overwrite every modified file, stage some of that, delete what was untracked, leave as many strays."""
        for path in changes.modified:
            self.write(path, content(path, generation))
        staged = changes.unstaged[: len(changes.staged)]
        if staged:
            self.git("update-index", "-z", "--stdin", stdin=b"".join(os.fsencode(p) + b"\0" for p in staged))
        for path in changes.untracked:
            (self.path / path).unlink(missing_ok=True)
        for path in changes.untracked:
            self.write(f"{path}.stray", content(path, generation))

    def settle(self) -> None:
        """Let git record fresh stat data for every file, so that no contender pays for the set-up.

        git compares index times in whole seconds, so entries written in the index's own second stay suspect ("racy")
        until the index is written in a later one. A hurried arena does not wait for that.
        """
        if not self.hurried:
            time.sleep(1.05 - time.time() % 1)
        self.git("update-index", "-q", "--refresh", may_fail=True)
        self.git("status", "--porcelain")

    def refs(self) -> bytes:
        return self.git("for-each-ref")


class GitDirectory:
    """The git folder as it was, to be put back before each timed run.

    So every run of every contender finds the same objects, refs, index and caches: none is helped by blobs that the one
    before it has written, and no run counts as "the second of the same state".
    """

    def __init__(self, arena: Arena) -> None:
        self._root = arena.path / ".git"
        self._backup = arena.backup
        shutil.rmtree(self._backup, ignore_errors=True)
        self._files = dict(self._walk())
        self._folders = {folder for folder, _, _ in os.walk(self._root)}
        for name in self._files:
            if not name.startswith("objects/"):
                (self._backup / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._root / name, self._backup / name)

    def reset(self) -> bool:
        """Put everything back; whether a contender had added or changed anything."""
        now = dict(self._walk())
        added = now.keys() - self._files.keys()
        for name in added:
            (self._root / name).unlink()
        changed = [name for name, stat in self._files.items() if now.get(name) != stat]
        for name in changed:
            if name.startswith("objects/"):
                if name not in now:
                    raise BenchError("a contender removed objects that were there before it ran")
                continue  # git refreshes the time of an object it would have written again
            shutil.copy2(self._backup / name, self._root / name)
            os.utime(self._root / name, ns=(self._files[name][0], self._files[name][0]))
            self._files[name] = self._stat(self._root / name)
        for folder, _, _ in os.walk(self._root, topdown=False):
            if folder not in self._folders:
                os.rmdir(folder)
        return bool(added or changed)

    def sizes(self) -> tuple[int, int]:
        """Bytes in the store (all of the git folder but the index): as files say, and as the disk holds them."""
        return store_size(self._root)

    def _walk(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder, _, files in os.walk(self._root):
            for file in files:
                path = Path(folder, file)
                yield str(path.relative_to(self._root)), self._stat(path)

    @staticmethod
    def _stat(path: Path) -> tuple[int, int]:
        found = path.lstat()
        return found.st_mtime_ns, found.st_size


def store_size(git_directory: Path) -> tuple[int, int]:
    """Apparent bytes of all files, and bytes on disk of files and folders, of a git folder without its index."""
    apparent = disk = 0
    for folder, _, files in os.walk(git_directory):
        disk += os.lstat(folder).st_blocks * 512
        for file in files:
            if file == "index" and folder == str(git_directory):
                continue
            found = os.lstat(os.path.join(folder, file))
            apparent += found.st_size
            disk += found.st_blocks * 512
    return apparent, disk


def open_arena(cache: Path, size: int, name: str, *, hurried: bool = False) -> Arena:
    """The arena `name` of a repository of `size` files; makes the template at first use. Not yet `fresh`.

    A hurried one is for trying the harness: its times would not be fair.
    """
    environment = sealed_environment(cache / "home")
    template = _template(cache, size, environment)
    folder = cache / "arenas" / f"{size}-{SHAPE_VERSION}-{name}"
    return Arena(folder / "tree", template, folder / "backup", size, environment, hurried)


def _template(cache: Path, size: int, environment: Mapping[str, str]) -> Path:
    final = cache / "templates" / f"{size}-{SHAPE_VERSION}.git"
    if final.is_dir():
        return final
    building = final.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    _git(building, environment, "init", "-q", "--bare", "-b", "main", ".")
    for key, value in (("user.name", "Bench"), ("user.email", "bench@example.invalid"), ("gc.auto", "0")):
        _git(building, environment, "config", key, value)
    with subprocess.Popen(
        ["git", "fast-import", "--quiet"], cwd=building, env=dict(environment), stdin=subprocess.PIPE
    ) as importer:
        assert importer.stdin is not None
        for chunk in _history(size):
            importer.stdin.write(chunk)
    if importer.returncode:
        raise BenchError("git fast-import failed")
    _git(building, environment, "gc", "-q", "--prune=now")
    building.rename(final)
    return final


def _history(size: int) -> Iterator[bytes]:
    """The fast-import stream: first an older generation of some files, at last generation 0 of all."""
    paths = tree_paths(size)
    chosen = random.Random(size).sample(paths, min(50, size))
    for commit in range(_HISTORY + 1):
        oldest, newest = commit == 0, commit == _HISTORY
        message = f"commit {commit}".encode()
        author = b"Bench <bench@example.invalid> %d +0000" % (1_700_000_000 + commit * 3600)
        yield b"commit refs/heads/main\ncommitter %s\ndata %d\n%s\n" % (author, len(message), message)
        changed = set(chosen)
        for path in paths if oldest else chosen:
            data = content(path, 0 if newest or path not in changed else _HISTORY - commit)
            yield b"M 100644 inline %s\ndata %d\n%s\n" % (os.fsencode(path), len(data), data)


def _link_pack_or_copy(source: str, target: str) -> None:
    if os.path.basename(os.path.dirname(source)) == "pack":
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _git(
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    stdin: bytes | None = None,
    may_fail: bool = False,
) -> bytes:
    command: Sequence[str] = ["git", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), input=stdin or b"", capture_output=True, check=False
    )
    if done.returncode and not may_fail:
        raise BenchError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()[:200]}")
    return done.stdout
