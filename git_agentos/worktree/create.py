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
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from git_agentos import config, processes
from git_agentos.checkpoint import format, operation, take, timeline
from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.format import Checkpoint
from git_agentos.errors import (
    AgentosError,
    GitCommandError,
    RestoreError,
    StorageError,
    UsageError,
    WorktreeError,
)
from git_agentos.git import moment, process, refs, trees
from git_agentos.git.location import Location, locate
from git_agentos.git.refs import Head
from git_agentos.git.scan import Scan
from git_agentos.guard import authorize
from git_agentos.guard.setup import enable
from git_agentos.worktree import damaged, intent, place, pool, record, setup, survey, work
from git_agentos.worktree.intent import Intent
from git_agentos.worktree.place import Place
from git_agentos.worktree.pool import Prepared
from git_agentos.worktree.record import Record
from git_agentos.worktree.survey import Worktree

if TYPE_CHECKING:
    from git_agentos.checkpoint.restore import Restoration

OPERATION = "create"
_NOTHING = "nothing was left of it; free some space and try again"
_FULL = 1 << 20  # a file system with less room than this is full
T = TypeVar("T")


class Wanted(NamedTuple):
    """The worktree that is to be made.

    `base_ref` is what the user called the commit `base_sha`. `detached` leaves HEAD at the commit, not on the branch.
    `revived` is the record of a worktree that comes back: set-up does nothing, and HEAD and its branch are for the one
    who fills it; `makes` is the ref that this one will make. `guard` has the guard switched on in it. `run_id` is the
    run that it is made for, which gives it another branch; `protected` are the branches that are closed to that.
    `own_branch` is the short name of the branch where it is not to follow from the id.
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

    @property
    def branch(self) -> str:
        """The short name of its branch."""
        if self.revived is not None:
            return self.revived.branch
        return self.own_branch or record.branch_of(self.id, self.run_id)


@authorize.entry("worktree", "create")
def create(
    context: Context,
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
    place.check_id(id_)
    if revive:
        if from_ref is not None:
            raise UsageError("--from and --revive cannot be used together: the branch is the one that was archived")
        from git_agentos.worktree import archive, last_state

        archive.check(id_, sparse)
        found = last_state.ended(context, id_)
        archive.bring_back(context, found, id_, task=task, lock=lock, guard=guard)
        source = None if found.as_left else survey.described(found.source)
        return replace(_shown(context, id_), revived_from=source)
    base_ref, base_sha = base_of(context, from_ref)
    wanted = Wanted(id_, base_ref, base_sha, task, _folders(context, base_sha, sparse), lock, guard=guard)
    return _shown(context, id_, make(context, wanted, _open))


def _shown(context: Context, id_: str, saved: Checkpoint | None = None) -> Worktree:
    """How the new worktree stands; whatever keeps that from being told does not undo it."""
    try:
        return survey.show(context, id_, saved=saved)
    except (AgentosError, OSError) as error:
        raise WorktreeError(
            f"the worktree '{id_}' is complete, but how it stands cannot be told: {error}",
            f"git agentos worktree show {id_}",
        ) from error


def _open(inner: Context, made: Record) -> Checkpoint:
    """The log's first entry, and the first checkpoint."""
    scan = Scan(inner.location)  # git looks at the files while the log is loaded and written
    try:
        from git_agentos import log

        log.note(inner, "action", f"worktree {made.id} created", commit=made.base_sha, task_id=made.task)
    except BaseException:
        scan.discard()
        raise
    origin = inner.origin(trigger="milestone", description=f"worktree {made.id} created", task_id=made.task)
    return take.take(inner.repository, inner.settings, origin, scan=scan).checkpoint


def with_state(context: Context, checkpoint: str, id_: str) -> Restoration:
    """Make the worktree `id_` and restore `checkpoint` in it: `restore --worktree`.

    UsageError for an ill-formed id, WorktreeError where the id, its branch or its folder is taken, RestoreError where
    the checkpoint was made before the first commit.
    """
    from git_agentos.checkpoint import restore  # nothing else here needs it, and it takes long to load

    place.check_id(id_, source="--worktree")
    target = format.read_state(context.repository, checkpoint)
    if target.head.commit is None:
        raise RestoreError(
            f"checkpoint {checkpoint[:8]} was made before the first commit: git cannot make a worktree of it",
            "restore it in place, or with --no-branch; nothing was changed",
        )
    detached = target.head.ref is None or operation.on_own_branch(target.operation)
    wanted = Wanted(id_, target.head.branch or target.head.commit, target.head.commit, detached=detached)

    def bring_up(inner: Context, _: Record) -> Restoration:
        origin = inner.origin()._replace(created_by=context.agent)
        options = restore.Options(no_branch=True)
        return restore.restore(inner.repository, inner.settings, origin, checkpoint, options)

    return make(context, wanted, bring_up)


