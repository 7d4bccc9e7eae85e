"""The agents of a repository, kept up to date at little cost: what has not changed is not read again.

Everything but the files of a worktree is known by the times of a few files: HEAD, index, the worktree's record, the
refs that count. Files are counted by `git status`, as in `worktree list`. The watch daemon tells in which worktrees
something has changed; while none runs, they are watched here in the same way. Of which nobody can tell, each is scanned
again after `_ROUND` seconds. While a daemon runs, that is only for some of them (in one a file is open, another cannot
be watched), which are scanned more often if that costs little.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RepositoryError
from git_agentos.git import refs
from git_agentos.git.location import Location
from git_agentos.guard.approval import approvals
from git_agentos.process import occupants
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch import control, in_process
from git_agentos.watch.in_process import InProcess
from git_agentos.worktree import base, layout, record, status
from git_agentos.worktree.status import Dirty, LastCheckpoint, Source

_ROUND = 10.0  # seconds
_OFTEN = 1.5  # seconds until the same with a daemon
_SHARE = 20.0  # so many times as long as these scans take is at least between them
_THREADS = 3  # a scan opens all files of a worktree that is new, and of more at once the system would lose events
_ASKING = 0.2  # seconds of one look in which the daemon is asked to watch worktrees; it lists all folders of each
_AGAIN = 60.0  # seconds until that is asked again
_LONGEST = 0.5  # seconds of one look for scans that are the first of a worktree

Stamp = tuple[object, ...]


class Agent(NamedTuple):
    """A row. What cannot be known is None."""

    id: str
    state: str  # active, complete, archived or broken
    busy: bool  # whether a process works in the worktree
    path: str | None  # where the worktree is; None where it has no folder
    branch: str | None
    task: str | None
    ahead: int | None
    behind: int | None
    changes: Dirty | None
    checkpoint: LastCheckpoint | None
    approvals: int  # that are waiting
    conflicts: int | None  # agents whose branches conflict with this one's; None: not known yet


class _Known(NamedTuple):
    """What is known of a worktree but for its files, and the stamp by which that was."""

    stamp: Stamp
    location: Location | None
    state: str
    branch: str | None
    head: str | None
    task: str | None
    ahead: int | None
    behind: int | None
    checkpoint: LastCheckpoint | None


class _Count(NamedTuple):
    """What `git status` has counted, when (`time.monotonic`), how long that took (seconds), the index by which it was,
    and the daemon's moment."""

    changes: Dirty | None
    at: float
    seconds: float
    stamp: Stamp
    moment: str | None


