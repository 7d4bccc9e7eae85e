"""The sandbox of `guard exec --sandbox`: a command line of bubblewrap, in which an agent can write only its own files.

Everything is as outside, except that these are read-only:

    the other worktrees, their git directories, and the main worktree's HEAD and index
    config and hooks of the common git directory, and the worktree's own configuration and records
    our files there: the guard's scripts, grants, records of commands that were killed
    the files from which git reads configuration: the user's, the system's, and those that they include

The shim is mounted over every git that a PATH leads to. It runs the git in git's own folder, which a command can also
start by that path.

The user's key (`guard.signing`) and the file of `agentos.approvalKey` cannot be read, so no program in the sandbox can
grant anything. Objects and refs, which all worktrees share, can be written, since a commit needs that; so can our
locks, which are links to files beside refs, approval requests, and the notes of used grants. `git gc` does not work in
the sandbox: it would change all worktrees' reflogs.

Two gaps are left. A file that is mounted read-only can be written once a process outside has replaced it, as
`git config` does. And our folder in the common git directory can be moved as a whole: its files do not count elsewhere,
and doctor reports it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from git_agentos.errors import GuardError
from git_agentos.git import process, worktrees
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.guard.approval import documents
from git_agentos.guard.configuration import confirmation, settings
from git_agentos.guard.setup import scripts
from git_agentos.process import programs
from git_agentos.util import files

# Our folders in the common git directory that every checkpoint or request writes to.
_WRITTEN = ("locks", "approvals")
_OWN_RECORDS = ("config.worktree", "commondir", "gitdir", "agentos/id", "agentos/worktree.json")
_OF_MAIN = ("HEAD", "index", "config.worktree")
# The PATH of login shells, by the system's profile.
_LOGIN_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def bwrap_argv(location: Location, environment: Mapping[str, str], approval_key: str | None, cwd: str) -> list[str]:
    """The words before a command that run it in a sandbox for this worktree, in the folder `cwd`.

    GuardError where bubblewrap is missing, or cannot make a sandbox.
    """
    program = programs.find_bubblewrap(environment, GuardError)
    scripts.install(location)  # only what exists can be mounted
    documents.open_store(location.common_dir, environment)
    # A user namespace, for root too: else the files outside can be reached by /proc/PID/root of other processes.
    words = [program, "--dev-bind", "/", "/", "--die-with-parent", "--unshare-user", "--cap-drop", "ALL"]
    for option, path in _mounts(location, environment):
        words += [option, path, path]
    words += _over_git(location, environment)
    config = os.path.realpath(signing.folder(environment))
    os.makedirs(config, mode=0o700, exist_ok=True)
    words += ["--tmpfs", config]
    record = os.path.join(config, confirmation.FILE)
    if os.path.isfile(record):
        words += ["--ro-bind", record, record]
    words += ["--remount-ro", config]
    if approval_key is not None and os.path.exists(approval_key):
        words += ["--ro-bind", "/dev/null", os.path.realpath(approval_key)]
    words += ["--chdir", cwd, "--"]
    programs.require_sandbox(words, environment, GuardError)
    return words


def _mounts(location: Location, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The mounts, each with its option; a later one covers an earlier one."""
    common = location.common_dir
    configuration = list(dict.fromkeys(_configuration(location, environment)))
    for path in _movable([*configuration, os.path.realpath(signing.folder(environment))]):
        yield "--dev-bind", path  # first, since the others cover parts of it
    others = [each for each in worktrees.list_existing(location) if each.git_dir != location.git_dir]
    # Outer folders first: a worktree may be inside another one.
    places = [("--ro-bind", each.root) for each in others]
    places += [("--bind", location.root), ("--bind", common)]
    yield from sorted(places, key=lambda each: (each[1].count(os.sep), each[1]))
    ours = os.path.join(common, "agentos")
    yield from _existing("--ro-bind", common, ("config", "hooks"))
    yield from _existing("--ro-bind", ours, [name for name in _folders(ours) if name not in _WRITTEN])
    yield from _existing("--ro-bind", ours, ["approvals/grants"])
    for each in others:
        if each.is_main:
            yield from _existing("--ro-bind", common, _OF_MAIN)
        else:
            yield "--ro-bind", each.git_dir
    yield from _existing("--ro-bind", location.git_dir, _OWN_RECORDS if not location.is_main else ("config.worktree",))
    for path in configuration:
        if os.path.isdir(path) or os.path.isfile(path):
            yield "--ro-bind", path


