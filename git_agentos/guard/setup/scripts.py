"""Where the guard's scripts lie in a repository, and putting them there.

    <common dir>/agentos/guard/hooks/<name>     the git hooks, and `fsmonitor`: core.hooksPath, core.fsmonitor name them
    <common dir>/agentos/guard/bin/git          the shim of `guard exec`
    <common dir>/agentos/guard/bin/git-in-place the same for a sandbox, where it is mounted over git
    <common dir>/agentos/guard/files.json       what was placed: the SHA-256 of each, and a MAC over all of them
    <common dir>/agentos/guard/manifest.json    what was set in configuration (`guard.manifest`)

They are copies of the package's scripts, with how our Python is started filled in. `put` may be called at any time by
anybody: each file is replaced by one rename, and a script that is being run goes on with what it was.

`files.json` is signed with the user's own key, since an agent can write to the git directory: an agent that edits a
script and its sum is noticed all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import git_agentos
from git_agentos.errors import GuardError
from git_agentos.git import process, user_hooks
from git_agentos.git.location import Location
from git_agentos.guard import signing
from git_agentos.process import deletion
from git_agentos.util import directories, files, locks

FSMONITOR = "fsmonitor"
BASH_ENV = os.path.join("hooks", "bash-env.sh")
# The hook for refs always refuses one whose name begins so, with these words: by that it is known to act (`effect`).
PROBE_REF = "refs/agentos/probe-"
PROBE_REFUSED = "git-agentos: the hook for refs acts"
SHARED = "guard.sh"  # what all of the hooks source
_SHIM = "git-shim"
_IN_PLACE = os.path.join("bin", "git-in-place")
_SHIM_PLACE = os.path.join("bin", "git")
_FILES = "files.json"
_NO_SCRIPTS = (".md", ".pyc", "~")
# Git hooks that are none of ours: since core.hooksPath leads to us, the user's own are run from here, by this script.
_PASSES_ON = "chain"
_PASSED_ON = (
    "applypatch-msg pre-applypatch post-applypatch prepare-commit-msg commit-msg pre-auto-gc"
    " sendemail-validate pre-receive update post-receive post-update"
    " p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit"
).split()
# These change what git does by being there, or are called at every look: only where the user has one.
_PASSED_ON_WHERE_THERE = ("proc-receive", "push-to-checkout", "post-index-change")
# These are one script, under the name of each.
_SHORT_HOOKS = "pre-commit pre-merge-commit pre-rebase post-checkout post-commit post-merge post-rewrite".split()
_SHORT_HOOK = "hook"
OURS = (*_SHORT_HOOKS, "pre-push", "reference-transaction")
EVERY_HOOK = frozenset((*OURS, *_PASSED_ON, *_PASSED_ON_WHERE_THERE))
_MARK = b"# git-agentos: "
# What writes hooks into a repository, and what it leaves there. (git's own samples name pre-commit, too.)
MANAGERS = (("husky", b"husky"), ("lefthook", b"lefthook"), ("pre-commit", b"pre-commit.com"))
_OF_US = re.compile(r"(hooks|bin)/[\w-][\w.-]*\Z")
# What the hooks keep beside them.
_CACHES = ("chain", "passed", "warned", "unsaid")
_PACKAGE = os.path.dirname(os.path.abspath(git_agentos.__file__))


def folder(common_dir: str) -> str:
    """The guard's folder in a repository; it need not be there."""
    return os.path.join(common_dir, "agentos", "guard")


def hooks_dir(common_dir: str) -> str:
    """What core.hooksPath names."""
    return os.path.join(folder(common_dir), "hooks")


def digests_path(common_dir: str) -> str:
    """The record of what was placed."""
    return os.path.join(folder(common_dir), _FILES)


def fsmonitor(common_dir: str) -> str:
    """The script that core.fsmonitor names (unquoted)."""
    return os.path.join(hooks_dir(common_dir), FSMONITOR)


def common_script(common_dir: str) -> str:
    """The file that the scripts source."""
    return os.path.join(hooks_dir(common_dir), SHARED)


