"""Timelines, written again without what is to be forgotten; and those that were fetched from remotes."""

from __future__ import annotations

import functools
from collections.abc import Callable

from git_agentos.checkpoint import renamed, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs
from git_agentos.git.repository import Writer
from git_agentos.retention import forgetting, plan, redacted_runs
from git_agentos.retention.chain import Chain
from git_agentos.retention.forgetting import Rewritten
from git_agentos.retention.plan import Link, Plan
from git_agentos.retention.progress import Progress
from git_agentos.retention.redacted_attachments import rewrite_attachments
from git_agentos.retention.redacted_checkpoint import Rewriter
from git_agentos.retention.redaction import Redaction
from git_agentos.run import lock
from git_agentos.run.context import run_id_of
from git_agentos.sync import host, names, replaced
from git_agentos.util.progress import counted

_ROUNDS = 100  # while other processes keep creating checkpoints


class TimelineRewriting:
    """The rewriting of one timeline (`forgetting.Rewriting`)."""

    def __init__(self, context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
        self._location = context.location
        self._redaction = redaction
        self._progress = progress
        self._rewriter: Rewriter | None = None

    def begin(self, writer: Writer) -> Callable[[Link], Link]:
        attachments = functools.partial(rewrite_attachments, self._redaction)
        self._rewriter = Rewriter(self._redaction, writer, attachments, self._progress.digests)
        return self._rewriter.link

    def record(self) -> None:
        if self.ids:
            renamed.add(self._location, self.ids)

    @property
    def ids(self) -> dict[str, str]:
        """The checkpoints that have another id now."""
        return self._rewriter.ids if self._rewriter is not None else {}

    @property
    def former(self) -> list[str]:
        """The commits that were replaced."""
        return self._rewriter.former if self._rewriter is not None else []

    def finish(self) -> None:
        """Take over what was written again."""
        if self._rewriter is not None:
            self._progress.dropped.update(self._rewriter.dropped)
            self._progress.nested |= self._rewriter.nested
            self._progress.pairs += [Rewritten(old, new) for old, new in reversed(self.ids.items())]


def all_names(context: OpenWorktree) -> list[str]:
    """The names of all timelines."""
    return sorted(timeline.all_names(context.location))


def rewrite(context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
    """Write all timelines again, until no other process has appended anything meanwhile."""
    moved: dict[str, str] = {}
    for _ in range(_ROUNDS):
        found = (_since(context, name, moved.get(name)) for name in all_names(context))
        due = [each for each in found if each is not None and each.tip != moved.get(each.timeline)]
        if not due:
            break
        for each in counted(context.progress, "Rewriting timelines", due):
            moved[each.timeline] = _move(context, redaction, progress, each)
    for name in sorted(moved):
        now = plan.read(context.repository, name)
        progress.kept += now.checkpoints if now is not None else []


def preview(context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
    """Find out what `rewrite` would do; nothing is written."""
    for name in counted(context.progress, "Looking through timelines", all_names(context)):
        found = _since(context, name, None)
        if found is not None:
            rewriting = TimelineRewriting(context, redaction, progress)
            _tip_of(context, rewriting, found)
            rewriting.finish()
            progress.kept += [rewriting.ids.get(oid, oid) for oid in found.checkpoints]


def _since(context: OpenWorktree, name: str, until: str | None) -> Plan | None:
    """What a timeline has on top of the commit `until`."""
    tip = timeline.tip(context.location, name)
    return None if tip is None else Plan(name, tip, plan.links_of(context.repository, tip, until), frozenset())


def _tip_of(context: OpenWorktree, rewriting: TimelineRewriting, found: Plan) -> str:
    """The commit that a timeline would be at."""
    with context.repository.writer() as writer:
        return Chain(writer, found, {}, context.settings.committer, rewriting.begin(writer)).tip


def _move(context: OpenWorktree, redaction: Redaction, progress: Progress, found: Plan) -> str:
    rewriting = TimelineRewriting(context, redaction, progress)
    if _tip_of(context, rewriting, found) == found.tip:
        rewriting.finish()
        return found.tip
    run_id = run_id_of(found.timeline)
    if run_id is not None and lock.holder(context.location, run_id) is not None:
        progress.unreachable.append(f"run '{run_id}', which goes on: give this command again when it has ended")
        return found.tip
    for link in found.links:
        progress.wrote_at(link.commit.time)
    progress.replaces(context.location, (found.tip, *(link.checkpoint for link in found.links)))
    if run_id is not None and rewriting.ids:
        redacted_runs.prepare(context, redaction, progress, run_id, rewriting.ids)
    tip = forgetting.move(context, found, {}, rewriting)
    progress.wrote_at(context.repository.commit(tip).time)
    progress.replaces(context.location, rewriting.former)  # with what was appended meanwhile
    rewriting.finish()
    return tip


# -- of remotes --------------------------------------------------------------------------------------------------------


def drop_fetched(context: OpenWorktree, redaction: Redaction, progress: Progress, *, dry_run: bool = False) -> None:
    """Drop the timelines that were fetched, or pushed, and that have what is to be forgotten. The remote has it still:
    that is said, and the next `sync` replaces what this clone has pushed."""
    repository, location = context.repository, context.location
    for ref, tip in sorted(refs.list_refs(location, timeline.FETCHED, skip_broken=True).items()):
        known = names.parse_fetched(ref)
        if known is None or not _is_affected(context, redaction, ref):
            continue
        remote, name = known
        own = name.host == host.name(context)
        progress.unreachable.append(_on_remote(remote, name, own=own))
        if dry_run:
            continue
        progress.replaces(location, [tip, *(link.checkpoint for link in plan.links_of(repository, tip))])
        if own:
            replaced.note(location, ref, tip)
        refs.drop(location, ref, tip)


def _is_affected(context: OpenWorktree, redaction: Redaction, ref: str) -> bool:
    try:
        found = _since(context, ref, None)
        rewriting = TimelineRewriting(context, redaction, Progress())
        return found is not None and _tip_of(context, rewriting, found) != found.tip
    except AgentosError:
        return False


def _on_remote(remote: str, name: names.RemoteTimeline, *, own: bool) -> str:
    if own:
        return (
            f"the timeline '{name.timeline}' on the remote '{remote}': 'git agentos sync {remote}' replaces it there;"
            " the remote may keep for a while what it no longer shows, and others may have fetched it"
        )
    return (
        f"the timeline '{name.timeline}' of the host '{name.host}' on the remote '{remote}': it was dropped here, and"
        " the next sync fetches it again, unless it is forgotten on that host"
    )
