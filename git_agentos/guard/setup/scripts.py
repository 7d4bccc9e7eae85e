"""The guard's scripts in a repository.

    <common dir>/agentos/guard/hooks/<name>     the git hooks, and `fsmonitor`: core.hooksPath, core.fsmonitor name them
    <common dir>/agentos/guard/bin/git          the shim of `guard exec`
    <common dir>/agentos/guard/bin/git-in-place the same for a sandbox, where it is mounted over git
    <common dir>/agentos/guard/files.json       the SHA-256 and the mode of each placed file; signed (`own_files`)
    <common dir>/agentos/guard/manifest.json    what was set in configuration (`manifest`)

They are copies of the package's scripts, with the start of our Python filled in. `install` may be called at any time:
each file is replaced by one rename, and a script that is running continues with its old content.

An agent that edits a script and its sum in `files.json` is noticed, since it cannot sign that file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence

import git_agentos
from git_agentos.errors import GuardError
from git_agentos.git import process, user_hooks
from git_agentos.git.location import Location
from git_agentos.guard.setup import launcher, own_files
from git_agentos.process import deletion
from git_agentos.util import directories, files, locks
from git_agentos.util.named_tuple import NamedTuple

FSMONITOR = "fsmonitor"
BASH_ENV = os.path.join("hooks", "bash-env.sh")
# The hook for refs refuses every ref with this prefix, with this message: so `probe` finds out that git runs it.
PROBE_REF = "refs/agentos/probe-"
PROBE_REFUSED = "git-agentos: the hook for refs acts"
SHARED = "guard.sh"  # all hooks source it
_SHIM_SOURCE = "git-shim"
_SHIM = os.path.join("bin", "git")
_SHIM_IN_PLACE = os.path.join("bin", "git-in-place")
_DIGESTS = "files.json"
_LOCK = "place.turn"
_NO_SCRIPTS = (".md", ".pyc", "~")
# core.hooksPath leads to us, so git does not find the user's hooks. Where we have no hook of our own, this script is
# placed under the hook's name and runs the user's.
_CHAIN_SCRIPT = "chain"
_CHAINED_HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch prepare-commit-msg commit-msg pre-auto-gc"
    " sendemail-validate pre-receive update post-receive post-update"
    " p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit"
).split()
# The existence of these changes what git does, or they run very often: chained only where the user has such a hook.
_CHAINED_WHERE_PRESENT = ("proc-receive", "push-to-checkout", "post-index-change")
# These are one script, under the name of each.
_SHORT_HOOKS = (
    "pre-commit pre-merge-commit pre-rebase pre-push post-checkout post-commit post-merge post-rewrite"
).split()
_SHORT_HOOK_SCRIPT = "hook"
OURS = (*_SHORT_HOOKS, "reference-transaction")
EVERY_HOOK = frozenset((*OURS, *_CHAINED_HOOKS, *_CHAINED_WHERE_PRESENT))
_MARK = b"# git-agentos: "
# Hook managers, each with a mark in the hooks that it writes. (git's own samples contain 'pre-commit', too.)
MANAGERS = (("husky", b"husky"), ("lefthook", b"lefthook"), ("pre-commit", b"pre-commit.com"))
_PLACED_NAME = re.compile(r"(hooks|bin)/[\w-][\w.-]*\Z")
# Folders of the hooks' own state.
_CACHES = ("chain", "passed", "warned", "unsaid")


def folder(common_dir: str) -> str:
    """The guard's folder in a repository; it need not exist."""
    return os.path.join(common_dir, "agentos", "guard")


def hooks_dir(common_dir: str) -> str:
    """The folder that core.hooksPath names."""
    return os.path.join(folder(common_dir), "hooks")


def digests_path(common_dir: str) -> str:
    """The file with the digests of the placed files."""
    return os.path.join(folder(common_dir), _DIGESTS)


def fsmonitor(common_dir: str) -> str:
    """The script that core.fsmonitor names (unquoted)."""
    return os.path.join(hooks_dir(common_dir), FSMONITOR)


def common_script(common_dir: str) -> str:
    """The file that the scripts source."""
    return os.path.join(hooks_dir(common_dir), SHARED)


def shim_dir(common_dir: str) -> str:
    """The folder that `guard exec` puts first on PATH: `git` is in it."""
    return os.path.join(folder(common_dir), "bin")


