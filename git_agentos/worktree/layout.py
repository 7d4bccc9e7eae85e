"""Where agents' worktrees are put, and the checks that nothing is in the way of a new one.

`agentos.worktreeRoot` is a path with `{repo}` (the name of the main repository's folder) and `{id}` in it; without
`{id}` the id comes last. `~` is the home folder, and a relative path counts from the top of the main repository. The
default is `../{repo}.worktrees/{id}`: a folder beside the repository.

A folder inside of the repository's own worktree is possible, if it holds nothing that git tracks: it is then listed in
`info/exclude` (the worktrees would be untracked files to git otherwise, committed as gitlinks and cleaned away).

A submodule's repository lies in the git directory of its superproject: there, a relative path counts from the top of
the superproject.
"""

from __future__ import annotations

import contextlib
import os
import re
from shlex import quote

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import Settings
from git_agentos.errors import UNCHANGED, ConfigurationError, UsageError, WorktreeError
from git_agentos.git import refs, worktrees
from git_agentos.git.location import Location
from git_agentos.git.worktrees import BranchUser
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import record

HEADS = "refs/heads/"
_DEFAULT = "../{repo}.worktrees/{id}"
_ID, _REPO = "{id}", "{repo}"
_FIELD = re.compile(r"\{[^{}]*\}")


class NewPath(NamedTuple):
    """Where a new worktree goes: `path` is absolute; `exclude` is the line that `info/exclude` needs for it, if any."""

    path: str
    branch: str
    exclude: str | None


def check_id(id_: str, *, source: str = "ID") -> None:
    """UsageError where `id_` cannot be the id of an agent's worktree."""
    config.agent_id(id_, source=source)
    if id_ == timeline.MAIN:
        raise UsageError(f"'{timeline.MAIN}' is the main worktree's name", "choose another id")


def main_folder(location: Location) -> str:
    """The main repository's folder: its worktree, or the bare repository itself."""
    return location.common_dir.removesuffix(os.sep + ".git")


def path_of(location: Location, settings: Settings, id_: str) -> str:
    """Where the worktree `id_` goes, by `agentos.worktreeRoot`."""
    folder, rest = _template(location, settings)
    path = os.path.normpath(os.path.join(folder, rest.replace(_ID, id_)))
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)


def worktrees_folder(location: Location, settings: Settings) -> str:
    """The folder that all worktrees of the repository are in."""
    return os.path.realpath(_template(location, settings)[0])


def pool_folder(location: Location, settings: Settings) -> str:
    """Where prepared worktrees are (`pool`)."""
    return os.path.join(worktrees_folder(location, settings), ".pool")


def _template(location: Location, settings: Settings) -> tuple[str, str]:
    """agentos.worktreeRoot, cut before the first part with `{id}` in it; `{repo}` is filled in."""
    template = config.worktree_root(settings.values) or _DEFAULT
    if _ID not in template:
        template = os.path.join(template, _ID)
    for name in _FIELD.findall(template):
        if name not in (_ID, _REPO):
            raise ConfigurationError(
                f"bad value '{template}' for 'agentos.worktreeRoot': unknown field '{name}'", "use {repo} and {id}"
            )
    top = main_folder(location)
    name = os.path.basename(top).removesuffix(".git")
    around = _git_dir_around(os.path.dirname(location.common_dir))
    if around is not None:
        top = around.removesuffix(os.sep + ".git")
    template = os.path.join(top, template.replace(_REPO, name))
    folder = template[: template.index(_ID)].rpartition(os.sep)[0] or os.sep
    return os.path.normpath(folder), template[len(folder) :].lstrip(os.sep)


