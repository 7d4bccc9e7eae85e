"""Real git repositories, made with plain git.

`Repo` is a path and the few verbs that tests repeat; it knows nothing of this project. Paths may be `str` or `bytes`
(names are bytes), contents may be `str` (UTF-8) or `bytes`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.support.elsewhere import if_possible

Name: TypeAlias = str | bytes

# How `git init` makes ids: GIT_DEFAULT_HASH decides it for a whole run of the tests.
digest = hashlib.sha256 if os.environ.get("GIT_DEFAULT_HASH") == "sha256" else hashlib.sha1
ZERO = "0" * (2 * digest().digest_size)


_template: list[Path] = []


def blob_id(data: bytes) -> str:
    """The id of a blob."""
    return digest(b"blob %d\0" % len(data) + data).hexdigest()


class GitFailed(AssertionError):
    """A git command that a test relies on failed; the message holds its command line and stderr."""


def git_run(
    cwd: Path, *args: Name, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `cwd`, never raising on its exit code. `env` adds to the environment."""
    return subprocess.run(
        ["git", *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=False,
        env=None if env is None else {**os.environ, **env},
    )


def git(cwd: Path, *args: Name, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """Run git in `cwd` and give its stdout; `GitFailed` if it fails."""
    done = git_run(cwd, *args, stdin=stdin, env=env)
    if done.returncode != 0:
        words = " ".join(os.fsdecode(arg) for arg in args)
        talk = (done.stderr + done.stdout).decode(errors="replace")
        raise GitFailed(f"git {words} in {cwd} exited {done.returncode}:\n{talk}")
    return done.stdout


def remove(path: bytes) -> None:
    """Remove whatever is at `path`, if anything, read-only folders included."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o755)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


@dataclass(frozen=True)
class Repo:
    """A repository's worktree at `path`."""

    path: Path

    @classmethod
    def init(cls, path: Path, *options: str) -> Repo:
        path.mkdir(parents=True, exist_ok=True)
        git(path, "init", "-q", *options)
        return cls(path)

    @property
    def scratch(self) -> Path:
        """A folder outside the worktree, for origins, linked worktrees and scripts."""
        folder = self.path.parent / f"{self.path.name}.scratch"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def git_dir(self) -> Path:
        return Path(os.fsdecode(self.git("rev-parse", "--absolute-git-dir").removesuffix(b"\n")))

    def git(self, *args: Name, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        return git(self.path, *args, stdin=stdin, env=env)

    def try_git(self, *args: Name, stdin: bytes = b"") -> int:
        """Run git where a failure is expected or does not matter; its exit code."""
        return git_run(self.path, *args, stdin=stdin).returncode

    def text(self, *args: Name) -> str:
        return os.fsdecode(self.git(*args)).strip()

    def loose_object(self, oid: str) -> Path:
        """The file of an object, which a test can then take away; all objects in packs are made loose."""
        common_dir = Path(self.text("rev-parse", "--path-format=absolute", "--git-common-dir"))
        for pack in (common_dir / "objects/pack").glob("*.pack"):
            data = pack.read_bytes()
            for each in pack.parent.glob(f"{pack.stem}.*"):
                each.unlink()
            self.git("unpack-objects", "-q", stdin=data)
        return common_dir / "objects" / oid[:2] / oid[2:]

    def other_object_format(self) -> str:
        """The object format that this repository does not have."""
        return "sha1" if self.text("rev-parse", "--show-object-format") == "sha256" else "sha256"

    def oid(self, revision: str = "HEAD") -> str:
        return self.text("rev-parse", "--verify", revision)

    def config(self, key: str, value: str) -> None:
        self.git("config", key, value)

    def at(self, name: Name) -> bytes:
        """The file system path of `name` in the worktree, as bytes."""
        return os.path.join(os.fsencode(self.path), os.fsencode(name))

    def write(self, name: Name, data: str | bytes, mode: int | None = None) -> None:
        """Make `name` a regular file with `data`, replacing whatever is in its way."""
        path = self.at(name)
        if os.path.islink(path) or os.path.isdir(path):
            remove(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and not os.access(path, os.W_OK):
            os.unlink(path)
        with open(path, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            os.chmod(path, mode)

    def append(self, name: Name, data: str | bytes) -> None:
        with open(self.at(name), "ab") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)

    def read(self, name: Name) -> bytes:
        with open(self.at(name), "rb") as stream:
            return stream.read()

    def link(self, name: Name, target: Name) -> None:
        """Make `name` a symbolic link to `target`, replacing whatever is in its way."""
        path = self.at(name)
        remove(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.fsencode(target), path)

    def mkdir(self, name: Name) -> None:
        os.makedirs(self.at(name), exist_ok=True)

    def remove(self, *names: Name) -> None:
        for name in names:
            remove(self.at(name))

    def chmod(self, name: Name, mode: int) -> None:
        os.chmod(self.at(name), mode)

    def exists(self, name: Name) -> bool:
        return os.path.lexists(self.at(name))

    def add(self, *names: Name) -> None:
        self.git("add", "--", *names)

    def commit(self, message: str) -> str:
        """Commit everything in the worktree; the new commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.oid()


def make_template(folder: Path) -> None:
    """Make what `filled` copies; once in a process, before a test changes what git is configured to do."""
    fill(Repo.init(folder))
    _template.append(folder)


def filled(path: Path) -> Repo:
    """A repository at `path` with the history that `fill` makes: a copy, which takes a fifth of the time."""
    shutil.copytree(_template[0], path, symlinks=True, copy_function=shutil.copy, dirs_exist_ok=True)
    repo = Repo(path)
    repo.git("update-index", "-q", "--refresh")  # the copies have their own times and inodes
    return repo


def fill(repo: Repo) -> Repo:
    """Give an empty repository a small history: `main` (two commits, checked out), `other` (off the first), `v1`."""
    repo.write("readme.txt", "a readme\nsecond line\n")
    repo.write("src/app.py", "print('app')\n")
    repo.write("src/lib/util.py", "".join(f"line {n}\n" for n in range(30)))
    repo.write("docs/guide.md", "# guide\n")
    repo.write("data.bin", bytes(range(256)) * 4)
    repo.write("run.sh", "#!/bin/sh\nexit 0\n", 0o755)
    with if_possible():
        repo.link("link", "readme.txt")
    first = repo.commit("first")
    repo.git("tag", "v1")
    repo.write("docs/guide.md", "# guide\n\nmore\n")
    repo.write("notes.txt", "one\ntwo\nthree\n")
    repo.commit("second")
    repo.git("checkout", "-q", "-b", "other", first)
    repo.write("readme.txt", "another readme\nsecond line\n")
    repo.write("other.txt", "only on other\n")
    repo.remove("run.sh")
    repo.commit("other work")
    repo.git("checkout", "-q", "main")
    return repo
