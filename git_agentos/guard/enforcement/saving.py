"""The checkpoint before a command that may lose something: `before_risky`, with everything that a `SaveScope` names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.capture.request import CaptureRequest
from git_agentos.checkpoint.creation import capture_worktree, checkpoint_writer, write_checkpoint
from git_agentos.checkpoint.model import Checkpoint, Metadata, Skipped, SkipReason, State
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import configuration, state_dir
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.git.scan import Scan
from git_agentos.guard.decision import SaveScope
from git_agentos.guard.identity import ILL_FORMED, worktree_agent_id
from git_agentos.util.named_tuple import NamedTuple

TRIGGER = "before_risky"


class Saved(NamedTuple):
    """The checkpoint that was created, None if it would have been incomplete, and what of the worktree it does not
    hold."""

    checkpoint: Checkpoint | None
    skipped: tuple[Skipped, ...]


def context_at(
    location: Location, agent: str | None, environment: Mapping[str, str], scan: Scan | None = None
) -> OpenWorktree:
    """The context for acting in a worktree as `agent`, or as a person; `scan` is a scan of it that has been started."""
    state_dir.refuse_planted_state(location)
    name = timeline.worktree_id(location)
    values = configuration.read(location) if scan is None else scan.config()
    settings = config.settings(values, environment)
    return OpenWorktree(Repository(location), settings, agent if agent not in (None, ILL_FORMED) else name, name)


def log_error(
    location: Location, agent: str | None, environment: Mapping[str, str], summary: str, details: Mapping[str, object]
) -> str | None:
    """Write an error to the log of an agent's worktree, or to any log that exists; why that failed, None where it did
    not."""
    from git_agentos import log

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            context = context_at(location, agent, environment)
            if agent is not None or worktree_agent_id(location.git_dir) is not None or context.has_database:
                log.try_add(context, "error", summary, details=details)
    except (AgentosError, OSError) as error:
        return str(error)
    return str(caught[0].message) if caught else None


def save(
    context: OpenWorktree,
    wanted: SaveScope,
    metadata: Metadata,
    *,
    whole: bool,
    needed: Callable[[Skipped], bool] | None = None,
    scan: Scan | None = None,
) -> Saved:
    """Create a checkpoint of the worktree with what `wanted` names.

    `whole` includes the files that the command may change, of any size: it is going to run, and nothing else will hold
    them. `scan` is a scan that was started just now. If `needed` is true for something that the checkpoint would not
    hold, none is created. A state that was saved before makes no new checkpoint, unless commits must be kept that the
    timeline does not reach yet. Raises as `create_checkpoint` does.
    """
    request = CaptureRequest(
        ignored=wanted.ignored, everything_ignored=wanted.everything_ignored, repositories=wanted.repositories
    )

    def large(state: State) -> frozenset[bytes]:
        found = (os.fsencode(item.path) for item in state.skipped if item.kind is SkipReason.TOO_LARGE)
        return frozenset(path for path in found if wanted.may_touch(path))

    def is_complete(state: State) -> bool:
        return needed is None or not any(needed(item) for item in state.skipped)

    def is_whole(state: State) -> bool:
        return not large(state) and is_complete(state)

    checkpoint, state = _take(context, metadata, request, wanted.commits, is_whole if whole else is_complete, scan)
    if whole and checkpoint is None and large(state):
        request = request._replace(ignored=request.ignored | large(state))
        checkpoint, state = _take(context, metadata, request, wanted.commits, is_complete)
    return Saved(checkpoint, tuple(state.skipped))


def _take(
    context: OpenWorktree,
    metadata: Metadata,
    request: CaptureRequest,
    commits: Sequence[str],
    accepts: Callable[[State], bool],
    scan: Scan | None = None,
) -> tuple[Checkpoint | None, State]:
    """The checkpoint and the state in it; none is written where `accepts` does not hold for the state."""
    with checkpoint_writer(context) as writer:
        state = capture_worktree(context, writer, metadata, request=request, scan=scan)
        if not accepts(state):
            return None, state
        tips = _unkept(context.repository, context.worktree_id, commits)
        created = write_checkpoint(context, writer, state, metadata, keep_commits=tips)
        return created.checkpoint, created.state


def _unkept(repository: Repository, name: str, commits: Sequence[str]) -> list[str]:
    """Of `commits`, those that the timeline does not keep alive yet, without those that others of them reach."""
    wanted = [oid for oid in dict.fromkeys(commits) if repository.hash.is_oid(oid) and oid != repository.hash.zero]
    if not wanted:
        return []
    tip = timeline.tip(repository.location, name)
    lines = "".join([f"{oid}\n" for oid in wanted] + ([f"^{tip}\n"] if tip is not None else []))
    out = repository.git("rev-list", "--ignore-missing", "--parents", "--stdin", data=lines.encode()).decode()
    rows = [line.split(" ") for line in out.splitlines()]
    parents = {parent for row in rows for parent in row[1:]}
    return [row[0] for row in rows if row[0] in set(wanted) and row[0] not in parents]
