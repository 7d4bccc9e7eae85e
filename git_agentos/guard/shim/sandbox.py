"""`guard exec --sandbox`: a command line for bubblewrap, in which an agent cannot write what is not its own.

Everything is as outside, but read-only are

    the other worktrees, their git directories, and the main worktree's HEAD and index
    config and hooks of the common git directory, and the worktree's own configuration and records
    what is ours there: the guard's scripts, grants, records of commands that were killed
    what git reads configuration from: the user's and the system's files, and what they include

The shim is mounted over every git that a PATH leads to; behind it runs the one in git's own folder, which whoever names
that path can run as well.

Not to be read are the user's key (`guard.signing`) and the file that `agentos.approvalKey` names. So nothing run in
there can grant anything, whatever it does. Objects and refs are shared by all worktrees and stay writable, as
committing would not work otherwise; so do our locks, which are links to what lies beside refs, requests for approval,
and the notes of which grants were used. `git gc` does not work in there: it would change all worktrees' reflogs.

Two gaps are left. A file that is mounted read-only is so until somebody outside replaces it (`git config` does): then
the new one can be written. And our folder in the common git directory can be moved away as a whole: what is in it does
not count from another place, and doctor tells.
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
from git_agentos.process import bubblewrap
from git_agentos.util import files

# Of ours in the common git directory, what is written at every checkpoint and by every request.
_WRITTEN = ("locks", "approvals")
_OWN_RECORDS = ("config.worktree", "commondir", "gitdir", "agentos/id", "agentos/worktree.json")
_OF_MAIN = ("HEAD", "index", "config.worktree")
# Where the system's profile sends login shells.
_LOGIN_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def within(location: Location, environment: Mapping[str, str], approval_key: str | None, cwd: str) -> list[str]:
    """The words to put before a command that is to run in a sandbox in this worktree, standing in `cwd`.

    GuardError where bubblewrap is missing, or cannot make one.
    """
    program = bubblewrap.find(environment, GuardError)
    scripts.install(location)  # what is mounted has to be there
    documents.open_store(location.common_dir, environment)
    # A user namespace of its own, for root too: else what is outside is to be seen through /proc/PID/root of others.
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
    bubblewrap.require(words, environment, GuardError)
    return words


def _mounts(location: Location, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is mounted how; what comes later lies over what came before."""
    common = location.common_dir
    configuration = list(dict.fromkeys(_configuration(location, environment)))
    for path in _movable([*configuration, os.path.realpath(signing.folder(environment))]):
        yield "--dev-bind", path  # first of all: everything else lies over it
    others = [each for each in worktrees.list_existing(location) if each.git_dir != location.git_dir]
    # Outer folders first: a worktree may lie in another one.
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
    """Mounts of the shim over each git that a PATH leads to, also the one of a login shell. What runs behind it is the
    git in git's own folder; nothing is mounted where that is a link to one of these."""
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
    """Everything from which git reads configuration outside of the worktree. What is not there is made, and empty: only
    what is there can be mounted, and nobody is to make it in the sandbox."""
    for path in [*_system_files(location, environment), *settings.user_files(environment)]:
        folder = os.path.dirname(path)
        with contextlib.suppress(OSError):
            if os.path.basename(folder) == "git":  # of the user's configuration folder, and all that is in it
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
    """The system's configuration files, where git reads and tells them (2.41); they need not be there."""
    env = process.environment(base=environment)
    status, out, _ = process.finish(
        process.spawn(["var", "GIT_CONFIG_SYSTEM"], cwd=location.root, env=env, neutral_config=False)
    )
    return [os.fsdecode(line) for line in out.split(b"\n") if line] if status == 0 else []


def _movable(paths: Sequence[str]) -> list[str]:
    """The folders above `paths` that could be moved away with what is mounted in them, if they were no mounts too."""
    found = set()
    for path in paths:
        above = os.path.dirname(path)
        while above != os.path.dirname(above):
            if os.path.isdir(above) and not os.path.ismount(above) and os.access(os.path.dirname(above), os.W_OK):
                found.add(above)
            above = os.path.dirname(above)
    return sorted(found)  # outer ones first