def shim_dir(common_dir: str) -> str:
    """What `guard exec` puts first on PATH: `git` is in it."""
    return os.path.join(folder(common_dir), "bin")


def bash_env(common_dir: str) -> str:
    """What BASH_ENV names below `guard exec`."""
    return os.path.join(folder(common_dir), BASH_ENV)


# -- putting them there ------------------------------------------------------------------------------------------------


class _Script(NamedTuple):
    name: str  # relative to the guard's folder
    data: bytes
    mode: int


def install(location: Location) -> None:
    """Place the scripts, or bring them up to date; nothing is written where they are. Files in the guard's folders that
    are none of ours are left."""
    top = _make_folders(location)
    with locks.hold(os.path.join(top, "place.turn")):
        _hand_over(location)
        wanted = list(_scripts(location.common_dir, (*_PASSED_ON, *_there(location))))
        for each in wanted:
            path = os.path.join(top, each.name)
            if _content(path) != each.data or not _has_mode(path, each.mode):
                write(path, each.data, each.mode)
        for name in _recorded(location.common_dir)[0].keys() - {each.name for each in wanted}:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(top, name))
        data = _record({each.name: (hashlib.sha256(each.data).hexdigest(), each.mode) for each in wanted})
        path = os.path.join(top, _FILES)
        if _content(path) != data:
            write(path, data, 0o644)


def install_over_git(location: Location, git: str) -> str:
    """Write the shim that stands in a sandbox where git itself is, and runs the one at `git`; its path."""
    shim = _content(os.path.join(shim_dir(location.common_dir), "git")) or b""
    path = os.path.join(folder(location.common_dir), _IN_PLACE)
    write(path, shim.replace(b"guard_behind=''", b"guard_behind=" + _quoted(git), 1), 0o755)
    return path


def uninstall(location: Location) -> None:
    """Remove what `put` placed, and the folders where nothing else is in them."""
    top = folder(location.common_dir)
    _hand_over(location)
    every = (*_PASSED_ON, *_PASSED_ON_WHERE_THERE)
    names = {each.name for each in _scripts(location.common_dir, every)} | set(_recorded(location.common_dir)[0])
    for name in [*names, _IN_PLACE, _FILES, "place.turn"]:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(top, name))
    for name in _CACHES:
        deletion.remove_folder(os.path.join(top, name))
    for path in (hooks_dir(location.common_dir), shim_dir(location.common_dir), top):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def changed_files(common_dir: str) -> list[str]:
    """Which placed files are not what was placed (edited, gone, not executable), by path; the record of them is one
    too, where it is not signed by this user's key. Empty where nothing was placed."""
    top = folder(common_dir)
    if not os.path.isdir(top):
        return []
    placed, signed = _recorded(common_dir)
    if not placed or not signed:
        return [os.path.join(top, _FILES)]
    found = []
    for name, (digest, mode) in sorted(placed.items()):
        path = os.path.join(top, name)
        data = _content(path)
        if data is not None and name == _SHIM_PLACE:
            data = _without_git_behind(path, data)
        if data is None or hashlib.sha256(data).hexdigest() != digest or not _has_mode(path, mode):
            found.append(path)
    return found


def _without_git_behind(path: str, shim: bytes) -> bytes:
    """The shim as it was placed, of one that stands in a sandbox where git is (`put_in_place_of`)."""
    behind = process.behind_shim(path)
    if behind is None:
        return shim
    env = {key: value for key, value in process.environment().items() if key != "GIT_EXEC_PATH"}
    own = process.run(["--exec-path"], cwd=os.sep, env=env, neutral_config=False)
    if behind != os.path.join(os.fsdecode(own.rstrip(b"\n")), "git"):
        return shim
    return shim.replace(b"guard_behind=" + _quoted(behind), b"guard_behind=''", 1)


def outdated(common_dir: str) -> bool:
    """Whether another version of this tool placed the scripts."""
    top = folder(common_dir)
    return any(_content(os.path.join(top, each.name)) != each.data for each in _scripts(common_dir))


