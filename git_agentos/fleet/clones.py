"""The clones in which workers work: one for each remote and machine, shared by all workers there.

    <folder>/<name>-<digits>/repository              the clone; its main worktree has no files
    <folder>/<name>-<digits>/repository.worktrees    the worktrees of runs, and prepared ones (`worktree.pool`)
    <folder>/<name>-<digits>/turn                    flock(2): one process at a time makes the clone, or fetches tasks

A clone has the tasks and their bases, and of the history what is newer than these: it is shallow
(`agentos.fleet.history`). What runs have left is packed by `git gc`, and deleted after two weeks, as in any repository.

<folder> is `AGENTOS_FLEET_DIR`, else `git-agentos/fleet` in the user's folder for data. <name> is the last part of the
remote's URL, <digits> are of the hash of all of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping

from git_agentos import config, workspace
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError, UsageError
from git_agentos.git import process, refs
from git_agentos.process import deletion, programs
from git_agentos.util import directories, files, locks

REMOTE = "origin"  # the name of the remote in a clone
FOLDER = config.FLEET_DIR
_REPOSITORY, _NEW = "repository", "repository.new"
_DIGITS = 12
_LONGEST = 50  # characters of the name
_MANY_PACKS = 50  # as gc.autoPackLimit: git gc --auto would begin then, if anything called it in a clone of workers


def folder(environment: Mapping[str, str]) -> str:
    """The folder of all clones; it need not exist."""
    given = environment.get(FOLDER, "")
    if given:
        if not os.path.isabs(given):
            raise UsageError(f"bad value '{given}' for '{FOLDER}'", "give an absolute path")
        return given
    base = environment.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "git-agentos", "fleet")


def open_clone(url: str, environment: Mapping[str, str], *, hash_algorithm: str = "sha1") -> OpenWorktree:
    """The clone of a remote on this machine, which is made where there is none. Nothing is fetched. `hash_algorithm` is
    that of a new one."""
    path = _path(url, environment)
    if not os.path.isdir(path):
        with _turn(os.path.dirname(path)):
            if not os.path.isdir(path):
                _make(path, url, hash_algorithm)
    return workspace.open_workspace(path).context


def is_made(url: str, environment: Mapping[str, str]) -> bool:
    """Whether there is a clone of the remote on this machine."""
    return os.path.isdir(_path(url, environment))


def existing(environment: Mapping[str, str]) -> list[OpenWorktree]:
    """The clones on this machine."""
    top = folder(environment)
    found = [os.path.join(top, name, _REPOSITORY) for name in sorted(os.listdir(top))] if os.path.isdir(top) else []
    return [workspace.open_workspace(path).context for path in found if os.path.isdir(path)]


@contextlib.contextmanager
def fetching(context: OpenWorktree) -> Iterator[None]:
    """One worker of this machine at a time: what it fetches, the others need not fetch again."""
    with _turn(os.path.dirname(context.location.root)):
        yield


def is_shallow(context: OpenWorktree) -> bool:
    """Whether a part of the history was left out."""
    return os.path.exists(os.path.join(context.location.common_dir, "shallow"))


def pack_if_many(context: OpenWorktree) -> None:
    """Start `git gc` in the background, at low priority, where a clone has many packs."""
    location = context.location
    names = os.listdir(os.path.join(location.common_dir, "objects", "pack"))
    if sum(name.endswith(".pack") for name in names) > _MANY_PACKS:
        environment = location.environment()
        git = process.program(environment.get("PATH", os.defpath)) or "git"
        # Objects that nothing reaches go into one pack: by default, older versions of git make a file of each.
        words = ("nice", "-n", "15", git, *process.FIXED_CONFIG, "gc", "--quiet", "--cruft")
        programs.start_in_background(words, env=environment)


def keep_at(context: OpenWorktree, commit: str) -> None:
    """Make a commit the one that a clone's HEAD is at: worktrees are prepared with its files."""
    if refs.read_head(context.location).commit != commit:
        refs.rebuild_head(context.location, refs.Head(None, commit))


def identify(context: OpenWorktree, who: bytes) -> None:
    """Make `who` (`Name <email>`) the one who commits in the clone, if git knows nobody else on this machine."""
    location = context.location
    try:
        process.run(["var", "GIT_COMMITTER_IDENT"], cwd=location.root, env=process.user_environment({}))
    except GitCommandError:
        found = re.fullmatch(rb"(.*) <(.*)>", who)
        if found is not None:
            for key, value in (("user.name", found[1]), ("user.email", found[2])):
                process.run(["config", "--local", key, value], cwd=location.root, env=location.environment())


def _path(url: str, environment: Mapping[str, str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(url.rstrip("/")).removesuffix(".git")).strip("-")
    digits = hashlib.sha256(os.fsencode(url)).hexdigest()[:_DIGITS]
    return os.path.join(folder(environment), f"{name[:_LONGEST] or 'remote'}-{digits}", _REPOSITORY)


def _make(path: str, url: str, hash_algorithm: str) -> None:
    new = os.path.join(os.path.dirname(path), _NEW)
    deletion.remove_folder(new)  # of a process that was killed
    environment = process.environment()
    process.run(["init", "--quiet", f"--object-format={hash_algorithm}", "--template=", "--", new], env=environment)
    for key, value in (("url", url), ("fetch", f"+refs/heads/*:refs/remotes/{REMOTE}/*")):
        process.run(["config", "--local", f"remote.{REMOTE}.{key}", value], cwd=new, env=environment)
    os.rename(new, path)
    files.sync_directory(os.path.dirname(path))


@contextlib.contextmanager
def _turn(above: str) -> Iterator[None]:
    directories.make(above)
    with locks.hold(os.path.join(above, "turn")):
        yield
