"""Starts the daemon by itself, where one is wanted and none runs.

With `agentos.watch=auto`, that is a repository in which a worktree was created, a guard was enabled or `watch start`
was called, until `watch stop`; with `true` it is every repository, with `false` none. A command that finds no daemon
there starts one and does not wait for it; after three within ten minutes it says so instead.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence

from git_agentos import config
from git_agentos.errors import ConfigurationError
from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.process import marked, occupants, programs
from git_agentos.util import files, locks
from git_agentos.watch import place, proof

_MOST = 3
_WITHIN = 600.0  # seconds
_BEGINNING = 10.0  # seconds in which one that was started may not serve yet
_LIBRARY = "inotify_simple"
_LONGEST = 4096
# A daemon that is started in there would end with it.
_ENCLOSING = (marked.MARK, os.fsdecode(proof.GUARD_EXEC))


def argv(location: Location) -> list[str]:
    """The command line of a daemon for the repository of a worktree."""
    return [sys.executable, "-I", "-m", "git_agentos", "-C", location.root, *occupants.DAEMON]


def environment() -> dict[str, str]:
    """Its environment: it acts for nobody."""
    return {key: value for key, value in process.environment().items() if not key.startswith("AGENTOS_")}


def want(location: Location) -> None:
    """From now on, commands start a daemon for this repository. Nothing happens where that cannot be written down."""
    with contextlib.suppress(OSError, place.UnsafePlaceError):
        place.make(location.common_dir)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place.file(location.common_dir, "starts"))
        files.create(place.file(location.common_dir, "wanted"), b"", durable=False)


def is_wanted(common_dir: str) -> bool:
    """Whether commands start a daemon for this repository, without `agentos.watch`."""
    return os.path.lexists(place.file(common_dir, "wanted"))


def unwant(location: Location) -> None:
    """No command starts a daemon any more, unless `agentos.watch` says so."""
    with contextlib.suppress(OSError):
        os.unlink(place.file(location.common_dir, "wanted"))


def start_for(location: Location, values: Mapping[str, Sequence[str]], variables: Mapping[str, str]) -> None:
    """What is done now is a reason to have a daemon (`worktree create`, `guard enable`): start one."""
    if _mode(values) != "false" and _is_possible(variables):
        want(location)
        keep_running(location, values, variables)


def keep_running(location: Location, values: Mapping[str, Sequence[str]], variables: Mapping[str, str]) -> str | None:
    """Start a daemon if one is wanted and none runs; it is not waited for. Why none is started, if too many have been;
    that is said once."""
    common_dir = location.common_dir
    mode = _mode(values)
    wanted = mode == "true" or (mode == "auto" and is_wanted(common_dir))
    if not wanted or not _is_possible(variables):
        return None
    try:
        place.make(common_dir)
        if is_running(common_dir):
            return None
        path = place.file(common_dir, "starts")
        now = time.time()
        lines = _lines(path)
        starts = [each for each in lines if each.isdigit() and now - _WITHIN < int(each) <= now]
        if starts and now - int(starts[-1]) < _BEGINNING:
            return None
        if len(starts) >= _MOST:
            if "said" in lines:
                return None
            files.replace(path, "\n".join((*starts, "said")).encode("ascii"), durable=False)
            return f"the watch daemon has ended {_MOST} times within ten minutes, and is not started again"
        files.replace(path, "\n".join((*starts, f"{int(now)}")).encode("ascii"), durable=False)
    except (OSError, place.UnsafePlaceError):
        return None  # `doctor` says what is wrong with the place
    programs.start_in_background(argv(location), env=environment())
    return None


def has_given_up(common_dir: str) -> bool:
    """Whether so many have been started lately that none is started any more."""
    return "said" in _lines(place.file(common_dir, "starts"))


def is_running(common_dir: str) -> bool:
    """Whether a daemon holds the lock. OSError or UnsafePlaceError where that cannot be found out."""
    path = place.file(common_dir, "turn")
    place.check(path)
    try:
        descriptor = locks.try_open(path)
    except FileNotFoundError:
        return False
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _mode(values: Mapping[str, Sequence[str]]) -> str:
    try:
        return config.watch(values)
    except ConfigurationError:
        return "false"  # `watch start` and `doctor` report it


def _is_possible(variables: Mapping[str, str]) -> bool:
    return importlib.util.find_spec(_LIBRARY) is not None and not any(name in variables for name in _ENCLOSING)


def _lines(path: str) -> list[str]:
    try:
        return files.read(path, limit=_LONGEST).decode("ascii", "replace").split()
    except OSError:
        return []
