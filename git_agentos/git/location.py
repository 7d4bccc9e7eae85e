"""Which repository and which worktree a path is in, as git itself answers it.

Standard library only: it runs before pygit2 is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from git_agentos.errors import RepositoryError, UnsupportedRepository
from git_agentos.git import gitfile, process

# Extensions by which a repository says that it is one that libgit2 cannot serve.
_LIBGIT2_CANNOT = {
    "refstorage": "the reftable ref format (extensions.refStorage)",
    "compatobjectformat": "two object formats (extensions.compatObjectFormat)",
    "objectformat": "another object format than sha1 (extensions.objectFormat)",
}


class Location(NamedTuple):
    """One worktree of one repository; all three paths are absolute.

    `git_dir` is the worktree's own (`.git` or `.git/worktrees/<name>`), `common_dir` the one that all
    worktrees share. They are equal in the main worktree.
    """

    root: str
    git_dir: str
    common_dir: str

    @property
    def state_dir(self) -> str:
        """Where this tool keeps what belongs to this worktree alone: journal, caches, locks."""
        return os.path.join(self.git_dir, "agentos")

    @property
    def shared_state_dir(self) -> str:
        """Where this tool keeps what all worktrees share: its lock files."""
        return os.path.join(self.common_dir, "agentos")

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment for a git command in this worktree, wherever that git is started."""
        env = process.environment({"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.root})
        env.update(extra or {})
        return env

    @property
    def is_main(self) -> bool:
        return self.git_dir == self.common_dir

    @property
    def worktree_name(self) -> str:
        """git's name for a linked worktree; empty in the main one."""
        return "" if self.is_main else os.path.basename(self.git_dir)


def locate(path: str, *, inherit: bool = True, environment: Mapping[str, str] | None = None) -> Location:
    """The worktree that `path` is in.

    GIT_DIR and GIT_WORK_TREE are honoured here, as by any git command, and nowhere after; with `inherit=False` not
    even here. `environment` is another one than this process's.
    Raises RepositoryError (outside, bare, refused) or UnsupportedRepository (sha256, reftable).
    """
    env = {**(environment or os.environ), "LC_ALL": "C"} if inherit else process.environment()
    args = ["rev-parse", "--show-object-format", "--is-bare-repository", "--absolute-git-dir"]
    args += ["--path-format=absolute", "--git-common-dir", "--show-toplevel"]
    child = process.spawn(args, cwd=path, env=env, fixed=False)
    status, out, err = process.finish(child)
    lines = out.split(b"\n")
    if status != 0 or len(lines) < 6:
        raise _refusal(path, lines, err)
    if lines[0] != b"sha1":
        raise _unsupported(f"the object format {os.fsdecode(lines[0])} (extensions.objectFormat)")
    # A newline in a path makes rev-parse's answer ambiguous; git has no -z for it.
    if len(lines) != 6:
        raise RepositoryError("the repository's path contains a newline", "move the repository to another path")
    git_dir, common_dir, root = (os.path.realpath(os.fsdecode(line)) for line in lines[2:5])
    if git_dir != common_dir and (original := gitfile.original_of(root, git_dir)) is not None:
        raise RepositoryError(
            f"'{root}' is a copy of the worktree '{original}', and shares its HEAD and index",
            "if the repository was copied too, run 'git agentos worktree repair' in the copied repository;"
            " else remove the copy's .git file",
        )
    return Location(root, git_dir, common_dir)


def find(folder: str) -> tuple[str, str] | None:
    """The top and the git directory of the repository that a folder is in, as git finds it without being told; None
    outside of one. Symbolic links are resolved."""
    path = os.path.realpath(folder)
    while True:
        entry = os.path.join(path, ".git")
        if os.path.isdir(entry):
            return path, os.path.realpath(entry)
        try:
            with open(entry, "rb") as file:
                text = file.read(4096)
            if text.startswith(b"gitdir:"):
                target = os.fsdecode(text[7:].strip())
                return path, os.path.realpath(os.path.join(path, target))
        except OSError:
            pass
        if os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects")):
            return path, path  # bare, or inside of a git directory
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def _refusal(path: str, lines: list[bytes], err: bytes) -> RepositoryError:
    said = err.decode("utf-8", "replace").strip()
    lowered = said.lower()
    for extension, feature in _LIBGIT2_CANNOT.items():
        # Not anywhere in the text: what git says names paths too.
        if re.search(
            rf"^(\s+{extension}|error: invalid value for 'extensions\.{extension}'.*)$", lowered, re.MULTILINE
        ):
            return _unsupported(feature)
    if "dubious ownership" in lowered:
        named = re.search(r"ownership in repository at '(.*)'$", said, re.MULTILINE)
        directory = named[1] if named is not None else path
        return RepositoryError(
            f"git refuses the repository '{directory}': it is owned by someone else",
            f"if you trust it: git config --global --add safe.directory '{directory}'",
        )
    if len(lines) > 1 and lines[1] == b"true":
        return RepositoryError(
            f"'{path}' is a bare repository: there is no working tree to save",
            "run it in a worktree: git worktree add PATH",
        )
    if "must be run in a work tree" in lowered:
        return RepositoryError(f"'{path}' is inside a git directory, not a working tree")
    if "not a git repository" in lowered:
        lost = _lost_entry(path)
        if lost is not None:
            return RepositoryError(
                f"'{lost[0]}' is a worktree, and its repository does not know it: there is no '{lost[1]}'",
                "where the repository was moved, or this entry was removed (git worktree prune):"
                " run 'git agentos worktree repair' in its main worktree",
            )
        return RepositoryError(f"'{path}' is not in a git repository", "cd into one, or name it with -C PATH")
    whole = " ".join(said.removeprefix("fatal: ").split()) or "git rev-parse failed"
    return RepositoryError(f"git cannot open the repository at '{path}': {whole}")


def _lost_entry(path: str) -> tuple[str, str] | None:
    """The worktree that `path` is in and the git directory that its `.git` file names, where that is not there."""
    folder = os.path.realpath(path)
    while True:
        target = gitfile.read_gitfile(folder)
        if target is not None:
            return None if os.path.lexists(target) else (folder, target)
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return None
        folder = parent


def _unsupported(feature: str) -> UnsupportedRepository:
    return UnsupportedRepository(
        f"this repository uses {feature}, which libgit2 cannot serve",
        "git-agentos works on sha1 repositories whose refs are files",
    )
