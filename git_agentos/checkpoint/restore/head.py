"""Where HEAD goes in a restore: to a new branch, to its former branch, or detached.

No existing branch moves, except a run's own: a rollback resets it by compare-and-swap, and undo of the rollback moves
it forward again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from git_agentos.checkpoint.journal import Journal
from git_agentos.checkpoint.model import State
from git_agentos.checkpoint.restore.application import Application
from git_agentos.errors import RepositoryError, RestoreError
from git_agentos.git import process, refs, worktrees
from git_agentos.git.location import Location
from git_agentos.git.refs import Head
from git_agentos.util.named_tuple import NamedTuple

BRANCHES = "refs/heads/"


@dataclass(frozen=True)
class HeadTarget:
    """Where HEAD goes: to `head`, whose branch is created first if `create`."""

    head: Head
    create: bool


class BranchMove(NamedTuple):
    """A branch (full name) that moves from `old` to `new`; None: it does not exist."""

    ref: str
    old: str | None
    new: str | None

    @classmethod
    def of(cls, row: Sequence[str | None]) -> BranchMove:
        """A move from its list in a journal."""
        ref, old, new = row
        assert ref is not None
        return cls(ref, old, new)

    def reversed(self) -> BranchMove:
        return BranchMove(self.ref, self.new, self.old)


# -- deciding ------------------------------------------------------------------------------------------------------


def restore_branch(checkpoint: str, stamp: str) -> str:
    """The full name of the branch that a restore creates by default."""
    return f"{BRANCHES}restore/{checkpoint[:8]}/{stamp}"


def new_branch_head(location: Location, checkpoint: str, target: State, wanted: str | None, stamp: str) -> HeadTarget:
    """A new branch at the checkpoint's commit; detached if the checkpoint was."""
    if wanted is None and target.head.ref is None:
        return HeadTarget(target.head, create=False)
    if wanted is not None:
        ref = BRANCHES + wanted
        _check_spelling(location, ref)
        if refs.resolve(location, ref) is not None:
            raise RestoreError(f"a branch named '{wanted}' exists already", "choose another name; nothing was changed")
    else:
        base = restore_branch(checkpoint, stamp)
        ref, n = base, 1
        while refs.resolve(location, ref) is not None:
            n += 1
            ref = f"{base}-{n}"
    check_ref_conflict(location, ref)
    return HeadTarget(Head(ref, target.head.commit), create=target.head.commit is not None)


def check_ref_conflict(location: Location, ref: str) -> None:
    """RestoreError if another branch blocks `ref`, as `restore` blocks `restore/…`."""
    _check_spelling(location, ref)
    parent = ref.rpartition("/")[0]
    while parent.startswith(BRANCHES):
        if refs.resolve(location, parent) is not None:
            name = parent.removeprefix(BRANCHES)
            raise RestoreError(
                f"the branch '{name}' is in the way of '{ref.removeprefix(BRANCHES)}'",
                f"rename it (git branch -m {name} NEW), or use --branch or --no-branch; nothing was changed",
            )
        parent = parent.rpartition("/")[0]
    if refs.list_refs(location, ref + "/"):
        name = ref.removeprefix(BRANCHES)
        raise RestoreError(f"branches below '{name}/' are in the way of '{name}'", "choose another name")


def _check_spelling(location: Location, ref: str) -> None:
    hint = "choose another name; nothing was changed"
    refs.check_spelling(location, ref, RestoreError, hint, kind="branch", prefix=BRANCHES)


def original_head(
    location: Location, checkpoint: str, target: State, stamp: str, shifts: Sequence[BranchMove] = ()
) -> HeadTarget:
    """HEAD exactly as it was: on its branch, if that has not moved or is gone; only the branches in `shifts` move."""
    ref = target.head.ref
    if ref is None:
        return HeadTarget(target.head, create=False)
    shifted = {each.ref: each.new for each in shifts}
    present = shifted[ref] if ref in shifted else refs.resolve(location, ref)
    if present == target.head.commit:
        if not checked_out_elsewhere(location, ref):
            return HeadTarget(target.head, create=False)
    elif present is None and not checked_out_elsewhere(location, ref):
        with contextlib.suppress(RestoreError):
            check_ref_conflict(location, ref)
            return HeadTarget(target.head, create=True)
    return new_branch_head(location, checkpoint, target, None, stamp)


