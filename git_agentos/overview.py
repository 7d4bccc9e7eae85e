"""The data of `status` and `doctor`: the worktree, the guard, runs and workflows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from git_agentos.util.named_tuple import NamedTuple

if TYPE_CHECKING:
    from git_agentos.checkpoint.open_worktree import OpenWorktree
    from git_agentos.findings import Finding
    from git_agentos.git.filesystem_limits import FileSystem
    from git_agentos.protection.harnesses import HarnessState
    from git_agentos.watch.control import WatchStatus
    from git_agentos.workspace import Status, Workspace


class Overview(NamedTuple):
    """`worktree` is the state of the worktree; the others are ids of runs and workflows, messages about the guard of
    any worktree of the repository, and its watch daemon (None while none runs)."""

    worktree: Status
    interrupted_runs: tuple[str, ...] = ()
    open_workflows: tuple[str, ...] = ()
    guard_problems: tuple[str, ...] = ()
    watch: WatchStatus | None = None

    def fields(self) -> dict[str, object]:
        """All values by name, as in the JSON document `status`."""
        above = {name: value for name, value in self._asdict().items() if name != "worktree"}
        watch = None if self.watch is None else self.watch._asdict()
        return {**self.worktree._asdict(), **above, "watch": watch}


class Diagnosis(NamedTuple):
    """What `doctor` reports: problems, where the worktree is, the watch daemon (None while none runs), and the
    harnesses of this machine."""

    findings: tuple[Finding, ...]
    file_systems: tuple[FileSystem, ...] = ()
    watch: WatchStatus | None = None
    harnesses: tuple[HarnessState, ...] = ()

    def fields(self) -> dict[str, object]:
        """All values by name, as in the JSON document `doctor`."""
        return {**self._asdict(), "watch": None if self.watch is None else self.watch._asdict()}


def status(workspace: Workspace) -> Overview:
    """The state of the worktree, and unfinished work in the repository."""
    worktree = workspace.status()
    interrupted: list[str] = []
    workflows: list[str] = []
    if _has_runs(workspace.context):
        from git_agentos.run import query

        interrupted = query.interrupted(workspace.context)
        workflows = query.open_(workspace.context)
    problems = _guard_problems(workspace.context)
    return Overview(worktree, tuple(interrupted), tuple(workflows), tuple(problems), watch(workspace.context))


def watch(context: OpenWorktree) -> WatchStatus | None:
    """The watch daemon of the repository; None while none answers."""
    from git_agentos.watch import place

    if not os.path.isdir(place.folder(context.location.common_dir)):
        return None  # there never was one
    from git_agentos.watch import client, control

    found = control.status(context.location, patience=client.PATIENCE)
    return found if found.running else None


def diagnose(workspace: Workspace, *, fix: bool = False) -> Diagnosis:
    """All that `doctor` reports; with `fix`, problems are fixed that can be fixed safely."""
    from git_agentos.util.progress import phase

    daemon = watch(workspace.context)
    with phase(workspace.context.progress, "Checking the repository"):
        findings = examine(workspace, daemon, fix=fix)
    return Diagnosis(findings, file_systems(workspace), daemon, harnesses(workspace))


def examine(workspace: Workspace, watch: WatchStatus | None, *, fix: bool = False) -> tuple[Finding, ...]:
    """The problems of the repository, its runs, workflows and watch daemon (as `watch` describes it); with `fix`, those
    are fixed that can be fixed safely."""
    context = workspace.context
    found = (
        *workspace.doctor(fix=fix),
        *_examine_captured(context),
        *_examine_watch(context, watch),
        *_examine_budget(context),
    )
    if not _has_runs(context):
        return found
    from git_agentos import findings
    from git_agentos.run import query as runs
    from git_agentos.tdd import doctor as workflows

    checks = itertools.chain(runs.examine(context), workflows.examine(context, os.environ))
    return (*found, *findings.report(checks, fix=fix))


def _examine_captured(context: OpenWorktree) -> Iterator[Finding]:
    from git_agentos.secrets import captured_files
    from git_agentos.sync import exposed

    yield from captured_files.examine(context.repository, context.settings)
    yield from captured_files.examine_pushed(exposed.pushed(context))


def _examine_watch(context: OpenWorktree, watch: WatchStatus | None) -> Iterator[Finding]:
    from git_agentos.watch import diagnosis
    from git_agentos.watch.control import WatchStatus

    return diagnosis.examine(context.location, context.settings.values, watch or WatchStatus(running=False))


def _examine_budget(context: OpenWorktree) -> Iterator[Finding]:
    from git_agentos.checkpoint import upkeep

    taken = upkeep.over_budget(context.location)
    if taken is not None:
        from git_agentos.findings import Finding

        message = f"checkpoints and what belongs to them take {taken} bytes, more than agentos.diskBudget"
        yield Finding("over-budget", "warning", message, upkeep.BUDGET_HINT)


def file_systems(workspace: Workspace) -> tuple[FileSystem, ...]:
    """The file systems of the worktree and of its git directory, and what does not work on them."""
    from git_agentos.git import filesystem_limits

    return tuple(filesystem_limits.of_location(workspace.context.location))


def harnesses(workspace: Workspace) -> tuple[HarnessState, ...]:
    """The harnesses of this machine, and whether each asks the guard in the worktree."""
    from git_agentos.protection import harnesses as states

    return tuple(states.examine(workspace.context.location, os.environ))


def _has_runs(context: OpenWorktree) -> bool:
    """Whether the repository has ever had a run; otherwise nothing of runs is imported."""
    if os.path.isdir(os.path.join(context.location.shared_state_dir, "runs")):
        return True
    from git_agentos.git import refs

    return bool(refs.list_refs(context.location, "refs/agentos/runs/", skip_broken=True))


def _guard_problems(context: OpenWorktree) -> list[str]:
    """Tampering with the guard of any worktree."""
    if not os.path.lexists(os.path.join(context.location.common_dir, "agentos")):
        return []
    from git_agentos.guard import tampering

    return tampering.in_repository(context.location)
