"""Which repository and which worktree a path is in, by `git rev-parse`.

Standard library only: it runs before pygit2 is imported.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping

from git_agentos.errors import RepositoryError, UnsupportedRepository
from git_agentos.git import gitfile, process, repository_format, version
from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.repository_format import RepositoryFormat
from git_agentos.util.named_tuple import NamedTuple

# Variables that name git's repository and working tree.
LEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
_UNSET = (
    "git sets such variables for hooks and aliases; without them the current folder decides:\n"
    "env -u GIT_DIR -u GIT_WORK_TREE -u GIT_COMMON_DIR git agentos ..."
)


class CopiedWorktree(RepositoryError):
    """A folder is a copy of a worktree, whose git directory is the original's."""


class Location(NamedTuple):
    """One worktree of one repository; all three paths are absolute.

    `git_dir` is the worktree's own (`.git` or `.git/worktrees/<name>`), `common_dir` the one that all
    worktrees share. They are equal in the main worktree. `format` is the repository's.
    """

    root: str
    git_dir: str
    common_dir: str
    format: RepositoryFormat

    @classmethod
    def read(cls, root: str, git_dir: str, common_dir: str) -> Location:
        """A worktree whose paths are known. UnsupportedRepository if git-agentos cannot serve the repository."""
        return cls(root, git_dir, common_dir, repository_format.read(common_dir))

    def worktree(self, root: str, git_dir: str) -> Location:
        """Another worktree of this repository."""
        return Location(root, git_dir, self.common_dir, self.format)

    @property
    def hash(self) -> HashAlgorithm:
        """The hash algorithm of the repository's object ids."""
        return self.format.hash

    @property
    def state_dir(self) -> str:
        """The folder of git-agentos for this worktree alone: journal, caches, locks."""
        return os.path.join(self.git_dir, "agentos")

    @property
    def shared_state_dir(self) -> str:
        """The folder of git-agentos that all worktrees share."""
        return os.path.join(self.common_dir, "agentos")

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment for a git command in this worktree, in whichever folder git is started."""
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


def locate(path: str, *, use_environment: bool = True, environment: Mapping[str, str] | None = None) -> Location:
    """The worktree that `path` is in.

    GIT_DIR, GIT_WORK_TREE and GIT_COMMON_DIR are honoured here, as `_given` documents, and nowhere else; with
    `use_environment=False` they are ignored. `environment` is used instead of this process's.
    Raises RepositoryError (outside, bare, refused) or UnsupportedRepository (an extension that is not supported).
    """
    env = dict(environment or os.environ) if use_environment else process.environment()
    return _given(path, env) if any(name in env for name in LEADING) else _ask(path, env)


def _given(path: str, env: Mapping[str, str]) -> Location:
    """The worktree that the environment names.

    git sets GIT_DIR for the programs that it starts (hooks, aliases, `difftool`), often without GIT_WORK_TREE or
    relative to the folder in which it starts them. After a `cd`, the variables have another meaning: with GIT_DIR
    alone, any folder counts as the root. Therefore git's own files determine the root: the `.git` that leads to the git
    directory, core.worktree, or the entry of a linked worktree. It is an error if the variables contradict them.
    """
    plain = {name: value for name, value in env.items() if name not in process.LOCATION_VARIABLES}
    found = _ask_or_none(path, plain)  # as git answers in a shell
    tree, here = env.get("GIT_WORK_TREE"), os.path.abspath(path)
    if found is not None and _names_only(env, path, found.git_dir):
        return found
    try:
        given = _ask(path, env)
    except UnsupportedRepository:
        raise
    except RepositoryError as error:
        if found is not None and not os.path.isabs(tree or "") and _leads_to(env.get("GIT_DIR"), path, found.git_dir):
            return found
        raise _not_there(path, env, error) from None
    same = found is not None and found.git_dir == given.git_dir
    own = found if same else _recorded(given.git_dir, plain)
    if own is None:
        if tree:
            return given
        raise RepositoryError(
            f"GIT_DIR names '{given.git_dir}', but '{here}' is not known to be its working tree",
            "name the working tree: git --git-dir=PATH --work-tree=PATH agentos ...",
        )
    if found is not None and not same:
        raise RepositoryError(f"GIT_DIR names the worktree '{own.root}', but '{here}' is in '{found.root}'", _UNSET)
    is_inside = given.root == own.root or given.root.startswith(os.path.join(own.root, ""))
    if tree and not (is_inside or (same and not os.path.isabs(tree))):
        raise RepositoryError(
            f"GIT_WORK_TREE names '{given.root}', but the working tree of '{own.git_dir}' is '{own.root}'", _UNSET
        )
    if given.common_dir != own.common_dir:
        raise RepositoryError(
            f"GIT_COMMON_DIR names '{given.common_dir}', but '{own.root}' belongs to '{own.common_dir}'", _UNSET
        )
    return own


def _names_only(env: Mapping[str, str], path: str, git_dir: str) -> bool:
    """Whether the environment names this git directory, as seen from `path`, and nothing else: then git answers as it
    does without the variables. That is how git starts most hooks."""
    named = env.get("GIT_DIR")
    if not named or env.get("GIT_WORK_TREE") or env.get("GIT_COMMON_DIR"):
        return False
    return os.path.realpath(os.path.join(path, named)) == git_dir


def _leads_to(given: str | None, path: str, git_dir: str) -> bool:
    """Whether GIT_DIR leads to a git directory from `path` or from a folder above it, where git may have set it."""
    if given is None:
        return True
    folder = os.path.realpath(path)
    while gitfile.resolve(os.path.join(folder, given)) != git_dir:
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def _not_there(path: str, env: Mapping[str, str], error: RepositoryError) -> RepositoryError:
    """The error if the variables do not name a worktree."""
    given, here = env.get("GIT_DIR"), os.path.abspath(path)
    if given is None or os.path.isfile(os.path.join(path, given, "HEAD")):
        return error
    return RepositoryError(f"GIT_DIR names '{given}', which is not a git directory as seen from '{here}'", _UNSET)


def _recorded(git_dir: str, plain: Mapping[str, str]) -> Location | None:
    """The worktree that a git directory records; None if it records none. RepositoryError if the folder of a linked
    worktree does not name this git directory."""
    # Started in the file system's root, git prints the root that core.worktree names, or the current folder.
    asked = _ask_or_none(os.sep, {**plain, "GIT_DIR": git_dir})
    if asked is None:
        return None  # bare
    if asked.root != os.sep:
        return asked
    if asked.is_main:
        return asked._replace(root=os.path.dirname(git_dir)) if os.path.basename(git_dir) == ".git" else None
    with contextlib.suppress(OSError):
        root = os.path.realpath(gitfile.root_of(git_dir))
        if gitfile.is_linked(root, git_dir):
            return asked._replace(root=root)
    raise RepositoryError(
        f"GIT_DIR names '{git_dir}', the entry of a worktree whose folder is not where the entry says",
        "go to that folder, or to the main worktree: git agentos worktree repair",
    )


def _ask_or_none(path: str, env: Mapping[str, str]) -> Location | None:
    """`_ask`; None if git finds no working tree."""
    try:
        return _ask(path, env)
    except (UnsupportedRepository, CopiedWorktree):
        raise
    except RepositoryError:
        return None


def _ask(path: str, env: Mapping[str, str]) -> Location:
    """The worktree that git finds from `path` in an environment."""
    args = ["rev-parse", "--is-bare-repository", "--absolute-git-dir"]
    args += ["--path-format=absolute", "--git-common-dir", "--show-toplevel"]
    child = process.spawn(args, cwd=path, env={**env, "LC_ALL": "C"}, neutral_config=False)
    status, out, err = process.finish(child)
    lines = out.split(b"\n")
    if status != 0 or len(lines) < 5:
        # An older git does not know all of these options.
        version.require(version.read(path, env))
        raise _refusal(path, lines, err)
    # A newline in a path makes rev-parse's answer ambiguous; git has no -z for it.
    if len(lines) != 5:
        raise RepositoryError("the repository's path contains a newline", "move the repository to another path")
    git_dir, common_dir, root = (os.path.realpath(os.fsdecode(line)) for line in lines[1:4])
    found = repository_format.read(common_dir)
    if git_dir != common_dir and (original := gitfile.original_of(root, git_dir)) is not None:
        raise CopiedWorktree(
            f"'{root}' is a copy of the worktree '{original}', and shares its HEAD and index",
            "if the repository was copied too, run 'git agentos worktree repair' in the copied repository;"
            " else remove the copy's .git file",
        )
    return Location(root, git_dir, common_dir, found)


def _refusal(path: str, lines: list[bytes], err: bytes) -> RepositoryError:
    said = err.decode("utf-8", "replace").strip()
    lowered = said.lower()
    if re.search(
        r"^(fatal: (unknown repository extension|repo version is 0|compatibility hash)|error: invalid value for)",
        lowered,
    ):
        # Our message names what git-agentos supports as well.
        place = gitfile.find(path)
        if place is not None:
            found = repository_format.read(gitfile.common_dir(place[1]))
            if found.refs != repository_format.FILES:
                return UnsupportedRepository(
                    f"this git does not know the {found.refs} format, in which this repository has its refs",
                    "it needs git 2.45 or later (git --version)",
                )
    if "dubious ownership" in lowered:
        named = re.search(r"ownership in repository at '(.*)'$", said, re.MULTILINE)
        directory = named[1] if named is not None else path
        return RepositoryError(
            f"git refuses the repository '{directory}': another user owns it",
            f"if you trust it: git config --global --add safe.directory '{directory}'",
        )
    if lines[0] == b"true":
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
                f"'{lost[0]}' is a worktree, but its repository has no entry for it: there is no '{lost[1]}'",
                "if the repository was moved, or this entry was removed (git worktree prune):"
                " run 'git agentos worktree repair' in its main worktree",
            )
        damaged = _git_dir_above(path)
        if damaged is not None:
            return RepositoryError(
                f"'{damaged}' is not a git repository that git can open: HEAD, objects or refs is missing or damaged",
                "'git status' reports the same; compare with a new clone",
            )
        return RepositoryError(f"'{path}' is not in a git repository", "cd into one, or name it with -C PATH")
    whole = " ".join(said.removeprefix("fatal: ").split()) or "git rev-parse failed"
    if lowered.startswith(("fatal: unknown repository extension", "fatal: expected git repo version")):
        return UnsupportedRepository(
            f"this git cannot open the repository at '{path}': {whole}", "a newer git may support it (git --version)"
        )
    if "bad config" in lowered or "bad boolean config" in lowered or "bad numeric config" in lowered:
        return RepositoryError(f"git cannot read its configuration at '{path}': {whole}", "correct that file")
    return RepositoryError(f"git cannot open the repository at '{path}': {whole}")


def _lost_entry(path: str) -> tuple[str, str] | None:
    """The worktree that `path` is in, and the git directory that its `.git` file names, if that does not exist."""
    folder = os.path.realpath(path)
    while True:
        target = gitfile.read_gitfile(folder)
        if target is not None:
            return None if os.path.lexists(target) else (folder, target)
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return None
        folder = parent


def _git_dir_above(path: str) -> str | None:
    """The first folder `.git` above `path` that looks like a git directory, damaged or not; None if there is none."""
    folder = os.path.realpath(path)
    while True:
        git_dir = os.path.join(folder, ".git")
        if any(os.path.lexists(os.path.join(git_dir, name)) for name in ("HEAD", "objects", "refs", "config")):
            return git_dir
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
