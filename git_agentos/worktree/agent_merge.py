"""Merging what agents have committed into a branch.

Everything is computed in memory first (`git.merge_tree`), one agent after the other onto the growing result; only a
result without conflicts moves the branch, in one step (`fast_forward`). What an agent has not committed is not merged,
and is reported. Every merge is a commit, also where the branch could be fast-forwarded: its trailers say which
agent and which checkpoint it came from. No hook is run and nothing is signed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from git_agentos.checkpoint import operation, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import UNCHANGED, AgentosError, LockedError, UsageError, WorktreeError
from git_agentos.git import merge_tree, refs, state_dir, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.merge_tree import MergeEnvironment
from git_agentos.git.repository import Writer
from git_agentos.guard import authorize
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import phase
from git_agentos.worktree import agent_branch, fast_forward, layout
from git_agentos.worktree.agent_branch import AgentBranch
from git_agentos.worktree.conflicts import Conflict
from git_agentos.worktree.fast_forward import FastForward, Move, TipMovedError

MERGED, UP_TO_DATE, NOTHING_TO_ADD, NOT_MERGED = "merged", "up-to-date", "nothing-to-add", "not-merged"
_MAX_ATTEMPTS = 100
_MAX_SUBJECTS = 50


@dataclass(frozen=True)
class Source:
    """One agent's part: `state` is `merged`, `up-to-date` (the target has its commits), `nothing-to-add` (the target
    has its changes) or `not-merged`; `merge_commit` the commit that merges it (None when squashed or not made);
    `checkpoint` its newest; `uncommitted` the number of paths in its worktree that no commit has."""

    id: str
    branch: str | None
    commit: str
    checkpoint: str | None
    state: str
    merge_commit: str | None
    uncommitted: int


@dataclass(frozen=True)
class Merge:
    """The result of a merge; the fields are the keys of the JSON kind `merge`.

    `merged` tells whether the target has moved (in a dry run: would move); `target` is the branch's short name,
    `before` where it was, `merge_commit` where it is now (None where it did not move). `saved` and `worktree_path` are
    the checkpoint created before and the worktree that was updated. `warnings` say what could not be logged.
    """

    merged: bool
    target: str
    before: str
    merge_commit: str | None = None
    sources: list[Source] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    saved: str | None = None
    worktree_path: str | None = None
    squashed: bool = False
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


@authorize.entry("worktree", "merge")
def merge(
    context: OpenWorktree,
    ids: Sequence[str],
    *,
    into: str | None = None,
    squash: bool = False,
    dry_run: bool = False,
    commits: Mapping[str, str] = MappingProxyType({}),
) -> Merge:
    """Merge the committed work of agents into the branch `into`, all of them or none.

    `into` defaults to the branch that is checked out here; in the worktree of one of the agents, to the branch that it
    was made from. With conflicts in the result nothing was changed. `squash` makes one commit of everything, with the
    target's tip as its only parent. `commits` (by id) are taken for what agents have committed: to be, in a dry run.
    """
    if not ids:
        raise UsageError("name the agents whose work is to be merged")
    agents = _find_agents(context, ids, commits)
    return merge_branches(context, agents, target(context, agents, into), Manner(squash=squash, dry_run=dry_run))


class Manner(NamedTuple):
    """How branches are merged: `partial` leaves out those that conflict with the target or with one before them, and
    merges the others."""

    squash: bool = False
    dry_run: bool = False
    partial: bool = False


def merge_branches(context: OpenWorktree, agents: Sequence[AgentBranch], ref: str, manner: Manner) -> Merge:
    """Merge these in their order into the branch with the full name `ref`. Of a `partial` merge, each conflict names
    one that was left out as `b`."""
    _check_not_the_target(agents, ref)
    for _ in range(_MAX_ATTEMPTS):
        old = refs.resolve(context.location, ref)
        if old is None:
            raise WorktreeError(f"the branch '{_short(ref)}' is gone", UNCHANGED)
        with phase(context.progress, "Merging in memory"):
            built = _MergeBuilder(context, ref, old, agents, manner).build()
        if built.merge_commit is None:
            return built
        try:
            if manner.dry_run:
                fast_forward.check(context, Move(ref, old, built.merge_commit))
                sources = [replace(each, merge_commit=None) for each in built.sources]
                return replace(built, merge_commit=None, sources=sources)
            moved = _move(context, ref, built)
        except TipMovedError:
            continue
        updated = context.in_worktree(moved.location) if moved.location is not None else None
        merged = replace(built, saved=moved.saved, worktree_path=updated.location.root if updated else None)
        return replace(merged, warnings=_log_merge(context, updated or context, merged, agents))
    raise LockedError(
        f"cannot merge into the branch '{_short(ref)}': other processes keep updating it", f"try again; {UNCHANGED}"
    )


def _find_agents(context: OpenWorktree, ids: Sequence[str], commits: Mapping[str, str]) -> list[AgentBranch]:
    """What the agents have committed, or the given `commits` instead; WorktreeError in a rebase or the like."""
    agents = [agent_branch.find(context, id_) for id_ in dict.fromkeys(ids)]
    for each in agents:
        if operation.detaches_head(each.operation):
            raise WorktreeError(
                f"a {each.operation} is in progress in the worktree of '{each.id}'",
                f"finish or abort it first; {UNCHANGED}",
            )
    return [replace(each, commit=commits.get(each.id, each.commit)) for each in agents]


def _check_not_the_target(agents: Sequence[AgentBranch], ref: str) -> None:
    for each in agents:
        if each.branch is not None and layout.HEADS + each.branch == ref:
            raise UsageError(f"'{each.id}' works on '{each.branch}' itself: it cannot be merged into it")


def _move(context: OpenWorktree, ref: str, built: Merge) -> FastForward:
    """Move the target, and its worktree, to the result."""
    assert built.merge_commit is not None
    target = _short(ref)
    names = [each.id for each in built.sources if each.state == MERGED]
    with worktrees.lock(context.location):
        return fast_forward.fast_forward(
            context,
            Move(ref, built.before, built.merge_commit, f"agentos merge: {', '.join(names)}"),
            description=f"before merging {', '.join(names)} into {target}",
            meta={"target": target, "sources": " ".join(names), "merge_commit": built.merge_commit},
        )


# -- the target ----------------------------------------------------------------------------------------------------


def _short(ref: str) -> str:
    return ref.removeprefix(layout.HEADS)


def target(context: OpenWorktree, agents: Sequence[AgentBranch], into: str | None) -> str:
    """The full name of the branch to merge into, which exists: `into`, or the usual one."""
    location = context.location
    if into is not None:
        ref = layout.HEADS + into.removeprefix(layout.HEADS)
        layout.check_branch_name(context, _short(ref))
    else:
        ref = _default_target(context, agents)
    if refs.resolve(location, ref) is None:
        raise WorktreeError(f"there is no branch '{_short(ref)}'", "git branch lists the branches; nothing was changed")
    if refs.is_symbolic(location, ref):
        raise WorktreeError(f"the branch '{_short(ref)}' is a symbolic ref", "name the branch that it points to")
    return ref


def _default_target(context: OpenWorktree, agents: Sequence[AgentBranch]) -> str:
    head = refs.read_head(context.location)
    for each in agents:
        if each.location is not None and each.location.git_dir == context.location.git_dir:
            base = each.record.base_ref.removeprefix(layout.HEADS) if each.record is not None else ""
            if not base or refs.resolve(context.location, layout.HEADS + base) is None:
                raise UsageError(
                    f"this is the worktree of '{each.id}', and it was not created from a branch",
                    "say where to merge it: --into BRANCH",
                )
            return layout.HEADS + base
    if head.ref is None:
        raise UsageError("HEAD is detached here", "say where to merge: --into BRANCH")
    if not head.ref.startswith(layout.HEADS):
        raise WorktreeError(f"HEAD is on '{head.ref}', which is not a branch", "say where to merge: --into BRANCH")
    return head.ref


# -- in memory -----------------------------------------------------------------------------------------------------


class _MergeBuilder:
    """Builds the result in memory, on the target's tip as it was read."""

    def __init__(
        self, context: OpenWorktree, ref: str, old: str, agents: Sequence[AgentBranch], manner: Manner
    ) -> None:
        self.context = context
        self.repository = context.repository
        self.ref = ref
        self.old = old
        self.agents = agents
        self.squash, self.dry_run, self.partial = manner
        self.seconds = int(time.time())
        links = {each.id: agent_branch.last_link(context, each) for each in agents}
        self.checkpoints = {id_: link.checkpoint if link is not None else None for id_, link in links.items()}

    def build(self) -> Merge:
        location = fast_forward.checkout_of(self.context, self.ref)
        with (
            state_dir.scratch(self.context.location) as folder,
            _merge_environment(self.context, location, self.old, folder) as environment,
            self.repository.writer() as writer,
        ):
            return self._merge(writer, environment)

    def _merge(self, writer: Writer, environment: MergeEnvironment) -> Merge:
        tip, tree = self.old, self.repository.commit_tree(self.old)
        conflicts: list[Conflict] = []
        states: dict[str, tuple[str, str | None]] = {each.id: (NOT_MERGED, None) for each in self.agents}
        for each in self.agents:
            if self.repository.is_ancestor(each.commit, tip):
                states[each.id] = (UP_TO_DATE, None)
                continue
            if self.repository.merge_base(tip, each.commit) is None:
                raise WorktreeError(
                    f"the history of '{each.id}' has nothing in common with '{_short(self.ref)}'",
                    "git merge --allow-unrelated-histories merges it all the same; nothing was changed",
                )
            found = merge_tree.merge(self.repository, tip, each.commit, environment, durable=not self.dry_run)
            if not found.clean and self.partial:
                conflicts.append(Conflict.of(_short(self.ref), each.id, found))
                continue
            if not found.clean:
                return self._result(self.old, states, self._conflicts(each, found, environment))
            if found.tree == tree:
                states[each.id] = (NOTHING_TO_ADD, None)
                continue
            self._refuse_own_folder(each, found.tree)
            tip, tree = self._commit(writer, found.tree, [tip, each.commit], _message(self, [each])), found.tree
            states[each.id] = (MERGED, None if self.squash else tip)
        merged = [each for each in self.agents if states[each.id][0] == MERGED]
        if merged and self.squash:
            tip = self._commit(writer, tree, [self.old], _message(self, merged, squashed=True))
        return self._result(tip, states, conflicts)

    def _commit(self, writer: Writer, tree: str, parents: Sequence[str], message: bytes) -> str:
        oid = writer.write_commit(tree, parents, message, self.context.settings.committer, self.seconds)
        writer.flush()
        return oid

    def _refuse_own_folder(self, each: AgentBranch, tree: str) -> None:
        own = b".agentos"
        entry = self.repository.entries(tree).get(own)
        if entry is not None and entry != trees.find(self.repository, self.repository.commit_tree(self.old), own):
            raise WorktreeError(
                f"'{each.id}' has committed '.agentos', which is this tool's own folder",
                "git rm -r --cached .agentos in its worktree, and commit; nothing was changed",
            )

    def _conflicts(
        self, failed: AgentBranch, found: merge_tree.MergeResult, environment: MergeEnvironment
    ) -> list[Conflict]:
        """The pairs that conflict, each merged alone; where none does, the agent that failed, with the target."""
        names = [_short(self.ref), *(each.id for each in self.agents)]
        commits = [self.old, *(each.commit for each in self.agents)]
        pairs = [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
        results = merge_tree.merge_pairs(self.repository, [(commits[a], commits[b]) for a, b in pairs], environment)
        conflicts = [
            Conflict.of(names[a], names[b], result)
            for (a, b), result in zip(pairs, results, strict=True)
            if not result.clean
        ]
        return conflicts or [Conflict.of(names[0], failed.id, found)]

    def _result(self, tip: str, states: dict[str, tuple[str, str | None]], conflicts: list[Conflict]) -> Merge:
        moved = tip != self.old and (self.partial or not conflicts)
        if conflicts and not self.partial:
            states = {
                id_: (state if state in (UP_TO_DATE, NOTHING_TO_ADD) else NOT_MERGED, None)
                for id_, (state, _) in states.items()
            }
        return Merge(
            merged=moved,
            target=_short(self.ref),
            before=self.old,
            merge_commit=tip if moved else None,
            sources=[self._source(each, *states[each.id]) for each in self.agents],
            conflicts=conflicts,
            squashed=self.squash,
            dry_run=self.dry_run,
        )

    def _source(self, each: AgentBranch, state: str, commit: str | None) -> Source:
        left = len(agent_branch.uncommitted(each.location))
        return Source(each.id, each.branch, each.commit, self.checkpoints[each.id], state, commit, left)


@contextmanager
def _merge_environment(
    context: OpenWorktree, location: Location | None, tip: str, folder: str
) -> Iterator[MergeEnvironment]:
    """Where the merge is computed, so that the target's attributes (merge drivers, line ends) count: in the worktree
    that has it checked out, or in a folder with its `.gitattributes` files."""
    if location is not None:
        yield MergeEnvironment({"GIT_DIR": location.git_dir, "GIT_WORK_TREE": location.root}, location.root)
        return
    root = os.path.join(folder, "attributes")
    os.mkdir(root)
    repository = context.repository
    for row in repository.git("ls-tree", "-r", "-z", tip).split(b"\0"):
        head, _, path = row.partition(b"\t")
        if path.rpartition(b"/")[2] == b".gitattributes" and head.startswith(b"100"):
            target = os.path.join(os.fsencode(root), path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(repository.blob(head.split(b" ")[2].decode()))
    index = os.path.join(folder, "no-index")
    yield MergeEnvironment({"GIT_WORK_TREE": root, "GIT_INDEX_FILE": index}, root)


# -- what is written -----------------------------------------------------------------------------------------------


def _message(builder: _MergeBuilder, agents: Sequence[AgentBranch], *, squashed: bool = False) -> bytes:
    target = _short(builder.ref)
    names = ", ".join(f"'{each.id}'" for each in agents)
    verb = "Squash" if squashed else "Merge"
    into = "" if target in ("main", "master") else f" into {target}"
    parts = [f"{verb} agent{'s' if len(agents) > 1 else ''} {names}{into}"]
    if squashed:
        parts += [_subjects(builder, each) for each in agents]
    trailers = []
    for each in agents:
        trailers.append(f"Agentos-Agent: {each.id}")
        if builder.checkpoints[each.id]:
            trailers.append(f"Agentos-Checkpoint: {builder.checkpoints[each.id]}")
        if each.task:
            trailers.append(f"Agentos-Task: {' '.join(each.task.split())}")
    parts.append("\n".join(trailers))
    return os.fsencode("\n\n".join(parts) + "\n")


def _subjects(builder: _MergeBuilder, each: AgentBranch) -> str:
    """The commits that a squash makes one of, newest first."""
    limit = f"--max-count={_MAX_SUBJECTS + 1}"
    args = ("log", "--no-show-signature", "--no-merges", "--format=%h %s", limit, f"{builder.old}..{each.commit}")
    lines = os.fsdecode(builder.repository.git(*args)).splitlines()
    more = ["  …"] if len(lines) > _MAX_SUBJECTS else []
    return "\n".join([f"{each.id}:", *(f"  {line}" for line in lines[:_MAX_SUBJECTS]), *more])


def _log_merge(context: OpenWorktree, there: OpenWorktree, made: Merge, agents: Sequence[AgentBranch]) -> list[str]:
    """Record the merge in memory, and in the logs of the target's worktree (`there`) and of the agents. The merge is
    done by now: what cannot be recorded becomes a warning."""
    from git_agentos import log, memory

    assert made.merge_commit is not None
    merged = [each.id for each in made.sources if each.state == MERGED]
    warnings = []
    known = set(timeline.all_names(context.location))
    try:
        if remembered := [id_ for id_ in merged if id_ in known]:
            memory.merge(there, made.target, remembered, made.merge_commit)
    except (AgentosError, OSError) as error:
        warnings.append(f"the merge is done, but memory has no record of it: {error}")
    details = {"target": made.target, "sources": merged, "squashed": made.squashed}
    summary = f"merged {', '.join(merged)} into {made.target}"
    log.try_add(there, "action", summary, details=details, commit=made.merge_commit, checkpoint_id=made.saved)
    for each in agents:
        if each.id in merged and each.location is not None and each.location.git_dir != there.location.git_dir:
            inner = context.in_worktree(each.location)
            log.try_add(inner, "action", f"merged into {made.target}", details=details, commit=made.merge_commit)
    return warnings
