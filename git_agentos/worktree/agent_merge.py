"""Merging what agents have committed into a branch.

Everything is computed in memory first (`git.merge_tree`), one agent after the other onto the growing result; only a
result without conflicts goes anywhere, and then all at once (`advance`). What an agent has not committed is not merged,
and is told. Every merge is a commit of its own, also where the branch could be fast-forwarded: its trailers say which
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
from git_agentos.errors import AgentosError, LockedError, UsageError, WorktreeError
from git_agentos.git import merge_tree, process, refs, state_dir, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.merge_tree import MergeEnvironment
from git_agentos.git.repository import Writer
from git_agentos.guard import authorize
from git_agentos.worktree import agent_branch, fast_forward
from git_agentos.worktree.agent_branch import AgentBranch
from git_agentos.worktree.fast_forward import TipMovedError

MERGED, UP_TO_DATE, NOTHING_TO_ADD, NOT_MERGED = "merged", "up-to-date", "nothing-to-add", "not-merged"
_HEADS = "refs/heads/"
_ATTEMPTS = 100
_MOST_SUBJECTS = 50


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
class Conflict:
    """Two that do not go together: `a` an agent or the target, `b` an agent; `messages` are git's."""

    a: str
    b: str
    files: list[str]
    messages: list[str]


@dataclass(frozen=True)
class Merge:
    """What came of it; the fields are the keys of the JSON kind `merge`.

    `merged` tells whether the target has moved (in a dry run: would move); `target` is the branch's short name,
    `before` where it was, `merge_commit` where it is now (None where it did not move). `saved` and `worktree_path` are
    the checkpoint taken before and the worktree that was brought along. `warnings` is what could not be written down.
    """

    merged: bool
    target: str
    before: str
    merge_commit: str | None
    sources: list[Source]
    conflicts: list[Conflict]
    saved: str | None
    worktree_path: str | None
    squashed: bool
    dry_run: bool
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
    works = [agent_branch.find(context, id_) for id_ in dict.fromkeys(ids)]
    works = [replace(each, commit=commits.get(each.id, each.commit)) for each in works]
    for each in works:
        if operation.on_own_branch(each.operation):
            raise WorktreeError(
                f"a {each.operation} is in progress in the worktree of '{each.id}'",
                "finish or abort it first; nothing was changed",
            )
    ref = _target(context, works, into)
    for each in works:
        if each.branch is not None and _HEADS + each.branch == ref:
            raise UsageError(f"'{each.id}' works on '{each.branch}' itself: it cannot be merged into it")
    for _ in range(_ATTEMPTS):
        old = refs.resolve(context.location, ref)
        if old is None:
            raise WorktreeError(f"the branch '{_short(ref)}' is gone", "nothing was changed")
        made = _Making(context, ref, old, works, squash=squash, dry_run=dry_run).run()
        if made.conflicts or made.merge_commit is None:
            return made
        names = [each.id for each in made.sources if each.state == MERGED]
        try:
            if dry_run:
                fast_forward.check(context, ref, old, made.merge_commit)
                sources = [replace(each, merge_commit=None) for each in made.sources]
                return replace(made, merge_commit=None, sources=sources)
            with worktrees.lock(context.location):
                done = fast_forward.fast_forward(
                    context,
                    ref,
                    old,
                    made.merge_commit,
                    reason=f"agentos merge: {', '.join(names)}",
                    description=f"before merging {', '.join(names)} into {_short(ref)}",
                    meta={"target": _short(ref), "sources": " ".join(names), "merge_commit": made.merge_commit},
                )
        except TipMovedError:
            continue
        made = replace(made, saved=done.saved, worktree_path=done.path)
        return replace(made, warnings=_write_down(context, made, works))
    raise LockedError(
        f"the branch '{_short(ref)}' moves faster than it can be merged into", "try again; nothing was changed"
    )


# -- into what -----------------------------------------------------------------------------------------------------


def _short(ref: str) -> str:
    return ref.removeprefix(_HEADS)


def _target(context: OpenWorktree, works: Sequence[AgentBranch], into: str | None) -> str:
    """The full name of the branch to merge into; it exists."""
    location = context.location
    if into is not None:
        ref = _HEADS + into.removeprefix(_HEADS)
        _check_name(context, ref, into)
    else:
        ref = _default(context, works)
    if refs.resolve(location, ref) is None:
        raise WorktreeError(f"there is no branch '{_short(ref)}'", "git branch lists the branches; nothing was changed")
    if refs.is_symbolic(location, ref):
        raise WorktreeError(f"the branch '{_short(ref)}' is a symbolic ref", "name the branch that it stands for")
    return ref


