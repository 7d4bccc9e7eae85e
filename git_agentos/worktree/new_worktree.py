"""The steps in which a new worktree is made. `create` says in which order they are done.

git writes the files and the index of the new worktree, once: `worktree add --no-checkout` makes its entry, and one
`read-tree` does the rest. It is given the user's configuration, so `checkout.workers` and its like have their effect.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError, StorageError, WorktreeError
from git_agentos.git import fresh_checkout, gitfile, process, refs, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.refs import Head
from git_agentos.git.scan import Scan
from git_agentos.guard.setup import activation
from git_agentos.worktree import creation_recovery, damaged, journal, layout, pool, record, setup
from git_agentos.worktree.journal import WorktreeJournal
from git_agentos.worktree.layout import NewPath
from git_agentos.worktree.pool import Prepared
from git_agentos.worktree.record import Record

_NOTHING = "nothing was left of it; free some space and try again"
_MIN_FREE_BYTES = 1 << 20  # a file system with less than this is full


class WorktreeSpec(NamedTuple):
    """The worktree that is to be made.

    `base_ref` is what the user called the commit `base_sha`. `detached` leaves HEAD at the commit, not on the branch.
    `revived` is the record of a worktree that comes back: set-up does nothing, and HEAD and its branch are for the one
    who fills it; `makes` is the ref that this one will make. `guard` has the guard switched on in it. `run_id` is the
    run that it is made for, which gives it another branch; `protected` are the branches that are closed to that.
    `own_branch` is the short name of the branch where it is not to follow from the id. `later` are files of the commit
    that are not checked out, because what is restored then has others in their place.
    """

    id: str
    base_ref: str
    base_sha: str
    task: str | None = None
    sparse: tuple[str, ...] = ()
    lock: bool = False
    detached: bool = False
    revived: Record | None = None
    makes: str | None = None
    guard: bool = True
    run_id: str | None = None
    protected: tuple[str, ...] = ()
    own_branch: str | None = None
    later: frozenset[bytes] = frozenset()

    @property
    def branch(self) -> str:
        """The short name of its branch."""
        if self.revived is not None:
            return self.revived.branch
        return self.own_branch or record.branch_of(self.id, self.run_id)


class Made(NamedTuple):
    """A worktree that is ready for work: `inner` acts as its agent in it. `untouched`: its files are those that the
    checkout has just written, and there are no others."""

    inner: OpenWorktree
    record: Record
    untouched: bool

    def scan(self) -> Scan:
        """What git says of it. Of an untouched worktree it is known; git would compare the contents of all files again,
        because stat data as young as the index proves nothing to it."""
        if self.untouched:
            return fresh_checkout.start_scan(self.inner.location, self.record.base_sha, self.inner.settings.values)
        return Scan(self.inner.location)


class NewWorktree:
    """One worktree that is being made. In `begin`, `enter` and `name` the turn is held."""

    def __init__(self, context: OpenWorktree, wanted: WorktreeSpec) -> None:
        self._context = context
        self._common = context.location
        self._wanted = wanted
        self._intent: WorktreeJournal | None = None
        self._place: NewPath
        self._prepared: Prepared | None = None
        self.location: Location
        self.inner: OpenWorktree

    def begin(self, where: NewPath | None = None) -> None:
        """Nothing is in the way; what will be made is written down."""
        wanted = self._wanted
        self._intent = journal.start(self._common, wanted.id, journal.CREATE)
        revived = wanted.revived is not None
        self._place = where or layout.choose_path(self._context, wanted.id, wanted.branch, revived=revived)
        path = self._place.path
        entries = [os.path.basename(each) for each in worktrees.linked_git_dirs(self._common.common_dir)]
        fields = creation_recovery.nothing_made(path, entries) | {
            "parents": _missing_above(path),
            "branch": self._ref if wanted.revived is None else wanted.makes,
            "timeline": timeline.tip(self._common, wanted.id),
            "exclude": self._place.exclude,
            "worktree_config": bool(wanted.sparse) and not _has_worktree_config(self._context),
            "guard": not activation.has_record(self._common),
        }
        self._note(**fields)

    @property
    def _ref(self) -> str | None:
        """The full name of its branch; None where it is only prepared."""
        return layout.HEADS + self._place.branch if self._place.branch else None

    def enter(self, *, prepared: bool = True) -> None:
        """git's entry and the folder: those of a prepared worktree where there is one, else new ones without files."""
        wanted, path = self._wanted, self._place.path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if self._place.exclude is not None:
            layout.add_exclude(self._common, self._place.exclude)
        if prepared and not wanted.sparse:
            self._prepared = self._claim()
        if self._prepared is None:
            damaged.let_git_pass(self._common)
            args = ["worktree", "add", "--quiet", "--no-checkout", "--detach"]
            self._git(self._common, *args, path, wanted.base_sha)
        if wanted.lock:
            reason = f"git agentos worktree create --lock {wanted.id}"
            self._git(self._common, "worktree", "lock", "--reason", reason, path)
        found = gitfile.find(path)
        if found is None or found[0] != os.path.realpath(path):
            raise WorktreeError(f"git made no worktree at '{path}'")
        self.location = Location(*found, self._common.common_dir)

    def _claim(self) -> Prepared | None:
        """Take a worktree out of the pool."""
        found = pool.choose(self._common, self._wanted.base_sha)
        if found is None:
            return None
        self._note(claimed={"name": os.path.basename(found.git_dir), "path": found.path})
        try:
            self._git(self._common, "worktree", "move", found.path, self._place.path)
        except GitCommandError:
            # On another file system, or in a state that git does not move: it is left where it is.
            if os.path.lexists(self._place.path):
                raise
            self._note(claimed=None)
            return None
        return found

    def name(self) -> None:
        """The id, the branch, HEAD, and the patterns of a sparse checkout."""
        wanted, location, ref = self._wanted, self.location, self._ref
        record.name(location.git_dir, wanted.id)
        pool.unmark(location.git_dir)
        who = os.fsdecode(self._context.settings.committer)
        assert ref is not None
        if wanted.revived is None:
            reason = f"branch: Created from {wanted.base_ref}"
            try:
                refs.update(self._common, ref, wanted.base_sha, None, reason=reason, who=who)
            except refs.RefMoved:
                raise layout.branch_exists_error(self._context, wanted.id, self._place.branch) from None
        on_branch = wanted.revived is None and not wanted.detached
        head = Head(ref if on_branch else None, wanted.base_sha)
        refs.set_head(location, head, reason=f"worktree create: {wanted.id}", who=who)
        if wanted.sparse:
            self._git(location, "sparse-checkout", "set", "--cone", *wanted.sparse)
        self.inner = self._context.in_worktree(location)._replace(agent=wanted.id, worktree_id=wanted.id)

    def check_out(self) -> None:
        """The files of the commit; of a prepared worktree, those that are others there."""
        base = self._wanted.base_sha
        commits = [base]
        if self._prepared is not None:
            if self._prepared.base_sha == base:
                return
            commits.insert(0, self._prepared.base_sha)
        elif self._wanted.later:
            repository = self._context.repository
            paths = [path for path, _ in trees.walk(repository, repository.commit_tree(base))]
            names = b"".join(path + b"\0" for path in paths if path not in self._wanted.later)
            self._git(self.location, "read-tree", base)
            if names:
                self._git(self.location, "checkout-index", "--index", "--quiet", "-z", "--stdin", data=names)
            return
        self._git(self.location, "read-tree", "-m", "-u", "--no-recurse-submodules", *commits, meanwhile=_load)

    def make_ready(self) -> Made:
        """What a checkout does not bring."""
        wanted = self._wanted
        if wanted.revived is not None:
            revived = replace(wanted.revived, path=self._place.path, state=record.ACTIVE, completed_at=None)
            return Made(self.inner, revived, untouched=False)
        made = Record(
            id=wanted.id,
            branch=self._place.branch,
            path=self._place.path,
            base_ref=wanted.base_ref,
            base_sha=wanted.base_sha,
            created_at=record.now(),
            created_by=self._context.agent,
            task=wanted.task,
            sparse=list(wanted.sparse),
            protected=list(wanted.protected),
            run_id=wanted.run_id,
        )
        made = setup.prepare(self._context, self.inner, made, owner=self._owner)
        return Made(self.inner, made, untouched=not (self._prepared or made.copied or made.setup))

    def guard(self) -> None:
        """Switch the guard on; off, where git has copied it from the worktree that the command was given in."""
        if self._wanted.guard:
            activation.enable(self.location)
        else:
            activation.remove_copied(self.location)

    def end(self) -> None:
        assert self._intent is not None
        journal.finish(self._intent)

    def undo(self, cause: BaseException) -> None:
        """Take back what was made; where that fails, the intent stays for `repair`."""
        if self._intent is None:
            return
        try:
            with worktrees.lock(self._common):
                creation_recovery.abort_creation(self._common, self._intent)
        except Exception as error:  # noqa: BLE001 (whatever it was, the user is told what is left)
            journal.release(self._intent)
            raise WorktreeError(
                f"{cause}; and what was made of the worktree '{self._wanted.id}' could not all be removed: {error}",
                f"git agentos worktree repair {self._wanted.id}",
            ) from cause

    # -- inside ----------------------------------------------------------------------------------------------------

    def _note(self, **fields: Any) -> None:
        assert self._intent is not None
        self._intent = journal.update(self._intent, **fields)

    @property
    def _owner(self) -> int:
        assert self._intent is not None
        return self._intent.owner

    def _git(
        self, location: Location, *args: str, data: bytes | None = None, meanwhile: Callable[[], None] | None = None
    ) -> None:
        stdin = process.PIPE if data is not None else None
        child = process.spawn(args, cwd=location.root, env=location.environment(), stdin=stdin, pass_fds=[self._owner])
        try:
            if meanwhile is not None:
                meanwhile()
            status, _, err = process.finish(child, data)
        except BaseException:
            child.terminate()  # what it writes is about to be removed
            child.wait()
            raise
        if status == 0:
            return
        error = process.failure(args, status, err)
        # git does not always say why it could not write a file.
        for path in (self._common.common_dir, self._place.path):
            if os.path.exists(path) and _free_bytes(path) < _MIN_FREE_BYTES:
                raise StorageError(f"no space left for the worktree: {error}", _NOTHING) from error
        raise error


def _load() -> None:
    """Load what will be needed when git has written the files, while it writes them."""
    for name in ("git_agentos.log", "git_agentos.worktree.status"):
        importlib.import_module(name)


def _free_bytes(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _missing_above(path: str) -> list[str]:
    """The folders above `path` that are not there, outermost first."""
    missing: list[str] = []
    while not os.path.lexists(path := os.path.dirname(path)):
        missing.insert(0, path)
    return missing


def _has_worktree_config(context: OpenWorktree) -> bool:
    return config.boolean(context.settings.values, "extensions.worktreeconfig", default=False)
