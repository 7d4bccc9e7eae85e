"""Which agents' branches conflict, and in which order to merge them.

Every pair is merged in memory, all of them by a few git processes that write into a scratch folder. Most of a merge's
time is in writing its result, so pairs that certainly merge cleanly are left out (`_Prefilter`): both sides are linear
histories from their one merge base; neither has removed a file (so git sees no rename) or turned one kind of file into
another; they have changed no path in common; and neither has a file where the other has a folder.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import MissingObjectsError
from git_agentos.git import merge_tree, state_dir, trees
from git_agentos.git.merge_tree import MergeEnvironment
from git_agentos.git.repository import Repository, Writer
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import counted, phase
from git_agentos.worktree import agent_branch
from git_agentos.worktree.agent_branch import AgentBranch, UnreadableAgent
from git_agentos.worktree.local_changes import parents

_MAX_COMMITS = 2000


@dataclass(frozen=True)
class Conflict:
    """Two that conflict: `a` is an agent or the target of a merge, `b` an agent; `messages` are git's."""

    a: str
    b: str
    files: list[str]
    messages: list[str]

    @classmethod
    def of(cls, a: str, b: str, merged: merge_tree.MergeResult) -> Conflict:
        """The conflict of two, as their merge shows it."""
        return cls(a, b, [os.fsdecode(path) for path in merged.files], merged.messages)


@dataclass(frozen=True)
class Compared:
    """What was compared of an agent: its commit, and the checkpoint on top of it where that was asked for."""

    id: str
    commit: str
    checkpoint: str | None


@dataclass(frozen=True)
class Conflicts:
    """The pairs that conflict, and the order to merge in; the fields are the keys of the JSON kind `conflicts`.
    `left_out` are agents whose worktree cannot be read."""

    pairs: list[Conflict]
    order: list[str]
    agents: list[Compared]
    left_out: list[UnreadableAgent] = field(default_factory=list)


def conflicts(context: OpenWorktree, ids: Sequence[str] = (), *, dirty: bool = False) -> Conflicts:
    """Compare the committed work of these agents, of all by default; with `dirty` what their latest checkpoints hold
    beyond it, too."""
    left_out: list[UnreadableAgent] = []
    if ids:
        agents = [agent_branch.find(context, id_) for id_ in dict.fromkeys(ids)]
    else:
        agents, left_out = agent_branch.readable_agents(context)
    agents.sort(key=lambda each: each.id)
    repository = context.repository
    with state_dir.scratch(context.location) as folder:
        quarantine = merge_tree.quarantine(repository, os.path.join(folder, "objects"))
        with repository.writer(quarantine) as writer:
            reading = counted(context.progress, "Reading branches", agents)
            sides = [_side(context, writer, each, dirty=dirty) for each in reading]
            writer.flush()
        chosen = list(itertools.combinations(range(len(agents)), 2))
        prefilter = _Prefilter(repository)
        undecided = [(a, b) for a, b in chosen if not prefilter.merges_cleanly(sides[a], sides[b])]
        with phase(context.progress, "Merging branches in pairs"):
            pairs = _in_conflict(repository, [each.id for each in agents], sides, undecided, quarantine)
    compared = [Compared(each.id, each.commit, side.checkpoint) for each, side in zip(agents, sides, strict=True)]
    return Conflicts(pairs, order([each.id for each in agents], pairs), compared, left_out)


def of_commits(context: OpenWorktree, commits: Mapping[str, Begun]) -> list[Conflict]:
    """The pairs among many commits that conflict, by their names."""
    repository, ids = context.repository, list(commits)
    sides = [_committed(repository, each.commit) for each in commits.values()]
    bases = [each.base for each in commits.values()]
    with state_dir.scratch(context.location) as folder:
        quarantine = merge_tree.quarantine(repository, os.path.join(folder, "objects"))
        undecided = _Prefilter(repository).undecided(sides, bases)
        return _in_conflict(repository, ids, sides, undecided, quarantine)


class Begun(NamedTuple):
    """A commit, and the commit at which the work in it was begun."""

    commit: str
    base: str


def _in_conflict(
    repository: Repository,
    ids: Sequence[str],
    sides: Sequence[_Side],
    pairs: Sequence[tuple[int, int]],
    quarantine: Mapping[str, str],
) -> list[Conflict]:
    """Those of the pairs that conflict, each merged."""
    commits = [(sides[a].commit, sides[b].commit) for a, b in pairs]
    results = merge_tree.merge_pairs(repository, commits, MergeEnvironment(quarantine))
    return [Conflict.of(ids[a], ids[b], found) for (a, b), found in zip(pairs, results, strict=True) if not found.clean]


class _Side(NamedTuple):
    """What is merged of an agent: a commit with `tree` that is `head` or lies on it; it need not be in the store."""

    commit: str
    head: str
    tree: str
    checkpoint: str | None