def make(context: Context, wanted: Wanted, fill: Callable[[Context, Record], T]) -> T:
    """Make a worktree; `fill` is called in it once it is ready for work, acting as its agent, and with its record.

    Whatever fails, in `fill` too, nothing is left.
    """
    config.pool(context.settings.values)  # a bad value is told before anything is made
    with _working(context, wanted) as work:
        with intent.turn(context.location):
            work.begin()
            work.enter()
            work.name()
        work.check_out()
        made = work.make_ready()
        done = fill(work.inner, made)
        work.guard()
        record.write(work.inner.location.git_dir, made)
    pool.refill(context)
    return done


def prepare(context: Context, where: Place, base_sha: str, id_: str, mark: Callable[[str], None]) -> None:
    """Make a worktree without an id and without a branch, for `pool`; `mark` is called last, with its git directory."""
    with _working(context, Wanted(id_, base_sha, base_sha, detached=True)) as work:
        with intent.turn(context.location):
            work.begin(where)
            work.enter(prepared=False)
        work.check_out()
        mark(work.location.git_dir)


@contextlib.contextmanager
def _working(context: Context, wanted: Wanted) -> Iterator[_Work]:
    """A worktree in the making: whatever fails, nothing of it is left."""
    work = _Work(context, wanted)
    try:
        yield work
    except BaseException as error:
        work.undo(error)
        if isinstance(error, OSError):
            raise take.storage_error(error) from error
        if isinstance(error, AgentosError) and error.hint is None:
            error.hint = "nothing was left of the worktree"
        raise
    work.end()


class _Work:
    """One worktree in the making. In `begin`, `enter` and `name` the turn is held."""

    def __init__(self, context: Context, wanted: Wanted) -> None:
        self._context = context
        self._common = context.location
        self._wanted = wanted
        self._intent: Intent | None = None
        self._place: Place
        self._prepared: Prepared | None = None
        self.location: Location
        self.inner: Context

    def begin(self, where: Place | None = None) -> None:
        """Nothing is in the way; what will be made is written down."""
        wanted = self._wanted
        self._intent = intent.begin(self._common, wanted.id, OPERATION)
        revived = wanted.revived is not None
        self._place = where or place.free(self._context, wanted.id, wanted.branch, revived=revived)
        path = self._place.path
        entries = [os.path.basename(each) for each in record.entries(self._common.common_dir)]
        fields = nothing_made(path, entries) | {
            "parents": _missing_above(path),
            "branch": self._ref if wanted.revived is None else wanted.makes,
            "timeline": timeline.tip(self._common, wanted.id),
            "exclude": self._place.exclude,
            "worktree_config": bool(wanted.sparse) and not _has_worktree_config(self._context),
            "guard": not enable.is_shared(self._common),
        }
        self._note(**fields)

    @property
    def _ref(self) -> str | None:
        """The full name of its branch; None where it is only prepared."""
        return place.HEADS + self._place.branch if self._place.branch else None

    def enter(self, *, prepared: bool = True) -> None:
        """git's entry and the folder: those of a prepared worktree where there is one, else new ones without files."""
        wanted, path = self._wanted, self._place.path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if self._place.exclude is not None:
            place.add_exclude(self._common, self._place.exclude)
        if prepared and not wanted.sparse:
            self._prepared = self._claim()
        if self._prepared is None:
            damaged.let_git_pass(self._common)
            args = ["worktree", "add", "--quiet", "--no-checkout", "--detach"]
            self._git(self._common, *args, path, wanted.base_sha)
        if wanted.lock:
            reason = f"git agentos worktree create --lock {wanted.id}"
            self._git(self._common, "worktree", "lock", "--reason", reason, path)
        self.location = locate(path, inherit=False)

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
                raise place.branch_taken(self._context, wanted.id, self._place.branch) from None
        on_branch = wanted.revived is None and not wanted.detached
        head = Head(ref if on_branch else None, wanted.base_sha)
        refs.set_head(location, head, reason=f"worktree create: {wanted.id}", who=who)
        if wanted.sparse:
            self._git(location, "sparse-checkout", "set", "--cone", *wanted.sparse)
        self.inner = work.standing_in(self._context, location)._replace(agent=wanted.id, timeline=wanted.id)

    def check_out(self) -> None:
        """The files of the commit; of a prepared worktree, those that are others there."""
        commits = [self._wanted.base_sha]
        if self._prepared is not None:
            if self._prepared.base_sha == self._wanted.base_sha:
                return
            commits.insert(0, self._prepared.base_sha)
        self._git(self.location, "read-tree", "-m", "-u", "--no-recurse-submodules", *commits)

    def make_ready(self) -> Record:
        """What a checkout does not bring."""
        wanted = self._wanted
        if wanted.revived is not None:
            return replace(wanted.revived, path=self._place.path, state=record.ACTIVE, completed_at=None)
        made = Record(
            id=wanted.id,
            branch=self._place.branch,
            path=self._place.path,
            base_ref=wanted.base_ref,
            base_sha=wanted.base_sha,
            created_at=now(),
            created_by=self._context.agent,
            task=wanted.task,
            sparse=list(wanted.sparse),
            protected=list(wanted.protected),
            run_id=wanted.run_id,
        )
        return setup.prepare(self._context, self.inner, made, owner=self._owner)

    def guard(self) -> None:
        """Switch the guard on; off, where git has copied it from the worktree that the command was given in."""
        if self._wanted.guard:
            enable.enable(self.location)
        else:
            enable.forget(self.location)

    def end(self) -> None:
        assert self._intent is not None
        intent.finish(self._intent)

    def undo(self, cause: BaseException) -> None:
        """Take back what was made; where that fails, the intent stays for `repair`."""
        if self._intent is None:
            return
        try:
            with intent.turn(self._common):
                take_back(self._common, self._intent)
        except Exception as error:  # noqa: BLE001 (whatever it was, the user is told what is left)
            intent.leave(self._intent)
            raise WorktreeError(
                f"{cause}; and what was made of the worktree '{self._wanted.id}' could not all be removed: {error}",
                f"git agentos worktree repair {self._wanted.id}",
            ) from cause

    # -- inside ----------------------------------------------------------------------------------------------------

    def _note(self, **fields: Any) -> None:
        assert self._intent is not None
        self._intent = intent.note(self._intent, **fields)

    @property
    def _owner(self) -> int:
        assert self._intent is not None
        return self._intent.owner

    def _git(self, location: Location, *args: str) -> None:
        try:
            process.run(args, cwd=location.root, env=location.environment(), keep=[self._owner])
        except GitCommandError as error:
            # git does not always say why it could not write a file.
            for path in (self._common.common_dir, self._place.path):
                if os.path.exists(path) and _room(path) < _FULL:
                    raise StorageError(f"no space left for the worktree: {error}", _NOTHING) from error
            raise


