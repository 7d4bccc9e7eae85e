"""What a worker pushes of a run: the branch's tip, the timeline and the evidence, searched for secrets before.

Everything that the remote does not have is searched as before `sync`. A checkpoint with a secret is left out of the
timeline that is pushed, which is then a chain of its own (`sync.chain`); of the branch, only what is before the first
commit with a secret is pushed; and evidence with one is not pushed at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs
from git_agentos.git.repository import CommitData, Repository, Writer
from git_agentos.run import evidence_copy
from git_agentos.run.context import worktree_id
from git_agentos.run.events import Run
from git_agentos.sync import chain
from git_agentos.sync.chain import Lacking
from git_agentos.sync.scan import HeldBack, Scan, Scanner
from git_agentos.util.named_tuple import NamedTuple


class Work(NamedTuple):
    """What there is of a run: the tip of its branch, the newest commit of its timeline, and the tree of its evidence;
    None for what it does not have yet."""

    commit: str | None
    timeline: str | None
    evidence: str | None


class Pushable(NamedTuple):
    """What of a run's work can be pushed, and what is held back."""

    work: Work
    held_back: tuple[HeldBack, ...] = ()

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The fingerprints of what is held back."""
        return tuple(dict.fromkeys(each.fingerprint for each in self.held_back if each.fingerprint is not None))

    @property
    def detail(self) -> str | None:
        """What is held back, for people."""
        rows = dict.fromkeys(
            f"{each.kind} in '{each.path}' ({each.fingerprint})" if each.path else each.kind for each in self.held_back
        )
        return f"held back: {', '.join(rows)}" if rows else None


def find(context: OpenWorktree, run_id: str) -> Work:
    """The work of a run as it is now; the commit is HEAD's in its newest checkpoint, which so reaches it."""
    location, id_ = context.location, worktree_id(run_id)
    tip = timeline.tip(location, id_)
    newest = timeline.newest(context.repository, id_)
    commit = format.read_state(context.repository, newest.checkpoint).head.commit if newest is not None else None
    return Work(commit, tip, refs.resolve(location, evidence_copy.PREFIX + run_id))


class Search:
    """A search of what `work` has and `known`, commits that the remote has, do not."""

    def __init__(
        self, repository: Repository, run_id: str, work: Work, known: Iterable[str], scanner: Scanner,
        allowed: frozenset[str],
    ) -> None:  # fmt: skip
        self._repository = repository
        self._id = worktree_id(run_id)
        self._work = work
        has = frozenset(known)
        self._commits = _until(repository, work.timeline, has)
        # The evidence is searched as what a commit without a message would have.
        parts = [*self._commits]
        parts += [CommitData(each, each, (), b"", 0) for each in (work.evidence,) if each is not None]
        self._scan = Scan(repository, parts, has, scanner, allowed)

    @cached_property
    def _held_back(self) -> dict[str, list[HeldBack]]:
        """Why commits of the timeline are held back."""
        found = {each.oid: self._scan.held_back(self._id, each) for each in self._commits}
        return {oid: rows for oid, rows in found.items() if rows}

    def is_clean(self) -> bool:
        """Whether all of it can be pushed."""
        return not self._held_back and not self._is_held(self._work.commit) and not self._is_evidence_held()

    def pushable(self, writer: Writer) -> Pushable:
        """What can be pushed; what has to be written for it is written."""
        if self.is_clean():
            return Pushable(self._work)
        rows = [row for found in self._held_back.values() for row in found]
        evidence = self._work.evidence
        if self._is_evidence_held() and evidence is not None:
            rows += self._scan.found_in(self._id, evidence)
            evidence = None
        commit = self._work.commit
        if commit is not None and self._is_held(commit):
            rows += self._scan.found_in(self._id, commit)
            while self._is_held(commit):
                parents = self._repository.commit(str(commit)).parents
                commit = parents[0] if parents else None
        kept = [each for each in reversed(self._commits) if each.oid not in self._held_back]
        if not self._held_back or self._work.timeline is None:
            tip = self._work.timeline
        else:
            root = self._commits[-1].parents[0]
            made = chain.build(self._repository, writer, Lacking(tuple(kept), None, root), kept)
            tip = made[-1] if made else None
        return Pushable(Work(commit, tip, evidence), tuple(dict.fromkeys(row._replace(checkpoint="") for row in rows)))

    def _is_held(self, commit: str | None) -> bool:
        return commit is not None and self._scan.is_found_in(commit)

    def _is_evidence_held(self) -> bool:
        return self._work.evidence is not None and self._scan.is_found_in(self._work.evidence)


def final_tree(context: OpenWorktree, run: Run, work: Work) -> str | None:
    """The tree of a run's result: that of its branch, or all visible files of its last checkpoint where it has
    committed nothing; None where it has none."""
    base = run.context.base_sha if run.context is not None else None
    if work.commit is not None and work.commit != base:
        return context.repository.commit_tree(work.commit)
    try:
        with context.repository.writer() as writer:
            state = format.read_state(context.repository, str(run.final_checkpoint))
            tree = format.with_visible_tree(context.repository, writer, state).visible_tree
            writer.flush()
            return tree
    except AgentosError:
        return None


def _until(repository: Repository, tip: str | None, known: frozenset[str]) -> Sequence[CommitData]:
    """The commits of a timeline, newest first, down to one that the remote has."""
    found = []
    for commit in timeline.commits(repository, tip):
        if commit.oid in known:
            break
        found.append(commit)
    return found