def _default(context: OpenWorktree, works: Sequence[AgentBranch]) -> str:
    head = refs.read_head(context.location)
    for each in works:
        if each.location is not None and each.location.git_dir == context.location.git_dir:
            base = each.record.base_ref.removeprefix(_HEADS) if each.record is not None else ""
            if not base or refs.resolve(context.location, _HEADS + base) is None:
                raise UsageError(
                    f"this is the worktree of '{each.id}', and it was not made from a branch",
                    "say where to merge it: --into BRANCH",
                )
            return _HEADS + base
    if head.ref is None:
        raise UsageError("HEAD is detached here", "say where to merge: --into BRANCH")
    if not head.ref.startswith(_HEADS):
        raise WorktreeError(f"HEAD is on '{head.ref}', which is not a branch", "say where to merge: --into BRANCH")
    return head.ref


def _check_name(context: OpenWorktree, ref: str, given: str) -> None:
    args = ["check-ref-format", ref]
    status, _, _ = process.finish(process.spawn(args, env=context.location.environment()))
    if status != 0:
        raise UsageError(f"'{given}' is not a valid branch name")


# -- in memory -----------------------------------------------------------------------------------------------------


class _Making:
    """The result in the making, on the target's tip as it was read."""

    def __init__(
        self, context: OpenWorktree, ref: str, old: str, works: Sequence[AgentBranch], *, squash: bool, dry_run: bool
    ) -> None:
        self.context = context
        self.repository = context.repository
        self.ref = ref
        self.old = old
        self.works = works
        self.squash = squash
        self.dry_run = dry_run
        self.seconds = int(time.time())
        self.checkpoints = {each.id: agent_branch.last_checkpoint(context, each) for each in works}

    def run(self) -> Merge:
        location = fast_forward.checkout_of(self.context, self.ref)
        with (
            state_dir.scratch(self.context.location) as folder,
            _ground(self.context, location, self.old, folder) as ground,
            self.repository.writer() as writer,
        ):
            return self._merge(writer, ground)

    def _merge(self, writer: Writer, ground: MergeEnvironment) -> Merge:
        tip, tree = self.old, self.repository.commit_tree(self.old)
        states: dict[str, tuple[str, str | None]] = {each.id: (NOT_MERGED, None) for each in self.works}
        for each in self.works:
            if self.repository.is_ancestor(each.commit, tip):
                states[each.id] = (UP_TO_DATE, None)
                continue
            if self.repository.merge_base(tip, each.commit) is None:
                raise WorktreeError(
                    f"the history of '{each.id}' has nothing in common with '{_short(self.ref)}'",
                    "git merge --allow-unrelated-histories merges it all the same; nothing was changed",
                )
            found = merge_tree.merge(self.repository, tip, each.commit, ground, durable=not self.dry_run)
            if not found.clean:
                return self._result(self.old, states, self._conflicts(each, found, ground))
            if found.tree == tree:
                states[each.id] = (NOTHING_TO_ADD, None)
                continue
            self._refuse_own(each, found.tree)
            tip, tree = self._commit(writer, found.tree, [tip, each.commit], _message(self, [each])), found.tree
            states[each.id] = (MERGED, None if self.squash else tip)
        merged = [each for each in self.works if states[each.id][0] == MERGED]
        if merged and self.squash:
            tip = self._commit(writer, tree, [self.old], _message(self, merged, squashed=True))
        return self._result(tip, states, [])

    def _commit(self, writer: Writer, tree: str, parents: Sequence[str], message: bytes) -> str:
        oid = writer.write_commit(tree, parents, message, self.context.settings.committer, self.seconds)
        writer.flush()
        return oid

    def _refuse_own(self, each: AgentBranch, tree: str) -> None:
        own = b".agentos"
        entry = trees.parse(self.repository.read_tree(tree)).get(own)
        if entry is not None and entry != trees.find(self.repository, self.repository.commit_tree(self.old), own):
            raise WorktreeError(
                f"'{each.id}' has committed '.agentos', which is this tool's own folder",
                "git rm -r --cached .agentos in its worktree, and commit; nothing was changed",
            )

    def _conflicts(
        self, failed: AgentBranch, found: merge_tree.MergeResult, ground: MergeEnvironment
    ) -> list[Conflict]:
        """Who does not go together with whom, each two of them alone; or, where they do, the one who failed with all
        before it."""
        names = [_short(self.ref), *(each.id for each in self.works)]
        commits = [self.old, *(each.commit for each in self.works)]
        pairs = [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
        results = merge_tree.merge_pairs(self.repository, [(commits[a], commits[b]) for a, b in pairs], ground)
        conflicts = [
            Conflict(names[a], names[b], _texts(result), result.messages)
            for (a, b), result in zip(pairs, results, strict=True)
            if not result.clean
        ]
        return conflicts or [Conflict(names[0], failed.id, _texts(found), found.messages)]

    def _result(self, tip: str, states: dict[str, tuple[str, str | None]], conflicts: list[Conflict]) -> Merge:
        moved = tip != self.old and not conflicts
        if conflicts:
            states = {
                id_: (state if state in (UP_TO_DATE, NOTHING_TO_ADD) else NOT_MERGED, None)
                for id_, (state, _) in states.items()
            }
        return Merge(
            merged=moved,
            target=_short(self.ref),
            before=self.old,
            merge_commit=tip if moved else None,
            sources=[self._source(each, *states[each.id]) for each in self.works],
            conflicts=conflicts,
            saved=None,
            worktree_path=None,
            squashed=self.squash,
            dry_run=self.dry_run,
        )

    def _source(self, each: AgentBranch, state: str, commit: str | None) -> Source:
        left = agent_branch.uncommitted(each)
        return Source(each.id, each.branch, each.commit, self.checkpoints[each.id], state, commit, left)


def _texts(found: merge_tree.MergeResult) -> list[str]:
    return [os.fsdecode(path) for path in found.files]


@contextmanager
def _ground(context: OpenWorktree, location: Location | None, tip: str, folder: str) -> Iterator[MergeEnvironment]:
    """Where the merge is computed, so that the target's attributes (merge drivers, line ends) count: in the worktree
    that has it checked out, or among its `.gitattributes` files alone."""
    if location is not None:
        yield MergeEnvironment({"GIT_DIR": location.git_dir, "GIT_WORK_TREE": location.root}, location.root)
        return
    root = os.path.join(folder, "attributes")
    os.mkdir(root)
    repository = context.repository
    for row in repository.git("ls-tree", "-r", "-z", tip).split(b"\0"):
        head, _, path = row.partition(b"\t")
        if path.rpartition(b"/")[2] == b".gitattributes" and head.startswith(b"100"):
            place = os.path.join(os.fsencode(root), path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(repository.blob(head.split(b" ")[2].decode()))
    index = os.path.join(folder, "no-index")
    yield MergeEnvironment({"GIT_WORK_TREE": root, "GIT_INDEX_FILE": index}, root)


# -- what is written -----------------------------------------------------------------------------------------------


def _message(making: _Making, works: Sequence[AgentBranch], *, squashed: bool = False) -> bytes:
    target = _short(making.ref)
    names = ", ".join(f"'{each.id}'" for each in works)
    verb = "Squash" if squashed else "Merge"
    into = "" if target in ("main", "master") else f" into {target}"
    parts = [f"{verb} agent{'s' if len(works) > 1 else ''} {names}{into}"]
    if squashed:
        parts += [_subjects(making, each) for each in works]
    trailers = []
    for each in works:
        trailers.append(f"Agentos-Agent: {each.id}")
        if making.checkpoints[each.id]:
            trailers.append(f"Agentos-Checkpoint: {making.checkpoints[each.id]}")
        if each.record is not None and each.record.task:
            trailers.append(f"Agentos-Task: {' '.join(each.record.task.split())}")
    parts.append("\n".join(trailers))
    return os.fsencode("\n\n".join(parts) + "\n")


def _subjects(making: _Making, each: AgentBranch) -> str:
    """The commits that a squash makes one of, newest first."""
    limit = f"--max-count={_MOST_SUBJECTS + 1}"
    args = ("log", "--no-show-signature", "--no-merges", "--format=%h %s", limit, f"{making.old}..{each.commit}")
    lines = os.fsdecode(making.repository.git(*args)).splitlines()
    more = ["  …"] if len(lines) > _MOST_SUBJECTS else []
    return "\n".join([f"{each.id}:", *(f"  {line}" for line in lines[:_MOST_SUBJECTS]), *more])


def _write_down(context: OpenWorktree, made: Merge, works: Sequence[AgentBranch]) -> list[str]:
    """The merge in memory and in the logs, of where it went and of those it came from. It is done by now: what cannot
    be written is told."""
    from git_agentos import log, memory

    assert made.merge_commit is not None
    merged = [each.id for each in made.sources if each.state == MERGED]
    location = fast_forward.checkout_of(context, _HEADS + made.target) if made.worktree_path else None
    there = context.in_worktree(location) if location is not None else context
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
    for each in works:
        if each.id in merged and each.location is not None and each.location.git_dir != there.location.git_dir:
            inner = context.in_worktree(each.location)
            log.try_add(inner, "action", f"merged into {made.target}", details=details, commit=made.merge_commit)
    return warnings