def nothing_made(path: str, entries: Sequence[str]) -> dict[str, Any]:
    """What an intent says of a creation that makes nothing but the folder `path` and an entry that is not in `entries`.

    `parents` are the folders above that are made, outermost first; `branch` the ref that is made, `timeline` where its
    timeline was before; `exclude` the line that is added to `info/exclude`; `worktree_config` tells that
    extensions.worktreeConfig is set, `guard` that the guard is brought into the repository; `claimed` is the prepared
    worktree that is taken.
    """
    return {
        "path": path,
        "entries": list(entries),
        "parents": [],
        "branch": None,
        "timeline": None,
        "exclude": None,
        "worktree_config": False,
        "guard": False,
        "claimed": None,
    }


def take_back(location: Location, begun: Intent) -> None:
    """Remove everything that an unfinished creation made, and then its intent. The turn must be held.

    Every step may have been done before, or never: this can be repeated.
    """
    fields = begun.fields
    if "path" in fields:
        path = fields["path"]
        _refuse_others(location, path)
        _remove(path)
        for git_dir in _entries_made(location, path, fields):
            enable.withdraw(location, git_dir)
            _remove(git_dir)
        if fields.get("guard"):
            enable.tidy(location)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(location.common_dir, "worktrees"))
        if fields["branch"] is not None:
            _set_back(location, fields["branch"], None)
        _set_back(location, timeline.PREFIX + begun.id, fields["timeline"])
        if fields["worktree_config"]:
            _disable_worktree_config(location)
        for parent in reversed(fields["parents"]):
            with contextlib.suppress(OSError):
                os.rmdir(parent)
        if fields["exclude"] is not None and not os.path.lexists(os.path.dirname(path)):
            place.remove_exclude(location, fields["exclude"])
    intent.end(begun)


def _refuse_others(location: Location, path: str) -> None:
    """WorktreeError where a folder that is to be removed holds more than the worktree that was being made."""
    others = [location.common_dir, *map(record.known_root, record.entries(location.common_dir))]
    inside = next((each for each in others if each is not None and each != path and place.below(each, path)), None)
    if not os.path.isabs(path) or inside is not None or os.path.isfile(os.path.join(path, ".git", "HEAD")):
        raise WorktreeError(
            f"'{path}' is not a worktree that was being made", "look at it, and remove it and the record by hand"
        )


