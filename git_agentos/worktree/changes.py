"""Uncommitted changes that a new worktree begins with: index, files and untracked files of the worktree in which
`create` is called, as they are there.

They are saved in a checkpoint there, and nothing else of that worktree changes. In the new one, that checkpoint is
restored onto its branch: this is exact, because the branch begins at the commit that the changes are of. What belongs
to one worktree alone, an operation in progress and conflicts, is refused before anything is made.
"""

from __future__ import annotations

import warnings

from git_agentos.checkpoint import creation, operation
from git_agentos.checkpoint.model import Skipped, SkipReason
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.errors import UNCHANGED, AgentosWarning, UsageError, WorktreeError
from git_agentos.git import refs, worktrees
from git_agentos.worktree import journal, layout
from git_agentos.worktree.new_worktree import WorktreeSpec

# Of these, the files are elsewhere, or nothing is in them.
_NOT_MISSED = (SkipReason.OTHER_WORKTREE, SkipReason.SPECIAL_FILE)


def carried(context: OpenWorktree, spec: WorktreeSpec) -> WorktreeSpec:
    """`spec` of a worktree that begins with the uncommitted changes of `context`, which a checkpoint there saves.

    UsageError where it is to begin at another commit than these changes, or in some folders alone; WorktreeError if an
    operation is in progress, or paths are in conflict.
    """
    head = refs.read_head(context.location)
    if spec.sparse:
        raise UsageError("--with-changes and --sparse cannot be used together: changes outside would be lost")
    if spec.base_sha != head.commit:
        raise UsageError(
            f"--with-changes needs the commit that the changes are of, and {spec.base_ref} is another one",
            f"leave out --from, and use 'git agentos worktree sync {spec.id}' afterwards; {UNCHANGED}",
        )
    _refuse_unfinished(operation.name_of(operation.read(context.location)), _conflicts(context))
    with worktrees.lock(context.location):
        if any(each.id == spec.id for each in journal.find_all(context.location)):
            return spec  # which the creation refuses: another command works on it, or was killed
        layout.choose_path(context, spec.id, spec.branch)  # refuses what is taken, before the checkpoint
    metadata = context.metadata(trigger="milestone", description=f"changes carried to worktree {spec.id}")
    with creation.checkpoint_writer(context) as writer:
        state = creation.capture_worktree(context, writer, metadata)
        _refuse_unfinished(state.operation, len(state.stages))
        if state.head.commit != spec.base_sha:
            raise WorktreeError("HEAD has moved while the worktree was being made", f"try again; {UNCHANGED}")
        saved = creation.write_checkpoint(context, writer, state, metadata).checkpoint
    _warn(saved.skipped)

    def carry(inner: OpenWorktree) -> None:
        # By the agent whose worktree it is, so that it may undo it.
        commands.restore(inner, inner.metadata(), saved.id, commands.RestoreOptions(no_branch=True))

    return spec._replace(changes_from=saved.id, carry=carry)


def _conflicts(context: OpenWorktree) -> int:
    """The number of paths in conflict."""
    rows = context.repository.git("ls-files", "--unmerged", "-z").split(b"\0")
    return len({row.partition(b"\t")[2] for row in rows if row})


def _refuse_unfinished(name: str | None, conflicts: int) -> None:
    """Refuse an operation in progress, or paths in conflict."""
    if name is not None:
        raise WorktreeError(
            f"a {name} is in progress here: it cannot be carried to another worktree",
            f"finish or abort it, or leave out --with-changes; {UNCHANGED}",
        )
    if conflicts:
        what = "1 path is in conflict here: it" if conflicts == 1 else f"{conflicts} paths are in conflict here: they"
        raise WorktreeError(
            f"{what} cannot be carried to another worktree", f"resolve, or leave out --with-changes; {UNCHANGED}"
        )


def _warn(skipped: list[Skipped]) -> None:
    """Name what the checkpoint does not hold, and the new worktree therefore does not get."""
    for each in skipped:
        if each.kind not in _NOT_MISSED:
            warnings.warn(AgentosWarning(f"not carried: '{each.path}' ({each.reason})"), stacklevel=2)
