"""`forget --path` and `--secret`: all that this tool keeps in the repository, written again without paths and texts.

Order, so that a kill at any moment leaves each part as it was before or as it is afterwards: note that it has begun,
record the new ids, move the timelines one by one (as `forgetting` does), then what is not in timelines, then delete.
The texts themselves are never written: after a kill, the same command has to be given again, and each `forget` says so
until then (`unfinished`).
"""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import LockedError
from git_agentos.git import object_sizes, process
from git_agentos.retention import (
    evidence_notes,
    forgetting,
    freeing,
    leftovers,
    pending,
    protection,
    redacted_files,
    redacted_fleets,
    redacted_runs,
    redacted_state,
    redacted_timelines,
    remains,
    unfinished,
)
from git_agentos.retention.forgetting import Forgotten
from git_agentos.retention.progress import Progress
from git_agentos.retention.redaction import Redaction, Wanted


def rewrite(context: OpenWorktree, wanted: Wanted, *, dry_run: bool = False) -> Forgotten:
    """Forget paths and secrets in all checkpoints of the repository, and in all else that this tool keeps in it.

    LockedError while another process forgets, restores for longer than half a minute, or creates or removes a worktree.
    """
    process.require_no_quarantine()
    location = context.location
    with forgetting.forgetting(location), forgetting.no_restores(location):
        blocked = protection.busy(location)
        if blocked:
            raise LockedError(
                f"another git-agentos command is at work on the worktree '{min(blocked)}'", "try again afterwards"
            )
        redaction = Redaction(context.repository, wanted)
        redaction.scan(context.progress)
        progress = Progress()
        if dry_run:
            return _preview(context, redaction, progress)
        unfinished.begin(location, wanted)
        evidence_notes.finish(context.repository)
        redacted_timelines.rewrite(context, redaction, progress)
        redacted_timelines.drop_fetched(context, redaction, progress)
        redacted_fleets.drop_fetched(context, redaction, progress)
        redacted_runs.rewrite(context, redaction, progress)
        redacted_state.rewrite_databases(context, redaction, progress)
        redacted_state.rewrite_copies(context, redaction, progress)
        redacted_files.rewrite(context, redaction, progress)
        # A blob with a secret that nothing reaches is deleted, whoever has written it.
        blobs = {oid for oid, kind in redaction.affected.items() if kind == "blob"}
        found = leftovers.parts(context.repository, redaction.leftovers) | blobs
        pending.note(location, pending.OBJECTS, sorted(found))
        freed = freeing.free(context, used_until=progress.newest)
        left = remains.find(context, redaction, progress)
        unfinished.end(location, wanted)
        return _result(progress, freed.freed_bytes, [*progress.unreachable, *freed.left, *left])


def _preview(context: OpenWorktree, redaction: Redaction, progress: Progress) -> Forgotten:
    """What would be done; nothing is written."""
    redacted_timelines.preview(context, redaction, progress)
    redacted_timelines.drop_fetched(context, redaction, progress, dry_run=True)
    redacted_fleets.drop_fetched(context, redaction, progress, dry_run=True)
    left = remains.find(context, redaction, progress, dry_run=True)
    size = object_sizes.on_disk(context.repository, list(redaction.affected))
    return _result(progress, size, [*progress.unreachable, *left], dry_run=True)


def _result(progress: Progress, freed_bytes: int, unreachable: Sequence[str], *, dry_run: bool = False) -> Forgotten:
    return Forgotten(
        forgotten=(),
        kept=tuple(progress.kept),
        protected=(),
        rewritten=tuple(progress.pairs),
        freed_bytes=freed_bytes,
        unreachable=tuple(dict.fromkeys(unreachable)),
        dry_run=dry_run,
    )
