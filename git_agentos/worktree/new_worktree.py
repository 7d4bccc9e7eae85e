"""Creating a worktree: all of it, or nothing.

The journal is written before the first of these steps and removed after the last. A failure in between is aborted, and
so is a creation that was killed (`creation_recovery`).

    locked   the id, the branch and the folder are free; the folders above are made; git makes the entry, without files
             (`worktree add --no-checkout --detach`); the worktree gets its id; the branch is created by
             compare-and-swap, and HEAD is put on it; the sparse checkout is set up
    then     files are checked out, set-up files copied, submodules initialised, the set-up command run (`setup`)
    then     the caller's part: a first checkpoint, or a state that is restored
    then     the guard is enabled in it, unless it is not wanted
    last     the record is written: from here on it is an agent's worktree

`locked` is the lock on the repository's worktrees.

git writes the files and the index of the new worktree, once: `worktree add --no-checkout` makes its entry, and one
`read-tree` does the rest. It runs with the user's configuration, so that `checkout.workers` and the like count.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, AgentosWarning, GitCommandError, StorageError, WorktreeError, storage_error
from git_agentos.git import fresh_checkout, gitfile, process, refs, trees, worktrees
from git_agentos.git.location import Location
from git_agentos.git.refs import Head
from git_agentos.git.scan import Scan
from git_agentos.guard.harness import later_worktrees
from git_agentos.guard.setup import activation
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import SILENT, phase
from git_agentos.worktree import creation_recovery, damaged, journal, layout, pool, ports, record, setup
from git_agentos.worktree.journal import WorktreeJournal
from git_agentos.worktree.layout import NewPath
from git_agentos.worktree.link import Linked
from git_agentos.worktree.pool import Prepared
from git_agentos.worktree.record import Record

if TYPE_CHECKING:
    from git_agentos.util.progress import Phase

_NOTHING = "nothing was left of it; free some space and try again"
_MIN_FREE_BYTES = 1 << 20  # a file system with less than this is full


class WorktreeSpec(NamedTuple):
    """The worktree that is to be created.

    `base_ref` is what the user called the commit `base_sha`. `detached` leaves HEAD at the commit, not on the branch.
    `revived_record` is the record of a worktree that is revived: set-up does nothing, and the restore that follows sets
    HEAD and the branch; `creates_ref` is the ref that this restore will create. `guard` enables the guard in it.
    `run_id` is the run that it is created for, which gives it another branch; `protected` are the branches that this
    run may not change. `own_branch` is the short name of the branch where it does not follow from the id. `later` are
    files of the commit that are not checked out, because the restore that follows replaces them. `changes_from` is the
    checkpoint whose uncommitted changes `carry` brings into it, before it is set up.
    """

    id: str
    base_ref: str
    base_sha: str
    task: str | None = None
    sparse: tuple[str, ...] = ()
    lock: bool = False
    detached: bool = False
    revived_record: Record | None = None
    creates_ref: str | None = None
    guard: bool = True
    run_id: str | None = None
    protected: tuple[str, ...] = ()
    own_branch: str | None = None
    later: frozenset[bytes] = frozenset()
    changes_from: str | None = None
    carry: Callable[[OpenWorktree], None] | None = None

    @property
    def branch(self) -> str:
        """The short name of its branch."""
        if self.revived_record is not None:
            return self.revived_record.branch
        return self.own_branch or record.branch_of(self.id, self.run_id)


class ReadyWorktree(NamedTuple):
    """A new worktree that is ready for work: `inner` acts as its agent in it. `untouched`: its files are those that the
    checkout has just written, and there are no others. `linked` is what agentos.link has brought."""

    inner: OpenWorktree
    record: Record
    untouched: bool
    linked: Sequence[Linked] = ()

    def scan(self) -> Scan:
        """A scan of it. That of an untouched worktree is known without git, which would compare the contents of all
        files again: stat data as young as the index proves nothing to it."""
        if self.untouched:
            return fresh_checkout.start_scan(self.inner.location, self.record.base_sha, self.inner.settings.values)
        return Scan(self.inner.location)


@contextlib.contextmanager
def creating(context: OpenWorktree, spec: WorktreeSpec) -> Iterator[ReadyWorktree]:
    """Create a worktree; the caller's part is done in it once it is ready for work.

    Whatever fails, in the caller's part too, nothing is left.
    """
    for read in (config.pool, config.ports, config.link):
        read(context.settings.values)  # a bad value is an error before anything is made
    with _creation(context, spec) as creation:
        with worktrees.lock(context.location):
            creation.start_journal()
            creation.add_worktree()
            creation.set_id_and_head()
        creation.check_out()
        made = creation.run_setup()
        yield made
        creation.set_guard()
        record.write(made.inner.location.git_dir, made.record)
    pool.refill(context)


@contextlib.contextmanager
def creating_for_pool(context: OpenWorktree, path: NewPath, base_sha: str, id_: str) -> Iterator[str]:
    """Create a worktree without a branch for `pool`; its git directory, for the caller to mark it."""
    with _creation(context, WorktreeSpec(id_, base_sha, base_sha, detached=True)) as creation:
        with worktrees.lock(context.location):
            creation.start_journal(path)
            creation.add_worktree(from_pool=False)
        creation.check_out()
        yield creation.location.git_dir


@contextlib.contextmanager
def _creation(context: OpenWorktree, spec: WorktreeSpec) -> Iterator[NewWorktree]:
    """A worktree that is being created: whatever fails, nothing of it is left."""
    creation = NewWorktree(context, spec)
    try:
        yield creation
    except BaseException as error:
        creation.abort(error)
        if isinstance(error, OSError):
            raise storage_error(error) from error
        if isinstance(error, AgentosError) and error.hint is None:
            error.hint = "nothing was left of the worktree"
        raise
    creation.finish()


class NewWorktree:
    """One worktree that is being created. `start_journal`, `add_worktree` and `set_id_and_head` need the lock on the
    repository's worktrees."""

    def __init__(self, context: OpenWorktree, spec: WorktreeSpec) -> None:
        self._context = context
        self._common = context.location
        self._spec = spec
        self._journal: WorktreeJournal | None = None
        self._path: NewPath
        self._prepared: Prepared | None = None
        self.location: Location
        self.inner: OpenWorktree

    def start_journal(self, chosen: NewPath | None = None) -> None:
        """Check that nothing is in the way, and write down what will be made."""
        spec = self._spec
        self._journal = journal.start(self._common, spec.id, journal.CREATE)
        revived = spec.revived_record is not None
        self._path = chosen or layout.choose_path(self._context, spec.id, spec.branch, revived=revived)
        path = self._path.path
        entries = [os.path.basename(each) for each in worktrees.linked_git_dirs(self._common.common_dir)]
        fields = creation_recovery.empty_fields(path, entries) | {
            "parents": _missing_above(path),
            "branch": self._ref if spec.revived_record is None else spec.creates_ref,
            "timeline": timeline.tip(self._common, spec.id),
            "exclude": self._path.exclude,
            "worktree_config": bool(spec.sparse) and not _has_worktree_config(self._context),
            "guard": not activation.has_record(self._common),
        }
        self._note(**fields)

    @property
    def _ref(self) -> str | None:
        """The full name of its branch; None where it is only prepared."""
        return layout.HEADS + self._path.branch if self._path.branch else None

    def add_worktree(self, *, from_pool: bool = True) -> None:
        """Make git's entry and the folder: a prepared worktree is taken where there is one, else files come later."""
        spec, path = self._spec, self._path.path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if self._path.exclude is not None:
            layout.add_exclude(self._common, self._path.exclude)
        if from_pool and not spec.sparse:
            self._prepared = self._claim()
        if self._prepared is None:
            damaged.unblock_worktree_add(self._common)
            args = ["worktree", "add", "--quiet", "--no-checkout", "--detach"]
            self._git(self._common, *args, path, spec.base_sha)
        if spec.lock:
            reason = f"git agentos worktree create --lock {spec.id}"
            self._git(self._common, "worktree", "lock", "--reason", reason, path)
        found = gitfile.find(path)
        if found is None or found[0] != os.path.realpath(path):
            raise WorktreeError(f"git made no worktree at '{path}'")
        self.location = self._common.worktree(*found)

    def _claim(self) -> Prepared | None:
        """Take a worktree out of the pool; None where none can be taken."""
        found = pool.choose(self._common, self._spec.base_sha)
        if found is None:
            return None
        self._note(claimed={"name": os.path.basename(found.git_dir), "path": found.path})
        try:
            self._git(self._common, "worktree", "move", found.path, self._path.path)
        except GitCommandError:
            # On another file system, or in a state that git does not move: it is left where it is.
            if os.path.lexists(self._path.path):
                raise
            self._note(claimed=None)
            return None
        return found

    def set_id_and_head(self) -> None:
        """Set the id, create the branch, set HEAD, and the patterns of a sparse checkout."""
        spec, location, ref = self._spec, self.location, self._ref
        record.name(location.git_dir, spec.id)
        pool.unmark(location.git_dir)
        who = os.fsdecode(self._context.settings.committer)
        assert ref is not None
        if spec.revived_record is None:
            reason = f"branch: Created from {spec.base_ref}"
            try:
                refs.update(self._common, ref, spec.base_sha, None, refs.ReflogEntry(reason, who))
            except refs.RefMoved:
                raise layout.branch_exists_error(self._context, spec.id, self._path.branch) from None
        on_branch = spec.revived_record is None and not spec.detached
        head = Head(ref if on_branch else None, spec.base_sha)
        refs.set_head(location, head, reason=f"worktree create: {spec.id}", who=who)
        if spec.sparse:
            self._git(location, "sparse-checkout", "set", "--cone", *spec.sparse)
        self.inner = self._context.in_worktree(location)._replace(agent=spec.id, worktree_id=spec.id)

    def check_out(self) -> None:
        """Write the files of the commit; in a prepared worktree, those that differ."""
        base = self._spec.base_sha
        commits = [base]
        if self._prepared is not None:
            if self._prepared.base_sha == base:
                return
            commits.insert(0, self._prepared.base_sha)
        elif self._spec.later:
            repository = self._context.repository
            paths = [path for path, _ in trees.walk(repository, repository.commit_tree(base))]
            names = b"".join(path + b"\0" for path in paths if path not in self._spec.later)
            with phase(self._context.progress, "Checking out"):
                self._git(self.location, "read-tree", base)
                if names:
                    self._git(self.location, "checkout-index", "--index", "--quiet", "-z", "--stdin", data=names)
            return
        args, shown = ["read-tree", "-m", "-u", "--no-recurse-submodules"], self._context.progress is not SILENT
        with phase(self._context.progress, "Checking out") as begun:
            if shown:
                self._git(self.location, *args, "-v", *commits, meanwhile=_load, shown=begun)
            else:
                self._git(self.location, *args, *commits, meanwhile=_load)

    def run_setup(self) -> ReadyWorktree:
        """Bring what a checkout does not, and run the set-up command (`setup`)."""
        spec = self._spec
        if spec.revived_record is not None:
            revived = replace(spec.revived_record, path=self._path.path, state=record.ACTIVE, completed_at=None)
            return ReadyWorktree(self.inner, self._with_ports(revived), untouched=False)
        made = Record(
            id=spec.id,
            branch=self._path.branch,
            path=self._path.path,
            base_ref=spec.base_ref,
            base_sha=spec.base_sha,
            created_at=times.now_text(),
            created_by=self._context.agent,
            task=spec.task,
            sparse=list(spec.sparse),
            protected=list(spec.protected),
            run_id=spec.run_id,
            changes_from=spec.changes_from,
        )
        made, linked = setup.prepare(
            self._context, self.inner, self._with_ports(made), owner=self._owner, carry=spec.carry
        )
        touched = self._prepared or made.copied or made.linked or made.setup or spec.carry is not None
        return ReadyWorktree(self.inner, made, untouched=not touched, linked=linked)

    def _with_ports(self, made: Record) -> Record:
        """The record with ports that are reserved: for a revived worktree those that it had, if they are free."""
        count, base = config.ports(self._context.settings.values), made.port_base
        if base is not None and ports.is_possible(base, made.port_count):
            count = made.port_count
        if not count:
            return replace(made, port_base=None, port_count=0)
        base = ports.reserve(self._common, self.location.git_dir, count, os.environ, base)
        return replace(made, port_base=base, port_count=count)

    def set_guard(self) -> None:
        """Enable the guard; or remove what git has copied of it from the worktree that the command was given in. Add
        our hooks to the settings of harnesses, if `init` does so in every worktree."""
        if self._spec.guard:
            activation.enable(self.location)
        else:
            activation.remove_copied(self.location)
        if self._spec.run_id is None:
            for problem in later_worktrees.integrate(self.location, process.environment()):
                warnings.warn(AgentosWarning(problem), stacklevel=2)

    def finish(self) -> None:
        """Remove the journal: the worktree is complete."""
        assert self._journal is not None
        journal.finish(self._journal)

    def abort(self, cause: BaseException) -> None:
        """Remove what was made; where that fails, the journal stays for `repair`."""
        if self._journal is None:
            return
        try:
            with worktrees.lock(self._common):
                creation_recovery.abort_creation(self._common, self._journal)
        except Exception as error:  # noqa: BLE001 (whatever it was, the error says what is left)
            journal.release(self._journal)
            raise WorktreeError(
                f"{cause}; and what was made of the worktree '{self._spec.id}' could not all be removed: {error}",
                f"git agentos worktree repair {self._spec.id}",
            ) from cause

    # -- inside ----------------------------------------------------------------------------------------------------

    def _note(self, **fields: Any) -> None:
        assert self._journal is not None
        self._journal = journal.update(self._journal, **fields)

    @property
    def _owner(self) -> int:
        assert self._journal is not None
        return self._journal.owner

    def _git(
        self,
        location: Location,
        *args: str,
        data: bytes | None = None,
        meanwhile: Callable[[], None] | None = None,
        shown: Phase | None = None,
    ) -> None:
        """Run git. Without `data`, its own progress is `shown`."""
        stdin = process.PIPE if data is not None else None
        env = location.environment({"GIT_PROGRESS_DELAY": "0"} if shown is not None else None)
        child = process.spawn(args, cwd=location.root, env=env, stdin=stdin, pass_fds=[self._owner])
        try:
            if meanwhile is not None:
                meanwhile()
            if shown is None:
                status, _, err = process.finish(child, data)
            else:
                status, _, err = process.finish_shown(child, shown.output)
        except BaseException:
            child.terminate()  # what it writes is about to be removed
            child.wait()
            raise
        if status == 0:
            return
        error = process.failure(args, status, err)
        # git does not always say why it could not write a file.
        for path in (self._common.common_dir, self._path.path):
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
