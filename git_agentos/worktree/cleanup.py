"""`worktree cleanup`: agents' worktrees that are not needed any more are archived.

    merged      it has commits of its own, and all of them are integrated into its base; nothing in it is uncommitted
    complete    `worktree complete` was called, and nothing has changed in it since
    idle        for as long as `agentos.cleanupAfter` says, no file in it has changed, its HEAD has not moved, and no
                checkpoint of it was created

Archiving saves everything first (`removal`), and refuses as it always does: a worktree that is locked or in use is
kept. So are one on a protected branch, that of a run, one whose folder is missing, and one that git-agentos did not
make. Where its branch is integrated, that is deleted, too: `create --revive` creates it again.

A worktree without commits of its own is not merged, although its HEAD is in the base: its agent has not begun yet. A
branch that was fast-forwarded into the base looks the same; there, the reflog of HEAD says whether the commits were
made in the worktree.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.errors import UNCHANGED, AgentosError, WorktreeError
from git_agentos.findings import reason_of
from git_agentos.git import process, refs, worktrees
from git_agentos.git.refs import reflog
from git_agentos.guard import authorize
from git_agentos.guard.configuration import run_protection, settings
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted
from git_agentos.util.values import count
from git_agentos.worktree import (
    activity,
    agent_branch,
    base,
    journal,
    layout,
    pool,
    record,
    removal,
    removal_checks,
)
from git_agentos.worktree.agent_branch import AgentBranch
from git_agentos.worktree.final_checkpoint import FinalCheckpoint, RemovalRequest
from git_agentos.worktree.record import AgentWorktree

_USUAL = ("main", "master")  # what is protected where `agentos.protected` is not set, as for runs


@dataclass(frozen=True)
class Archived:
    """A worktree that was archived, and why; in a dry run, that would be. `archive` is the checkpoint that has
    everything in it (None in a dry run), `branch_deleted` whether its branch is gone, too."""

    id: str
    archive: str | None
    reason: str
    branch_deleted: bool


@dataclass(frozen=True)
class KeptWorktree:
    """A worktree that was kept, and why, for people."""

    id: str
    reason: str


@dataclass(frozen=True)
class WorktreeCleanup:
    """What a cleanup did; the fields are the keys of the JSON kind `cleanup`."""

    archived: list[Archived]
    kept: list[KeptWorktree]
    dry_run: bool


class _Keep(Exception):
    """A worktree is kept, for this reason."""


class _Decision(NamedTuple):
    """Why a worktree is archived, whether its branch is deleted, and at which commits of HEAD and of its branch that
    was decided."""

    reason: str
    delete_branch: bool
    head: str
    tip: str | None


@authorize.entry("worktree", "cleanup")
def cleanup(context: OpenWorktree, *, dry_run: bool = False) -> WorktreeCleanup:
    """Archive the worktrees that are merged, complete or idle, and delete their branches where these are integrated."""
    after = config.cleanup_after(context.settings.values)
    archived: list[Archived] = []
    kept = [KeptWorktree(timeline.MAIN, "it is the main worktree")]
    for git_dir, id_ in counted(context.progress, "Checking worktrees", list(_linked(context))):
        try:
            archived.append(_Candidate(context, _find(context, git_dir, id_), after, dry_run=dry_run).archive())
        except _Keep as why:
            kept.append(KeptWorktree(id_, str(why)))
        except (AgentosError, OSError) as error:
            if os.path.isdir(git_dir):  # else another process has removed it meanwhile
                kept.append(KeptWorktree(id_, reason_of(error)[0]))
    return WorktreeCleanup(archived, kept, dry_run)


def _linked(context: OpenWorktree) -> Iterator[tuple[str, str]]:
    """The git directories of all linked worktrees with their ids, by id, without those that are only prepared."""
    location = context.location
    prepared = {each.git_dir for each in pool.prepared(location)}
    found = [each for each in worktrees.linked_git_dirs(location.common_dir) if each not in prepared]
    named = [(each, record.identify(each) or record.id_in_timelines(each, location.common_dir)) for each in found]
    yield from sorted(named, key=lambda each: each[1])


def _find(context: OpenWorktree, git_dir: str, id_: str) -> AgentWorktree:
    if record.identify(git_dir) is None:
        raise _Keep("git-agentos did not make it")
    for each in journal.find_all(context.location):
        if each.id == id_ and journal.owner_is_alive(each):
            raise _Keep(f"another git-agentos command ({each.operation}) is at work there")
        if each.id == id_:
            raise _Keep(f"an interrupted {each.operation} waits for: git agentos worktree repair {id_}")
    known = record.read(git_dir)
    if known is None:
        raise _Keep("it is half-made or damaged")
    return AgentWorktree(known, git_dir, worktrees.root_of(git_dir), context.location.common_dir)


class _Candidate:
    """One agent's worktree that may be archived."""

    def __init__(self, context: OpenWorktree, worktree: AgentWorktree, after: float | None, *, dry_run: bool) -> None:
        self.context = context
        self.worktree = worktree
        self.known = worktree.record
        self.after = after
        self.dry_run = dry_run

    def archive(self) -> Archived:
        """Archive the worktree; _Keep, or the error of what prevents that, where it is kept."""
        id_ = self.worktree.id
        if self.known.run_id is not None:
            raise _Keep(f"it belongs to the run '{self.known.run_id}': git agentos run cleanup archives it")
        if removal_checks.is_missing(self.worktree.root):
            raise _Keep(f"its folder is missing: '{self.worktree.root}'")
        removal_checks.wait_for_recorders(self.worktree.git_dir)
        removal_checks.check_worktree(self.context.location, self.worktree, journal.ARCHIVE, delete_branch=False)
        agent = agent_branch.find(self.context, id_)
        self._refuse_protected(agent)
        decision = self._decide(agent)
        if self.dry_run:
            commands.refuse_interrupted(self.worktree.location)
            FinalCheckpoint(self.context, self.worktree, RemovalRequest(journal.ARCHIVE)).check()
            return Archived(id_, None, decision.reason, decision.delete_branch)
        done = removal.end_worktree(
            self.context,
            id_,
            RemovalRequest(journal.ARCHIVE, decision.delete_branch),
            recheck=lambda: self._refuse_moved(decision),
        )
        return Archived(id_, done.checkpoint, decision.reason, done.branch_deleted)

    def _refuse_protected(self, agent: AgentBranch) -> None:
        patterns = settings.read(self.worktree.root, process.environment()).protected or _USUAL
        for branch in dict.fromkeys((agent.branch, self.known.branch)):
            if branch is not None and run_protection.is_protected(branch, patterns):
                raise _Keep(f"the branch '{branch}' is protected")

    def _refuse_moved(self, decision: _Decision) -> None:
        """WorktreeError where a commit was made since the decision."""
        location = self.worktree.location
        now = (refs.read_head(location).commit, refs.resolve(location, self.worktree.ref))
        if now != (decision.head, decision.tip):
            raise WorktreeError(f"a commit was made in the worktree '{self.worktree.id}' just now", UNCHANGED)

    # -- whether it is needed any more -------------------------------------------------------------------------------

    def _decide(self, agent: AgentBranch) -> _Decision:
        """Why it is archived; _Keep where it is not."""
        how = base.compare(self.context, agent.commit, self.known)[2]
        reasons: list[str] = []
        reason = self._merged(agent, how, reasons) or self._complete(agent, reasons) or self._idle(reasons)
        if reason is None:
            raise _Keep("; ".join(reasons))
        tip = refs.resolve(self.context.location, self.worktree.ref)
        used = worktrees.branch_users(self.context.location, self.worktree.ref, except_git_dir=self.worktree.git_dir)
        goes = how is not None and tip == agent.commit and not used
        return _Decision(reason, goes, agent.commit, tip)

    def _merged(self, agent: AgentBranch, how: str | None, reasons: list[str]) -> str | None:
        name = self.known.base_ref.removeprefix(layout.HEADS)
        if how is None:
            reasons.append(f"not merged into '{name}'")
        elif not self._has_own_commits(agent, how):
            reasons.append("nothing was committed in it yet")
        elif agent.operation is not None:
            reasons.append(f"a {agent.operation} is in progress in it")
        elif number := len(agent_branch.uncommitted(self.worktree.location)):
            reasons.append(f"merged into '{name}', but {count(number, 'path')} in it {_is(number)} not committed")
        else:
            return f"merged into '{name}' ({how})"
        return None

    def _has_own_commits(self, agent: AgentBranch, how: str) -> bool:
        """Whether commits were made in the worktree since it began, or was last brought up to its base."""
        repository = self.context.repository
        starts = [each for each in self.known.base_commits if repository.exists(each)]
        if any(repository.is_ancestor(agent.commit, each) for each in starts):
            return False
        if how not in ("same-commit", "ancestor"):
            return True
        target = base.target_commit(self.context, self.known)
        assert target is not None
        args = ["rev-list", "--first-parent", target, *(f"^{each}" for each in starts)]
        if agent.commit not in repository.git(*args).decode().split():
            return True  # merged by a merge commit
        entries = reflog.parse(refs.read_log(self.worktree.location, "HEAD"))
        return any(reflog.is_made_there(each) and not self._is_start(each.new, starts) for each in entries)

    def _is_start(self, oid: str, starts: list[str]) -> bool:
        repository = self.context.repository
        return not repository.exists(oid) or any(repository.is_ancestor(oid, each) for each in starts)

    def _complete(self, agent: AgentBranch, reasons: list[str]) -> str | None:
        if self.known.state != record.COMPLETE or self.known.completed_at is None:
            return None
        since = times.to_seconds(self.known.completed_at)
        if agent.operation is None and not activity.has_changed(self.context, self.worktree, since):
            return f"complete since {self.known.completed_at[:10]}"
        reasons.append("it has changed since it was completed")
        return None

    def _idle(self, reasons: list[str]) -> str | None:
        if self.after is None:
            return None
        since = time.time() - self.after
        if times.to_seconds(self.known.created_at) <= since and not activity.has_changed(
            self.context, self.worktree, since
        ):
            return f"idle for {_days(self.after)} or more"
        reasons.append(f"in use during the last {_days(self.after)}")
        return None


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _days(seconds: float) -> str:
    """A time in words."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            return count(int(seconds // size), unit)
    return f"{seconds:g} seconds"