def bash_env(common_dir: str) -> str:
    """The value of BASH_ENV below `guard exec`."""
    return os.path.join(folder(common_dir), BASH_ENV)


# -- installing and removing -------------------------------------------------------------------------------------------


class _Script(NamedTuple):
    name: str  # relative to the guard's folder
    data: bytes
    mode: int


def install(location: Location) -> None:
    """Place the scripts, or update them; what is up to date is not written. Other files in the folders are left."""
    top = directories.make_own(location.shared_state_dir, "guard")
    directories.make_own(hooks_dir(location.common_dir))
    directories.make_own(shim_dir(location.common_dir))
    with locks.hold(os.path.join(top, _LOCK)):
        _return_manager_hooks(location)
        scripts = list(_scripts(location.common_dir, (*_CHAINED_HOOKS, *_present(location))))
        for script in scripts:
            if not _is_placed(top, script):
                own_files.write(os.path.join(top, script.name), script.data, script.mode)
        for name in _read_digests(location.common_dir)[0].keys() - {script.name for script in scripts}:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(top, name))
        digests = {each.name: [hashlib.sha256(each.data).hexdigest(), each.mode] for each in scripts}
        data = own_files.signed_json("files", dict(sorted(digests.items())))
        if _content(digests_path(location.common_dir)) != data:
            own_files.write(digests_path(location.common_dir), data, 0o644)


def install_over_git(location: Location, git: str) -> str:
    """Write the shim that is mounted over git in a sandbox, and that runs the one at `git`; its path."""
    shim = _content(os.path.join(folder(location.common_dir), _SHIM)) or b""
    path = os.path.join(folder(location.common_dir), _SHIM_IN_PLACE)
    own_files.write(path, shim.replace(b"guard_behind=''", b"guard_behind=" + launcher.quote(git), 1), 0o755)
    return path


def uninstall(location: Location) -> None:
    """Remove what `install` placed, and the folders where nothing else is in them."""
    top = folder(location.common_dir)
    _return_manager_hooks(location)
    chained = (*_CHAINED_HOOKS, *_CHAINED_WHERE_PRESENT)
    names = {script.name for script in _scripts(location.common_dir, chained)}
    for name in [*names, *_read_digests(location.common_dir)[0], _SHIM_IN_PLACE, _DIGESTS, _LOCK]:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(top, name))
    for name in _CACHES:
        deletion.remove_folder(os.path.join(top, name))
    for path in (hooks_dir(location.common_dir), shim_dir(location.common_dir), top):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _return_manager_hooks(location: Location) -> None:
    """Move hooks of a hook manager to the user's hooks, which ours run: while core.hooksPath leads here, a manager that
    is set up writes its hooks over ours. (lefthook renames what it replaces to `<name>.old`.)"""
    hooks = hooks_dir(location.common_dir)
    names = []
    for name in EVERY_HOOK:
        data = _content(os.path.join(hooks, name))
        if data is not None and _MARK not in data and any(mark in data for _, mark in MANAGERS):
            names.append(name)
        old = os.path.join(hooks, f"{name}.old")
        if _MARK in (_content(old) or b""):
            os.unlink(old)
    if not names:
        return
    target = _user_hooks(location)
    os.makedirs(target, exist_ok=True)
    for name in names:
        if not os.path.lexists(os.path.join(target, name)):
            os.rename(os.path.join(hooks, name), os.path.join(target, name))


# -- what is placed ----------------------------------------------------------------------------------------------------


def changed_files(common_dir: str) -> list[str]:
    """The placed files that are no longer as they were placed (edited, removed, not executable), by path; or the file
    of digests, where it is not signed by this user. Empty where nothing was placed."""
    top = folder(common_dir)
    if not os.path.isdir(top):
        return []
    digests, is_signed = _read_digests(common_dir)
    if not digests or not is_signed:
        return [digests_path(common_dir)]
    changed = []
    for name, (digest, mode) in sorted(digests.items()):
        path = os.path.join(top, name)
        data = _content(path)
        if data is not None and name == _SHIM:
            data = _without_git_behind(path, data)
        if data is None or hashlib.sha256(data).hexdigest() != digest or not _has_mode(path, mode):
            changed.append(path)
    return changed


