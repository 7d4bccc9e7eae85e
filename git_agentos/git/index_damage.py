"""Whether git can read a worktree's index (gitformat-index(5)), and making one from trees.

git does not verify the checksum when it reads the index, and may misread a truncated file. So the header and the
checksum are verified here, and then git must read it.
"""

from __future__ import annotations

import os
import struct

from git_agentos.errors import GitCommandError
from git_agentos.git import process
from git_agentos.git.hash_algorithm import HashAlgorithm
from git_agentos.git.location import Location
from git_agentos.util import files

_LARGEST = 1 << 31
_NAME = "index"


def is_damaged(location: Location) -> bool:
    """Whether the index file is damaged, or one that git cannot read: of a newer version, with an unknown extension, or
    without its shared index. False if there is no index."""
    path = os.path.join(location.git_dir, _NAME)
    if not os.path.lexists(path):
        return False
    return not _is_whole(os.path.realpath(path), location.hash) or _git_fails(location)


def error(location: Location) -> GitCommandError:
    """The error of a command that needs the index."""
    path = os.path.join(location.git_dir, _NAME)
    return GitCommandError(f"the index of this worktree is damaged: '{path}'", process.REPAIR_INDEX)


def _is_whole(path: str, algorithm: HashAlgorithm) -> bool:
    try:
        data = files.read(path, limit=_LARGEST)
    except OSError:
        return False
    if len(data) < 32 or data[:4] != b"DIRC" or not 2 <= struct.unpack(">I", data[4:8])[0] <= 4:
        return False
    content, digest = data[: -algorithm.raw_length], data[-algorithm.raw_length :]
    # With index.skipHash, there is no checksum.
    return not digest.strip(b"\0") or algorithm.new(content).digest() == digest


def _git_fails(location: Location) -> bool:
    """Whether git fails only because of the index: without an index it succeeds."""
    none = os.path.join(location.git_dir, "agentos", "no-index")
    return not _lists(location, {}) and _lists(location, {"GIT_INDEX_FILE": none})


def _lists(location: Location, extra: dict[str, str]) -> bool:
    env = location.environment({**extra, "GIT_OPTIONAL_LOCKS": "0"})
    cwd = location.root if os.path.isdir(location.root) else location.git_dir
    child = process.spawn(["ls-files", "--unmerged", "-z", "--", ".git/nothing"], cwd=cwd, env=env)
    return process.finish(child)[0] == 0
