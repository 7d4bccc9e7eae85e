"""Idempotency keys: a restore that is asked for a second time under the same key is not done again.

The caller chooses the key. The result of the restore is kept under it, with a hash of the arguments, in
`<git dir>/agentos/idempotency.json`, the newest last. It is written while the worktree's lock is held and before the
journal is removed, so a restore that was killed counts as done once `recover` has finished it, and does not once
`recover --abort` has taken it back.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from git_agentos.checkpoint.model import Skipped
from git_agentos.checkpoint.restore.request import Restoration
from git_agentos.errors import DamagedFile, UsageError
from git_agentos.git.location import Location
from git_agentos.util import directories, files
from git_agentos.util.named_tuple import NamedTuple

_FILE = "idempotency.json"
_VERSION = 1
_LIMIT = 1 << 30
MOST = 100  # results that are kept
_MOST_PATHS = 100_000  # in all results that are kept, but for the newest
_LONGEST_KEY = 200


class Call(NamedTuple):
    """One call: its key, and a hash of its arguments."""

    key: str
    arguments: str


class AlreadyDone(Exception):
    """The call was done before; `result` is what it returned then."""

    def __init__(self, result: Restoration) -> None:
        super().__init__(result.checkpoint)
        self.result = result


def call(key: str, command: str, arguments: Mapping[str, Any]) -> Call:
    """The call of a command with these arguments, which have JSON types. UsageError if the key is not valid."""
    if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        raise UsageError(f"an idempotency key has 1 to {_LONGEST_KEY} printable characters")
    text = json.dumps([command, dict(arguments)], sort_keys=True, separators=(",", ":"))
    return Call(key, hashlib.sha256(text.encode("ascii")).hexdigest())


def refuse_done(location: Location, wanted: Call | None) -> None:
    """AlreadyDone if the call was done before, UsageError if its key was used for another one."""
    if wanted is None:
        return
    for each in _read(location):
        if each["key"] != wanted.key:
            continue
        if each["arguments"] != wanted.arguments:
            raise UsageError(
                f"the idempotency key '{wanted.key}' was used for another call in this worktree",
                "take a new key for each call, and the same one only to repeat it; nothing was changed",
            )
        raise AlreadyDone(_result(each["result"]))


def record(location: Location, done: Call, result: Restoration | None) -> None:
    """Keep the result of a call, durably; None: the call was aborted, and counts as not done. The caller holds the
    worktree's lock."""
    try:
        earlier = _read(location)
    except DamagedFile:
        earlier = []  # a recovery goes on
    found = [each for each in earlier if each["key"] != done.key][-MOST + 1 :]
    while found and sum(map(_size, found)) > _MOST_PATHS:
        del found[0]
    if result is not None:
        fields = {**vars(result), "skipped": [each._asdict() for each in result.skipped]}
        found.append({**done._asdict(), "result": fields})
    elif len(found) == len(earlier):
        return
    text = json.dumps({"version": _VERSION, "calls": found}, indent=1)
    files.replace(os.path.join(directories.make_own(location.state_dir), _FILE), text.encode("ascii"), mode=0o644)


def _size(entry: Mapping[str, Any]) -> int:
    return sum(len(entry["result"][name]) for name in ("changed", "removed", "skipped"))


def _read(location: Location) -> list[dict[str, Any]]:
    path = os.path.join(location.state_dir, _FILE)
    try:
        body = files.read_object(path, limit=_LIMIT)
        if body["version"] == _VERSION and all(map(_is_entry, body["calls"])):
            return list(body["calls"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DamagedFile(path, "it is not valid", f"remove '{path}': then no earlier call is known; nothing was changed")


def _is_entry(entry: Any) -> bool:
    _result(entry["result"])
    return isinstance(entry["key"], str) and isinstance(entry["arguments"], str)


def _result(fields: Mapping[str, Any]) -> Restoration:
    """KeyError or TypeError if the fields are damaged."""
    names = {each.name for each in dataclasses.fields(Restoration)}
    if set(fields) != names or not all(isinstance(fields[each], list) for each in ("changed", "removed", "skipped")):
        raise TypeError("not a result")
    return Restoration(**{**fields, "skipped": [Skipped(**each) for each in fields["skipped"]]})
