"""What the commands `forget` and `storage` call, and the Python API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from git_agentos.checkpoint import queries, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import UsageError
from git_agentos.guard import authorize
from git_agentos.hooks import pending
from git_agentos.retention import forgetting, rewriting, rules, storage
from git_agentos.retention.forgetting import Forgotten, Request
from git_agentos.retention.redaction import Wanted
from git_agentos.retention.secret_texts import GivenSecrets
from git_agentos.retention.storage import Storage


@authorize.entry("forget", named=("keep",))
def forget(  # noqa: PLR0913 - the options of the command, documented
    context: OpenWorktree,
    *ids: str,
    keep: Mapping[str, str | int | None],
    agent: str | None = None,
    all_timelines: bool = False,
    path: Sequence[str] = (),
    secret: GivenSecrets | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Forget checkpoints of this worktree, of the worktree `agent`, or of all: by their ids, or those that rules do not
    keep. `keep` has the rules by their names (`last`, `hourly`, …, `within`).

    With `path` (patterns of gitignore(5)) or `secret`, no checkpoint is forgotten: these are, in all checkpoints of the
    repository.

    UsageError without any of them, or with more than one; CheckpointNotFound for an id that is not there.
    """
    if path or secret is not None:
        if ids or agent is not None or any(value is not None for value in keep.values()):
            raise UsageError(
                "--path and --secret are about all checkpoints of the repository",
                "give checkpoints, rules or --agent in a command of its own",
            )
        timelines_of(context, None, every=True)
        return rewriting.rewrite(
            context, Wanted(tuple(path), secret.texts if secret is not None else ()), dry_run=dry_run
        )
    given = rules.make(keep, keep.get(rules.WITHIN))
    names = timelines_of(context, agent, every=all_timelines)
    return forgetting.forget(context, Request(names, ids, given or None), dry_run=dry_run)


def measure(context: OpenWorktree, agent: str | None = None, *, all_timelines: bool = False) -> Storage:
    """What the timeline of this worktree takes, of `agent`'s, or what all take; and the rest of the repository."""
    return storage.measure(context, timelines_of(context, agent, every=all_timelines))


def timelines_of(context: OpenWorktree, agent: str | None, *, every: bool) -> list[str]:
    """The names of timelines: this worktree's, `agent`'s, or all, with what hooks have left to append to them.
    CheckpointNotFound if `agent` has none."""
    for where in context.all_worktrees():
        if every or timeline.worktree_id(where) == (agent or context.worktree_id):
            pending.record(where)
    names = timeline.all_names(context.location)
    if every:
        return sorted(names)
    if agent is not None and agent not in names:
        raise queries.unknown_agent(agent)
    return [agent or context.worktree_id]
