"""The path of a worktree's workflow database, and its folder.

    AGENTOS_WORKFLOW_DB                          a file for all worktrees of its user (or a postgresql:// URL,
                                                 which is for the workflow state of `tdd` alone)
    <worktree root>/.agentos/issue_workflow.db   otherwise
    neither                                      WorkflowConfigurationError; never any other folder

`ensure_agentos_dir` creates `.agentos/` with a `.gitignore` that contains `*`, so git ignores all of it. A repository
could contain a `.agentos` to make this tool write through a link or read foreign rows: one that is not a directory, or
that git tracks, is refused.

Standard library only: the path alone needs neither sqlite3 nor pygit2.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from git_agentos.errors import AgentosError, RepositoryError, WorkflowConfigurationError, system_reason
from git_agentos.git import gitfile, index_entries, process
from git_agentos.git.location import Location, locate
from git_agentos.util import directories, files

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "AGENTOS_WORKFLOW_DB"
FOLDER = ".agentos"
NAME = "issue_workflow.db"
_URLS = ("postgresql://", "postgres://")
_MENTIONED = "global-database-told"


# -- the public three: they read the environment and the current directory ------------------------------------------


def get_repo_root() -> Path:
    """The root of the worktree that the current directory is in: a linked worktree's own, never the main one's.

    Raises WorkflowConfigurationError (a RuntimeError) outside a repository, in a bare one, and without git.
    """
    from pathlib import Path

    return Path(_locate(".").root)


def ensure_agentos_dir(repo_root: Path) -> Path:
    """Create `<repo_root>/.agentos` with its `.gitignore`, or complete the existing one; its path.

    Any number of processes may do so at once. Raises WorkflowConfigurationError if `.agentos` is a symbolic link or a
    file, if git tracks something in it, or if it cannot be created.
    """
    from pathlib import Path

    return Path(ensure_folder(os.fspath(repo_root)))


def get_checkpoint_db_path() -> str:
    """The workflow database for the current directory: AGENTOS_WORKFLOW_DB, or the file in the worktree's `.agentos`.

    The folder exists afterwards; the file need not. A `postgresql://` URL is returned unchanged. Raises
    WorkflowConfigurationError if there is neither.
    """
    return from_environment(".", os.environ)


# -- for the domain, with a given location ----------------------------------------------------------------------------


def from_environment(start: str, environment: Mapping[str, str]) -> str:
    """`get_checkpoint_db_path` for the directory `start`."""
    value = environment.get(VARIABLE, "").strip()
    if is_url(value):
        return value
    if value:
        return _create_parent(from_variable(value))
    return os.path.join(ensure_folder(_locate(start).root), NAME)


def is_url(value: str) -> bool:
    """Whether a value of AGENTOS_WORKFLOW_DB names a database server."""
    return value.startswith(_URLS)


def from_variable(value: str) -> str:
    """The absolute path that a value of AGENTOS_WORKFLOW_DB means."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value):
        raise WorkflowConfigurationError(
            f"{VARIABLE} names an unknown kind of database server: '{value.partition('://')[0]}://…'",
            f"give postgresql://…, or the path of a file; unset {VARIABLE} to use the worktree's own",
        )
    expanded = os.path.expanduser(value)
    if expanded.startswith("~"):
        raise WorkflowConfigurationError(
            f"there is no home folder for '{value}' ({VARIABLE})", f"give {VARIABLE} an absolute path"
        )
    return os.path.realpath(expanded)


def shared_file(value: str) -> str | None:
    """The file that a value of AGENTOS_WORKFLOW_DB names for log, memory and runs; None if each worktree has its own (a
    URL is only for the workflow state)."""
    return from_variable(value) if value and not is_url(value) else None


def path_of(location: Location, variable: str) -> str:
    """The database file of a worktree; `variable` is the value of AGENTOS_WORKFLOW_DB, empty if it has none."""
    return shared_file(variable) or os.path.join(location.root, FOLDER, NAME)


def prepare(location: Location, variable: str) -> str:
    """The database file of a worktree; its folder is created."""
    shared = shared_file(variable)
    if shared is not None:
        return _create_parent(shared)
    path = os.path.join(ensure_folder(location.root), NAME)
    refuse_links(path)
    return path


def check(location: Location, variable: str) -> str:
    """The database file of a worktree; WorkflowConfigurationError if it may have come with the repository."""
    path = path_of(location, variable)
    if shared_file(variable) is None:
        _refuse_planted(os.path.join(location.root, FOLDER))
        _refuse_tracked(location.root)
        refuse_links(path)
    return path