def choose_path(context: OpenWorktree, id_: str, branch: str, *, revived: bool = False) -> NewPath:
    """The path of the new worktree `id_` on its branch `branch` (short); WorktreeError where anything is in the way.
    The lock on worktrees must be held.

    `revived`: its branch may exist already.
    """
    location = context.location
    ref = HEADS + branch
    _check_id_free(location, id_)
    for kind, prefix, name in (("branch", HEADS, branch), ("timeline", timeline.PREFIX, id_)):
        hint = f"choose another id; {UNCHANGED}"
        refs.check_spelling(location, prefix + name, WorktreeError, hint, kind=kind, prefix=prefix)
    if refs.resolve(location, ref) is None:
        _check_branch_name_free(location, ref)
    elif not revived:
        raise branch_exists_error(context, id_, branch)
    path = path_of(location, context.settings, id_)
    if os.path.lexists(path):
        raise _path_exists_error(location, path)
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise WorktreeError(f"'{above}' is not a directory", f"move it away, or set agentos.worktreeRoot; {UNCHANGED}")
    if any(worktrees.root_or_none(git_dir) == path for git_dir in worktrees.linked_git_dirs(location.common_dir)):
        raise WorktreeError(
            f"a worktree at '{path}' is registered, but its folder is missing",
            f"git agentos worktree repair; {UNCHANGED}",
        )
    return NewPath(path, branch, exclude(context, path))


def _path_exists_error(location: Location, path: str) -> WorktreeError:
    entry = worktrees.read_gitfile(path)
    entries = os.path.join(location.common_dir, "worktrees")
    if entry is not None and not os.path.lexists(entry) and os.path.realpath(os.path.dirname(entry)) == entries:
        return WorktreeError(
            f"'{path}' is a worktree whose entry in the repository was removed (git worktree prune)",
            f"git agentos worktree repair rebuilds the entry; {UNCHANGED}",
        )
    return WorktreeError(f"'{path}' exists already", f"move it away, or choose another id; {UNCHANGED}")


def _check_id_free(location: Location, id_: str) -> None:
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        if record.id_in_timelines(git_dir, location.common_dir) == id_:
            root = worktrees.root_or_none(git_dir)
            where = f" at '{root}'" if root else ""
            raise WorktreeError(f"there is a worktree '{id_}' already{where}", f"choose another id; {UNCHANGED}")


def branch_exists_error(context: OpenWorktree, id_: str, branch: str) -> WorktreeError:
    """The error for a new worktree whose branch exists already."""
    location = context.location
    users = worktrees.branch_users(location, HEADS + branch)
    if users:
        return WorktreeError(f"the branch '{branch}' is {describe_use(users[0])}", f"choose another id; {UNCHANGED}")
    if timeline.tip(location, id_) is not None:
        hint = f"`git agentos worktree create {id_} --revive` brings the worktree back; or choose another id"
        return WorktreeError(f"the branch '{branch}' of an earlier worktree '{id_}' exists already", hint)
    follows = branch in (record.branch_of(id_), record.RUN_BRANCHES + id_)
    what = "choose another id" if follows else f"git branch -m {quote(branch)} NEW renames it"
    return WorktreeError(f"a branch '{branch}' exists already", f"{what}; {UNCHANGED}")


def check_branch_name(context: OpenWorktree, branch: str) -> None:
    """UsageError where git would refuse `branch` as the short name of a branch."""
    args = ["check-ref-format", "--branch", branch]
    if context.repository.git(*args, ok=(0, 128)) != os.fsencode(branch) + b"\n":
        raise UsageError(f"'{branch}' is not a valid branch name", UNCHANGED)


def describe_use(user: BranchUser) -> str:
    """How a worktree uses a branch, in words."""
    where = f"'{user.root or user.git_dir}'"
    return f"checked out at {where}" if user.how == "checkout" else f"in a {user.how} in {where}"


