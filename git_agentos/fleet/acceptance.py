"""Accepting tasks of a fleet: merging what has passed, in the order of least conflict.

Each task's result is verified, and collected before its work is merged. As with `run accept`, it must have been
validated. All is merged in memory first, one onto the other; what conflicts is left out, and the branch moves once. Of
several samples the smallest one is taken that verifies; where one of them was merged before, none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, ConflictError, FleetError, PolicyError, RunError, WorktreeError
from git_agentos.fleet import change_size, collection, contents, names, verification
from git_agentos.fleet.collection import RefusedResult
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.records import PASSED, RUNNING, WAITING, Result
from git_agentos.fleet.tasks import Task
from git_agentos.fleet.verification import Refused, Work
from git_agentos.git import refs
from git_agentos.guard import authorize
from git_agentos.run import validated
from git_agentos.run.context import worktree_id
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import agent_merge, conflicts
from git_agentos.worktree.agent_branch import AgentBranch
from git_agentos.worktree.agent_merge import NOTHING_TO_ADD, UP_TO_DATE, Manner, Merge
from git_agentos.worktree.conflicts import Begun
from git_agentos.worktree.layout import HEADS

_ATTEMPTS = 5


@dataclass(frozen=True)
class MergedTask:
    """A task whose work was merged (in a dry run: would be): `commit` is the tip of its branch, `merge_commit` the one
    that merges it (None in a dry run)."""

    task: str
    commit: str
    merge_commit: str | None


@dataclass(frozen=True)
class TaskConflict:
    """A task that was left out, since these files conflict with the branch, or with a task before it in the order."""

    task: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class SkippedTask:
    """A task that is not to be merged, and why: it has not passed, the branch has its work, or another sample is
    taken."""

    task: str
    reason: str


@dataclass(frozen=True)
class FleetAcceptance:
    """What accepting tasks did; the fields are the keys of the JSON kind `fleet-accept`.

    `order` are the tasks that were to be merged, in that order. `refused` are those whose results do not verify, were
    not validated, or have secrets that were not pushed; `skipped` those of which nothing is to be merged. `before` and
    `merge_commit` are where the branch was and where it is now (None: it has not moved).
    """

    merged: tuple[MergedTask, ...]
    conflicts: tuple[TaskConflict, ...]
    order: tuple[str, ...]
    refused: tuple[RefusedResult, ...]
    skipped: tuple[SkippedTask, ...]
    target: str
    before: str
    merge_commit: str | None
    dry_run: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """That of the command: of what has to be done first."""
        if self.conflicts:
            return ConflictError.exit_code
        if any(each.held_back for each in self.refused):
            return PolicyError.exit_code
        return FleetError.exit_code if self.refused else 0


class _Manner(NamedTuple):
    all_or_nothing: bool
    dry_run: bool


@authorize.entry("fleet", "accept")
def accept(  # noqa: PLR0913 - the options of the command, documented
    context: OpenWorktree,
    fleet: str,
    tasks: Sequence[str] = (),
    *,
    into: str | None = None,
    all_or_nothing: bool = False,
    dry_run: bool = False,
    remote: str | None = None,
) -> FleetAcceptance:
    """Merge these tasks (ids, or the ids of tasks with samples) into a branch, by default the one that is checked out
    here; without any, all that have passed. With `all_or_nothing` nothing is merged where one conflicts or is refused.

    FleetError where there is no such fleet or task, or a task that was named has not passed. The caller has made sure
    that this is allowed (`guard.operator`).
    """
    known = contents.fetch(contents.open_remote(context, remote), fleet)
    ref = agent_merge.target(context, [], into)
    tip = refs.resolve(context.location, ref)
    if tip is None:
        raise WorktreeError(f"the branch '{ref}' is gone", "nothing was changed")
    found = list(_Choice(context, known, ref, tip).choose(tasks))
    works = {each.result.task: each for each in found if isinstance(each, Work)}
    refused = [each for each in found if isinstance(each, Refused)]
    skipped = [each for each in found if isinstance(each, SkippedTask)]
    if not dry_run and not (all_or_nothing and refused):
        refused += _bring(context, known, works)
    begun = {task: Begun(work.commit, known.fleet.base_of(known.fleet.task(task))) for task, work in works.items()}
    order = conflicts.order(list(works), conflicts.of_commits(context, begun))
    agents = [_agent(known, works[task]) for task in order]
    made = (
        _merge(context, agents, ref, _Manner(all_or_nothing, dry_run), is_refused=bool(refused))
        if agents
        else Merge(merged=False, target=ref.removeprefix(HEADS), before=tip, dry_run=dry_run)
    )
    by_id = {agent.id: task for agent, task in zip(agents, order, strict=True)}
    return _result(made, by_id, works, order, refused, skipped)


class _Choice:
    """What is to be merged."""

    def __init__(self, context: OpenWorktree, known: Contents, ref: str, tip: str) -> None:
        self.repository = context.repository
        self.known = known
        self.merged = f"'{ref.removeprefix(HEADS)}' has its work"
        self.tip = tip

    def choose(self, wanted: Sequence[str]) -> Iterator[Work | Refused | SkippedTask]:
        """The work of the tasks that are wanted, as far as they verify; and the others."""
        tasks = self.known.fleet.tasks
        groups: dict[str, list[Task]] = {}
        for task in tasks:
            groups.setdefault(task.sample_of or task.id, []).append(task)
        if not wanted:
            for members in groups.values():
                yield from self._one_of(self._results(members))
        for name in dict.fromkeys(wanted):
            members = [task for task in tasks if task.id == name] or groups.get(name, [])
            if not members:
                raise FleetError(
                    f"there is no task '{name}' in fleet '{self.known.fleet.id}'",
                    f"git agentos fleet status {self.known.fleet.id} lists its tasks",
                )
            found = self._results(members)
            if not any(isinstance(result, Refused) or _has_passed(result) for _, result in found):
                states = ", ".join(f"{task.id} is {self._state(task, result)}" for task, result in found)
                raise FleetError(f"'{name}' has not passed: {states}", "nothing was changed")
            yield from self._one_of(found)

    def _results(self, tasks: Iterable[Task]) -> list[tuple[Task, Result | Refused | None]]:
        results = self.known.results
        read = functools.partial(verification.read, self.repository)
        fleet = self.known.fleet.id
        return [(task, read(results[task.id], fleet, task.id) if task.id in results else None) for task in tasks]

    def _state(self, task: Task, result: Result | Refused | None) -> str:
        if isinstance(result, Result):
            return result.state
        return RUNNING if task.id in self.known.live else WAITING

    def _one_of(self, found: Iterable[tuple[Task, Result | Refused | None]]) -> Iterator[Work | Refused | SkippedTask]:
        """The smallest of several samples that verifies and was validated, what was tried before it, and the others."""
        passed = []
        for task, result in found:
            if isinstance(result, Refused):
                yield result
            elif isinstance(result, Result) and result.state == PASSED:
                passed.append((task, result))
            else:
                yield SkippedTask(task.id, f"it is {self._state(task, result)}")
        merged = [task for task, result in passed if self._is_merged(task, result)]
        if len(passed) > 1 and not merged:
            passed.sort(key=lambda each: (self._size(*each), self._place(each[0])))
        taken = merged[0].id if merged else None
        for task, result in passed:
            if task in merged:
                yield SkippedTask(task.id, self.merged)
            elif taken is not None:
                yield SkippedTask(task.id, f"of its samples, '{taken}' is taken")
            else:
                work = self._work(task, result)
                yield work
                taken = task.id if isinstance(work, Work) else None

    def _work(self, task: Task, result: Result) -> Work | Refused:
        """The work of a result that verifies and was validated."""
        work = verification.verify(self.repository, self.known.fleet, task, result)
        if isinstance(work, Refused):
            return work
        try:
            validated.validations(work.run)
        except RunError as error:
            fleet = self.known.fleet.id
            as_it_is = f"'git agentos fleet collect {fleet}' makes the branch 'fleet/{fleet}/{task.id}' of its work"
            return Refused(task.id, f"{error.message}; {as_it_is}")
        return work

    def _is_merged(self, task: Task, result: Result) -> bool:
        """Whether the branch has its work."""
        commit = result.commit
        if commit is None or commit == self.known.fleet.base_of(task):
            return False
        return self.repository.is_ancestor(commit, self.tip)

    def _size(self, task: Task, result: Result) -> tuple[int, ...]:
        """The size of its change; what cannot be read, and so will not verify, comes first and is named."""
        try:
            assert result.commit is not None
            return change_size.measure(self.repository, self.known.fleet.base_of(task), result.commit)
        except (AgentosError, AssertionError):
            return (-1, 0)

    def _place(self, task: Task) -> int:
        return self.known.fleet.tasks.index(task)


def _has_passed(result: Result | Refused | None) -> bool:
    return isinstance(result, Result) and result.state == PASSED


def _bring(context: OpenWorktree, known: Contents, works: dict[str, Work]) -> list[Refused]:
    """Collect the work; what cannot be is taken out, and is refused."""
    refused = []
    for task, work in list(works.items()):
        try:
            collection.bring(context, known, work)
        except FleetError as error:
            del works[task]
            refused.append(Refused(task, error.message))
    return refused


def _agent(known: Contents, work: Work) -> AgentBranch:
    task = work.result.task
    branch = names.branch(known.fleet.id, task)
    return AgentBranch(worktree_id(work.run_id), branch, work.commit, None, None, None, f"{known.fleet.id}/{task}")


def _merge(
    context: OpenWorktree, agents: Sequence[AgentBranch], ref: str, manner: _Manner, *, is_refused: bool
) -> Merge:
    partial = Manner(dry_run=manner.dry_run, partial=True)
    if not manner.all_or_nothing:
        return agent_merge.merge_branches(context, agents, ref, partial)
    for _ in range(_ATTEMPTS):
        would = agent_merge.merge_branches(context, agents, ref, partial._replace(dry_run=True))
        if would.conflicts or is_refused:
            return replace(would, merged=False, sources=[], dry_run=manner.dry_run)
        if manner.dry_run:
            return would
        made = agent_merge.merge_branches(context, agents, ref, Manner())
        if not made.conflicts:
            return made
    raise ConflictError(
        f"'{ref.removeprefix(HEADS)}' changes while it is merged into", "try again; nothing was changed"
    )


def _result(
    made: Merge,
    tasks: dict[str, str],
    works: dict[str, Work],
    order: Sequence[str],
    refused: Sequence[Refused],
    skipped: Sequence[SkippedTask],
) -> FleetAcceptance:
    merged = {tasks[each.id]: each.merge_commit for each in made.sources if each.state == agent_merge.MERGED}
    has = [tasks[each.id] for each in made.sources if each.state in (UP_TO_DATE, NOTHING_TO_ADD)]
    left_out = tuple(TaskConflict(tasks[each.b], tuple(each.files)) for each in made.conflicts)
    return FleetAcceptance(
        merged=tuple(MergedTask(task, works[task].commit, merged[task]) for task in order if task in merged),
        conflicts=left_out,
        order=tuple(order),
        refused=tuple(RefusedResult(*each) for each in refused),
        skipped=(*skipped, *(SkippedTask(task, f"'{made.target}' has its work") for task in has)),
        target=made.target,
        before=made.before,
        merge_commit=made.merge_commit,
        dry_run=made.dry_run,
        warnings=tuple(made.warnings),
    )