def _without_git_behind(path: str, shim: bytes) -> bytes:
    """The shim as it was placed, where it is mounted over git in a sandbox (`install_over_git`)."""
    behind = process.behind_shim(path)
    if behind is None:
        return shim
    env = {key: value for key, value in process.environment().items() if key != "GIT_EXEC_PATH"}
    exec_path = process.run(["--exec-path"], cwd=os.sep, env=env, neutral_config=False)
    if behind != os.path.join(os.fsdecode(exec_path.rstrip(b"\n")), "git"):
        return shim
    return shim.replace(b"guard_behind=" + launcher.quote(behind), b"guard_behind=''", 1)


def outdated(common_dir: str) -> bool:
    """Whether another version of this tool has placed the scripts."""
    top = folder(common_dir)
    return any(_content(os.path.join(top, script.name)) != script.data for script in _scripts(common_dir))


def differing_files(common_dir: str) -> list[str]:
    """The placed files that differ from what this installation places, by path: for where the digests cannot tell."""
    top = folder(common_dir)
    return [os.path.join(top, script.name) for script in _scripts(common_dir) if not _is_placed(top, script)]


def _scripts(common_dir: str, chained: Sequence[str] = _CHAINED_HOOKS) -> Iterator[_Script]:
    """Every script of the package as it is placed in this repository; `chained` are the hooks that the user may
    have."""
    source = _source_folder()
    python, arguments = launcher.hook_launcher()
    values = {
        b"@PYTHON@": launcher.quote(python),
        b"@RUN@": arguments,
        b"@CHANGES@": launcher.fsmonitor_client(),
        b"@COMMON@": launcher.quote(common_dir),
        b"@HOOKS@": launcher.quote(hooks_dir(common_dir)),
        b"@VERSION@": git_agentos.__version__.encode("ascii"),
    }
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name.endswith(_NO_SCRIPTS) or name.startswith(".") or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        for placeholder, value in values.items():
            data = data.replace(placeholder, value)
        mode = 0o755 if data.startswith(b"#!") else 0o644  # the others are sourced
        if name in (_CHAIN_SCRIPT, _SHORT_HOOK_SCRIPT):
            for hook in chained if name == _CHAIN_SCRIPT else _SHORT_HOOKS:
                yield _Script(os.path.join("hooks", hook), data, mode)
        else:
            yield _Script(_SHIM if name == _SHIM_SOURCE else os.path.join("hooks", name), data, mode)


def _present(location: Location) -> list[str]:
    """The hooks that are chained only where the user has them, and that the user has."""
    users = _user_hooks(location)
    return [name for name in _CHAINED_WHERE_PRESENT if os.access(os.path.join(users, name), os.X_OK)]


def _user_hooks(location: Location) -> str:
    """The folder of the user's hooks."""
    return user_hooks.read(location.root, location.git_dir, location.common_dir, process.environment()).hooks


def _source_folder() -> str:
    """The folder of the package's scripts: in an installed package, or beside it in a checkout of this project."""
    installed = os.path.join(launcher.PACKAGE, "hooks", "scripts")
    for path in (installed, os.path.join(os.path.dirname(launcher.PACKAGE), "hooks")):
        if os.path.isdir(path):
            return path
    raise GuardError("the guard's scripts are missing from this installation", "install git-agentos again")


def _read_digests(common_dir: str) -> tuple[dict[str, tuple[str, int]], bool]:
    """The digest and mode of each placed file by name, and whether this user has signed them."""
    try:
        body, is_signed = own_files.read_signed(digests_path(common_dir), "files")
        digests = {str(name): (str(digest), int(mode)) for name, (digest, mode) in body.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, False
    return (digests, is_signed) if all(map(_PLACED_NAME.match, digests)) else ({}, False)


def _is_placed(top: str, script: _Script) -> bool:
    path = os.path.join(top, script.name)
    return _content(path) == script.data and _has_mode(path, script.mode)


def _content(path: str) -> bytes | None:
    """The bytes of a regular file; None for anything else."""
    try:
        return files.read(path)
    except OSError:
        return None


def _has_mode(path: str, mode: int) -> bool:
    """Whether a file is executable, where it has to be."""
    with contextlib.suppress(OSError):
        return not mode & 0o100 or bool(os.lstat(path).st_mode & 0o100)
    return False