def refuse_links(path: str) -> None:
    """WorkflowConfigurationError if a database file, or one that SQLite keeps beside it, is not a regular file."""
    for each in (path, path + "-wal", path + "-shm", path + "-journal", path + ".lock"):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(each).st_mode):
                raise WorkflowConfigurationError(
                    f"'{each}' is not a regular file", "remove it: git-agentos did not create it and does not follow it"
                )


def repository_id(location: Location, *, make: bool = True) -> str:
    """The id of this repository for its rows in a shared file; it survives a move of the repository.

    Empty if there is none and `make` is false.
    """
    folder = directories.make_own(location.shared_state_dir) if make else location.shared_state_dir
    path = os.path.join(folder, "repository-id")
    for _ in range(3):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                return file.read(64).strip().decode("ascii", "replace")
        if not make:
            break
        files.create(path, os.urandom(16).hex().encode() + b"\n")
    return ""


def mention_global_database(path: str, home: str) -> str | None:
    """The database of older tools in the home folder, if it exists, `path` does not exist yet, and it was not mentioned
    before; else None. It is never opened."""
    old = os.path.join(home, FOLDER, NAME)
    if os.path.exists(path) or not os.path.isfile(old) or os.path.basename(os.path.dirname(path)) != FOLDER:
        return None
    marker = os.path.join(os.path.dirname(path), _MENTIONED)
    try:
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except OSError:
        return None
    return old


# -- inside -----------------------------------------------------------------------------------------------------------


def _locate(start: str) -> Location:
    try:
        return locate(start)
    except AgentosError as error:
        hint = f"{error.hint}\nor set {VARIABLE} to the file to use" if error.hint else None
        raise WorkflowConfigurationError(
            f"there is no path for the workflow database: {error.message}, and {VARIABLE} is not set",
            hint or f"set {VARIABLE} to the file to use",
        ) from error


def _create_parent(path: str) -> str:
    if os.path.isdir(path):
        raise WorkflowConfigurationError(f"'{path}' ({VARIABLE}) is a directory", f"set {VARIABLE} to a file")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise WorkflowConfigurationError(
            f"the folder for '{path}' ({VARIABLE}) cannot be created: {system_reason(error)}",
            f"set {VARIABLE} to a file in a folder that you can write to, or unset it",
        ) from error
    return path


def ensure_folder(root: str) -> str:
    """`ensure_agentos_dir` for a path as text."""
    folder = os.path.join(root, FOLDER)
    try:
        _refuse_tracked(root)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        _refuse_planted(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _ignore_everything(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise WorkflowConfigurationError(
            f"'{folder}' cannot be created: {system_reason(error)}",
            f"the workflow database is kept there; {VARIABLE} names another file",
        ) from error
    return folder


def _ignore_everything(folder: int) -> None:
    """Write the `.gitignore` of an open `.agentos` that has none."""
    try:
        os.stat(".gitignore", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        files.create(".gitignore", b"*\n", durable=False, dir_fd=folder)


def _refuse_planted(folder: str) -> None:
    try:
        directories.is_own(folder)
    except RepositoryError as error:
        hint = f"{error.hint}; or set {VARIABLE} to the file to use for the workflow database"
        raise WorkflowConfigurationError(error.message, hint) from error


def _refuse_tracked(root: str) -> None:
    """WorkflowConfigurationError if git tracks files in `.agentos`: they came with the repository."""
    git_dir = gitfile.resolve(os.path.join(root, ".git"))
    blind = os.path.lexists(os.path.join(root, FOLDER.upper()))  # a file system that ignores case
    if git_dir is not None and not blind and not index_entries.may_name(git_dir, FOLDER.encode()):
        return
    args = ["ls-files", "-z", "--cached", "--", FOLDER]
    env = process.environment({"GIT_LITERAL_PATHSPECS": "0", "GIT_ICASE_PATHSPECS": "1"})
    try:
        out = process.run(args, cwd=root, env=env)
    except RepositoryError:
        raise
    except AgentosError:
        return  # not a repository: nothing is tracked here
    for path in out.split(b"\0"):
        first = os.fsdecode(path.partition(b"/")[0])
        if not first:
            continue
        with contextlib.suppress(OSError):
            if first == FOLDER or os.path.samefile(os.path.join(root, first), os.path.join(root, FOLDER)):
                raise WorkflowConfigurationError(
                    f"git tracks '{os.fsdecode(path)}' in '{root}': these files came with the repository",
                    f"git rm -r --cached {first}, and check its contents; "
                    f"or set {VARIABLE} to the file to use for the workflow database",
                )
