"""Accepting tasks of a fleet: merging what has passed, in the order of least conflict.

Each task's result is verified, and collected before its work is merged. All is merged in memory first, one onto the
other; what conflicts is left out, and the branch moves once. Of several samples the smallest one is taken that
verifies; where one of them was merged before, none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, ConflictError, FleetError, PolicyError, WorktreeError
from git_agentos.fleet import change_size, collection, contents, names, verification
from git_agentos.fleet.collection import RefusedResult
from git_agentos.fleet.contents import Contents
from git_agentos.fleet.records import PASSED, RUNNING, WAITING, Result
from git_agentos.fleet.tasks import Task
from git_agentos.fleet.verification import Refused, Work
from git_agentos.git import refs
from git_agentos.guard import authorize
from git_agentos.run.context import worktree_id
from git_agentos.run.spec import VALIDATE
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import agent_merge, conflicts
from git_agentos.worktree.agent_branch import AgentBranch
from git_agentos.worktree.agent_merge import Manner, Merge
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
class FleetAcceptance:
    """What accepting tasks did; the fields are the keys of the JSON kind `fleet-accept`.

    `order` are the tasks that were to be merged, in that order; what the branch `target` had of them before is in none
    of the lists. `refused` are those whose results do not verify, or have secrets that were not pushed. `before` and
    `merge_commit` are where the branch was and where it is now (None: it has not moved).
    """

    merged: tuple[MergedTask, ...]
    conflicts: tuple[TaskConflict, ...]
    order: tuple[str, ...]
    refused: tuple[RefusedResult, ...]
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
    found = list(_Choice(context, known, tip).choose(tasks))
    works = {each.result.task: each for each in found if isinstance(each, Work)}
    refused = [each for each in found if isinstance(each, Refused)]
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
    return _result(made, by_id, works, order, refused)


class _Choice:
    """What is to be merged."""

    def __init__(self, context: OpenWorktree, known: Contents, tip: str) -> None:
        self.repository = context.repository
        self.known = known
        self.tip = tip

    def choose(self, wanted: Sequence[str]) -> Iterator[Work | Refused]:
        """The work of the tasks that are wanted, as far as they verify."""
        tasks = self.known.fleet.tasks
        groups: dict[str, list[Task]] = {}
        for task in tasks:
            groups.setdefault(task.sample_of or task.id, []).append(task)
        if not wanted:
            for members in groups.values():
                yield from self._one_of(self._passed(members))
        for name in dict.fromkeys(wanted):
            members = [task for task in tasks if task.id == name] or groups.get(name, [])
            if not members:
                raise FleetError(
                    f"there is no task '{name}' in fleet '{self.known.fleet.id}'",
                    f"git agentos fleet status {self.known.fleet.id} lists its tasks",
                )
            passed = list(self._passed(members))
            if not passed:
                raise FleetError(f"'{name}' has not passed: {self._state(members)}", "nothing was changed")
            yield from self._one_of(passed)

    def _passed(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result | Refused]]:
        """The tasks that have passed, and those whose result cannot be read."""
        for task in tasks:
            result = self._result(task)
            if isinstance(result, Refused) or (result is not None and result.state == PASSED):
                yield task, result

    def _result(self, task: Task) -> Result | Refused | None:
        oid = self.known.results.get(task.id)
        return None if oid is None else verification.read(self.repository, oid, self.known.fleet.id, task.id)

    def _state(self, tasks: Sequence[Task]) -> str:
        states = []
        for task in tasks:
            result = self._result(task)
            missing = RUNNING if task.id in self.known.live else WAITING
            states.append(f"{task.id} is {result.state if isinstance(result, Result) else missing}")
        return ", ".join(states)

    def _one_of(self, found: Iterable[tuple[Task, Result | Refused]]) -> Iterator[Work | Refused]:
        """The smallest of several samples that verifies, and those that do not which were tried before."""
        passed = [(task, result) for task, result in found if isinstance(result, Result)]
        yield from (result for _, result in found if isinstance(result, Refused))
        if any(self._is_merged(task, result) for task, result in passed):
            return
        if len(passed) > 1:
            passed.sort(key=lambda each: (self._size(*each), self._place(each[0])))
        for task, result in passed:
            if not _is_validated(task):
                yield Refused(task.id, "it has no validation, so it cannot be accepted")
                continue
            work = verification.verify(self.repository, self.known.fleet, task, result)
            yield work
            if isinstance(work, Work):
                return

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


def _is_validated(task: Task) -> bool:
    """Whether something validates what the agent of a task has made: `run accept` asks for that as well."""
    return task.spec is None or any(step.kind == VALIDATE for step in task.spec.steps)


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
    made: Merge, tasks: dict[str, str], works: dict[str, Work], order: Sequence[str], refused: Sequence[Refused]
) -> FleetAcceptance:
    merged = {tasks[each.id]: each.merge_commit for each in made.sources if each.state == agent_merge.MERGED}
    left_out = tuple(TaskConflict(tasks[each.b], tuple(each.files)) for each in made.conflicts)
    return FleetAcceptance(
        merged=tuple(MergedTask(task, works[task].commit, merged[task]) for task in order if task in merged),
        conflicts=left_out,
        order=tuple(order),
        refused=tuple(RefusedResult(*each) for each in refused),
        target=made.target,
        before=made.before,
        merge_commit=made.merge_commit,
        dry_run=made.dry_run,
        warnings=tuple(made.warnings),
    )
