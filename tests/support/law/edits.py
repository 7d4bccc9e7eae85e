"""What may happen to a repository between two checkpoints: each kind of edit is a frozen dataclass that can be drawn.

The names are few and get in each other's way: the same one is a file, then a folder, then a link. An edit that git
refuses does nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hypothesis import strategies as st

from tests.support.filesystems import distinct
from tests.support.repo import Repo, remove

NESTED = b"nest"
_NAMES = (
    b"file",
    b"d",
    b"d/e",
    b"d/f",
    b"a",
    b"a/b",
    b"a/b/c",
    b"added",
    b"x.log",
    b"d/y.log",
    b"build/out",
    b"run.sh",
    b"link",
    b" sp ace ",
    b"new\nline",
    b"-dash",
    b"quo\"te's\\",
    b"bad\xff",
    b"dir\xfe/tab\there",
    "caf\u00e9".encode(),
    "cafe\u0301".encode(),
    b"[a]*?",
    b":(top)x",
)
NAMES = distinct(_NAMES)
CONTENTS = {
    "nothing": b"",
    "aa": b"aa\n",
    "bb": b"bb\n",
    "no newline": b"no newline",
    "mixed line ends": b"\r\nmixed\n",
    "dos": b"one\r\ntwo\r\n",
    "every byte": bytes(range(256)),
    "script": b"#!/bin/sh\n",
    "resolved": b"one\ntwo, resolved\nthree\n",
    "large": b"large " * 50_000,
}
MODES = (0o600, 0o644, 0o444, 0o755, 0o700)
TARGETS = (b"file", b"d", b"nowhere", b"..", b"bad\xff", b"d/e")
IGNORES = (
    b"",
    b"*.log\n",
    b"build/\n",
    b"*.log\n!d/y.log\n",
    b"/d/\n",
    b"/a\n/added\n",
    b"file\n",
    b"build/*\n/link\n",
    b"*\n",
    b"*\n!*/\n!*.log\n",
    b".gitignore\n*.log\nnest\n",
)
ATTRIBUTES = (
    b"",
    b"* text=auto\n",
    b"* text eol=crlf\n",
    b"* text=auto eol=crlf\n",
    b"* -text\n",
    b"file text eol=crlf\nd/* text eol=lf\n",
    b"run.sh eol=crlf\n*.log text\n",
)
FLAGS = ("--assume-unchanged", "--no-assume-unchanged", "--skip-worktree", "--no-skip-worktree")


class Edit(Protocol):
    """One thing that happens; `templates` is where repositories to nest are."""

    def do(self, repo: Repo, templates: Path) -> None: ...


def _make_room(repo: Repo, path: bytes) -> None:
    """What stands where a folder above `path` has to be, goes; links are not followed."""
    parent = b""
    for part in path.split(b"/")[:-1]:
        parent = os.path.join(parent, part)
        if repo.exists(parent) and (os.path.islink(repo.at(parent)) or not os.path.isdir(repo.at(parent))):
            repo.remove(parent)
    os.makedirs(os.path.dirname(repo.at(path)), exist_ok=True)


def _is_real(repo: Repo, path: bytes) -> bool:
    """Whether `path` is there, and not by way of a link."""
    parent = path
    while parent := parent.rpartition(b"/")[0]:
        if os.path.islink(repo.at(parent)):
            return False
    return repo.exists(path)


@dataclass(frozen=True)
class Write:
    path: bytes
    content: str
    mode: int | None = None

    def do(self, repo: Repo, templates: Path) -> None:
        _make_room(repo, self.path)
        repo.write(self.path, CONTENTS[self.content], self.mode)


@dataclass(frozen=True)
class Rested:
    """A file that is older than any index: git looks at its stat data alone."""

    path: bytes
    content: str

    def do(self, repo: Repo, templates: Path) -> None:
        Write(self.path, self.content).do(repo, templates)
        os.utime(repo.at(self.path), (1_700_000_000, 1_700_000_000))
        repo.try_git("--literal-pathspecs", "add", "-f", "--", self.path)


@dataclass(frozen=True)
class Append:
    path: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        if _is_real(repo, self.path) and os.path.isfile(repo.at(self.path)) and not os.path.islink(repo.at(self.path)):
            repo.write(self.path, repo.read(self.path) + b"more\n")


@dataclass(frozen=True)
class Link:
    path: bytes
    target: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        _make_room(repo, self.path)
        repo.link(self.path, self.target)


@dataclass(frozen=True)
class Info:
    """A file of rules in the git directory: they hold, and no checkpoint has them."""

    name: str
    content: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        (repo.git_dir / "info").mkdir(exist_ok=True)
        (repo.git_dir / "info" / self.name).write_bytes(self.content)


@dataclass(frozen=True)
class Chmod:
    path: bytes
    mode: int

    def do(self, repo: Repo, templates: Path) -> None:
        if _is_real(repo, self.path) and os.path.isfile(repo.at(self.path)) and not os.path.islink(repo.at(self.path)):
            repo.chmod(self.path, self.mode)


@dataclass(frozen=True)
class Remove:
    path: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        if _is_real(repo, self.path):
            repo.remove(self.path)


@dataclass(frozen=True)
class Rename:
    path: bytes
    to: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        if (
            not _is_real(repo, self.path)
            or self.to.startswith(self.path + b"/")
            or self.path.startswith(self.to + b"/")
        ):
            return
        if self.path != self.to:
            _make_room(repo, self.to)
            if _is_real(repo, self.path):
                repo.remove(self.to)
                os.rename(repo.at(self.path), repo.at(self.to))


@dataclass(frozen=True)
class Mkdir:
    path: bytes

    def do(self, repo: Repo, templates: Path) -> None:
        _make_room(repo, self.path)
        if not os.path.isdir(repo.at(self.path)) or os.path.islink(repo.at(self.path)):
            repo.remove(self.path)
            repo.mkdir(self.path)


@dataclass(frozen=True)
class Rules:
    folder: bytes
    rules: bytes
    name: bytes = b".gitignore"

    def do(self, repo: Repo, templates: Path) -> None:
        path = os.path.join(self.folder, self.name)
        _make_room(repo, path)
        if self.rules:
            repo.write(path, self.rules)
        else:
            repo.remove(path)


@dataclass(frozen=True)
class Nest:
    """A repository inside the worktree, with commits or without; where there is one, it changes."""

    unborn: bool

    def do(self, repo: Repo, templates: Path) -> None:
        inner = Repo(Path(os.fsdecode(repo.at(NESTED))))
        if inner.exists(".git"):
            inner.write("inner", "inner, changed again\n")
            inner.remove("more")
            inner.try_git("add", "-A")
            inner.write("most", b"most")
        else:
            repo.remove(NESTED)
            shutil.copytree(templates / ("nested-unborn" if self.unborn else "nested"), inner.path, symlinks=True)


@dataclass(frozen=True)
class Git:
    """A git command, which may refuse."""

    args: tuple[str | bytes, ...]

    def do(self, repo: Repo, templates: Path) -> None:
        repo.try_git("--literal-pathspecs", *self.args)


@dataclass(frozen=True)
class RemoveAll:
    """Everything but the repository itself, and what is nested in it."""

    def do(self, repo: Repo, templates: Path) -> None:
        for name in os.listdir(os.fsencode(repo.path)):
            if name not in (b".git", NESTED):
                remove(repo.at(name))


@dataclass(frozen=True)
class SwapTypes:
    """A folder where each file was, a file where each folder was."""

    def do(self, repo: Repo, templates: Path) -> None:
        for name in sorted(os.listdir(os.fsencode(repo.path))):
            if name in (b".git", NESTED, b".gitignore", b".gitattributes"):  # no folders: git fsck does not like it
                continue
            was_folder = os.path.isdir(repo.at(name)) and not os.path.islink(repo.at(name))
            remove(repo.at(name))
            repo.write(name if was_folder else os.path.join(name, b"inner"), b"swapped\n")


@dataclass(frozen=True)
class EndOperation:
    """Whatever is in progress is aborted."""

    def do(self, repo: Repo, templates: Path) -> None:
        for words in (("merge", "--abort"), ("rebase", "--abort"), ("cherry-pick", "--abort"), ("revert", "--abort")):
            if repo.try_git(*words) == 0:
                return
        with contextlib.suppress(OSError):
            if (repo.git_dir / "BISECT_LOG").exists():
                repo.try_git("bisect", "reset")


paths = st.sampled_from(NAMES)


def _git(*args: str | bytes | st.SearchStrategy[bytes] | st.SearchStrategy[str]) -> st.SearchStrategy[Git]:
    words = [arg if isinstance(arg, st.SearchStrategy) else st.just(arg) for arg in args]
    return st.tuples(*words).map(Git)


_files = st.one_of(
    st.builds(Write, paths, st.sampled_from(tuple(CONTENTS)), st.sampled_from((None, None, *MODES))),
    st.builds(Write, paths, st.sampled_from(("aa", "bb"))),
    st.builds(Append, paths),
    st.builds(Link, paths, st.sampled_from(TARGETS)),
    st.builds(Chmod, paths, st.sampled_from(MODES)),
    st.builds(Remove, paths),
    st.builds(Rename, paths, paths),
    st.builds(Mkdir, paths),
    st.builds(Rules, st.sampled_from((b"", b"", b"d", b"build")), st.sampled_from(IGNORES)),
    st.builds(Nest, st.booleans()),
)
_staging = st.one_of(
    _git("add", "-A"),
    _git("add", "-f", "--", paths),
    _git("add", "-N", "-f", "--", paths),
    _git("rm", "-q", "-r", "--cached", "--", paths),
    _git("reset", "-q", "--", paths),
    _git("update-index", st.sampled_from(FLAGS), "--", paths),
    _git("mv", "-f", "--", paths, paths),
    _git("update-index", st.sampled_from(("--chmod=+x", "--chmod=-x")), "--", paths),
)
_history = st.one_of(
    _git("commit", "-q", "--allow-empty", "-m", st.sampled_from(("work", "more work"))),
    _git("commit", "-q", "-a", "-m", "all of it"),
    _git("checkout", "-q", st.sampled_from(("main", "other", "topic", "HEAD~1"))),
    _git("checkout", "-q", "-b", st.sampled_from(("b1", "b2"))),
    _git("checkout", "-q", "--detach"),
    _git("checkout", "-q", "--orphan", st.sampled_from(("o1", "o2"))),
    _git("branch", "-q", "-D", st.sampled_from(("b1", "other"))),
)
_operations = st.one_of(
    _git("merge", "-q", st.sampled_from(("other", "topic", "main"))),
    _git("merge", "-q", "--no-commit", "--no-ff", st.sampled_from(("other", "topic"))),
    _git("rebase", "-q", st.sampled_from(("other", "main", "topic"))),
    _git("rebase", "-q", "--apply", st.sampled_from(("other", "main", "topic"))),
    _git("cherry-pick", st.sampled_from(("topic", "topic~1", "other", "main", "main~1"))),
    _git("cherry-pick", "main~2..main"),
    _git("revert", "--no-edit", st.sampled_from(("HEAD", "HEAD~1", "main~1"))),
    _git("bisect", "start", "HEAD", "HEAD~2"),
    _git("checkout", st.sampled_from(("--ours", "--theirs")), "--", paths),
)
attributes: st.SearchStrategy[Edit] = st.one_of(
    st.builds(Rules, st.sampled_from((b"", b"", b"d")), st.sampled_from(ATTRIBUTES), st.just(b".gitattributes")),
    st.builds(Write, paths, st.sampled_from(("dos", "mixed line ends", "aa"))),
    st.builds(Rested, paths, st.sampled_from(("dos", "mixed line ends", "aa"))),
    st.builds(Info, st.just("exclude"), st.sampled_from((b"", b".gitattributes\n", b".git*\n"))),
    st.builds(Info, st.just("attributes"), st.sampled_from((b"", *ATTRIBUTES))),
    _git("config", st.just("core.autocrlf"), st.sampled_from(("true", "false", "false", "input"))),
    _git("config", st.just("core.eol"), st.sampled_from(("crlf", "lf"))),
    _git("add", "--renormalize", "."),
    _git("commit", "-q", "-a", "-m", "all of it"),
    _git("add", "-A"),
)
edits: st.SearchStrategy[Edit] = st.one_of(_files, _files, _files, _staging, _staging, _history, _operations)
wrecks: st.SearchStrategy[Edit] = st.one_of(
    _git("reset", "-q", "--hard"),
    _git("reset", "-q", "--hard", "HEAD~1"),
    _git("clean", "-ffdxq"),
    _git("clean", "-fdq"),
    _git("checkout", "-q", "-f", st.sampled_from(("main", "other", "topic"))),
    _git("stash", "push", "-q", "-u"),
    _git("read-tree", "--empty"),
    st.just(RemoveAll()),
    st.just(SwapTypes()),
    st.just(EndOperation()),
)