def _entries_made(location: Location, path: str, fields: Mapping[str, Any]) -> list[str]:
    """The entries for `path` that were not there before: git may have been killed before it wrote where they belong.

    That of a claimed worktree was there, and has been moved.
    """
    found = []
    before = set(fields["entries"])
    claimed = fields["claimed"]
    if claimed is not None and not os.path.lexists(claimed["path"]):
        before.discard(claimed["name"])
    for git_dir in record.entries(location.common_dir):
        name = os.path.basename(git_dir)
        if name in before:
            continue
        try:
            root = record.root_of(git_dir)
        except OSError:
            # git's name for the entry is the folder's, with a number where that is taken.
            if name.removeprefix(os.path.basename(path)).isdigit() or name == os.path.basename(path):
                found.append(git_dir)
            continue
        if root == path or (claimed is not None and name == claimed["name"]):
            found.append(git_dir)
    return found


def _set_back(location: Location, name: str, old: str | None) -> None:
    """A ref that we made or moved, as it was; what was packed meanwhile is git's to change."""
    value = refs.resolve(location, name)
    if old is not None:
        if value != old:
            refs.update(location, name, old, value)
        return
    refs.drop(location, name, value)


def _disable_worktree_config(location: Location) -> None:
    """Unset `extensions.worktreeConfig`, which a sparse checkout set, unless somebody relies on it by now."""
    folders = [location.common_dir, *record.entries(location.common_dir)]
    if not any(os.path.exists(os.path.join(folder, "config.worktree")) for folder in folders):
        args = ["config", "--file", os.path.join(location.common_dir, "config"), "--unset", "extensions.worktreeConfig"]
        process.run(args, env=location.environment(), ok=(0, 5))


def _remove(path: str) -> None:
    if os.path.lexists(path) and not processes.remove_folder(path):
        raise WorktreeError(f"'{path}' cannot be removed")


def now() -> str:
    """The time as records have it."""
    return moment.stamp(datetime.now(UTC))


def _room(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _missing_above(path: str) -> list[str]:
    """The folders above `path` that are not there, outermost first."""
    missing: list[str] = []
    while not os.path.lexists(path := os.path.dirname(path)):
        missing.insert(0, path)
    return missing


def _has_worktree_config(context: Context) -> bool:
    return config.boolean(context.settings.values, "extensions.worktreeconfig", default=False)


def base_of(context: Context, from_ref: str | None) -> tuple[str, str]:
    """What the base of a new worktree is called, and the commit that it is: `from_ref`, or HEAD of where one stands."""
    head = refs.read_head(context.location)
    if from_ref is None:
        if head.commit is None:
            raise WorktreeError(
                "there is no commit yet to begin a worktree from", "make a first commit, or give --from"
            )
        return head.branch or head.commit, head.commit
    args = ["rev-parse", "--verify", "--quiet", "--end-of-options", from_ref + "^{commit}"]
    out = context.repository.git(*args, ok=(0, 1, 128)).decode().strip()
    if not out:
        raise WorktreeError(f"'{from_ref}' is not a commit", "give a branch, a tag or a commit id; nothing was changed")
    return _base_name(context, from_ref) or out, out


def _base_name(context: Context, from_ref: str) -> str | None:
    """The short name of the branch or tag that `from_ref` stands for, in full where that is ambiguous; None for
    everything else: what leads to a commit from somewhere (`HEAD~1`) leads to another one from elsewhere."""
    args = ["rev-parse", "--symbolic-full-name", "--verify", "--quiet", "--end-of-options", from_ref]
    full = os.fsdecode(context.repository.git(*args, ok=(0, 1, 128)).strip().removeprefix(b"--end-of-options").strip())
    for prefix in (place.HEADS, "refs/remotes/", "refs/tags/"):
        if full.startswith(prefix):
            short = full.removeprefix(prefix)
            found = survey.base_ref(context, short)
            return from_ref if from_ref == full else short if found == full else full
    return None


def _folders(context: Context, base: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The folders of a sparse checkout, from the top; UsageError for what cannot be one."""
    found = []
    tree = context.repository.commit_tree(base)
    for path in paths:
        name = os.path.normpath(path)
        if os.path.isabs(name) or name.split(os.sep)[0] in ("..", ".", "") or name.startswith("-"):
            raise UsageError(f"'{path}' is not a folder of the repository", "give it from the top, without '..'")
        entry = trees.find(context.repository, tree, os.fsencode(name))
        if entry is None or entry[0] != trees.DIRECTORY:
            raise WorktreeError(f"there is no folder '{path}' in {base[:8]}", "nothing was changed")
        found.append(name)
    return tuple(dict.fromkeys(found))
