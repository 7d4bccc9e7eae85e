"""`--sandbox`: a command line for bubblewrap, in which tests have no network and can write only to the worktree.

All files are visible and read-only, except the worktree (without git's files in it) and the folder of the results. The
sandbox has its own `/tmp` and `/dev`, and an empty `/run`: a socket of a service there could be used to write outside.
What is needed and lies below these (the interpreter, the repository) is visible, read-only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from git_agentos.errors import TddError
from git_agentos.git.location import Location
from git_agentos.process import programs

_HIDDEN = ("/tmp", "/run", "/var/tmp")
_REPLACED = (*_HIDDEN, "/dev")
_NOT_WRITTEN = (".git", ".agentos")


def program(environment: Mapping[str, str]) -> str:
    """The path of bubblewrap. TddError if it is missing, or cannot make a sandbox."""
    found = programs.find_bubblewrap(environment, TddError)
    programs.require_sandbox([found, *_bare()], environment, TddError)
    return found


def within(bwrap: str, location: Location, needed: Sequence[str], writable: Sequence[str]) -> list[str]:
    """The words before a command. `needed` are folders that must be visible, `writable` those outside the worktree that
    can be written."""
    words = [bwrap, *_bare()]
    for path in _outer_first((location.common_dir, *needed)):
        if _is_hidden(path):
            words += ["--ro-bind", path, path]
    for path in _outer_first((location.root, *writable)):
        words += ["--bind", path, path]
    for name in _NOT_WRITTEN:
        path = os.path.join(location.root, name)
        if os.path.exists(path) and not os.path.islink(path):
            words += ["--ro-bind", path, path]
    return [*words, "--chdir", location.root, "--"]


def _bare() -> list[str]:
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--unshare-user", "--unshare-net", "--unshare-pid"]
    words += ["--unshare-ipc", "--proc", "/proc", "--die-with-parent", "--cap-drop", "ALL"]
    for path in _HIDDEN:
        if os.path.isdir(path) and not os.path.islink(path):
            words += ["--tmpfs", path]
    return [*words, "--setenv", "TMPDIR", "/tmp"]


def _outer_first(paths: Sequence[str]) -> list[str]:
    real = {os.path.realpath(path) for path in paths if path}
    return sorted((path for path in real if os.path.exists(path)), key=lambda path: (path.count(os.sep), path))


def _is_hidden(path: str) -> bool:
    return any(path.startswith(each + os.sep) for each in _REPLACED)
