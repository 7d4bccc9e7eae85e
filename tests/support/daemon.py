"""The watch daemon in all tests: AGENTOS_TEST_DAEMON=on starts one in each repository in which a command runs.

`killed` kills it in the middle of every third command or so, `stopped` stops it (SIGSTOP) before the commands. What a
daemon does is then done by it; everything else, and what it does not get to, in the usual way: the same tests have to
pass.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from git_agentos import __version__
from git_agentos.errors import AgentosError
from git_agentos.git.location import locate
from git_agentos.watch import client

MODE = os.environ.get("AGENTOS_TEST_DAEMON", "")
# A daemon that does for every repository, at once, what it does for large ones that have been there for some seconds.
EAGER = """\
from git_agentos.git import rescan
from git_agentos.watch import place
rescan._SETTLED = place._LARGE = 0
from git_agentos.launch import main
main()
"""
_random = random.Random(1)
_started: dict[str, subprocess.Popen[bytes]] = {}  # by the common git directory


def does(argv: Sequence[str]) -> bool:
    """Whether a daemon is to do a command line here."""
    return bool(MODE) and client.is_served(argv)


@contextlib.contextmanager
def present(folder: Path | str, argv: Sequence[str | bytes]) -> Iterator[None]:
    """Have a daemon in the repository of `folder` while a command line runs that it does."""
    words = [os.fsdecode(each) for each in argv]
    found = _prepare(os.path.join(folder, client._command(words)[1])) if does(words) else None
    killer = None
    if MODE == "killed" and found is not None and _random.random() < 1 / 3:
        killer = threading.Timer(_random.random() * 0.1, found.kill)
        killer.start()
    try:
        yield
    finally:
        if killer is not None:
            killer.join()


def start(folder: Path) -> None:
    """Have a daemon in the repository of `folder`, which does the work of its hooks."""
    if MODE:
        _prepare(str(folder))


def end_all() -> None:
    """End the daemons of a test."""
    for each in _started.values():
        each.kill()
        each.wait()
    _started.clear()


def _prepare(folder: str) -> subprocess.Popen[bytes] | None:
    """Start the daemon of a repository if none runs; None where none can run."""
    try:
        location = locate(folder)
    except (AgentosError, OSError):
        return None
    found = _started.get(location.common_dir)
    if found is None or found.poll() is not None:
        argv = [sys.executable, "-c", EAGER, "-C", location.root, "watch", "start", "--foreground"]
        found = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        with found.stdout or contextlib.nullcontext() as said:
            if said is None or said.readline() != b"Watching.\n":
                found.wait()
                return None
        _started[location.common_dir] = found
        if MODE == "stopped":
            found.send_signal(signal.SIGSTOP)
    if MODE != "stopped":  # let it watch the worktree, as `watch start` does
        with contextlib.suppress(client.NoAnswer):
            client.ask(location.common_dir, __version__, "watch", os.fsencode(location.root), patience=10)
    return found