def unfinished_head(location: Location, found: Journal) -> HeadTarget | None:
    """The HEAD target of an interrupted restore, as far as it is not reached yet."""
    if found.head_ref is None and found.head_commit is None:
        return None
    head = Head(found.head_ref, found.head_commit)
    if head.ref is None:
        return HeadTarget(head, create=False)
    return HeadTarget(head, create=found.create and refs.resolve(location, head.ref) is None)


def pending_moves(location: Location, shifts: Iterable[BranchMove]) -> list[BranchMove]:
    """The moves of an interrupted command that were not made yet; RestoreError if another process has moved the branch
    meanwhile."""
    found = []
    for each in shifts:
        present = refs.resolve(location, each.ref)
        if present == each.old:
            found.append(each)
        elif present != each.new:
            name = each.ref.removeprefix(BRANCHES)
            raise RestoreError(
                f"the branch '{name}' has been moved since, to {(present or 'nothing')[:8]}",
                f"git branch -f {name} {each.old}, then try again" if each.old else f"git branch -D {name}",
            )
    return found


def allowed_moves(location: Location, shifts: Iterable[BranchMove]) -> list[BranchMove]:
    """The moves of `shifts` whose branch is at `old` and not checked out in another worktree."""
    return [
        each
        for each in shifts
        if refs.resolve(location, each.ref) == each.old and not checked_out_elsewhere(location, each.ref)
    ]


def checked_out_elsewhere(location: Location, ref: str) -> bool:
    """Whether another worktree of the repository has the branch `ref` checked out, or is rebasing or bisecting it. The
    HEAD of a bare repository does not count."""
    for user in worktrees.branch_users(location, ref, except_git_dir=location.git_dir):
        if user.git_dir != location.common_dir or not _is_bare(user.git_dir):
            return True
    return False


def _is_bare(git_dir: str) -> bool:
    env = process.environment({"GIT_DIR": git_dir})
    return process.run(["rev-parse", "--is-bare-repository"], cwd=git_dir, env=env).strip() == b"true"


# -- doing ---------------------------------------------------------------------------------------------------------


def set_head(
    location: Location, application: Application, move: HeadTarget, *, command: str, checkpoint: str, who: str
) -> None:
    """Create the branch of `move`, and point HEAD at it; `application` reverts both."""
    before = refs.read_head(location)
    head = move.head
    if move.create and head.ref is not None and head.commit is not None:
        reason = f"{command}: created at checkpoint {checkpoint[:8]}"
        try:
            refs.update(location, head.ref, head.commit, None, refs.ReflogEntry(f"agentos {reason}", who))
        except refs.RefMoved as error:
            raise RestoreError(
                f"the branch '{head.branch}' was created by another process meanwhile",
                "try again; nothing was changed",
            ) from error
        created = head.ref
        application.on_revert(lambda: refs.delete(location, created, with_log=True))
    if before == head:
        return
    origin = before.branch or (before.commit or "unborn")[:8]
    goal = head.branch or (head.commit or "")[:8]
    reason = f"agentos {command}: moving from {origin} to {goal}"
    refs.set_head(location, head, reason=reason, who=who)
    application.on_revert(lambda: refs.set_head(location, before, reason=f"{reason} (undone)", who=who))


def move_branches(
    location: Location,
    application: Application,
    shifts: Iterable[BranchMove],
    *,
    command: str,
    checkpoint: str,
    who: str,
) -> None:
    """Move the branches; `application` reverts it."""
    for each in shifts:
        reason = f"agentos {command}: to checkpoint {checkpoint[:8]}"
        try:
            _shift(location, each, reason, who)
        except refs.RefMoved as error:
            raise RestoreError(
                f"the branch '{each.ref.removeprefix(BRANCHES)}' was moved by another process meanwhile",
                "try again; nothing was changed",
            ) from error
        back = each.reversed()
        application.on_revert(functools.partial(_shift, location, back, f"{reason} (undone)", who))


def _shift(location: Location, each: BranchMove, reason: str, who: str) -> None:
    if each.new is None:
        refs.drop(location, each.ref, each.old)
        return
    if each.old is None:
        check_ref_conflict(location, each.ref)
    refs.update(location, each.ref, each.new, each.old, refs.ReflogEntry(reason, who))


def delete_unused_branch(location: Location, ref: str, commit: str | None) -> None:
    """Delete a branch that a restore created, if it is unused."""
    if commit is not None and refs.resolve(location, ref) == commit and refs.read_head(location).ref != ref:
        with contextlib.suppress(RepositoryError):  # packed meanwhile
            refs.delete(location, ref, with_log=True)