class Roster:
    """The agents of the repository of `context`. It is used by one thread."""

    def __init__(self, context: OpenWorktree) -> None:
        self.context = context
        self._listed: Stamp | None = None
        self._sources: Sequence[Source] = ()
        self._known: dict[str, _Known] = {}
        self._counts: dict[str, _Count] = {}
        self._waiting: tuple[Stamp, dict[str, int]] | None = None
        self._main: str | None = None
        self._asked: dict[str, float] = {}  # worktrees that were to be watched, and when that was
        self._own: InProcess | None = None  # what watches while no daemon runs
        self._can_watch = True
        self._ended = threading.Event()
        self._moments: tuple[float, dict[str, str | None] | None] = (0.0, None)  # the daemon's last answer, and when
        self.is_whole = False  # whether each worktree has been scanned
        self.conflicts: dict[str, int] | None = None  # those of each; None until they are known

    @property
    def heads(self) -> tuple[tuple[str, str], ...]:
        """The commits of those that have a folder: as long as they are the same, so are the conflicts."""
        return tuple((id_, each.head) for id_, each in self._known.items() if each.head is not None and each.location)

    def close(self) -> None:
        """Watch nothing any more. It may be called by any thread."""
        self._ended.set()
        self._watch_no_more()

    def look(self, *, scan: bool = True) -> tuple[Agent, ...]:
        """All agents, by id. While not each worktree has been scanned once, because that takes long or `scan` is false,
        `is_whole` is false: the changes of those that are left are None, and the next look goes on with them.
        RepositoryError if there is no repository any more."""
        common = self.context.location.common_dir
        if not os.path.isdir(os.path.join(common, "objects")):
            raise RepositoryError(f"there is no repository at '{common}' any more")
        self._list()
        there = {each.root for each in self._sources if each.root is not None}
        users = occupants.standing_in(there)
        waiting = self._approvals()
        known = self._known = {each.id: self._read(each) for each in self._sources}
        self.is_whole = False
        if scan:
            self._count()
        else:
            self.is_whole = not any(each.location is not None for each in known.values())
        found = []
        for source in self._sources:
            each, count = known[source.id], self._counts.get(source.id)
            busy = any(not user.ancestor for user in users.get(source.root or "", ()))
            found.append(
                Agent(
                    id=source.id,
                    state=each.state,
                    busy=busy,
                    path=each.location.root if each.location is not None else None,
                    branch=each.branch,
                    task=each.task,
                    ahead=each.ahead,
                    behind=each.behind,
                    changes=count.changes if count is not None and each.location is not None else None,
                    checkpoint=each.checkpoint,
                    approvals=waiting.get(source.id, 0),
                    conflicts=self.conflicts.get(source.id) if self.conflicts is not None else None,
                )
            )
        return tuple(found)

    # -- which there are, and what is recorded of each ----------------------------------------------------------------

    def _list(self) -> None:
        location = self.context.location
        main = location.worktree(layout.main_folder(location), location.common_dir)
        try:
            self._main = refs.read_head(main).commit
        except (AgentosError, OSError):
            self._main = None
        stamp = self._stamp_of_list()
        if stamp != self._listed:
            self._sources = status.sources(self.context)
            # By the entries that there are now, and the places as they were before.
            self._listed = (*stamp[: len(_PLACES)], *self._stamp_of_list()[len(_PLACES) :])

    def _stamp_of_list(self) -> Stamp:
        common = self.context.location.common_dir
        places = [os.path.join(common, *each.split("/")) for each in _PLACES]
        return _stamp([*places, *(path for each in self._sources for path in _of_entry(each))])

    def _read(self, source: Source) -> _Known:
        before = self._known.get(source.id)
        made = source.record
        expected = made.branch if made is not None else record.BRANCHES + source.id
        stamp = self._stamp_of(source, expected if before is None else before.branch)
        if before is not None and before.stamp == stamp:
            return before
        location = status.find_folder(self.context, source)
        branch = expected
        state = status.ARCHIVED if source.git_dir is None else status.BROKEN
        head = None
        try:
            if location is not None and made is not None:
                there = refs.read_head(location)
                state, branch, head = made.state, there.branch or "", there.commit
            else:
                head = refs.resolve(self.context.location, layout.HEADS + branch)
        except (AgentosError, OSError):
            location = None
        ahead = behind = None
        if made is not None and head is not None:
            target = base.target_commit(self.context, made)
            counted = base.count_commits(self.context, head, target) if target is not None else None
            ahead, behind = counted if counted is not None else (None, None)
        return _Known(
            # By another branch than the one that was looked at: it is read again in the next look.
            stamp=stamp if (branch or None) == (expected if before is None else before.branch) else (),
            location=location,
            state=state,
            branch=branch or None,
            head=head,
            task=made.task if made is not None else None,
            ahead=ahead,
            behind=behind,
            checkpoint=status.last_checkpoint(self.context, source.id),
        )

    def _stamp_of(self, source: Source, branch: str | None) -> Stamp:
        """What is known of a worktree that is on `branch` stays true as long as this is the same."""
        common = self.context.location.common_dir
        names = [timeline.refname(source.id), *([layout.HEADS + branch] if branch is not None else [])]
        if source.record is not None:
            names += [prefix + source.record.base_ref for prefix in (layout.HEADS, "refs/remotes/", "refs/tags/")]
        paths = [os.path.join(common, *name.split("/")) for name in (*names, *_SHARED)]
        is_there = source.root is not None and os.path.isdir(source.root)
        return (*_stamp([*paths, *_of_entry(source)]), is_there, self._main)

    # -- what has changed in each --------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Scan the worktrees of which something may have changed."""
        places = {id_: each.location for id_, each in self._known.items() if each.location is not None}
        self._counts = {id_: each for id_, each in self._counts.items() if id_ in places}
        moments = self._find_moments()
        now = time.monotonic()
        due: list[tuple[str, Location, Stamp, str | None]] = []
        old: list[tuple[float, str, Location, Stamp]] = []
        for id_, location in places.items():
            index = _stamp([os.path.join(location.git_dir, "index"), os.path.join(location.git_dir, "HEAD")])
            moment = None if moments is None else moments.get(location.root)
            count = self._counts.get(id_)
            if count is None or count.stamp != index or (moment is not None and moment != count.moment):
                due.append((id_, location, index, moment))
            elif moment is None:
                old.append((count.at, id_, location, index))
        old.sort(key=lambda each: each[:2])
        round_ = _ROUND
        if moments is not None and self._own is None:
            round_ = min(_ROUND, max(_OFTEN, _SHARE * sum(self._counts[id_].seconds for _, id_, _, _ in old)))
        # Those that were scanned long ago, spread over the looks.
        due += [(id_, location, index, None) for at, id_, location, index in old if now - at >= round_]
        due.sort(key=lambda each: each[0] in self._counts)  # first those of which nothing is known
        self._scan(due)
        self.is_whole = self._counts.keys() >= places.keys()
        if self.is_whole and moments is not None:
            self._have_watched(places.values(), moments)

    def _scan(self, due: Sequence[tuple[str, Location, Stamp, str | None]]) -> None:
        """Scan these worktrees. When many are scanned for the first time, some are left for the next look: what is
        known then is shown first."""
        end = time.monotonic() + _LONGEST
        with ThreadPoolExecutor(_THREADS) as pool:  # it starts no more threads than there are scans
            for first in range(0, len(due), _THREADS):
                some = due[first : first + _THREADS]
                now = time.monotonic()
                if now > end and some[-1][0] not in self._counts:
                    break
                scans = pool.map(_scan, (each[1] for each in some))
                for (id_, _, index, moment), (changes, seconds) in zip(some, scans, strict=True):
                    self._counts[id_] = _Count(changes, now, seconds, index, moment)
                if len(due) > _THREADS:
                    self._find_moments()  # whoever watches reads the events of these scans before the next ones begin

    def _find_moments(self) -> dict[str, str | None] | None:
        """The moments of the worktrees that are watched, by the daemon or here; None where nobody watches any."""
        try:
            found = control.moments(self.context.location)
        except control.NoAnswerError:
            # It is busy. To scan all worktrees would keep it and everything else busy for longer.
            at, before = self._moments
            return before if time.monotonic() < at + _ROUND else None
        self._moments = (time.monotonic(), found)
        if found is not None:
            self._watch_no_more()
            return found
        own = self._own
        if own is None and self._can_watch and not self._ended.is_set():
            own = self._own = in_process.begin(self.context.location.common_dir)
            self._can_watch = own is not None
            self._asked.clear()
            if self._ended.is_set():
                self._watch_no_more()
        return own.moments() if own is not None else None

    def _watch_no_more(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()
            self._asked.clear()

    def _have_watched(self, places: Iterable[Location], moments: dict[str, str | None]) -> None:
        own, now = self._own, time.monotonic()
        left = [
            each for each in places if each.root not in moments and now >= self._asked.get(each.root, -_AGAIN) + _AGAIN
        ]
        for each in left:
            if own is None and time.monotonic() > now + _ASKING:
                break
            self._asked[each.root] = now
            if own is not None:
                own.watch(each.root)
            else:
                control.watch(each)

    def _approvals(self) -> dict[str, int]:
        """How many requests of each agent are waiting."""
        common = self.context.location.common_dir
        folder = os.path.join(common, "agentos", "approvals")
        stamp = _stamp([folder, *(os.path.join(folder, name) for name in ("requests", "grants", "used"))])
        if self._waiting is None or self._waiting[0] != stamp:
            number: dict[str, int] = {}
            for each in approvals.pending(common, os.environ):
                number[each.agent_id] = number.get(each.agent_id, 0) + 1
            self._waiting = (stamp, number)
        return self._waiting[1]


_PLACES = ("worktrees", "refs/agentos/timelines", "packed-refs", "reftable/tables.list", "agentos/worktrees")
_SHARED = ("packed-refs", "reftable/tables.list")


def _of_entry(source: Source) -> list[str]:
    """The files of a worktree's entry that say what it is."""
    if source.git_dir is None:
        return []
    names = ("HEAD", "gitdir", "agentos/worktree.json", "agentos/id", "reftable/tables.list")
    linked = [] if source.root is None else [os.path.join(source.root, ".git")]
    return [*(os.path.join(source.git_dir, name) for name in names), *linked]


def _stamp(paths: Iterable[str]) -> Stamp:
    """By what it is seen that files or folders have changed; None of one that is not there."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            data = os.stat(path)
            found.append((data.st_mtime_ns, data.st_ino, data.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def _scan(location: Location) -> tuple[Dirty | None, float]:
    """What has changed in a worktree, and how long it took to find out (seconds)."""
    began = time.monotonic()
    try:
        found = status.count_changes(location)
    except (AgentosError, OSError):  # it vanishes, or its index is being written
        found = None
    return found, time.monotonic() - began