def differing_files(common_dir: str) -> list[str]:
    """Which placed files are not what this installation would place, by path: where the record of them is no help."""
    top = folder(common_dir)
    every = ((os.path.join(top, each.name), each) for each in _scripts(common_dir))
    return [path for path, each in every if _content(path) != each.data or not _has_mode(path, each.mode)]


def _hand_over(location: Location) -> None:
    """A hook manager that is set up while core.hooksPath leads here puts its hooks in the place of ours: they go to
    where the user's are, from where ours run them. (lefthook calls what it replaces `<name>.old`.)"""
    hooks = hooks_dir(location.common_dir)
    theirs = []
    for name in EVERY_HOOK:
        data = _content(os.path.join(hooks, name))
        if data is not None and _MARK not in data and any(mark in data for _, mark in MANAGERS):
            theirs.append(name)
        old = os.path.join(hooks, f"{name}.old")
        if _MARK in (_content(old) or b""):
            os.unlink(old)
    if not theirs:
        return
    env = process.environment()
    folder_ = user_hooks.read(location.root, location.git_dir, location.common_dir, env).hooks
    os.makedirs(folder_, exist_ok=True)
    for name in theirs:
        if not os.path.lexists(os.path.join(folder_, name)):
            os.rename(os.path.join(hooks, name), os.path.join(folder_, name))


def _make_folders(location: Location) -> str:
    top = directories.make_own(location.shared_state_dir, "guard")
    directories.make_own(hooks_dir(location.common_dir))
    directories.make_own(shim_dir(location.common_dir))
    return top


def _scripts(common_dir: str, passed_on: Sequence[str] = _PASSED_ON) -> Iterator[_Script]:
    """Every script of the package as it is to lie in this repository; `passed_on` are hooks that the user may have."""
    source = _sources()
    python, run = launcher()
    filled = {
        b"@PYTHON@": _quoted(python),
        b"@RUN@": run,
        b"@COMMON@": _quoted(common_dir),
        b"@HOOKS@": _quoted(hooks_dir(common_dir)),
        b"@VERSION@": git_agentos.__version__.encode("ascii"),
    }
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name.endswith(_NO_SCRIPTS) or name.startswith(".") or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        for mark, value in filled.items():
            data = data.replace(mark, value)
        # What has no first line for the kernel is read by the others, not run.
        mode = 0o755 if data.startswith(b"#!") else 0o644
        if name in (_PASSES_ON, _SHORT_HOOK):
            for each in passed_on if name == _PASSES_ON else _SHORT_HOOKS:
                yield _Script(os.path.join("hooks", each), data, mode)
        else:
            yield _Script(os.path.join("bin", "git") if name == _SHIM else os.path.join("hooks", name), data, mode)


def _there(location: Location) -> list[str]:
    """Those hooks of the user that only where they are have one of ours in front of them."""
    env = process.environment()
    users = user_hooks.read(location.root, location.git_dir, location.common_dir, env).hooks
    return [name for name in _PASSED_ON_WHERE_THERE if os.access(os.path.join(users, name), os.X_OK)]


def _sources() -> str:
    """The folder of the package's scripts: inside of an installed package, beside it in a work tree of this project."""
    inside = os.path.join(_PACKAGE, "hooks", "scripts")
    beside = os.path.join(os.path.dirname(_PACKAGE), "hooks")
    for path in (inside, beside):
        if os.path.isdir(path):
            return path
    raise GuardError("the guard's scripts are missing from this installation", "install git-agentos again")


# -- how our Python is started -----------------------------------------------------------------------------------------


def launcher() -> tuple[str, bytes]:
    """The Python to run a hook's entry with, and its arguments before the hook's name, quoted for sh.

    Where `install.sh` made the environment, the link to the one in use, which stays when that is replaced.
    """
    return _python(), _run("git_agentos.hooks", "git_agentos.hooks.entry")


def command() -> str:
    """How sh starts `git agentos`, quoted: for other programs' settings."""
    return (_quoted(_python()) + b" " + _run("git_agentos", "git_agentos.cli.entry")).decode("utf-8", "surrogateescape")


