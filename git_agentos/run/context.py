"""The workspace of a run: where it works, and what a rollback resets it to.

run id        letters, digits, dots, dashes and underscores as in an agent id, at most 60
worktree      `run-<run id>`, which is its timeline too, on the branch `agentos/run-<run id>` or another of its own
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from git_agentos import config
from git_agentos.checkpoint.model import Metadata
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import RunError, UsageError
from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.store import database_path
from git_agentos.worktree import layout, record

CONTEXT = "workspace_context.json"  # in the evidence of the run
SCHEMA = "agentos.workspace-context.v1"
_MOST = 60
_PREFIX = "run-"


def check_id(run_id: str, *, source: str = "RUN") -> str:
    """A well-formed run id; UsageError otherwise."""
    shown = run_id if len(run_id) <= config.LONGEST_ID else f"{run_id[: config.LONGEST_ID]}..."
    if len(run_id) > _MOST:
        raise UsageError(f"'{shown}' ({source}) is too long for a run's id", f"use at most {_MOST} characters")
    return config.well_formed(run_id, "a run id", source=source, longest=_MOST)


def is_id(name: str) -> bool:
    """Whether a name is a well-formed run id."""
    try:
        return check_id(name) == name
    except UsageError:
        return False


def worktree_id(run_id: str) -> str:
    """The id of a run's worktree."""
    return _PREFIX + run_id


def run_id_of(worktree: str) -> str | None:
    """The run whose worktree has an id; None if it is no worktree of a run."""
    run_id = worktree.removeprefix(_PREFIX)
    return run_id if run_id != worktree and is_id(run_id) else None


def runs_folder(location: Location) -> str:
    """The folder of all runs of the repository: `<repository root>/.agentos/runs`."""
    return os.path.join(layout.main_folder(location), database_path.FOLDER, "runs")


def evidence_path(location: Location, run_id: str) -> str:
    """The folder of a run's evidence; there may be none."""
    return os.path.join(runs_folder(location), run_id)


def attachment_path(run_id: str, name: str) -> bytes:
    """Where a file of a run's evidence is among the attachments of a checkpoint."""
    return os.fsencode(f"runs/{run_id}/{name}")


@dataclass(frozen=True)
class WorkspaceContext:
    """Where a run works, and what a rollback resets it to; the fields are the keys of its JSON.

    `repo_root` and `worktree_path` are absolute; `branch_name` is short (`agentos/run-<run_id>`, unless another was
    wanted); `base_ref` is what the base was called, `base_sha` its commit; `head_sha` HEAD's commit in the worktree
    when the context was made or asked for; `created_at` ISO 8601, UTC.
    """

    run_id: str
    repo_root: str
    worktree_path: str
    branch_name: str
    base_ref: str
    base_sha: str
    head_sha: str
    created_at: str
    task_id: str | None
    agent_id: str

    def to_json(self) -> str:
        """One JSON document, with `schema`."""
        return json.dumps({"schema": SCHEMA, **self.fields()}, indent=2) + "\n"

    def fields(self) -> dict[str, Any]:
        """The same as a value for JSON, without `schema`."""
        return asdict(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> WorkspaceContext:
        """The context that `to_json` wrote; RunError for anything else."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _damaged("the document") from error
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise _damaged("the document")
        return cls.from_fields(body, "the document")

    @classmethod
    def from_fields(cls, body: Mapping[str, Any], source: str) -> WorkspaceContext:
        """The context in a decoded document; RunError, naming `source`, where it is none."""
        found: dict[str, Any] = {}
        for each in fields(cls):
            value = body.get(each.name)
            if not (isinstance(value, str) or (value is None and each.name == "task_id" and each.name in body)):
                raise _damaged(source)
            found[each.name] = value
        return cls(**found)


def _damaged(source: str) -> RunError:
    return RunError(f"{source} is no context of a run's workspace", "git agentos run verify RUN shows details")


def run_metadata(here: OpenWorktree, run: WorkspaceContext, **fields: Any) -> Metadata:
    """Metadata for a checkpoint of a run's worktree `here`; `fields` as for `OpenWorktree.metadata`."""
    return here.metadata(task_id=run.task_id, run_id=run.run_id, **fields)


def with_current_paths(context: OpenWorktree, run: WorkspaceContext) -> WorkspaceContext:
    """The context of a run with current paths: signed evidence has those of when it was made, and the repository may
    have been moved since. The worktree's path is that of git's entry; where that leads nowhere, the worktree is looked
    for at the same distance from the repository as before."""
    top = layout.main_folder(context.location)
    path = _entry(context, run, top) or run.worktree_path
    if not os.path.lexists(path) and run.repo_root != top:
        moved = os.path.normpath(os.path.join(top, os.path.relpath(run.worktree_path, run.repo_root)))
        path = moved if os.path.isdir(moved) else path
    return replace(run, repo_root=top, worktree_path=path)


def _entry(context: OpenWorktree, run: WorkspaceContext, top: str) -> str | None:
    common, id_ = context.location.common_dir, worktree_id(run.run_id)
    usual = os.path.join(common, "worktrees", id_)
    if record.id_of(usual) == id_:
        return worktrees.root_or_none(usual)
    if run.repo_root == top and os.path.lexists(run.worktree_path):
        return None
    found = record.get(common, id_)
    return found.root if found is not None else None
