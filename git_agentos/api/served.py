"""Lets the watch daemon create a checkpoint for a process that stays open: it knows what has changed since the last
one."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence

import git_agentos
from git_agentos.checkpoint.model import Checkpoint, Skipped
from git_agentos.git.location import Location
from git_agentos.util import system
from git_agentos.watch import client, place


def checkpoint(location: Location, agent: str | None, options: Sequence[str]) -> Checkpoint | None:
    """The checkpoint that `git agentos checkpoint OPTIONS` creates in a worktree. None if it has not been created: in a
    small worktree the daemon gains nothing, and after an error this process tries it itself."""
    if not place.is_large(location.git_dir):
        return None
    words = ["-C", location.root, *(("--as", agent) if agent is not None else ()), "--json", "checkpoint", *options]
    if any("\0" in word or not _is_encodable(word) for word in words):
        return None
    nothing, out, err = os.open(os.devnull, os.O_RDONLY), system.memory_file(), system.memory_file()
    try:
        code = client.run(words, git_agentos.__version__, (nothing, out, err))
        said, warned = _contents(out), _contents(err).decode("utf-8", "replace").strip()
    finally:
        for each in (nothing, out, err):
            os.close(each)
    if code != 0:
        return None
    if warned:
        warnings.warn(warned.removeprefix("warning: "), stacklevel=3)
    fields = json.loads(said)
    del fields["schema"]
    return Checkpoint(**{**fields, "skipped": [Skipped(**each) for each in fields["skipped"]]})


def _is_encodable(word: str) -> bool:
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


def _contents(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
