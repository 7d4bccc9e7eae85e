"""The output of a task's commands, as the evidence on the remote has it."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import FleetError, RunError
from git_agentos.fleet import contents, names, records
from git_agentos.git import trees
from git_agentos.git.repository import Repository
from git_agentos.run import events
from git_agentos.run.events import EVENTS, Step

_LARGEST = 256 << 20  # bytes of a file of the evidence


def read(
    context: OpenWorktree, fleet: str, task: str, *, remote: str | None = None, step: int | None = None
) -> Sequence[tuple[Step, bytes, bytes]]:
    """The output of the commands of a task that has a result, or that runs: (step, stdout, stderr), as it was pushed;
    secrets were removed before. It is not verified. FleetError where there is no such task, or it has no evidence;
    RunError for a step that it does not have."""
    there = contents.open_remote(context, remote)
    found = contents.fetch(there, fleet)
    found.fleet.task(names.check_task_id(task))
    oid = found.results.get(task) or found.live.get(task)
    tree = None if oid is None else records.evidence_tree(there.repository, oid)
    if tree is None:
        what = "has not been started" if oid is None else "has no evidence"
        raise FleetError(
            f"there is no output of the task '{task}': it {what}", f"git agentos fleet status {fleet} shows its state"
        )
    return _logs(there.repository, tree, names.run_id(fleet, task), step)


def _logs(repository: Repository, tree: str, run_id: str, step: int | None) -> Sequence[tuple[Step, bytes, bytes]]:
    lines = _file(repository, tree, EVENTS).splitlines()
    try:
        parsed = [events.parse_line(line) for line in lines]
    except ValueError as error:
        raise RunError(f"the record of run '{run_id}' is damaged: a line of it is no event") from error
    state = events.state_of(run_id, parsed)
    wanted = [each for each in state.run("", alive=True).steps if each.command is not None and step in (None, each.n)]
    if step is not None and not wanted:
        raise RunError(f"run '{run_id}' has no step {step} that runs a command")
    return [(each, _file(repository, tree, each.stdout), _file(repository, tree, each.stderr)) for each in wanted]


def _file(repository: Repository, tree: str, name: str | None) -> bytes:
    """A file of the evidence; empty where there is none."""
    entry = None if name is None else trees.find(repository, tree, name.encode("utf-8", "surrogateescape"))
    if entry is None or entry[0] == trees.DIRECTORY or not 0 <= repository.size(entry[1]) <= _LARGEST:
        return b""
    return repository.blob(entry[1])
