"""Making a managed worktree: all of it, or nothing.

A worktree comes to be in these steps. The intent is written before the first and removed after the last; a failure in
between takes everything back, and so does `worktree repair` where the process was killed.

    turn held   the id, the branch and the folder are free; the folders above are made; git makes the entry, without
                files (`worktree add --no-checkout --detach`); it gets its id; the branch is made by compare-and-swap,
                HEAD goes to it; the sparse checkout is set up
    then        files are checked out, set-up files copied, submodules initialised, the set-up command run (`setup`)
    then        what the caller wants in it: a first checkpoint, or a state restored
    then        the guard is switched on in it, unless it is not wanted
    last        the record: from here on it is a managed worktree
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from git_agentos import config
from git_agentos.checkpoint import format, operation
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RestoreError, UsageError, WorktreeError, storage_error
from git_agentos.git import worktrees
from git_agentos.guard import authorize
from git_agentos.worktree import base, layout, pool, record
from git_agentos.worktree.layout import NewPath
from git_agentos.worktree.new_worktree import Made, NewWorktree, WorktreeSpec

if TYPE_CHECKING:
    from git_agentos.checkpoint.restore.request import Restoration
    from git_agentos.worktree.status import Worktree

T = TypeVar("T")


@authorize.entry("worktree", "create")
def create(
    context: OpenWorktree,
    id_: str,
    *,
    from_ref: str | None = None,
    task: str | None = None,
    sparse: Sequence[str] = (),
    lock: bool = False,
    revive: bool = False,
    guard: bool = True,
) -> Worktree:
    """Make the worktree `id_` on its branch `agent/<id_>`, ready for work, with a first checkpoint in it.

    `from_ref` is a commit, HEAD of where one stands without it; `sparse` are folders. `revive` brings an archived
    worktree back instead. `guard` switches the guard on in it. On any error nothing is left.
    """
    layout.check_id(id_)
    if revive:
        if from_ref is not None:
            raise UsageError("--from and --revive cannot be used together: the branch is the one that was archived")
        from git_agentos.worktree import last_state, revival, status

        revival.check(id_, sparse)
        found = last_state.ended(context, id_)
        revival.bring_back(context, found, id_, task=task, lock=lock, guard=guard)
        source = None if found.as_left else status.describe_checkpoint(found.source)
        return replace(_shown(context, id_), revived_from=source)
    base_ref, base_sha = base.base_of(context, from_ref)
    wanted = WorktreeSpec(id_, base_ref, base_sha, task, base.folders(context, base_sha, sparse), lock, guard=guard)
    return _shown(context, id_, make(context, wanted, _open))


def _shown(context: OpenWorktree, id_: str, saved: Checkpoint | None = None) -> Worktree:
    """How the new worktree stands; whatever keeps that from being told does not undo it."""
    from git_agentos.worktree import status  # nothing that comes before needs it, and it takes long to load

    try:
        return status.show(context, id_, new=True, saved=saved)
    except (AgentosError, OSError) as error:
        raise WorktreeError(
            f"the worktree '{id_}' is complete, but how it stands cannot be told: {error}",
            f"git agentos worktree show {id_}",
        ) from error


def _open(made: Made) -> Checkpoint:
    """The log's first entry, and the first checkpoint."""
    from git_agentos import log  # loaded while git checks out

    inner, known = made.inner, made.record
    scan = made.scan()  # git looks at the files, where that is needed, while the log is written
    try:
        log.try_add(inner, "action", f"worktree {known.id} created", commit=known.base_sha, task_id=known.task)
    except BaseException:
        scan.discard()
        raise
    metadata = inner.metadata(trigger="milestone", description=f"worktree {known.id} created", task_id=known.task)
    return create_checkpoint(inner, metadata, scan=scan).checkpoint


def with_state(context: OpenWorktree, checkpoint: str, id_: str) -> Restoration:
    """Make the worktree `id_` and restore `checkpoint` in it: `restore --worktree`.

    UsageError for an ill-formed id, WorktreeError where the id, its branch or its folder is taken, RestoreError where
    the checkpoint was made before the first commit.
    """
    from git_agentos.checkpoint.restore import commands

    layout.check_id(id_, source="--worktree")
    target = format.read_state(context.repository, checkpoint)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {checkpoint[:8]} was made before the first commit: git cannot make a worktree of it",
            "restore it in place, or with --no-branch; nothing was changed",
        )
    detached = target.head.ref is None or operation.on_own_branch(target.operation)
    wanted = WorktreeSpec(id_, target.head.branch or target.head.commit, target.head.commit, detached=detached)

    def bring_up(made: Made) -> Restoration:
        inner = made.inner
        metadata = inner.metadata()._replace(created_by=context.agent)
        options = commands.RestoreOptions(no_branch=True)
        return commands.restore(inner, metadata, checkpoint, options)

    return make(context, wanted, bring_up)


def make(context: OpenWorktree, wanted: WorktreeSpec, fill: Callable[[Made], T]) -> T:
    """Make a worktree; `fill` is called with it once it is ready for work.

    Whatever fails, in `fill` too, nothing is left.
    """
    config.pool(context.settings.values)  # a bad value is told before anything is made
    with _working(context, wanted) as creation:
        with worktrees.lock(context.location):
            creation.begin()
            creation.enter()
            creation.name()
        creation.check_out()
        made = creation.make_ready()
        done = fill(made)
        creation.guard()
        record.write(made.inner.location.git_dir, made.record)
    pool.refill(context)
    return done


def prepare(context: OpenWorktree, where: NewPath, base_sha: str, id_: str, mark: Callable[[str], None]) -> None:
    """Make a worktree without an id and without a branch, for `pool`; `mark` is called last, with its git directory."""
    with _working(context, WorktreeSpec(id_, base_sha, base_sha, detached=True)) as creation:
        with worktrees.lock(context.location):
            creation.begin(where)
            creation.enter(prepared=False)
        creation.check_out()
        mark(creation.location.git_dir)


@contextlib.contextmanager
def _working(context: OpenWorktree, wanted: WorktreeSpec) -> Iterator[NewWorktree]:
    """A worktree in the making: whatever fails, nothing of it is left."""
    creation = NewWorktree(context, wanted)
    try:
        yield creation
    except BaseException as error:
        creation.undo(error)
        if isinstance(error, OSError):
            raise storage_error(error) from error
        if isinstance(error, AgentosError) and error.hint is None:
            error.hint = "nothing was left of the worktree"
        raise
    creation.end()