class _Prefilter:
    """Finds merges that are certainly clean, from trees alone."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._changes: dict[tuple[str, _Side], frozenset[bytes] | None] = {}

    def merges_cleanly(self, one: _Side, other: _Side) -> bool:
        """Whether the two merge cleanly; False where it is not certain."""
        if one.commit == other.commit:
            return True
        base = self.repository.merge_base(one.head, other.head)
        if base is None:
            return False
        mine, theirs = self._changed(base, one), self._changed(base, other)
        if mine is None or theirs is None or not mine.isdisjoint(theirs):
            return False
        return not any(
            parent in against
            for paths, against in ((mine, theirs), (theirs, mine))
            for path in paths
            for parent in parents(path)
        )

    def undecided(self, sides: Sequence[_Side], bases: Sequence[str]) -> list[tuple[int, int]]:
        """The pairs of many for which it is not certain; `bases` are where their work was begun."""
        found: set[tuple[int, int]] = set()
        at: dict[tuple[str, bytes], list[int]] = {}  # base and path -> those that change it, or something below
        changed: dict[tuple[str, bytes], list[int]] = {}
        plain: dict[str, list[int]] = {}
        others = []
        for n, (base, side) in enumerate(zip(bases, sides, strict=True)):
            paths = self._changed(base, side)
            if paths is None:
                others.append(n)
                continue
            plain.setdefault(base, []).append(n)
            for path in paths:
                changed.setdefault((base, path), []).append(n)
            above = {folder for path in paths for folder in parents(path)}
            for name in paths | above:
                at.setdefault((base, name), []).append(n)
        for key, those in changed.items():
            found.update((min(a, b), max(a, b)) for a in those for b in at[key] if a != b)
        groups = [*plain.values(), *([n] for n in others)]
        for one, other in itertools.combinations(groups, 2):
            found.update(
                (min(a, b), max(a, b)) for a in one for b in other if not self.merges_cleanly(sides[a], sides[b])
            )
        return sorted(found)

    def _changed(self, base: str, side: _Side) -> frozenset[bytes] | None:
        """The paths that differ; None where more than contents and new files do, or a merge lies between."""
        if (base, side) not in self._changes:
            try:
                self._changes[base, side] = self._plain_changes(base, side)
            except MissingObjectsError:  # cut off by a shallow clone
                self._changes[base, side] = None
        return self._changes[base, side]

    def _plain_changes(self, base: str, side: _Side) -> frozenset[bytes] | None:
        repository, oid = self.repository, side.head
        for _ in range(_MAX_COMMITS):
            if oid == base:
                break
            parents = repository.commit(oid).parents
            if len(parents) != 1:
                return None
            oid = parents[0]
        else:
            return None
        delta = trees.diff(repository, repository.commit_tree(base), side.tree)
        for before, after in delta.values():
            if after is None or (before is not None and _KINDS.get(before[0]) != _KINDS.get(after[0])):
                return None
        return frozenset(delta)


_KINDS = {trees.REGULAR: 1, trees.EXECUTABLE: 1, trees.SYMLINK: 2, trees.GITLINK: 3}


def _side(context: OpenWorktree, writer: Writer, each: AgentBranch, *, dirty: bool) -> _Side:
    """The agent's committed work. With `dirty` its latest checkpoint, as a commit on the one that it was taken on, so
    that merge bases are the real ones; unless there is none, or what has been committed since leaves it behind."""
    repository = context.repository
    committed = _committed(repository, each.commit)
    link = agent_branch.last_link(context, each) if dirty else None
    if link is None:
        return committed
    seen, checkpoint = repository.commit(link.commit), repository.commit(link.checkpoint)
    head = checkpoint.parents[0]
    if head != each.commit and repository.is_ancestor(head, each.commit):
        return committed
    if seen.tree == repository.commit_tree(head):
        return _Side(head, head, seen.tree, link.checkpoint)
    message = f"the worktree of {each.id}\n".encode()
    made = writer.write_commit(seen.tree, [head], message, context.settings.committer, seen.time)
    return _Side(made, head, seen.tree, link.checkpoint)


def _committed(repository: Repository, commit: str) -> _Side:
    return _Side(commit, commit, repository.commit_tree(commit), None)


def order(ids: Sequence[str], pairs: Sequence[Conflict]) -> list[str]:
    """Always the one next that conflicts with the fewest of those still to come; by id where they are equal."""
    against: Mapping[str, set[str]] = {id_: set() for id_ in ids}
    for pair in pairs:
        against[pair.a].add(pair.b)
        against[pair.b].add(pair.a)
    waiting, result = set(ids), []
    while waiting:
        following = min(waiting, key=lambda id_: (len(against[id_] & waiting), id_))
        waiting.remove(following)
        result.append(following)
    return result
