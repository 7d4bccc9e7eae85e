"""Whether a worktree is unchanged since its newest checkpoint, found out without importing what creates checkpoints.

A harness asks before every command that may write. Most of them are tests and builds that change nothing. The note
`<state>/unchanged` has the timeline's newest commit, and a digest of git's status together with the times of the files
that differ from the index. If a file was written so recently that the next write could leave the same times, no note is
written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time

from git_agentos.errors import AgentosError
from git_agentos.git import refs
from git_agentos.git.location import Location
from git_agentos.git.scan import Scan
from git_agentos.util import directories, file_times, files

_NAME = "unchanged"
_OPERATIONS = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "BISECT_LOG",
    "sequencer",
)


def digest_of(location: Location) -> str:
    """A digest of the worktree's present state; empty if git does not say enough."""
    started = time.time_ns()
    try:
        found = Scan(location).read()
    except (AgentosError, OSError):
        return ""
    if found.nested or any(change.unstaged != "." and change.worktree_mode == 0o160000 for change in found.changed):
        return ""  # nested repositories have states of their own
    digest = hashlib.sha256(repr((found._replace(config={}), sorted(found.config.items()))).encode())
    root = os.fsencode(location.root)
    paths = [
        os.path.join(root, path)
        for path in (*(change.path for change in found.changed), *found.untracked, *found.unseen)
    ]
    paths += [os.path.join(root, conflict.path) for conflict in found.unmerged]
    paths += [os.fsencode(os.path.join(location.git_dir, name)) for name in ("HEAD", *_OPERATIONS)]
    with contextlib.suppress(AgentosError):
        digest.update(repr((refs.read_head(location), sorted(refs.root_refs(location).items()))).encode())
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            data = os.lstat(path)
            if data.st_ctime_ns > started - file_times.unsafe_for(data):
                return ""  # it may change once more, and look the same
            digest.update(
                repr((path, data.st_mode, data.st_ino, data.st_size, data.st_mtime_ns, data.st_ctime_ns)).encode()
            )
    return digest.hexdigest()


def is_saved(location: Location, seen: str) -> bool:
    """Whether the newest checkpoint of the worktree's timeline holds the state with this digest."""
    if not seen:
        return False
    try:
        known = files.read_object(os.path.join(location.state_dir, _NAME), limit=1 << 12)
        return bool(known["digest"] == seen and refs.resolve(location, known["ref"]) == known["tip"] is not None)
    except (AgentosError, OSError, ValueError, TypeError, KeyError):
        return False


def note(location: Location, seen: str, ref: str) -> None:
    """Write the note that the newest checkpoint on the timeline `ref` holds the state with the digest `seen`."""
    with contextlib.suppress(AgentosError, OSError):
        tip = refs.resolve(location, ref)
        if not seen or tip is None:
            return
        data = json.dumps({"digest": seen, "ref": ref, "tip": tip}).encode("ascii")
        directories.make_own(location.state_dir)
        files.replace(os.path.join(location.state_dir, _NAME), data, mode=0o600, durable=False)
