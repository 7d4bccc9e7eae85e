"""Making a new worktree ready for work, beyond what a checkout brings.

    submodules         those that the source worktree has initialised, from its own copies of their repositories
    agentos.link       large ignored files and folders, cloned where that is possible (`link`)
    .worktreeinclude   gitignore patterns in the source worktree's root: files that match and are ignored are copied
    agentos.setup      a command that runs in the new worktree

Files are cloned where the file
system can, links stay links, and modes and times are kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.config import SETUP
from git_agentos.errors import GitCommandError, WorktreeError
from git_agentos.git import configuration, ignore, process, untracked
from git_agentos.git.location import Location, locate
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted, phase
from git_agentos.worktree import file_copies, link, user_command
from git_agentos.worktree.link import Linked
from git_agentos.worktree.record import Record

INCLUDE = ".worktreeinclude"


def prepare(
    source: OpenWorktree, inner: OpenWorktree, made: Record, *, owner: int, carry: Callable[[OpenWorktree], None] | None
) -> tuple[Record, list[Linked]]:
    """Bring submodules and set-up files from the worktree `source` into the new one, and run the set-up command in it;
    the record with what was done, and what agentos.link has brought. `owner` is a descriptor that git keeps open.
    `carry` is called before that, for what the set-up command has to find there."""
    with phase(source.progress, "Checking out submodules"):
        _submodules(source.location.root, inner.location.root, owner)
    if carry is not None:
        carry(inner)
    linked = link.bring(source, inner)
    copied = copy_included(source, inner)
    command = user_command.find(source.location, source.settings.values, SETUP)
    made = replace(made, copied=[os.fsdecode(path) for path in copied], linked=[each.path for each in linked])
    if command is not None:
        with phase(source.progress, "Running the set-up command"):
            _run(command, inner, made)
    return replace(made, setup=command), linked


# -- the set-up command ------------------------------------------------------------------------------------------------


def _run(command: str, inner: OpenWorktree, made: Record) -> None:
    ended = user_command.run(command, inner.location.root, made)
    if ended.code != 0:
        raise WorktreeError(
            "\n".join(
                [f"the set-up command '{command}' {user_command.describe(ended)}", *user_command.last_lines(ended)]
            ),
            f"it is from {SETUP}; the worktree was not made",
        )


# -- files that git does not bring -------------------------------------------------------------------------------------


def copy_included(source: OpenWorktree, inner: OpenWorktree) -> list[bytes]:
    """Copy what `.worktreeinclude` asks for; the paths. What the commit has itself is never overwritten."""
    there, here = os.fsencode(source.location.root), os.fsencode(inner.location.root)
    folders: dict[bytes, None] = {}
    taken = [
        path
        for path in counted(source.progress, "Copying files", _included(source))
        if file_copies.make_parents(here, path, folders)
        and file_copies.copy(os.path.join(there, path), os.path.join(here, path))
    ]
    file_copies.finish_folders(there, here, folders)
    return taken


def _included(source: OpenWorktree) -> list[bytes]:
    """The files in the source worktree that match `.worktreeinclude` and that git ignores."""
    rules = os.path.join(source.location.root, INCLUDE)
    try:
        if not stat.S_ISREG(os.lstat(rules).st_mode):
            raise WorktreeError(f"'{rules}' is not a regular file", "nothing is copied by the rules in it")
    except FileNotFoundError:
        return []
    out = source.repository.git("ls-files", "--others", "--ignored", "-z", f"--exclude-from={rules}")
    found = [
        path for path in out.split(b"\0") if path and not path.endswith(b"/") and not untracked.is_agentos_path(path)
    ]
    return ignore.ignored_among(source.repository, found)


# -- submodules --------------------------------------------------------------------------------------------------------


class _Submodule(NamedTuple):
    name: str
    path: str


def _submodules(source: str, target: str, owner: int) -> None:
    """Initialise the submodules in the worktree at `target` that the one at `source` has, and those inside of them.

    Each is cloned from the source's own copy, so no network is needed; its remote is then the source's. What the source
    does not have (a commit that it never fetched) git fetches as it always does.
    """
    for each in _listed(target):
        old, new = os.path.join(source, each.path), os.path.join(target, each.path)
        if os.path.realpath(new) != os.path.join(os.path.realpath(target), each.path) or not os.path.isdir(new):
            continue  # out of the tree, or not in the sparse checkout
        if not os.path.lexists(os.path.join(old, ".git")):
            continue
        there = locate(old, use_environment=False)
        if there.root != os.path.realpath(old):
            continue
        url = _config(old, "remote.origin.url") or _config(source, f"submodule.{each.name}.url")
        try:
            _update(target, each, there.common_dir, owner)
        except GitCommandError:
            if url is None or not os.path.lexists(os.path.join(new, ".git")):
                raise
            # The clone is there, but not the commit.
            _take_remote(target, each, there, url)
            _update(target, each, url, owner)
        else:
            _take_remote(target, each, there, url)
        _submodules(old, new, owner)


def _listed(root: str) -> list[_Submodule]:
    """The submodules that `.gitmodules` names."""
    rules = os.path.join(root, ".gitmodules")
    if not os.path.isfile(rules) or os.path.islink(rules):
        return []
    args = ["config", "--null", "--file", rules, "--get-regexp", r"^submodule\..*\.path$"]
    paths = configuration.parse(process.run(args, cwd=root, ok=(0, 1)))
    return [
        _Submodule(key.removeprefix("submodule.").removesuffix(".path"), os.path.normpath(path))
        for key, values in paths.items()
        for path in values
        if path
    ]


def _update(root: str, which: _Submodule, url: str, owner: int) -> None:
    """`git submodule update` of one, cloned from `url`; nothing in the shared configuration changes."""
    env = process.environment()
    # Not by -c: a name may have a `=` in it.
    pairs = [(f"submodule.{which.name}.url", url), (f"submodule.{which.name}.active", "true")]
    env |= configuration.as_variables(pairs, behind=int(env.get("GIT_CONFIG_COUNT") or 0))
    # A clone from a path is from our own disk here, which git allows only with this setting.
    local = ["-c", "protocol.file.allow=always"] if os.path.isabs(url) else []
    args = [*local, "submodule", "--quiet", "update", "--no-recommend-shallow", "--checkout", "--", which.path]
    process.run(args, cwd=root, env=env, pass_fds=[owner])


def _take_remote(root: str, which: _Submodule, source: Location, url: str | None) -> None:
    """Give a submodule the source's remote and its remote-tracking branches, and record that it is initialised."""
    path = os.path.join(root, which.path)
    every = "+refs/remotes/origin/*:refs/remotes/origin/*"
    fetch = ["-c", "protocol.file.allow=always", "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head"]
    process.run([*fetch, "--recurse-submodules=no", source.common_dir, every], cwd=path)
    head = "refs/remotes/origin/HEAD"
    followed = process.run(["symbolic-ref", "--quiet", head], cwd=source.root, ok=(0, 1, 128)).strip()
    if followed:
        process.run(["symbolic-ref", head, followed], cwd=path)
    else:
        process.run(["symbolic-ref", "--delete", head], cwd=path, ok=(0, 1, 128))
    if url is not None:
        process.run(["config", "remote.origin.url", url], cwd=path)
    if url is not None and _config(root, f"submodule.{which.name}.url") is None:
        process.run(["config", f"submodule.{which.name}.url", url], cwd=root)
        process.run(["config", f"submodule.{which.name}.active", "true"], cwd=root)


def _config(root: str, key: str) -> str | None:
    out = process.run(["config", "--null", "--get", key], cwd=root, ok=(0, 1))
    return os.fsdecode(out[:-1]) if out else None