def _python() -> str:
    found = sys.executable or "/usr/bin/python3"
    link = os.path.join(os.path.dirname(sys.prefix), "venv")
    if os.path.islink(link) and os.path.realpath(link) == os.path.realpath(sys.prefix):
        stable = os.path.join(link, os.path.relpath(found, sys.prefix))
        if os.path.exists(stable):
            return stable
    return found


def _run(module: str, entry: str) -> bytes:
    """`-I` (nothing that lies where the program runs is imported), and the module, also where it is not installed."""
    home = os.path.dirname(_PACKAGE)
    if _finds(home):
        return b"-I -m " + module.encode("ascii")
    # `main` of hooks takes its arguments, that of the command line looks for them itself.
    call = "sys.exit(main(sys.argv[1:]))" if entry.endswith("hooks.entry") else "main()"
    return b"-I -c " + _quoted(f"import sys; sys.path.insert(0, {home!r}); from {entry} import main; {call}")


def _finds(home: str) -> bool:
    """Whether an isolated Python finds packages in `home`: it is where packages are installed, or a .pth names it."""
    import site

    for place in site.getsitepackages():
        if os.path.realpath(place) == os.path.realpath(home):
            return True
        with contextlib.suppress(OSError):
            for name in os.listdir(place):
                if name.endswith(".pth") and os.fsencode(home) in (_content(os.path.join(place, name)) or b"").split(
                    b"\n"
                ):
                    return True
    return False


def _quoted(text: str) -> bytes:
    """`text` as one word for sh."""
    return b"'" + os.fsencode(text).replace(b"'", b"'\\''") + b"'"


# -- files -------------------------------------------------------------------------------------------------------------


def _record(found: dict[str, tuple[str, int]]) -> bytes:
    mac = sign(json.dumps(found, sort_keys=True).encode())
    return json.dumps({"files": found, "mac": mac}, sort_keys=True, indent=1).encode() + b"\n"


def _recorded(common_dir: str) -> tuple[dict[str, tuple[str, int]], bool]:
    """What `files.json` says of files in the guard's folders, and whether this user signed it."""
    path = os.path.join(folder(common_dir), _FILES)
    try:
        document = json.loads(_content(path) or b"{}")
        found = {str(name): (str(digest), int(mode)) for name, (digest, mode) in document["files"].items()}
        body = json.dumps(document["files"], sort_keys=True)
        is_ours = all(_OF_US.match(name) for name in found)
        return (found, is_signed(path, body.encode(), document["mac"])) if is_ours else ({}, False)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, False


def sign(data: bytes) -> str | None:
    """This user's code for `data`; None where there is no key to be had (in a sandbox)."""
    return signing.sign(data, process.environment())


def is_signed(path: str, data: bytes, mac: str | None) -> bool:
    """Whether this user signed `data`, which the file at `path` says. Of somebody else's file, and where the key is out
    of reach, nobody can tell: it counts as signed. It does not where the key was removed or damaged."""
    env = process.environment()
    with contextlib.suppress(OSError):
        if os.lstat(path).st_uid != os.geteuid():
            return True
    try:
        return signing.is_signed(data, mac, env) or signing.is_out_of_reach(env)
    except GuardError:
        return False  # others may write to the key


def _content(path: str) -> bytes | None:
    """The bytes of a regular file; None for anything else."""
    try:
        return files.read(path)
    except OSError:
        return None


def _has_mode(path: str, mode: int) -> bool:
    """Whether a file may be run, where it has to be."""
    with contextlib.suppress(OSError):
        return not mode & 0o100 or bool(os.lstat(path).st_mode & 0o100)
    return False


def write(path: str, data: bytes, mode: int) -> None:
    """Replace a file durably, by one rename. A folder that has its name is moved aside, unless it is empty."""
    if os.path.isdir(path) and not os.path.islink(path):
        remove(path)
    files.replace(path, data, mode=mode)


def remove(path: str) -> None:
    """Remove a file of ours, if it is there. A folder in its place is moved aside, unless it is empty."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        if not os.path.isdir(path):
            raise
        try:
            os.rmdir(path)
        except OSError:
            os.rename(path, f"{path}.aside-{os.urandom(4).hex()}")
