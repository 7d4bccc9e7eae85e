"""The results of a fleet that was ended, as one chain of commits, which the ref `end` leads to:

    root          parent: the commit of `tasks`
    one link      for each task, in their order; parents: the commit before, the commit of `results/<task>`

Each has the tree of the file `end.json` ({"schema", "fleet", "ended_at"}). So one ref keeps all that the refs of the
fleet have led to, and a result is read as it was before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from git_agentos.errors import AgentosError
from git_agentos.fleet import names, records
from git_agentos.fleet.records import DamagedRecord, Fleet
from git_agentos.git import trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

SCHEMA = "agentos.fleet-end.v1"
_END = b"end.json"
_LARGEST = 1 << 16  # bytes
_HINT = "git agentos fleet list shows the fleets of the remote"


class Folded(NamedTuple):
    """A fleet that was ended: the commit of its tasks, and task -> the commit of its result."""

    fleet: Fleet
    tasks: str
    results: Mapping[str, str]
    ended_at: str


def write(writer: Writer, fleet: Fleet, tasks: str, results: Mapping[str, str], who: bytes) -> str:
    """Write the chain of the results of all tasks; the id of its newest commit."""
    body = {"schema": SCHEMA, "fleet": fleet.id, "ended_at": times.now_text()}
    blob = writer.write("blob", json.dumps(body).encode("ascii") + b"\n")
    tree = writer.write_tree(trees.serialise({_END: (trees.REGULAR, blob)}))
    seconds = int(time.time())
    newest = writer.write_commit(tree, [tasks], f"fleet {fleet.id} was ended\n".encode(), who, seconds)
    for task in fleet.tasks:
        message = f"fleet {fleet.id}: {task.id}\n".encode()
        newest = writer.write_commit(tree, [newest, results[task.id]], message, who, seconds)
    return newest


def read(repository: Repository, oid: str, fleet: str) -> Folded:
    """The fleet whose chain ends at a commit; DamagedRecord for anything else."""
    ref = names.end_ref(fleet)
    try:
        ended_at = _ended_at(repository, oid, fleet)
        found = []
        commit = repository.commit(oid)
        while len(commit.parents) == 2:
            found.append(commit.parents[1])
            commit = repository.commit(commit.parents[0])
        [tasks] = commit.parents
    except (AgentosError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = error.message if isinstance(error, AgentosError) else "it is no chain of results"
        raise DamagedRecord(f"'{ref}' is damaged: {reason}", _HINT) from error
    known = records.read_tasks(repository, tasks, fleet)
    if len(known.tasks) != len(found):
        raise DamagedRecord(f"'{ref}' is damaged: it has {len(found)} results of {len(known.tasks)} tasks", _HINT)
    return Folded(known, tasks, dict(zip((task.id for task in known.tasks), found[::-1], strict=True)), ended_at)


def _ended_at(repository: Repository, oid: str, fleet: str) -> str:
    mode, blob = repository.entries(repository.commit(oid).tree)[_END]
    if mode != trees.REGULAR or repository.kind(blob) != "blob" or repository.is_large(blob, _LARGEST):
        raise ValueError
    body = json.loads(repository.blob(blob))
    if body["schema"] != SCHEMA or body["fleet"] != fleet:
        raise ValueError
    times.to_seconds(body["ended_at"])
    return str(body["ended_at"])