def _check_branch_name_free(location: Location, ref: str) -> None:
    """A branch `agent` blocks `agent/…`, and branches below `agent/x/` block `agent/x`."""
    name = parent = ref.removeprefix(HEADS)
    while parent := parent.rpartition("/")[0]:
        if refs.resolve(location, HEADS + parent) is not None:
            raise WorktreeError(
                f"the branch '{parent}' is in the way of '{name}': git cannot have both",
                f"rename it (git branch -m {quote(parent)} NEW); {UNCHANGED}",
            )
    if refs.list_refs(location, ref + "/"):
        raise WorktreeError(f"branches below '{name}/' are in the way of '{name}'", f"choose another id; {UNCHANGED}")


def exclude(context: OpenWorktree, path: str) -> str | None:
    """The line for `info/exclude` that hides worktrees inside of the main worktree; None where none is needed."""
    location = context.location
    top = os.path.realpath(main_folder(location))
    around = _git_dir_around(os.path.dirname(path))
    if _inside(path, location.common_dir) or around is not None:
        raise _bad_root_error(path, f"inside of the git directory '{around or location.common_dir}'")
    for git_dir in worktrees.linked_git_dirs(location.common_dir):
        root = worktrees.root_or_none(git_dir)
        if root is not None and root != top and _inside(path, os.path.realpath(root)):
            raise _bad_root_error(path, f"inside of the worktree '{root}'")
    if top == location.common_dir or not _inside(path, top):
        return None
    folder = worktrees_folder(location, context.settings)
    if folder == top:
        raise _bad_root_error(path, "directly in the repository")
    relative = os.path.relpath(folder, top)
    env = {"GIT_DIR": location.common_dir, "GIT_WORK_TREE": top}
    if context.repository.git("ls-files", "-z", "--", relative, cwd=top, env=env):
        raise _bad_root_error(path, f"in the folder '{relative}', which holds files that git tracks")
    if "\n" in relative:
        raise _bad_root_error(path, "in a folder whose name holds a line end")
    line = "/" + re.sub(r"([\\*?\[\] !#])", r"\\\1", relative) + "/"
    return None if os.fsencode(line) in _read(_exclude_file(location)).split(b"\n") else line


def add_exclude(location: Location, line: str) -> None:
    """List a folder of worktrees in `info/exclude`."""
    path = _exclude_file(location)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    present = _read(path)
    if os.fsencode(line) not in present.split(b"\n"):
        gap = b"" if not present or present.endswith(b"\n") else b"\n"
        files.replace(path, present + gap + os.fsencode(line) + b"\n")


def remove_exclude(location: Location, line: str) -> None:
    """Remove that line again."""
    path = _exclude_file(location)
    present = _read(path)
    lines = present.split(b"\n")
    if os.fsencode(line) in lines:
        lines.remove(os.fsencode(line))
        if any(lines):
            files.replace(path, b"\n".join(lines))
            return
        os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))


def _exclude_file(location: Location) -> str:
    return os.path.realpath(os.path.join(location.common_dir, "info", "exclude"))


def _read(path: str) -> bytes:
    try:
        return files.read(path)
    except FileNotFoundError:
        return b""


def worktree_inside(location: Location, folder: str, *, except_git_dir: str | None = None) -> str | None:
    """A worktree of the repository that lies in a folder, or is the folder; None where there is none."""
    roots = {each: worktrees.root_or_none(each) for each in worktrees.linked_git_dirs(location.common_dir)}
    roots[location.common_dir] = main_folder(location)
    roots.pop(except_git_dir or "", None)
    return next((root for root in roots.values() if root is not None and is_inside(root, folder)), None)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies in it, links resolved."""
    return _inside(os.path.realpath(path), os.path.realpath(folder))


def _git_dir_around(path: str) -> str | None:
    """The outermost git directory that is `path` or that it lies in; None where there is none."""
    found = None
    while True:
        if os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects")):
            found = path
        if (above := os.path.dirname(path)) == path:
            return found
        path = above


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _bad_root_error(path: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"the worktree would be {where}: '{path}'", f"set agentos.worktreeRoot to a folder of its own; {UNCHANGED}"
    )