def _over_git(location: Location, environment: Mapping[str, str]) -> list[str]:
    """Mounts of the shim over each git on PATH, and on the PATH of a login shell. The shim runs the git in git's own
    folder; nothing is mounted where that is a link to one of these."""
    git = os.path.join(_exec_path(location, environment), "git")
    own = os.path.realpath(git)
    paths = [*environment.get("PATH", "").split(os.pathsep), *_LOGIN_PATH]
    found = {os.path.realpath(os.path.join(folder, "git")) for folder in paths if os.path.isabs(folder)}
    if own in found or not os.access(own, os.X_OK):
        return []
    shim = scripts.install_over_git(location, git)
    targets = {path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)}
    shims = {path for path in targets if process.behind_shim(path) is not None}
    ours = os.path.realpath(os.path.join(scripts.shim_dir(location.common_dir), "git"))
    return [word for path in sorted((targets - shims) | {ours}) for word in ("--ro-bind", shim, path)]


def _exec_path(location: Location, environment: Mapping[str, str]) -> str:
    """git's own folder."""
    out = process.run(
        ["--exec-path"], cwd=location.root, env=process.environment(base=environment), neutral_config=False
    )
    return os.fsdecode(out.rstrip(b"\n"))


def _folders(path: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(path) as found:
        return sorted(each.name for each in found if each.is_dir(follow_symlinks=False))
    return []


def _existing(option: str, folder: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        path = os.path.join(folder, name)
        if os.path.exists(path) and not os.path.islink(path):
            yield option, path


def _configuration(location: Location, environment: Mapping[str, str]) -> Iterator[str]:
    """The files outside of the worktree from which git reads configuration. A missing one is created empty: only what
    exists can be mounted, and no program in the sandbox may create it."""
    for path in [*_system_files(location, environment), *settings.user_files(environment)]:
        folder = os.path.dirname(path)
        with contextlib.suppress(OSError):
            if os.path.basename(folder) == "git":  # the user's configuration folder of git, as a whole
                os.makedirs(folder, exist_ok=True)
                yield os.path.realpath(folder)
            elif not os.path.lexists(path) and os.path.isdir(folder):
                files.create(path, b"")
        yield os.path.realpath(path)
    origins = {entry.origin for entry in settings.read(location.root, environment).entries}
    for kind, _, name in sorted(each.partition(":") for each in origins):
        path = os.path.realpath(os.path.join(location.root, name))
        if kind == "file" and not path.startswith((location.root + os.sep, location.common_dir + os.sep)):
            yield path


def _system_files(location: Location, environment: Mapping[str, str]) -> list[str]:
    """The system's configuration files, where git reads and names them (2.41); they need not exist."""
    env = process.environment(base=environment)
    status, out, _ = process.finish(
        process.spawn(["var", "GIT_CONFIG_SYSTEM"], cwd=location.root, env=env, neutral_config=False)
    )
    return [os.fsdecode(line) for line in out.split(b"\n") if line] if status == 0 else []


def _movable(paths: Sequence[str]) -> list[str]:
    """The folders above `paths` that could be moved with the mounts in them, if they were not mounts too."""
    found = set()
    for path in paths:
        above = os.path.dirname(path)
        while above != os.path.dirname(above):
            if os.path.isdir(above) and not os.path.ismount(above) and os.access(os.path.dirname(above), os.W_OK):
                found.add(above)
            above = os.path.dirname(above)
    return sorted(found)  # outer ones first
