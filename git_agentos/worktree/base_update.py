"""`worktree sync`: agents' branches are brought up to a base that has moved on.

The result for every worktree is computed in memory first: by a merge of the base into the branch, or with `rebase` by
replaying the branch's own commits onto the base (`replay`). Then one worktree after the other is updated as a merge
updates its target (`fast_forward`): a checkpoint, the files, the index and the branch, or nothing of it. A conflict,
uncommitted changes in files that the base has changed, and a process that works in a worktree leave it as it was.

`undo` in a worktree takes its update back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, LockedError, UsageError
from git_agentos.findings import reason_of
from git_agentos.git import merge_tree, worktrees
from git_agentos.git.merge_tree import MergeEnvironment, MergeResult
from git_agentos.guard import authorize
from git_agentos.process import occupants
from git_agentos.util.progress import counted
from git_agentos.worktree import agent_branch, base, fast_forward, journal, record, removal_checks, replay
from git_agentos.worktree.agent_branch import AgentBranch
from git_agentos.worktree.fast_forward import FastForward, Move, TipMovedError
from git_agentos.worktree.layout import HEADS
from git_agentos.worktree.local_changes import InTheWayError
from git_agentos.worktree.record import AgentWorktree

_MAX_ATTEMPTS = 20
_RESTORED = "restore/"  # the branches that a restore creates: the agent goes on working on them


@dataclass(frozen=True)
class Synced:
    """A worktree whose branch was brought up to its base, from the commit `before` to `after`. `saved` is the
    checkpoint of the state before. In a dry run, `after` and `saved` are None."""

    id: str
    before: str
    after: str | None
    saved: str | None


@dataclass(frozen=True)
class SyncConflict:
    """A worktree that stays as it was: the `files` of its commits and of the base conflict, or with `uncommitted`, the
    base has changed files that have changes there which are not committed."""

    id: str
    files: list[str]
    uncommitted: bool


@dataclass(frozen=True)
class NotSynced:
    """A worktree that was left alone, and why, for people."""

    id: str
    reason: str


@dataclass(frozen=True)
class WorktreeSync:
    """What a sync did; the fields are the keys of the JSON kind `worktree-sync`."""

    synced: list[Synced] = field(default_factory=list)
    conflicts: list[SyncConflict] = field(default_factory=list)
    skipped: list[NotSynced] = field(default_factory=list)
    rebase: bool = False
    dry_run: bool = False


class _SkipError(Exception):
    """A worktree is left alone, for this reason."""


class _ConflictError(Exception):
    """The base conflicts with what is in a worktree."""

    def __init__(self, files: Sequence[bytes], *, uncommitted: bool = False) -> None:
        super().__init__()
        self.files = [os.fsdecode(path) for path in files]
        self.uncommitted = uncommitted


@authorize.entry("worktree", "sync")
def sync(
    context: OpenWorktree, ids: Sequence[str] = (), *, all_: bool = False, rebase: bool = False, dry_run: bool = False
) -> WorktreeSync:
    """Bring the branches of agents up to their bases: of those named, of all, or of the worktree of `context`.

    With `rebase`, the agents' commits are replayed onto the base, else the base is merged. UsageError or WorktreeError
    where there is no such worktree: then nothing was done.
    """
    result = WorktreeSync(rebase=rebase, dry_run=dry_run)
    updates = [_Update(context, each, rebase=rebase, dry_run=dry_run) for each in _chosen(context, ids, all_=all_)]
    computing = counted(context.progress, "Merging in memory", updates)
    ready = [each for each in computing if _attempt(result, each, each.compute)]
    for each in counted(context.progress, "Updating worktrees", ready):
        _attempt(result, each, each.apply)
        if each.done is not None:
            result.synced.append(each.done)
    return result


def _chosen(context: OpenWorktree, ids: Sequence[str], *, all_: bool) -> list[AgentWorktree]:
    common_dir = context.location.common_dir
    if all_:
        if ids:
            raise UsageError("--all and an ID cannot be used together", "name the worktrees, or give --all")
        return list(record.agent_worktrees(common_dir))
    if not ids and context.worktree_id == timeline.MAIN:
        raise UsageError("which worktrees are to be synced?", "name them, or give --all")
    return [record.find(common_dir, each) for each in dict.fromkeys(ids or [context.worktree_id])]


def _attempt(result: WorktreeSync, update: _Update, step: Callable[[], None]) -> bool:
    """Do one step for a worktree; False where it is left as it was, and noted in the result."""
    try:
        step()
    except _SkipError as why:
        result.skipped.append(NotSynced(update.id, str(why)))
    except _ConflictError as found:
        result.conflicts.append(SyncConflict(update.id, found.files, found.uncommitted))
    except InTheWayError as error:
        files = [os.fsdecode(path) for path in error.paths]
        result.conflicts.append(SyncConflict(update.id, files, uncommitted=True))
    except (AgentosError, OSError) as error:
        result.skipped.append(NotSynced(update.id, reason_of(error)[0]))
    else:
        return True
    return False


class _Update:
    """The update of one worktree: `compute` finds the commit that its branch goes to, `apply` moves it there."""

    def __init__(self, context: OpenWorktree, worktree: AgentWorktree, *, rebase: bool, dry_run: bool) -> None:
        self.context = context
        self.repository = context.repository
        self.worktree = worktree
        self.id = worktree.id
        self.rebase = rebase
        self.dry_run = dry_run
        self.agent: AgentBranch
        self.base = self.after = ""
        self.done: Synced | None = None

    @property
    def name(self) -> str:
        """What the base is called."""
        return self.worktree.record.base_ref.removeprefix(HEADS)

    # -- in memory ---------------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Find the commit that the branch goes to."""
        self._check_free()
        self.agent = agent = agent_branch.find(self.context, self.id)
        self._check_branch(agent)
        found = base.tip(self.context, self.worktree.record)
        if found is None:
            raise _SkipError(f"its base '{self.name}' is no branch or tag (any more)")
        self.base = found
        if self.repository.is_ancestor(found, agent.commit):
            raise _SkipError(f"it is up to date with '{self.name}'")
        self.after = found if self.repository.is_ancestor(agent.commit, found) else self._combine(agent, found)

    def _check_free(self) -> None:
        """_SkipError where somebody is at work in the worktree."""
        if self.worktree.record.run_id is not None:
            raise _SkipError(f"it belongs to the run '{self.worktree.record.run_id}'")
        root = self.worktree.root
        if removal_checks.is_missing(root):
            raise _SkipError(f"its folder is missing: '{root}'")
        removal_checks.check_folder(self.worktree)
        for each in journal.find_all(self.context.location):
            if each.id == self.id:
                if journal.owner_is_alive(each):
                    raise _SkipError(f"another git-agentos command ({each.operation}) is at work there")
                raise _SkipError(f"an interrupted {each.operation} waits for: git agentos worktree repair {self.id}")
        removal_checks.wait_for_recorders(self.worktree.git_dir)
        # The processes that this command was started by have asked for it.
        busy = [each for each in occupants.find(root) if not each.ancestor]
        if busy:
            raise _SkipError(f"a process works in it: {busy[0].pid} ({busy[0].name})")

    def _check_branch(self, agent: AgentBranch) -> None:
        if agent.operation is not None:
            raise _SkipError(f"a {agent.operation} is in progress there")
        if agent.branch is None:
            raise _SkipError("its HEAD is detached")
        own = self.worktree.record.branch
        if agent.branch != own and not agent.branch.startswith(_RESTORED):
            raise _SkipError(f"its HEAD is on '{agent.branch}', not on its own branch '{own}'")

    def _combine(self, agent: AgentBranch, onto: str) -> str:
        """The commit with the work of both."""
        if self.repository.merge_base(agent.commit, onto) is None:
            raise _SkipError(f"its history has nothing in common with '{self.name}'")
        location = self.worktree.location
        where = MergeEnvironment({"GIT_DIR": location.git_dir, "GIT_WORK_TREE": location.root}, location.root)
        return self._replay(agent.commit, onto, where) if self.rebase else self._merge(agent, onto, where)

    def _merge(self, agent: AgentBranch, onto: str, where: MergeEnvironment) -> str:
        found = merge_tree.merge(self.repository, agent.commit, onto, where, durable=not self.dry_run)
        _refuse_conflict(found)
        message = os.fsencode(f"Merge '{self.name}' into {agent.branch}\n")
        with self.repository.writer() as writer:
            who = self.context.settings.committer
            oid = writer.write_commit(found.tree, [agent.commit, onto], message, who, int(time.time()))
            writer.flush()
        return oid

    def _replay(self, tip: str, onto: str, where: MergeEnvironment) -> str:
        starts = [
            each
            for each in self.worktree.record.base_commits
            if self.repository.exists(each) and self.repository.is_ancestor(each, tip)
        ]
        limits = [f"^{each}" for each in starts]
        if self.repository.git("rev-list", "--min-parents=2", "--max-count=1", tip, f"^{onto}", *limits):
            raise _SkipError("there are merges in its history, which a rebase would lose; --merge keeps them")
        args = ["rev-list", "--reverse", "--topo-order", "--right-only", "--cherry-pick"]
        commits = self.repository.git(*args, f"{onto}...{tip}", *limits).decode().split()
        by = replay.Committer(self.context.settings.committer, int(time.time()))
        with self.repository.writer() as writer:
            found = replay.replay(self.repository, writer, commits, onto, where, by)
        if found.conflict is not None:
            _refuse_conflict(found.conflict)
        return found.tip

    # -- on disk -----------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Move the branch with the worktree; what has moved meanwhile is computed again."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                self._apply()
                return
            except TipMovedError:
                self.compute()
        raise LockedError(f"other processes keep updating the branch '{self.agent.branch}'", "try again")

    def _apply(self) -> None:
        move = Move(f"{HEADS}{self.agent.branch}", self.agent.commit, self.after, self._reason(), self.base)
        if self.dry_run:
            fast_forward.check(self.context, move)
            self.done = Synced(self.id, move.old, None, None)
            return
        self._check_free()
        with worktrees.lock(self.context.location):
            moved = fast_forward.fast_forward(
                self.context,
                move,
                description=f"before syncing with {self.name}",
                meta={"target": str(self.agent.branch), "sources": self.name, "merge_commit": self.after},
            )
        self.done = Synced(self.id, move.old, move.new, moved.saved)
        self._log(moved)

    def _reason(self) -> str:
        return f"agentos sync: {'rebased onto' if self.rebase else 'with'} {self.name}"

    def _log(self, moved: FastForward) -> None:
        from git_agentos import log  # loads the database's driver

        assert moved.location is not None
        details = {"base": self.name, "base_commit": self.base, "before": self.agent.commit, "rebase": self.rebase}
        inner = self.context.in_worktree(moved.location)
        summary = f"synced with {self.name}"
        log.try_add(inner, "action", summary, details=details, commit=self.after, checkpoint_id=moved.saved)


def _refuse_conflict(found: MergeResult) -> None:
    if not found.clean:
        raise _ConflictError(found.files)
