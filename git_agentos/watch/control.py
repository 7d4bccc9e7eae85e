"""Starts, stops and describes the daemon of a repository."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import git_agentos
from git_agentos.errors import AgentosError, LockedError
from git_agentos.git.location import Location
from git_agentos.process import programs, table
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import automatic, client, place
from git_agentos.watch.daemon import AlreadyRunsError, Daemon, Log
from git_agentos.watch.repository import WatchedRepository
from git_agentos.watch.scans import Scans
from git_agentos.watch.service import Service, Work
from git_agentos.watch.watcher import reason_of

_START = 20.0  # seconds that a daemon may take until it serves
_END = 5.0  # seconds that it may take to end, before it is killed
_PATIENCE = 5.0  # seconds for an answer of a daemon that may be listing a large worktree
_A_MOMENT = 1.0  # the same for one that has only to look at what it knows; no person waits for it
_PAUSE = 0.02
_MISSING = "install it: pip install 'git-agentos[watch]'"


class WatchError(AgentosError):
    """The daemon cannot be started or stopped."""


class NoAnswerError(WatchError):
    """The daemon runs, and does not answer now: it may be busy."""


class WatchStatus(NamedTuple):
    """Whether a daemon serves the repository. The other fields are None while none does: its process, when it began,
    its version, after how many seconds without work it ends (None for never), how many commands it has done, and its
    worktrees: each `path`, `watching`, the number of its `folders` that are watched, the `reason` why it is not, and
    whether it creates `checkpoints` in it by itself."""

    running: bool
    pid: int | None = None
    since: str | None = None
    version: str | None = None
    idle_seconds: float | None = None
    served: int | None = None
    worktrees: tuple[dict[str, Any], ...] = ()


def status(location: Location, *, patience: float = _PATIENCE) -> WatchStatus:
    """What the daemon says of itself; one that does not within `patience` seconds counts as none."""
    try:
        found = json.loads(_ask(location, "status", patience=patience))
    except (client.NoAnswer, ValueError):
        return WatchStatus(running=False)
    return WatchStatus(running=True, **{**found, "worktrees": tuple(found["worktrees"])})


def moments(location: Location) -> dict[str, str | None] | None:
    """A token for the present state of each watched worktree, by its folder: as long as it is the same, no file has
    changed in there that git does not ignore. None of one in which that cannot be told; no table while no daemon
    runs. NoAnswerError from one that runs and does not answer."""
    try:
        found: dict[str, str | None] = json.loads(_ask(location, "moments", patience=_A_MOMENT))
    except client.NotRunning:
        return None
    except (client.NoAnswer, ValueError) as error:
        raise NoAnswerError(f"the watch daemon does not answer: {error}") from None
    return found


def watch(location: Location) -> None:
    """Let a daemon that runs watch this worktree."""
    with contextlib.suppress(client.NoAnswer):
        _ask(location, "watch", os.fsencode(location.root))


def start(location: Location) -> WatchStatus:
    """Start a daemon in the background and let it watch this worktree; one that runs goes on. From now on, commands
    start another one when it has ended. WatchError if it does not come to serve."""
    if not status(location).running:
        _spawn(location)
    automatic.want(location)
    with contextlib.suppress(client.NoAnswer):
        _ask(location, "watch", os.fsencode(location.root), patience=_START)
    return status(location)


def serve(location: Location, work: Work, ready: Callable[[], None]) -> None:
    """Be the daemon, until it ends; `ready` is called once it serves. WatchError if it cannot."""
    try:
        from git_agentos.watch.inotify import InotifyWatcher
    except ImportError:
        raise WatchError("the library that tells of changes is not installed", _MISSING) from None
    os.chdir("/")  # no worktree is in use because of the daemon
    try:
        place.make(location.common_dir)
        repository = WatchedRepository(location.common_dir, InotifyWatcher())
        log = Log(place.file(location.common_dir, "log"))
        service = Service(git_agentos.__version__, work, Scans(repository))
        Daemon(location, repository, service, git_agentos.__version__, log).run(ready)
    except AlreadyRunsError:
        raise LockedError("a daemon watches this repository already", "git agentos watch status") from None
    except (place.UnsafePlaceError, OSError) as error:
        raise WatchError(f"the daemon cannot be started: {reason_of(error)}", "git agentos doctor") from None


def stop(location: Location) -> bool:
    """End the daemon; False if none ran. One that does not answer is killed. No command starts another one by itself.
    WatchError if that fails."""
    automatic.unwant(location)
    with contextlib.suppress(client.NoAnswer):
        _ask(location, "stop")
    deadline = time.monotonic() + _END
    ran = False
    while (holder := _holder(location.common_dir)) is not None:
        ran = True
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        if time.monotonic() > deadline + _END:
            raise WatchError(f"the daemon (process {holder}) does not end")
        time.sleep(_PAUSE)
    return ran


def _ask(location: Location, request: str, *arguments: bytes, patience: float = _PATIENCE) -> bytes:
    return client.ask(location.common_dir, git_agentos.__version__, request, *arguments, patience=patience)


def _spawn(location: Location) -> None:
    """Start the daemon, and wait until it serves."""
    child = programs.start_piped(automatic.argv(location), cwd="/", env=automatic.environment())
    assert child.stdout is not None and child.stderr is not None
    deadline = time.monotonic() + _START
    try:
        while time.monotonic() < deadline:
            if status(location).running:
                return
            if child.poll() is not None:
                said = child.stderr.read().decode("utf-8", "replace").strip().splitlines()
                text = said[0].removeprefix("error: ") if said else f"exit code {child.returncode}"
                hints = [line.removeprefix("hint: ") for line in said if line.startswith("hint: ")]
                raise WatchError(text, *hints[:1])
            time.sleep(_PAUSE)
        child.kill()
        raise WatchError(f"the daemon does not answer (its log: {place.file(location.common_dir, 'log')})")
    finally:
        child.stdout.close()
        child.stderr.close()


def _holder(common_dir: str) -> int | None:
    """The process of the daemon; None if none runs."""
    try:
        if not automatic.is_running(common_dir):
            return None
        pid = int(files.read(place.file(common_dir, "turn"), limit=64))
    except (OSError, ValueError, place.UnsafePlaceError):
        return None
    return pid if table.is_alive(pid) else None
