"""The domain's results as the API's: lists become tuples, and times aware datetimes."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")

# Fields of the API's results that have another name in the domain's results.
_NAMES = {
    "SavedCheckpoint": {
        "worktree_id": "timeline",
        "metadata": "meta",
        "staged": "staged_changes",
        "unstaged": "unstaged_changes",
        "untracked": "untracked_files",
    },
    "ApprovalStatus": {"command": "argv", "folder": "cwd", "agent": "agent_id", "commit": "head"},
    "RepositoryStatus": {"root": "worktree_path"},
    "LogEntry": {
        "files": "files_changed",
        "checkpoint": "checkpoint_id",
        "agent": "agent_id",
        "worktree_id": "worktree",
    },
    "ExplainedLine": {"agent": "agent_id"},
    "Turn": {"agent": "agent_id", "worktree_id": "worktree"},
    "WorktreeStatus": {"commit": "head_sha", "base_commit": "base_sha", "task_id": "task", "changes": "dirty"},
    "RemovalResult": {"commit": "branch_sha"},
    "RunStep": {"number": "n", "before": "checkpoint_before", "after": "checkpoint_after"},
    "RunResult": {"id": "run_id"},
    "TransferredCheckpoints": {"worktree_id": "timeline"},
    "HeldBackCheckpoint": {"worktree_id": "timeline"},
    "RemoteWorktree": {"worktree_id": "timeline"},
    "SyncStatus": {"worktrees": "timelines"},
}


def convert(result: type[T], source: object, **given: Any) -> T:
    """The `result` with the values of a result of the domain; values in `given` are used unchanged."""
    names = _NAMES.get(result.__name__, {})
    types_ = _types(cast(Any, result))
    values = {
        name: given[name] if name in given else _value(kind, getattr(source, names.get(name, name)))
        for name, kind in types_.items()
    }
    return result(**values)


@cache
def _types(result: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(result)
    return {field.name: hints[field.name] for field in fields(result)}


def _value(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        [inner] = [each for each in typing.get_args(kind) if each is not types.NoneType]
        return None if value is None else _value(inner, value)
    if origin is tuple:
        return tuple(_value(typing.get_args(kind)[0], each) for each in value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(kind) and not isinstance(value, cast(type, kind)):
        return convert(cast(type, kind), value)
    return value
